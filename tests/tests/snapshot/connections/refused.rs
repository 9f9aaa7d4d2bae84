//! Connections and hooks that cannot be kept: what a hook has done is undone, the log says why, and requests open their own.

use tests::backends::{Postgres, Redis};
use tests::peer::{Database, run_to_end};
use tests::server::Directory;
use tests::snapshot::{Lane, fork, rewind, sanitizers, snapshot};
use tests::tls::Authority;
use tests::{Setup, wait_until};

use crate::connections::keeping;

/// Servers that speak TLS.
struct Encrypted {
    database: Database,
    postgres: Postgres,
    redis: Redis,
    mysql_port: u16,
    redis_port: u16,
    _directory: Directory,
}

impl Encrypted {
    fn start() -> Encrypted {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("authority"));
        authority.issue("server", "DNS:localhost,IP:127.0.0.1", 10);
        let (chain, key, ca) = (authority.path("server.pem"), authority.path("server.key"), authority.path("ca.pem"));
        let of_postgres = authority.path("postgres.key");
        // PostgreSQL takes no key that others may read, MariaDB runs as another user.
        run_to_end(std::process::Command::new("cp").args([&key, &of_postgres]));
        run_to_end(std::process::Command::new("chmod").args(["644", &key]));
        run_to_end(std::process::Command::new("chmod").args(["-R", "a+X", directory.0.to_str().unwrap()]));
        if nix::unistd::Uid::effective().is_root() {
            run_to_end(std::process::Command::new("chown").args(["postgres", &of_postgres]));
        }
        let redis_port = tests::server::free_port();
        let tls = redis_port.to_string();
        let mysql_port = tests::server::free_port();
        let tcp =
            ["--skip-networking=0".to_owned(), "--bind-address=127.0.0.1".to_owned(), format!("--port={mysql_port}")];
        let mysql_tls = [format!("--ssl-cert={chain}"), format!("--ssl-key={key}"), format!("--ssl-ca={ca}")];
        let mysql: Vec<&str> = tcp.iter().chain(&mysql_tls).map(String::as_str).collect();
        Encrypted {
            database: Database::start_with(&mysql),
            postgres: Postgres::start(&[
                "ssl=on",
                &format!("ssl_cert_file={chain}"),
                &format!("ssl_key_file={of_postgres}"),
            ]),
            redis: Redis::start(&[
                "--tls-port",
                &tls,
                "--tls-cert-file",
                &chain,
                "--tls-key-file",
                &key,
                "--tls-ca-cert-file",
                &ca,
                "--tls-auth-clients",
                "no",
            ]),
            mysql_port,
            redis_port,
            _directory: directory,
        }
    }

    /// One hook for `kind`, whose connection the case 'ask' uses or opens.
    fn setup(&self, kind: &str) -> Setup {
        const BOOT: &str = r#"
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
function open(): object {
    switch (getenv('KIND')) {
    case 'mysql':
        $db = mysqli_init();
        $db->real_connect('127.0.0.1', 'app', getenv('PASSWORD'), null, (int) getenv('MYSQL_PORT'), null, MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT);
        return $db;
    case 'compressed':
        $db = mysqli_init();
        $db->real_connect('localhost', 'app', getenv('PASSWORD'), null, 0, getenv('SOCKET'), MYSQLI_CLIENT_COMPRESS);
        return $db;
    case 'postgres': return new PDO('pgsql:host=127.0.0.1;sslmode=require;dbname=postgres;port=' . getenv('PG_PORT'), 'app');
    case 'redis':
        $redis = new Redis;
        $redis->connect('tls://127.0.0.1', (int) getenv('REDIS_PORT'), 2, null, 0, 0, ['stream' => ['verify_peer' => false, 'verify_peer_name' => false]]);
        return $redis;
    }
}
function ask(object $of): string {
    return $of instanceof mysqli ? $of->query('select 7')->fetch_row()[0] : ($of instanceof PDO ? $of->query('select 7')->fetchColumn() : ($of->set('a', 7) ? $of->get('a') : ''));
}
$first = open(); ask($first);
if ($first instanceof mysqli) $first->close();
unset($first);
reprise_after_fork(function () { $GLOBALS['kept'] = open(); });
"#;
        let environment = self.database.environment();
        let password = &environment.iter().find(|(name, _)| *name == "WP_DB_PASSWORD").unwrap().1;
        keeping(BOOT, "case 'ask': echo isset($kept) ? 'kept' : 'own', ' ', ask($kept ?? open()); break;")
            .env("KIND", kind)
            .env("PASSWORD", password)
            .env("SOCKET", self.database.socket().to_str().unwrap())
            .env("MYSQL_PORT", &self.mysql_port.to_string())
            .env("PG_PORT", &self.postgres.port.to_string())
            .env("REDIS_PORT", &self.redis_port.to_string())
    }
}

/// Whether a connection is closed and reported.
fn is_refused(lane: &Lane, words: &str) -> bool {
    let kept = lane.info().number("connections");
    let said = lane.log().lines().filter(|line| line.contains("is not kept") && line.contains(words)).count();
    (kept, said) == (0, 1)
}

/// A connection by TLS, and one that is compressed, is closed and reported, and requests open their own. With the check removed from the
/// build, the same question finds that they are not.
#[test]
fn encrypted_and_compressed_connections_are_refused() {
    let servers = Encrypted::start();
    for (kind, words) in
        [("mysql", "encrypted"), ("compressed", "compressed"), ("postgres", "encrypted"), ("redis", "encrypted")]
    {
        rewind(
            || servers.setup(kind),
            |lane| {
                for _ in 0..5 {
                    assert_eq!(lane.text("ask"), "own 7", "{kind}: {}", lane.log());
                }
                wait_until(&format!("{kind} is refused"), 10, || is_refused(lane, words));
            },
        );
        if sanitizers() == "undefined-trap" {
            rewind(
                || servers.setup(kind).env("REPRISE_PLANT", "keep-any"),
                |lane| {
                    lane.expect(&["connection", "crash"]);
                    lane.get("/?do=ask");
                    assert!(
                        !is_refused(lane, words),
                        "{kind}: without the check the test finds no difference: {}",
                        lane.log()
                    );
                },
            );
        }
    }
    assert_eq!(servers.redis.say(&["get", "a"]), "7");
}

/// What hooks do that cannot be kept, and what the log says of it.
const BAD: &[(&str, &str, &str)] = &[
    ("throws", "throw new Exception('the hook says no');", "the hook says no"),
    ("exits", "exit('no');", "has called exit()"),
    ("dies", "nowhere();", "undefined function nowhere"),
    ("exhausts", "str_repeat('x', 1 << 40);", "Allowed memory size"),
    ("nowhere", "new PDO('mysql:unix_socket=/nowhere', 'app', '');", "No such file or directory"),
    (
        "temporary",
        "$GLOBALS['bad'] = db(); $GLOBALS['bad']->query('create temporary table one.own (n int)');",
        "cannot send again: only SET, USE and questions for variables can be: create temporary table",
    ),
    ("transaction", "$GLOBALS['bad'] = db(); $GLOBALS['bad']->begin_transaction();", "START TRANSACTION"),
    ("lock", "$GLOBALS['bad'] = db(); $GLOBALS['bad']->query(\"select get_lock('a', 1)\")->fetch_row();", "get_lock"),
    (
        "statement",
        "$GLOBALS['bad'] = db(); $GLOBALS['s'] = $GLOBALS['bad']->prepare('set @a = 1');",
        "prepared statement open",
    ),
    (
        "unread",
        "$GLOBALS['bad'] = db(); $GLOBALS['bad']->query('select @@version', MYSQLI_ASYNC); $r = $e = $x = [$GLOBALS['bad']]; mysqli_poll($r, $e, $x, 10);",
        "replies unread",
    ),
    ("file", "$GLOBALS['f'] = fopen(getenv('PLACE') . '/written', 'w');", "no connection of a client"),
    ("server", "$GLOBALS['f'] = stream_socket_server('tcp://127.0.0.1:0');", "no connection of a client"),
    (
        "http",
        "$GLOBALS['f'] = stream_socket_client('unix://' . getenv('HTTP')); fwrite($GLOBALS['f'], \"GET / HTTP/1.1\\r\\n\\r\\n\");",
        "none of MySQL, PostgreSQL and Redis",
    ),
    (
        "silent",
        "$GLOBALS['f'] = stream_socket_client('unix://' . getenv('HTTP')); fread($GLOBALS['f'], 1);",
        "have it send a PING",
    ),
    ("memory", "$GLOBALS['big'] = str_repeat('x', 60 << 20);", "mapped memory"),
    (
        "uses",
        "$GLOBALS['good']->query('set autocommit = 0'); throw new Exception('half');",
        "uses or closes a connection of another",
    ),
    ("asks", "$GLOBALS['good']->query('select sleep(0.2)', MYSQLI_ASYNC);", "uses or closes a connection of another"),
    ("closes", "$GLOBALS['good']->close(); $GLOBALS['bad'] = db();", "uses or closes a connection of another"),
    ("nice", "proc_nice(1);", "recycled: attributes"),
    ("child", "$GLOBALS['f'] = popen('sleep 30', 'r');", "recycled: children"),
    ("hangs", "new mysqli('127.0.0.1', 'app', '', null, (int) getenv('SILENT'));", "has not returned within 3 s"),
    ("much", "for ($i = 0; $i < 9; $i++) $GLOBALS['m'][] = db();", "keeps at most 8"),
];

/// A hook that fails, or leaves what cannot be kept, is undone as a whole. What other hooks have opened stays.
#[test]
fn what_a_bad_hook_has_done_is_undone() {
    let database = Database::start();
    database.rows("", "create database one");
    let environment = database.environment();
    let password = &environment.iter().find(|(name, _)| *name == "WP_DB_PASSWORD").unwrap().1;
    let mut boot = String::from(
        r#"
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
function db(): mysqli { return new mysqli('localhost', 'app', getenv('PASSWORD'), 'one', 0, getenv('SOCKET')); }
db()->close();
$ran = [];
reprise_after_fork(function () { $GLOBALS['good'] = db(); $GLOBALS['ran'][] = 'good'; });
"#,
    );
    for (name, code, _) in BAD {
        boot.push_str(&format!(
            "if (getenv('BAD') === '{name}') reprise_after_fork(function () {{ $GLOBALS['ran'][] = 'bad'; {code} }});\n"
        ));
    }
    boot.push_str("reprise_after_fork(function () { $GLOBALS['after'] = db(); $GLOBALS['ran'][] = 'after'; });\n");
    let cases = "case 'ask': echo implode(' ', $ran), ' ', isset($bad, $f, $s, $big, $m) ? 'left' : 'none', ' ', ($good ?? db())->query('select 7')->fetch_row()[0], ($after ?? db())->query('select 8')->fetch_row()[0], ' ', reprise_info()['connections']; break;";
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (name, _, words) in BAD {
        rewind(
            || {
                let setup = keeping(&boot, cases).env("BAD", name).env("PASSWORD", password);
                setup
                    .env("SOCKET", database.socket().to_str().unwrap())
                    .env("HTTP", database.socket().to_str().unwrap())
                    .env("SILENT", &silent.local_addr().unwrap().port().to_string())
            },
            |lane| {
                // What may pass is tried again: a worker that has failed ends after five seconds.
                lane.expect(&["connection", "attributes", "children"]);
                wait_until(&format!("{name}: the log says '{words}'"), 10, || {
                    assert_eq!(lane.get("/?do=ask").status, 200);
                    lane.log().contains(words)
                });
                let said = lane.text("ask");
                // A worker that follows one which has ended in a hook calls none.
                assert!(
                    ["good after none 78 2", " none 78 0"].contains(&said.as_str()),
                    "{name}: {said}\n{}",
                    lane.log()
                );
                assert!(!lane.log().contains("cannot start"), "{name}: {}", lane.log());
            },
        );
    }
}

/// Memory of PHP's heap that a hook takes beyond the boot's is each request's, as the hook has left it.
#[test]
fn memory_of_a_hook_is_as_it_was_left() {
    const BOOT: &str = r"
function made(): array { for ($i = 0; $i < 40; $i++) $made[] = str_repeat(chr(65 + $i), 100000 + $i); return [...$made, str_repeat('large', 1 << 20)]; }
reprise_after_fork(function () { $GLOBALS['made'] = made(); });
";
    const CASES: &str = "
case 'look': echo $made === made() ? 'whole' : 'changed'; break;
case 'spoil': foreach ($made as $i => $text) { $made[$i][7] = '!'; if ($i % 3) unset($made[$i]); } for ($i = 0; $i < 60000; $i++) $own[] = str_repeat('own', 60); $own[] = str_repeat('!', 6 << 20); echo count($own); break;
";
    rewind(
        || keeping(BOOT, CASES).ini("memory_limit", "256M"),
        |lane| {
            for _ in 0..30 {
                assert_eq!((lane.text("look"), lane.text("spoil")), ("whole".to_owned(), "60001".to_owned()));
            }
        },
    );
}

/// No hook runs in fork isolation, in classic mode, or if nothing may be kept.
#[test]
fn hooks_run_only_where_connections_are_kept() {
    const BOOT: &str = "$ran = 'no'; reprise_after_fork(function () { $GLOBALS['ran'] = 'yes'; });";
    const CASES: &str = "case 'ran': echo $ran; break;";
    rewind(|| keeping(BOOT, CASES), |lane| assert_eq!(lane.text("ran"), "yes"));
    rewind(|| snapshot(BOOT, CASES), |lane| assert_eq!(lane.text("ran"), "no"));
    fork(
        || keeping(BOOT, CASES),
        |lane| {
            assert_eq!(lane.text("ran"), "no");
            assert!(lane.log().contains("connections are not kept: isolation is fork"), "{}", lane.log());
        },
    );
    let classic = keeping(BOOT, CASES).application("mode.\"index.php\" = \"classic\"").start();
    assert_eq!(classic.get("/?do=ran").text(), "no");
}
