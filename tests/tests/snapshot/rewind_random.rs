//! Chance after a snapshot: two requests, and two clones, never draw the same.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tests::snapshot::{Lane, both, snapshot};
use tests::{Setup, wait_for, wait_until};

/// Everything has been used before the snapshot, so that whatever has a state has it in the memory of all clones.
const BOOT: &str = r#"
$key = openssl_pkey_new(['private_key_bits' => 1024, 'private_key_type' => OPENSSL_KEYTYPE_RSA]);
$public = openssl_pkey_get_details($key)['key'];
const LIBC = 'int rand(void); long random(void); double drand48(void); long lrand48(void); long mrand48(void);';
$pdo = new PDO('sqlite:' . getenv('PLACE') . '/boot.sqlite');
$pdo->exec('CREATE TABLE IF NOT EXISTS t (v); INSERT INTO t VALUES (randomblob(8))');
unset($pdo);
$held = FFI::cdef(LIBC, 'libc.so.6');
function libc(FFI $libc): string {
    return "{$libc->rand()}-{$libc->random()}-{$libc->drand48()}-{$libc->lrand48()}-{$libc->mrand48()}";
}
function transformed(): string {
    $sheet = new DOMDocument;
    $sheet->loadXML('<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform" xmlns:m="http://exslt.org/math">
        <x:output method="text"/><x:template match="/"><x:value-of select="m:random()"/>-<x:value-of select="m:random()"/></x:template></x:stylesheet>');
    $processor = new XSLTProcessor;
    $processor->importStylesheet($sheet);
    return $processor->transformToXml($sheet);
}
function draw(string $what): string {
    global $public;
    switch ($what) {
        case 'mt_rand': return mt_rand() . '-' . mt_rand();
        case 'rand': return rand() . '-' . rand();
        case 'mt_rand_range': return mt_rand(0, PHP_INT_MAX);
        case 'shuffle': $cards = range(1, 40); shuffle($cards); return implode(' ', $cards);
        case 'str_shuffle': return str_shuffle('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ');
        case 'array_rand': return implode(' ', array_rand(range(1, 200), 30));
        case 'lcg_value': return sprintf('%.17f', lcg_value()) . sprintf('%.17f', lcg_value());
        case 'uniqid': return uniqid('', true);
        case 'random_int': return random_int(0, PHP_INT_MAX);
        case 'random_bytes': return bin2hex(random_bytes(16));
        case 'openssl': return bin2hex(openssl_random_pseudo_bytes(16));
        case 'rsa': openssl_public_encrypt('the same', $sealed, $public); return md5($sealed);
        case 'rsa_oaep': openssl_public_encrypt('the same', $sealed, $public, OPENSSL_PKCS1_OAEP_PADDING); return md5($sealed);
        case 'key': openssl_pkey_export(openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']), $pem); return md5($pem);
        case 'cms_iv': return md5(openssl_seal('the same', $sealed, $keys, [$public], 'aes-128-cbc', $iv) . $iv . $sealed);
        case 'gmp': return gmp_strval(gmp_random_bits(96), 16);
        case 'gmp_range': return gmp_strval(gmp_random_range(0, gmp_pow(2, 90)));
        case 'sodium': return function_exists('sodium_crypto_secretbox_keygen') ? bin2hex(sodium_crypto_secretbox_keygen()) : bin2hex(random_bytes(32));
        case 'password': return password_hash('the same', PASSWORD_BCRYPT, ['cost' => 4]);
        case 'session_id': return session_create_id();
        case 'randomizer': return (new Random\Randomizer)->getInt(0, PHP_INT_MAX);
        case 'engine': return (new Random\Randomizer(new Random\Engine\Mt19937))->getInt(0, PHP_INT_MAX);
        case 'xoshiro': return (new Random\Randomizer(new Random\Engine\Xoshiro256StarStar))->getInt(0, PHP_INT_MAX);
        case 'tempnam': $name = tempnam(getenv('PLACE'), 'x'); unlink($name); return basename($name);
        case 'sqlite_blob': return (new SQLite3(':memory:'))->querySingle('SELECT hex(randomblob(16))');
        case 'sqlite_random': return (new PDO('sqlite::memory:'))->query("SELECT random() || '-' || random()")->fetchColumn();
        case 'sqlite_file': return (new PDO('sqlite:' . getenv('PLACE') . '/boot.sqlite'))->query('SELECT hex(randomblob(16))')->fetchColumn();
        case 'xslt': return transformed();
        case 'libc': return libc(FFI::cdef(LIBC));
        case 'libc_by_name': return libc(FFI::cdef(LIBC, 'libc.so.6'));
        case 'gnutls': case 'gnutls_nonce':
            $gnutls = FFI::cdef('int gnutls_rnd(int, void *, size_t);', 'libgnutls.so.30');
            $bytes = FFI::new('char[16]');
            $gnutls->gnutls_rnd($what === 'gnutls' ? 2 : 0, $bytes, 16);
            return bin2hex(FFI::string($bytes, 16));
        case 'arc4random':
            $arc4 = FFI::cdef('uint32_t arc4random(void); uint32_t arc4random_uniform(uint32_t); void arc4random_buf(void *, size_t);');
            $bytes = FFI::new('char[8]');
            $arc4->arc4random_buf($bytes, 8);
            return $arc4->arc4random() . '-' . $arc4->arc4random_uniform(4000000000) . '-' . bin2hex(FFI::string($bytes, 8));
        case 'object_set': return spl_object_id(new stdClass) . bin2hex(random_bytes(8));
    }
    throw new Exception($what);
}
const KINDS = ['mt_rand', 'rand', 'mt_rand_range', 'shuffle', 'str_shuffle', 'array_rand', 'lcg_value', 'uniqid', 'random_int',
    'random_bytes', 'openssl', 'rsa', 'rsa_oaep', 'key', 'cms_iv', 'gmp', 'gmp_range', 'sodium', 'password', 'session_id',
    'randomizer', 'engine', 'xoshiro', 'tempnam', 'sqlite_blob', 'sqlite_random', 'sqlite_file', 'xslt', 'libc', 'libc_by_name', 'gnutls', 'gnutls_nonce', 'arc4random'];
$boot = [];
foreach (KINDS as $kind) $boot[] = "$kind " . draw($kind);
$boot = implode("\n", $boot) . "\n";
"#;

const CASES: &str = r#"
case 'boot': echo $boot; break;
case 'draw': foreach (KINDS as $kind) echo $kind, ' ', draw($kind), "\n"; break;
"#;

/// No line of any answer is a line of another.
fn assert_all_differ(answers: &[String], isolation: &str) {
    let mut seen = HashSet::new();
    for line in answers.iter().flat_map(|answer| answer.lines()) {
        assert!(line.split_once(' ').is_some_and(|(_, drawn)| drawn.len() > 5), "{line}");
        assert!(seen.insert(line), "{isolation}: drawn twice: {line}");
    }
}

/// The boot's draws, those of requests one after the other, and of clones at once.
fn draws(lane: &Lane, rounds: usize, pairs: usize) -> Vec<String> {
    let mut answers = vec![lane.text("boot")];
    answers.extend(lane.repeat("draw", rounds));
    for _ in 0..pairs {
        answers.extend(lane.pair("draw"));
    }
    answers
}

/// No random value of any source is drawn in two requests.
#[test]
fn nobody_draws_what_another_drew() {
    both(
        || snapshot(BOOT, CASES),
        |lane| {
            let answers = draws(lane, 40, 8);
            assert_eq!(answers[0].lines().count(), 33, "{}", answers[0]);
            assert_all_differ(&answers, lane.isolation);
        },
    );
}

/// A clone that replaces a dead one draws none of its random values.
#[test]
fn nor_does_a_clone_that_takes_a_dead_ones_place() {
    both(
        || snapshot(BOOT, &format!("{CASES}\ncase 'die': posix_kill(getmypid(), SIGKILL);\n")),
        |lane| {
            lane.expect(&["crash"]);
            let mut answers = draws(lane, 4, 1);
            for _ in 0..4 {
                assert_eq!(lane.get("/?do=die").status, 502);
                answers.extend(lane.repeat("draw", 2));
            }
            assert_all_differ(&answers, lane.isolation);
        },
    );
}

/// Nothing was drawn before: state that the first draw makes is made in each request.
#[test]
fn nor_do_requests_that_draw_first() {
    both(
        || snapshot(&BOOT.replace("foreach (KINDS as $kind) $boot[]", "if (0) $boot[]"), CASES),
        |lane| {
            let mut answers = lane.repeat("draw", 20);
            answers.extend((0..4).flat_map(|_| lane.pair("draw")));
            assert_all_differ(&answers, lane.isolation);
        },
    );
}

/// SQLite and libc have one generator for the whole process. Drawn from alone, since one draw may seed it for the next.
#[test]
fn nor_do_requests_that_draw_from_one_library_alone() {
    const KINDS: [&str; 6] = ["sqlite_blob", "sqlite_random", "sqlite_file", "xslt", "libc", "libc_by_name"];
    both(
        || {
            snapshot(
                &BOOT.replace("$held = FFI", "if (0) FFI"),
                "case 'one': echo $_GET['kind'], ' ', draw($_GET['kind']); break;",
            )
        },
        |lane| {
            for kind in KINDS {
                let what = format!("one&kind={kind}");
                let mut answers = lane.repeat(&what, 30);
                answers.extend((0..4).flat_map(|_| lane.pair(&what)));
                assert_all_differ(&answers, lane.isolation);
            }
        },
    );
}

/// Two clones with one clock sequence make the same id in the same microsecond.
#[test]
fn time_based_ids_of_requests_have_clock_sequences_of_their_own() {
    const IDS: &str = r#"
$uuid = FFI::cdef('void uuid_generate_time(unsigned char *);', 'libuuid.so.1');
function sequence(): string { global $uuid; $id = FFI::new('unsigned char[16]'); $uuid->uuid_generate_time($id); return bin2hex(substr(FFI::string($id, 16), 8, 2)); }
$boot = sequence();"#;
    both(
        || snapshot(IDS, "case 'sequence': echo sequence(); break;"),
        |lane| {
            let answers: HashSet<_> = lane.repeat("sequence", 30).into_iter().collect();
            assert!(answers.len() > 20, "{}: {answers:?}", lane.isolation);
        },
    );
}

/// What the boot has in hand, it has from libc itself, and not from what stands before it.
#[test]
fn nor_do_requests_that_draw_by_what_the_boot_has_looked_up() {
    both(
        || snapshot(BOOT, "case 'held': echo 'held ', libc($held); break;"),
        |lane| {
            let mut answers = lane.repeat("held", 30);
            answers.extend((0..4).flat_map(|_| lane.pair("held")));
            assert_all_differ(&answers, lane.isolation);
        },
    );
}

/// A seed of the application's own gives what it gives anywhere.
#[test]
fn what_a_request_has_seeded_itself_stays_so() {
    const SEEDED: &str = r#"
case 'seeded':
    $libc = FFI::cdef('void srand(unsigned); void srandom(unsigned); void srand48(long); int rand(void); long random(void); double drand48(void); long lrand48(void);');
    $libc->rand(); $libc->srand(42); $a = $libc->rand(); $libc->srandom(42); $b = $libc->random(); $libc->srand48(42);
    echo $a, ' ', $b, ' ', $libc->lrand48();
    break;"#;
    both(|| snapshot("", SEEDED), |lane| assert_eq!(lane.same("seeded", 10), "71876166 71876166 1598855263"));
}

/// What the boot has seeded is nobody's: every request would draw the same.
#[test]
fn what_the_boot_has_seeded_is_seeded_anew() {
    both(
        || {
            snapshot(
                &format!(
                    "{BOOT} FFI::cdef('void srand(unsigned); void srand48(long);')->srand(42); FFI::cdef('void srand48(long);')->srand48(42);"
                ),
                CASES,
            )
        },
        |lane| assert_all_differ(&draws(lane, 20, 4), lane.isolation),
    );
}

/// Processes of classic mode and workers' scripts are forked from one that may have drawn, when it preloaded.
#[test]
fn no_two_workers_draw_what_their_prototype_had() {
    const DRAW: &str = r#"<?php
function draw(): string {
    $libc = FFI::cdef('int rand(void); long random(void); double drand48(void);');
    $sqlite = (new SQLite3(':memory:'))->querySingle('SELECT hex(randomblob(16)) || random()');
    return "libc {$libc->rand()}-{$libc->random()}-{$libc->drand48()}\nsqlite $sqlite\n";
}
"#;
    const LOOP: &str = "require 'draw.php'; while (reprise_handle_request(function () { header('X-Clone: ' . getmypid()); usleep(20000); echo draw(); })) {}";
    for (mode, preload) in [("classic", true), ("worker", true), ("classic", false), ("worker", false)] {
        let setup = Setup::empty()
            .file("draw.php", DRAW)
            .file("preload.php", "<?php require 'draw.php'; draw();")
            .file("index.php", format!("<?php {LOOP}"))
            .application(&format!("workers = 4\nmode.\"index.php\" = \"{mode}\""))
            .ini("ffi.enable", "1");
        let file = setup.document_root().join("preload.php");
        let setup = if preload { setup.ini("opcache.preload", file.to_str().unwrap()) } else { setup };
        let server = setup.start();
        let answers = Mutex::new(vec![]);
        wait_until("three workers have drawn", 30, || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let answer = server.get("/");
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        answers.lock().unwrap().push((answer.header("x-clone").unwrap().to_owned(), answer.text()));
                    });
                }
            });
            answers.lock().unwrap().iter().map(|(pid, _)| pid).collect::<HashSet<_>>().len() >= 3
        });
        let answers: Vec<_> = answers.into_inner().unwrap().into_iter().map(|(_, text)| text).collect();
        assert_all_differ(&answers, &format!("{mode}, preload {preload}"));
    }
}

/// A session's id comes from a cookie or from chance, and no two visitors get one.
#[test]
fn no_two_visitors_get_one_session() {
    const SESSIONS: &str = "case 'visit': session_save_path(getenv('PLACE')); session_start(); $_SESSION['n'] = 1; echo session_id(); break;";
    both(
        || {
            snapshot(
                "session_save_path(getenv('PLACE')); session_id('boot'); session_start(); $_SESSION['b'] = 1; session_write_close(); session_id('');",
                SESSIONS,
            )
        },
        |lane| {
            let mut ids: Vec<String> = lane.repeat("visit", 30);
            ids.extend((0..5).flat_map(|_| lane.pair("visit")));
            assert!(ids.iter().all(|id| id.len() >= 22), "{ids:?}");
            let count = ids.len();
            assert_eq!(ids.into_iter().collect::<HashSet<_>>().len(), count, "{}: an id came twice", lane.isolation);
        },
    );
}

/// How a TLS record of a handshake begins.
const HANDSHAKE: u8 = 22;

/// What peers of PHP see first: the beginning of what each connection sent.
fn listener() -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if sender.send(first_bytes(stream.unwrap())).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

/// A whole TLS record; or an HTTP request, which is answered.
fn first_bytes(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        bytes.extend_from_slice(&part[..length]);
        if bytes[0] == HANDSHAKE
            && bytes.len() >= 5
            && bytes.len() >= 5 + usize::from(bytes[3]) * 256 + usize::from(bytes[4])
        {
            break;
        }
        if bytes[0] != HANDSHAKE && bytes.windows(4).any(|end| end == b"--\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            break;
        }
    }
    bytes
}

const PEERS: &str = r#"
function hello(): string {
    $tls = @stream_socket_client('ssl://127.0.0.1:' . getenv('PEER'), $code, $message, 5, STREAM_CLIENT_CONNECT,
        stream_context_create(['ssl' => ['verify_peer' => false, 'verify_peer_name' => false]]));
    return $tls === false ? 'refused' : 'connected';
}
function post(string $scheme): string {
    $curl = curl_init("$scheme://127.0.0.1:" . getenv('PEER') . '/');
    curl_setopt_array($curl, [CURLOPT_POSTFIELDS => ['field' => 'value'], CURLOPT_RETURNTRANSFER => true, CURLOPT_SSL_VERIFYPEER => false, CURLOPT_TIMEOUT => 5, CURLOPT_HTTPHEADER => ['Expect:']]);
    return json_encode(curl_exec($curl));
}
hello(); post('http'); post('https');
"#;

const PEER_CASES: &str = "case 'hello': echo hello(); break;\ncase 'post': echo post('http'); break;\ncase 'posts': echo post('https'); break;\n";

fn peers(what: &str, answer: &str, kind: u8, chance: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let connections = RefCell::new(None);
    both(
        || {
            let (port, receiver) = listener();
            *connections.borrow_mut() = Some(receiver);
            snapshot(PEERS, PEER_CASES).env("PEER", &port.to_string())
        },
        |lane| {
            assert!(lane.repeat(what, 20).iter().all(|text| text == answer));
            (0..3).for_each(|_| assert_eq!(lane.pair(what), [answer, answer]));
            let receiver = connections.borrow_mut().take().unwrap();
            // The boot has made one of each kind.
            let mut drawn: Vec<Vec<u8>> = Vec::new();
            for _ in 0..27 {
                drawn.push(wait_for("a connection", 10, || receiver.try_recv().ok().filter(|sent| sent[0] == kind)));
            }
            let drawn: Vec<_> = drawn.iter().flat_map(|sent| chance(sent)).collect();
            let mut seen = HashSet::new();
            for value in &drawn {
                assert!(seen.insert(value), "{}: {what} drew twice {value:02x?}", lane.isolation);
            }
        },
    );
}

/// Its random number and its session id.
fn client_hello(record: &[u8]) -> Vec<Vec<u8>> {
    assert!(record.len() > 76 && record[0] == HANDSHAKE && record[5] == 1, "no ClientHello: {record:02x?}");
    assert_eq!(record[43], 32, "a session id");
    vec![record[11..43].to_vec(), record[44..76].to_vec()]
}

/// TLS connections of different requests begin with different random numbers.
#[test]
fn no_two_tls_clients_send_one_random_number() {
    peers("hello", "refused", HANDSHAKE, client_hello);
}

/// TLS connections of curl in different requests begin with different random numbers.
#[test]
fn nor_do_those_of_curl() {
    peers("posts", "false", HANDSHAKE, client_hello);
}

/// Forms that curl sends in different requests have different boundaries.
#[test]
fn no_two_forms_of_curl_have_one_boundary() {
    peers("post", "\"ok\"", b'P', |request| {
        let text = String::from_utf8_lossy(request);
        let boundary = text.split_once("boundary=").expect("a form").1.split("\r\n").next().unwrap();
        assert!(boundary.len() > 20, "{boundary}");
        vec![boundary.as_bytes().to_vec()]
    });
}

/// An engine made before the snapshot is the application's: it goes on from the same state in every request. The boot
/// says so.
#[test]
fn an_engine_held_at_the_snapshot_is_reported() {
    both(
        || {
            snapshot(
                "$engine = new Random\\Engine\\Mt19937(); $held = new Random\\Randomizer($engine);",
                "case 'held': echo $held->getInt(0, PHP_INT_MAX); break;",
            )
        },
        |lane| {
            lane.same("held", 10);
            assert!(lane.log().contains("Random\\Engine\\Mt19937"), "{}", lane.log());
        },
    );
}
