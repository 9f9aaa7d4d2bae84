//! The time of a request, by whomever it is asked for: never that of the boot, nor that of an earlier request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tests::modes::modes;
use tests::{Setup, wait_until};

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time")
}

/// Waits until the clock shows another second.
fn next_second() {
    let second = now().as_secs();
    wait_until("another second", 2, || now().as_secs() > second);
}

/// APCu, `sapi_get_request_time()` and `$_SERVER` have the time of the request in each of three requests, though the boot,
/// the code between two requests and a hook have asked before.
#[test]
fn what_extensions_ask_for_is_the_time_of_the_request() {
    const SCRIPT: &str = "<?php
        $libphp = FFI::cdef('double sapi_get_request_time(void);');
        function ask(): int { global $libphp; $libphp->sapi_get_request_time(); apcu_store('asked', 1); return apcu_key_info('asked')['mtime']; }
        ask();
        if (function_exists('reprise_after_fork')) reprise_after_fork(ask(...));
        $handle = function () use ($libphp) {
            $time = $_SERVER['REQUEST_TIME_FLOAT'];
            echo json_encode([$libphp->sapi_get_request_time() === $time, ask() - (int) $time, $_SERVER['REQUEST_TIME'] - (int) $time, microtime(true) - $time < 5]);
        };\n";
    for (mode, end, configured) in modes() {
        let end = end.replace("{}", "{ ask(); }");
        let setup = Setup::empty()
            .file("index.php", format!("{SCRIPT}{end}"))
            .ini("ffi.enable", "1")
            .ini("apc.use_request_time", "1")
            .application("workers = 1\nkept_connections = 1");
        let server = configured.iter().fold(setup, |setup, line| setup.application(line)).start();
        for round in 0..3 {
            next_second();
            let answer = server.get(&format!("/?{round}")).text();
            assert_eq!(answer, "[true,0,0,true]", "{mode}, {configured:?}, {round}: {}", server.log());
        }
    }
}

/// What a boot keeps of its own request, and how the log names it; nothing of it is a literal, so that it is from there.
#[rustfmt::skip]
const CAPTURED: [(&str, &str); 17] = [
    ("define('STARTED', $_SERVER['REQUEST_TIME']);", "constant STARTED (the time)"),
    ("define('EXACTLY', $_SERVER['REQUEST_TIME_FLOAT']);", "constant EXACTLY (the time)"),
    ("define('BASE', 'http://' . $_SERVER['HTTP_HOST'] . '/shop');", "constant BASE (an address with its host)"),
    ("define('SETTINGS', ['site' => ['host' => $_SERVER['HTTP_HOST']]]);", "constant SETTINGS['site']['host'] (the host)"),
    ("$client = trim($_SERVER['REMOTE_ADDR']);", "$client (the client's address)"),
    ("$list = [[$_SERVER['REQUEST_METHOD']]];", "$list[0][0] (the method)"),
    ("$object = new stdClass; $object->scheme = $_SERVER['REQUEST_SCHEME'];", "$object->scheme (the scheme)"),
    ("class User { private $ip; function __construct() { $this->ip = $_SERVER['REMOTE_ADDR']; } } $user = new User;", "$user->ip (the client's address)"),
    ("function lines() { static $server; $server ??= $_SERVER['SERVER_NAME']; return $server; } lines();", "static $server of lines() (the host)"),
    ("class Log { static function write() { static $time; $time ??= $_SERVER['REQUEST_TIME']; return $time; } } Log::write();", "static $time of Log::write() (the time)"),
    ("class Config { private static array $all = []; static function load() { self::$all['port'] = $_SERVER['SERVER_PORT']; } } Config::load();", "Config::$all['port'] (the port)"),
    ("class Site { static ?Site $current = null; protected $host; static function make() { self::$current = new Site; self::$current->host = $_SERVER['HTTP_HOST']; } } Site::make();", "Site::$current->host (the host)"),
    ("abstract class Model { static $now; } class Post extends Model { static $time; } Post::$time = $_SERVER['REQUEST_TIME'];", "Post::$time (the time)"),
    // What is left of these is not the boot's, or each request brings its own.
    ("$literal = ['http://localhost/', 'GET', '127.0.0.1', 80]; $files = [$_SERVER['REQUEST_TIME']]; $copy = [$_SERVER]; define('HOME', getenv('HOME_URL')); $_ENV['HOME_URL'] = HOME;", ""),
    ("$root = $_SERVER['DOCUMENT_ROOT']; $script = $_SERVER['SCRIPT_NAME']; $_SERVER['CAME'] = $_SERVER['REQUEST_TIME']; $_GET['own'] = $_SERVER['REMOTE_ADDR'];", ""),
    ("require __DIR__ . '/vendor/library.php'; Library::$time = Library::time();", ""),
    ("$gone = $_SERVER['REMOTE_ADDR']; unset($gone); (function () { $local = $_SERVER['REMOTE_ADDR']; })();", ""),
];

/// A boot has the time of day, and the log says once what code has kept of the boot's request.
#[test]
fn what_a_boot_keeps_of_its_own_request_is_named() {
    let time = "if (isset($_SERVER['REQUEST_TIME'])) { $real = abs($_SERVER['REQUEST_TIME_FLOAT'] - microtime(true)) < 60 && $_SERVER['REQUEST_TIME'] === (int) $_SERVER['REQUEST_TIME_FLOAT']; }";
    // Half of them each: ten are named in a line.
    let halves = [0, 1].into_iter().flat_map(|half| modes().into_iter().map(move |mode| (half, mode)));
    for (half, (mode, end, configured)) in halves {
        let rows = || CAPTURED.iter().skip(half).step_by(2);
        let boot: String = rows().map(|(code, _)| format!("{code}\n")).collect();
        let script =
            format!("<?php {time}\n{boot}\n$handle = function () {{ echo json_encode($GLOBALS['real']); }};\n{end}");
        let library = "<?php class Library { static $time; static function time() { static $time; return $time ??= $_SERVER['REQUEST_TIME']; } }";
        let setup = Setup::empty()
            .file("index.php", script)
            .file("vendor/library.php", library)
            .env("HOME_URL", "http://localhost/");
        let server = configured.iter().fold(setup, |setup, line| setup.application(line)).start();
        assert_eq!(server.get("/").text(), "true", "{mode}: {}", server.log());
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("of its own request")).collect();
        let named: Vec<&str> = rows().map(|(_, name)| *name).filter(|name| !name.is_empty()).collect();
        if mode == "classic" {
            assert!(lines.is_empty(), "{log}");
            continue;
        }
        assert_eq!(lines.len(), 1, "{mode}: once\n{log}");
        let list =
            lines[0].split_once("of its own request: ").and_then(|(_, rest)| rest.split_once("; hint: read $_SERVER"));
        let list: Vec<&str> = list.expect("a list and a hint").0.split(", ").collect();
        let both = |other: &[&str], one: &[&str]| one.iter().filter(|name| !other.contains(name)).count();
        assert_eq!((both(&list, &named), both(&named, &list)), (0, 0), "{mode}: {named:#?}\n{list:#?}");
    }
}

/// What is right for all visitors is not named: the only host that there is.
#[test]
fn the_only_host_of_an_application_is_no_finding() {
    let boot = "define('BASE', 'http://' . $_SERVER['HTTP_HOST'] . '/'); $host = $_SERVER['SERVER_NAME'];";
    for (hosts, count) in [("hosts = [\"shop.example\"]", 0), ("hosts = [\"shop.example\", \"blog.example\"]", 1)] {
        let server = Setup::empty()
            .file("index.php", format!("<?php {boot} reprise_snapshot(); echo 'up';"))
            .application("mode.\"index.php\" = \"snapshot\"")
            .application(hosts)
            .start();
        let log = server.log();
        assert_eq!(log.matches("constant BASE (an address with its host), $host (the host)").count(), count, "{log}");
    }
}
