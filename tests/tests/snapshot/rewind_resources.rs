//! What a request leaves open is ended as in classic mode: nothing is lost, nothing stays, nothing is held.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use tests::snapshot::{Lane, both, snapshot};
use tests::wait_until;

/// `place('name')`: a file of this request, for the check after all of them.
const BOOT: &str = r#"
function place(string $name): string { return getenv('PLACE') . '/' . $name . '-' . ($_GET['n'] ?? 'none'); }
function note(string $name): void { file_put_contents(place($name), 'x', FILE_APPEND); }
class Noted { function __construct(public string $name, public $more = null) {} function __destruct() { note($this->name); } }
$of_boot = new Noted('boot');
register_shutdown_function(fn () => note('shutdown_of_boot'));
"#;

/// What requests leave, by name: the script, and the expression that is true for each of the numbers afterwards.
const LEFT: [(&str, &str, &str); 18] = [
    ("gz", "$left = gzopen(place('gz'), 'w'); gzwrite($left, \"text $n\");", "gzfile(place('gz'))[0] === \"text $n\""),
    (
        "gz_stream",
        "$left = fopen('compress.zlib://' . place('gz_stream'), 'w'); fwrite($left, \"text $n\");",
        "gzfile(place('gz_stream'))[0] === \"text $n\"",
    ),
    (
        "zip",
        "$left = new ZipArchive; $left->open(place('zip'), ZipArchive::CREATE); $left->addFromString('a', \"text $n\");",
        "($zip = new ZipArchive)->open(place('zip')) === true && $zip->getFromName('a') === \"text $n\"",
    ),
    (
        "xml",
        "$left = new XMLWriter; $left->openUri(place('xml')); $left->startElement('a'); $left->text(\"text $n\"); $left->endElement();",
        "file_get_contents(place('xml')) === \"<a>text $n</a>\"",
    ),
    (
        "filter",
        "$left = fopen(place('filter'), 'w'); stream_filter_append($left, 'convert.base64-encode'); fwrite($left, \"text $n\");",
        "base64_decode(file_get_contents(place('filter'))) === \"text $n\"",
    ),
    (
        "deflate",
        "$left = fopen(place('deflate'), 'w'); stream_filter_append($left, 'zlib.deflate', STREAM_FILTER_WRITE); fwrite($left, \"text $n\");",
        "gzinflate(file_get_contents(place('deflate'))) === \"text $n\"",
    ),
    (
        "user_stream",
        "class Slow { public $context; function stream_open($path, $mode, $options, &$opened) { return true; } function stream_write($data) { return strlen($data); } function stream_flush() { return true; } function stream_close() { note('user_stream'); } } stream_wrapper_register('slow', 'Slow'); $left = fopen('slow://a', 'w'); fwrite($left, 'x');",
        "filesize(place('user_stream')) === 1",
    ),
    (
        "generator",
        "$left = (function () { try { yield 1; yield 2; } finally { note('generator'); } })(); $left->current();",
        "filesize(place('generator')) === 1",
    ),
    (
        "generator_in_cycle",
        "$left = new stdClass; $left->own = (function () use ($left) { try { yield 1; } finally { note('generator_in_cycle'); } })(); $left->own->current(); $left->self = $left; unset($left);",
        "filesize(place('generator_in_cycle')) === 1",
    ),
    (
        "fiber",
        "$left = new Fiber(function () { try { Fiber::suspend(); } finally { note('fiber'); } }); $left->start();",
        "filesize(place('fiber')) === 1",
    ),
    ("destructor", "$left = new Noted('destructor');", "filesize(place('destructor')) === 1"),
    (
        "destructors",
        "function keep() { static $kept; $kept = new Noted('destructors'); } keep(); $cycle = new Noted('destructors'); $cycle->more = $cycle; unset($cycle); $closure = (fn ($held) => fn () => $held)(new Noted('destructors')); exit;",
        "filesize(place('destructors')) === 3",
    ),
    (
        "shutdown",
        "register_shutdown_function(function () { note('shutdown'); register_shutdown_function(fn () => note('shutdown')); });",
        "filesize(place('shutdown')) === 2",
    ),
    (
        "buffer",
        "ob_start(function ($text) { note('buffer'); return $text; }); echo 'x'; ob_start(); echo 'y';",
        "filesize(place('buffer')) === 1",
    ),
    (
        "session_handler",
        "class Handler extends SessionHandler { function write(string $id, string $data): bool { note('session_handler'); return true; } function open(string $path, string $name): bool { return true; } function read(string $id): string { return ''; } function close(): bool { return true; } } session_set_save_handler(new Handler, false); session_start(); $_SESSION['a'] = 1;",
        "filesize(place('session_handler')) === 1",
    ),
    (
        "process",
        "$left = popen('cat > ' . place('process'), 'w'); fwrite($left, \"text $n\");",
        "file_get_contents(place('process')) === \"text $n\"",
    ),
    (
        "sqlite",
        "$left = new PDO('sqlite:' . getenv('PLACE') . '/db'); $left->setAttribute(PDO::ATTR_TIMEOUT, 1); $left->exec('create table if not exists t (n)'); $left->exec(\"insert into t values ($n)\"); $left->beginTransaction(); $left->exec('insert into t values (-1)'); $statement = $left->query('select * from t'); $statement->fetch();",
        "(new PDO('sqlite:' . getenv('PLACE') . '/db'))->query(\"select count(*) from t where n = $n or n = -1\")->fetchColumn() == 1",
    ),
    ("nothing", "", "filesize(place('boot')) > 1 && filesize(place('shutdown_of_boot')) > 1"),
];

const NUMBERS: usize = 12;

/// Transactions, buffers, files and other things that a request leaves open end as in classic mode.
#[test]
fn what_is_left_open_is_ended() {
    let left = |(name, script, check): &(&str, &str, &str)| {
        format!(
            "case '{name}': $n = $_GET['n']; {script} break;\ncase 'check_{name}': $n = $_GET['n']; clearstatcache(); echo json_encode({check}); break;\n"
        )
    };
    let cases: String = LEFT.iter().map(left).collect();
    both(
        || snapshot(BOOT, &cases),
        |lane| {
            let mut client = lane.client();
            for number in 0..NUMBERS {
                for (name, ..) in LEFT {
                    let answer = client.get(&format!("/?do={name}&n={number}"));
                    assert_eq!(answer.status, 200, "{name} {number}: {}", answer.text());
                }
            }
            for (name, ..) in LEFT {
                for number in 0..NUMBERS {
                    wait_until(&format!("{name} {number} of {} is whole", lane.isolation), 5, || {
                        client.get(&format!("/?do=check_{name}&n={number}")).text() == "true"
                    });
                }
            }
            // The boot's object is the boot's: its destructor runs at the end of every request, as under FPM. One that
            // reads this sees its own number of requests before.
            for name in ["boot", "shutdown_of_boot"] {
                let runs = fs::read(lane.directory().join(format!("place/{name}-3"))).unwrap().len();
                assert!(runs >= 2 * LEFT.len() - 1, "{name}: {runs}");
            }
        },
    );
}

/// PHP sessions are saved at the end of the request, and their lock is released.
#[test]
fn sessions_are_saved_and_not_locked() {
    let cases = "case 'visit': session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; $_SESSION['bulk'] = str_repeat('x', 3000); break;\ncase 'exit': session_start(); $_SESSION['n']++; exit;\n";
    both(
        || snapshot("session_save_path(getenv('PLACE'));", cases),
        |lane| {
            let mut clients: Vec<_> = (0..3).map(|_| lane.client()).collect();
            for round in 1..=12 {
                for (number, client) in clients.iter_mut().enumerate() {
                    let cookie = format!("PHPSESSID=visitor{number}of{}", lane.isolation);
                    let headers = [("Cookie", cookie.as_str())];
                    assert_eq!(client.request("GET", "/?do=visit", &headers, b"").text(), (2 * round - 1).to_string());
                    assert_eq!(client.request("GET", "/?do=exit", &headers, b"").status, 200);
                }
            }
        },
    );
}

/// Temporary files, locks and semaphores of a request are gone after it.
#[test]
fn nothing_stays_held_or_on_the_disk() {
    const CASES: &str = r#"
case 'temporary': $file = tmpfile(); fwrite($file, 'x'); $spilled = fopen('php://temp/maxmemory:10', 'w'); fwrite($spilled, str_repeat('x', 5000)); echo 'ok'; break;
case 'temporaries': echo count(scandir(getenv('PLACE') . '/tmp')); break;
case 'semaphore': $semaphore = sem_get(ftok(__FILE__, 's')); echo json_encode(sem_acquire($semaphore, true)); break;
case 'remove': sem_remove(sem_get(ftok(__FILE__, 's'))); shm_remove(shm_attach(ftok(__FILE__, 'm'), 1000)); echo 'ok'; break;
case 'shared': $shared = shm_attach(ftok(__FILE__, 'm'), 1000); shm_put_var($shared, 1, 'x'); echo 'ok'; break;
case 'lock': $file = fopen(getenv('PLACE') . '/lock', 'c'); echo json_encode(flock($file, LOCK_EX | LOCK_NB)); break;
case 'listen': $socket = stream_socket_server('tcp://127.0.0.1:' . $_GET['port'], $code, $message); echo json_encode($socket !== false), $message; break;
case 'descriptors': echo count(scandir('/proc/self/fd')); for ($i = 0; $i < 60; $i++) $kept[] = fopen(__FILE__, 'r'); $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); $directory = opendir('/tmp'); $udp = socket_create(AF_INET, SOCK_DGRAM, 0); break;
case 'sqlite': $base = new SQLite3(getenv('PLACE') . '/base'); $base->busyTimeout(300); $base->exec('create table if not exists t (n)'); $base->exec('begin exclusive'); echo json_encode($base->exec('insert into t values (1)')); break;
"#;
    both(
        || {
            let setup = snapshot("mkdir(getenv('PLACE') . '/tmp');", CASES);
            let temporary = setup.directory().join("place/tmp").to_str().unwrap().to_owned();
            setup.ini("sys_temp_dir", &temporary)
        },
        |lane| {
            assert_eq!(lane.same("temporary", 15), "ok");
            wait_until("no temporary file is left", 5, || lane.text("temporaries") == "2");
            for held in ["semaphore", "lock", "sqlite"] {
                // The descriptor of a forked clone may close a moment after its answer.
                wait_until(&format!("{held} is free"), 5, || lane.text(held) == "true");
                if lane.rewinds() {
                    let mut client = lane.client();
                    let asked = |client: &mut tests::Client| client.get(&format!("/?do={held}")).text();
                    (0..15).for_each(|_| wait_until(&format!("{held} is free"), 5, || asked(&mut client) == "true"));
                }
            }
            assert_eq!(lane.same("shared", 5), "ok");
            let port = tests::server::free_port();
            for _ in 0..5 {
                wait_until("the port is free again", 5, || lane.text(&format!("listen&port={port}")) == "true");
            }
            lane.same("descriptors", 30);
            lane.text("remove");
        },
    );
}

/// A peer sees the end of the connection with the end of the request.
#[test]
fn connections_end_with_their_request() {
    both(
        || {
            snapshot(
                "",
                "case 'connect': $socket = stream_socket_client('tcp://127.0.0.1:' . $_GET['port']); fwrite($socket, 'half'); echo 'ok'; break;\ncase 'persistent': $socket = pfsockopen('127.0.0.1', $_GET['port']); fwrite($socket, 'half'); echo 'ok'; break;\n",
            )
        },
        |lane| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            for what in ["connect", "persistent"] {
                for _ in 0..5 {
                    assert_eq!(lane.text(&format!("{what}&port={port}")), "ok");
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).unwrap_or_else(|error| panic!("{what} stays open: {error}"));
                    assert_eq!(bytes, b"half");
                }
            }
        },
    );
}

const OPEN: &str = r#"
file_put_contents($name = getenv('PLACE') . '/open', "one\ntwo\nthree\n" . str_repeat("filler\n", 5000) . "end\n");
$file = fopen($name, 'r'); fgets($file);
$gone = fopen($name . '2', 'w'); fwrite($gone, "gone one\ngone two\n"); fclose($gone);
$gone = fopen($name . '2', 'r'); fgets($gone); unlink($name . '2');
$object = new SplFileObject($name); $object->fgets(); $object->fgets();
"#;

const OPEN_CASES: &str = r#"
case 'read': echo fgets($file), fgets($gone), ftell($file), $object->fgets(); fseek($file, -4, SEEK_END); echo fgets($file); fclose($file); unset($object); break;
case 'move': fseek($file, 20000); fread($file, 5000); fread($gone, 100); $object->seek(4000); echo 'moved'; break;
"#;

fn open_file_is_at_the_snapshots_offset(lane: &Lane) {
    let expected = "two\ngone two\n8three\nend\n";
    for _ in 0..10 {
        assert_eq!(lane.same("read", 2), expected);
        assert_eq!(lane.same("move", 2), "moved");
    }
    // Clones share no offset.
    for _ in 0..5 {
        assert_eq!(lane.pair("read"), [expected, expected]);
    }
}

/// Larger than PHP's buffer, and one that is not in any directory any more.
#[test]
fn a_file_open_at_the_snapshot_is_at_its_offset() {
    both(|| snapshot(OPEN, OPEN_CASES), |lane| open_file_is_at_the_snapshots_offset(lane));
}

/// Reads that go past PHP's buffers to the descriptor itself.
#[test]
fn so_is_its_descriptor() {
    let boot = "file_put_contents($name = getenv('PLACE') . '/raw', '0123456789abcdef'); $file = fopen($name, 'r'); stream_set_read_buffer($file, 0); fread($file, 4);";
    both(
        || snapshot(boot, "case 'raw': echo fread($file, 4); break;\ncase 'close': fclose($file); echo 'x'; break;\n"),
        |lane| {
            for _ in 0..10 {
                assert_eq!(lane.same("raw", 3), "4567");
                lane.text("close");
                assert_eq!(lane.pair("raw"), ["4567", "4567"]);
            }
        },
    );
}
