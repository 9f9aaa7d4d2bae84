//! What cannot be rewound is refused when the snapshot is taken, with a message that names it; the script then runs in
//! classic mode, unless the configuration insists.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use tests::Setup;
use tests::peer::Database;
use tests::snapshot::{ANSWER, HAZARDS, isolations, refused, refused_by_both, snapshot, snapshot_script, with_hazards};

/// A socket that the boot holds refuses the snapshot, and the message names its peer.
#[test]
fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = format!("127.0.0.1:{port}");
    refused_by_both(&format!("$held = stream_socket_client('tcp://{peer}');"), &["descriptor", &peer]);
    refused_by_both(&format!("$held = pfsockopen('127.0.0.1', {port});"), &["descriptor", &peer]);
    refused_by_both(&format!("$redis = new Redis; $redis->connect('127.0.0.1', {port});"), &["descriptor", &peer]);
    refused_by_both("$held = stream_socket_server('tcp://127.0.0.1:0');", &["descriptor", "socket"]);
    refused_by_both("$held = socket_create(AF_INET, SOCK_DGRAM, 0);", &["descriptor", "socket"]);
    refused_by_both("$held = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);", &["descriptor", "unix"]);
}

/// The message about a unix socket names the socket's path.
#[test]
fn local_sockets_are_named_by_their_path() {
    let directory = tests::server::Directory::new();
    let path = directory.0.join("peer.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let path = path.to_str().unwrap();
    refused_by_both(&format!("$held = stream_socket_client('unix://{path}');"), &["descriptor", path]);
    refused_by_both(&format!("$held = new Redis; $held->connect('{path}');"), &["descriptor", path]);
}

/// A database connection that the boot holds refuses the snapshot, in words.
#[test]
fn database_connections() {
    let database = Database::start();
    let environment = database.environment();
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    let socket = value("WP_DB_HOST").split_once(':').unwrap().1.to_owned();
    let password = value("WP_DB_PASSWORD");
    for boot in [
        format!("$held = new mysqli('localhost', 'app', '{password}', null, 0, '{socket}');"),
        format!("$held = new mysqli('p:localhost', 'app', '{password}', null, 0, '{socket}'); unset($held);"),
        format!("$held = new PDO('mysql:unix_socket={socket}', 'app', '{password}');"),
    ] {
        refused(snapshot(&boot, ANSWER), &["descriptor", &socket]);
    }
}

/// A file that the boot holds open for writing refuses the snapshot, and the message names the file.
#[test]
fn files_that_are_written_to() {
    for (boot, name) in [
        ("$held = fopen(getenv('PLACE') . '/written', 'w');", "/place/written"),
        ("touch(getenv('PLACE') . '/appended'); $held = fopen(getenv('PLACE') . '/appended', 'a');", "/place/appended"),
        ("touch(getenv('PLACE') . '/both'); $held = fopen(getenv('PLACE') . '/both', 'r+');", "/place/both"),
        ("$held = new SplFileObject(getenv('PLACE') . '/object', 'w');", "/place/object"),
        ("$held = tmpfile();", "/tmp/"),
        ("$held = fopen('php://temp/maxmemory:0', 'w+'); fwrite($held, 'x');", "/tmp/"),
        ("$held = gzopen(getenv('PLACE') . '/gz', 'w');", "/place/gz"),
        ("$held = new SQLite3(getenv('PLACE') . '/base');", "/place/base"),
        (
            "$held = new PDO('sqlite:' . getenv('PLACE') . '/pdo'); $held->exec('create table if not exists t (n)'); $held->beginTransaction();",
            "/place/pdo",
        ),
    ] {
        refused(snapshot(boot, ANSWER), &["descriptor", name, "writ"]);
    }
}

/// What the process had open at its start stays as it is, and is judged by what it is, not by its number.
#[test]
fn a_socket_in_the_place_of_standard_input() {
    let boot = "FFI::cdef('int close(int);')->close(0); $held = stream_socket_server('tcp://127.0.0.1:0');";
    refused_by_both(boot, &["descriptor 0", "socket"]);
}

/// Whose session would it be?
#[test]
fn an_open_session() {
    refused_by_both(
        "session_save_path(getenv('PLACE')); session_id('held'); session_start();",
        &["session is open", "snapshot"],
    );
}

/// A file lock that the boot holds refuses the snapshot, and the message names the file.
#[test]
fn locks() {
    let boot = "touch($name = getenv('PLACE') . '/locked'); $held = fopen($name, 'r'); flock($held, LOCK_SH);";
    refused_by_both(boot, &["descriptor", "/place/locked", "lock"]);
}

/// A pipe or a running child of the boot refuses the snapshot, in words.
#[test]
fn pipes_and_children() {
    refused_by_both("if (isset($_SERVER['REPRISE_BOOT'])) $held = popen('sleep 20', 'r');", &["child", "snapshot"]);
    refused_by_both(
        "if (isset($_SERVER['REPRISE_BOOT'])) $held = proc_open(['sleep', '20'], [], $pipes);",
        &["child", "snapshot"],
    );
    refused_by_both(
        "if (isset($_SERVER['REPRISE_BOOT']) && pcntl_fork() === 0) { sleep(20); posix_kill(getmypid(), SIGKILL); }",
        &["child", "snapshot"],
    );
    refused_by_both(
        "posix_mkfifo($name = getenv('PLACE') . '/fifo' . getmypid(), 0600); $held = fopen($name, 'r+');",
        &["descriptor", "/place/fifo"],
    );
}

/// A thread of the boot refuses the snapshot, in words.
#[test]
fn threads() {
    for isolation in isolations() {
        let setup = with_hazards(snapshot(&format!("{HAZARDS} $hazards->start_thread();"), ANSWER));
        refused(setup.application(&format!("isolation = \"{isolation}\"")), &["thread", "snapshot"]);
    }
}

/// A destructor in the midst of the script, and what runs when the script has ended: the template ends then.
#[test]
fn the_call_at_the_wrong_place() {
    for (index, word) in [
        (
            "class Late { function __destruct() { reprise_snapshot(); } } $late = new Late; unset($late); require 'after.php';",
            "destructor",
        ),
        (
            "class Late { function __destruct() { reprise_snapshot(); } } $late = new Late; require 'after.php';",
            "without",
        ),
        ("register_shutdown_function(function () { reprise_snapshot(); }); require 'after.php';", "without"),
        (
            "register_shutdown_function(fn () => (function () { reprise_snapshot(); })()); require 'after.php'; exit;",
            "without",
        ),
        ("if (isset($_GET['never'])) reprise_snapshot(); require 'after.php';", "without"),
    ] {
        refused(snapshot_script(&format!("<?php {index}"), ANSWER), &["index.php", word]);
    }
}

/// Boots that fail by themselves, each with its cause in the log.
#[test]
fn a_boot_that_fails_is_reported() {
    for (boot, word) in [
        ("if (isset($_SERVER['REPRISE_BOOT'])) throw new Exception('no boot today');", "no boot today"),
        ("if (isset($_SERVER['REPRISE_BOOT'])) exit;", "reprise_snapshot"),
        ("if (isset($_SERVER['REPRISE_BOOT'])) posix_kill(getmypid(), SIGKILL);", "SIGKILL"),
    ] {
        refused(snapshot(boot, ANSWER), &["index.php", word]);
    }
}

/// A second call of `reprise_snapshot()` does nothing, and the log says so.
#[test]
fn a_second_call_does_nothing_and_says_so() {
    for isolation in isolations() {
        let index =
            "<?php $count = 0; reprise_snapshot(); $count++; reprise_snapshot(); $count++; require 'after.php';";
        let server = snapshot_script(index, "case 'count': echo reprise_info()['mode'], $count; break;\n")
            .application(&format!("isolation = \"{isolation}\""))
            .flag("--audit")
            .start();
        for _ in 0..20 {
            let answer = server.get("/?do=count");
            assert_eq!((answer.status, answer.text().as_str()), (200, "snapshot2"), "{isolation}");
        }
        assert!(server.log().contains("snapshot was taken before"), "{}", server.log());
        assert!(!server.log().contains("recycled"), "{}", server.log());
    }
}

/// If `mode` demands a snapshot that is refused, the server does not start.
#[test]
fn who_insists_on_a_snapshot_gets_no_other() {
    let boot = "$held = fopen(getenv('PLACE') . '/written', 'w');";
    let mut server = snapshot(boot, ANSWER).application("mode.\"index.php\" = \"snapshot\"").launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    assert!(server.log().contains("/place/written"), "{}", server.log());
    assert!(!server.log().contains("ready after"), "{}", server.log());

    let mut server = Setup::empty()
        .file("index.php", "<?php echo 'no such call';")
        .application("mode.\"index.php\" = \"snapshot\"")
        .launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
}

/// With mode `classic` the script never boots, and nothing is refused.
#[test]
fn who_wants_classic_gets_classic() {
    let server = snapshot("$count = 0;", ANSWER).application("mode.\"index.php\" = \"classic\"").start();
    assert_eq!(server.get("/?do=mode").text(), "classic");
    assert!(!server.log().contains("cannot be booted"), "{}", server.log());
}

/// An unknown isolation or mode is refused with exit code 78.
#[test]
fn an_unknown_isolation_or_mode_is_refused() {
    for line in ["isolation = \"jail\"", "mode.\"index.php\" = \"jail\"", "mode.\"../index.php\" = \"snapshot\""] {
        let mut server = snapshot("", ANSWER).application(line).launch();
        assert_eq!(server.wait(20), 78, "{line}: {}", server.log());
    }
}

/// Opened and closed again, it is no hindrance.
#[test]
fn what_is_closed_before_is_not_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let boot = format!(
        "$held = stream_socket_client('tcp://127.0.0.1:{port}'); fclose($held); $file = fopen(getenv('PLACE') . '/a', 'w'); fclose($file);
        exec('true'); $memory = new PDO('sqlite::memory:'); $memory->exec('create table t (n)'); $buffer = fopen('php://memory', 'w+'); fwrite($buffer, 'x');
        session_save_path(getenv('PLACE')); session_id('held'); session_start(); session_write_close(); $directory = opendir('/');"
    );
    tests::snapshot::both(
        || {
            snapshot(
                &boot,
                "case 'row': $memory->exec('insert into t values (1)'); echo $memory->query('select count(*) from t')->fetchColumn(), strlen(readdir($directory)) > 0; break;\n",
            )
        },
        |lane| assert_eq!(lane.same("row", 15), "11"),
    );
}
