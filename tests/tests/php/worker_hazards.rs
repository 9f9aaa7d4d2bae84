//! What a living process may keep of a request by mistake: each hazard a row, asked in worker mode and in classic mode
//! alike, by a hundred clients at once.

use std::fs;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use tests::server::{Directory, project};
use tests::spoiled::{Row, boot, cases, row};
use tests::{Client, Server, Setup, client, wait_until};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("input", "", "echo json_encode([$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, strlen(file_get_contents('php://input'))]);",
        "$_GET['v'] = $_POST['v'] = $_COOKIE['v'] = $_FILES['v'] = $_REQUEST['v'] = 'spoiled';", r#"[{"do":"input"},[],[],[],{"do":"input"},0]"#),
    row("server", "$_SERVER['APP'] = $_ENV['APP'] = 'boot';", "echo $_SERVER['APP'], $_ENV['APP'], $_SERVER['LEFT'] ?? '-', $_SERVER['REQUEST_METHOD'], $_SERVER['CONTENT_TYPE'] !== '' ? 'type' : '-';",
        "$_SERVER['APP'] = $_ENV['APP'] = $_SERVER['LEFT'] = 'spoiled'; unset($_SERVER['REQUEST_METHOD']);", "bootboot-GET-"),
    row("late", "", "if (!function_exists('late')) { eval('function late() { return $_SERVER[\"QUERY_STRING\"] . \" \" . $_REQUEST[\"do\"]; }'); } echo late();",
        "$_SERVER['QUERY_STRING'] = $_REQUEST['do'] = 'spoiled';", "do=late late"),
    row("authorization", "", "echo $_SERVER['PHP_AUTH_USER'] ?? '-', $_SERVER['PHP_AUTH_PW'] ?? '-', $_SERVER['HTTP_AUTHORIZATION'] ?? '-', $_SERVER['AUTH_TYPE'] ?? '-';",
        "", "----"),
    row("session", "session_save_path(getenv('PLACE'));", "echo json_encode(session_id()), session_status(), isset($_SESSION) ? 'left' : '-', session_name(), strlen(session_save_path()) > 1 ? 'path' : '-';",
        "session_name('N' . random_int(0, 9)); session_id(bin2hex(random_bytes(8))); ini_set('session.gc_probability', '3'); session_start(); $_SESSION['v'] = 'spoiled';", r#"""1-PHPSESSIDpath"#),
    row("headers", "", "echo json_encode(headers_list()), json_encode(http_response_code());",
        "header('X-Own: headers'); setcookie('v', 'spoiled'); http_response_code(203);", "[]200"),
    row("header_callback", "", "echo 'x';", "header_register_callback(fn () => header('X-Own: header_callback'));", "x"),
    row("buffers", "", "echo ob_get_level();", "ob_start(); ob_start(fn ($text) => $text);", "1"),
    row("rewriting", "", "output_add_rewrite_var('own', '7'); echo '<a href=\"x.php\">x</a>';", "", "<a href=\"x.php?own=7\">x</a>"),
    row("no_rewriting", "", "echo '<a href=\"x.php\">x</a>';", "", "<a href=\"x.php\">x</a>"),
    row("last_error", "", "echo json_encode(error_get_last());", "@trigger_error('spoiled');", "null"),
    row("collector", "", "echo json_encode(gc_enabled());", "gc_disable();", "true"),
    row("connection", "", "echo connection_status(), ignore_user_abort();", "ignore_user_abort(true);", "00"),
    row("limits", "set_time_limit(25); ini_set('memory_limit', '300M');", "echo ini_get('max_execution_time'), ' ', ini_get('memory_limit');",
        "set_time_limit(77); ini_set('memory_limit', '512M');", "25 300M"),
    row("settings", "ini_set('precision', '7'); set_include_path('/usr/share'); error_reporting(E_ALL & ~E_NOTICE);",
        "echo json_encode([ini_get('precision'), get_include_path(), error_reporting() & ~2048, ini_get('user_agent'), ini_get('date.timezone'), Locale::getDefault()]);",
        "ini_set('precision', '3'); ini_restore('precision'); set_include_path('.'); error_reporting(0); ini_set('user_agent', 'spoiled'); ini_set('date.timezone', 'Asia/Tokyo'); Locale::setDefault('fr');",
        r#"["7","\/usr\/share",30711,"","Europe\/Oslo","de_DE"]"#),
    row("environment", "putenv('BOOT=boot');", "echo getenv('BOOT'), json_encode(getenv('LEFT'));", "putenv('BOOT'); putenv('LEFT=spoiled');", "bootfalse"),
    row("handlers", "", "echo json_encode([set_error_handler(null), set_exception_handler(null)]); restore_error_handler(); restore_exception_handler();",
        "set_error_handler(fn () => print 'spoiled'); set_exception_handler(fn () => print 'spoiled');", "[null,null]"),
    row("shutdown", "", "echo 'x';", "register_shutdown_function(fn () => print ' bye');", "x bye"),
    row("objects", "", "echo 'x';", "$object = new class { function __destruct() { echo ' gone'; } };", "x gone"),
    row("exit", "", "echo 'x';", "exit;", "x"),
    row("fiber", "", "echo Fiber::getCurrent() ? 'fiber' : 'main';", "$fiber = new Fiber(function () { Fiber::suspend(); echo 'never'; }); $fiber->start();", "main"),
    row("directory", "", "echo getcwd() === __DIR__ ? 'home' : getcwd();", "chdir('/tmp');", "home"),
    // opcache finds what is included by a relative name under the directory that it thinks it is in.
    row("relative", "", "echo include './which.php';", "chdir(__DIR__ . '/other'); echo include './which.php';", "homeother"),
    row("between", "", "echo ($GLOBALS['between'] ?? __DIR__) === __DIR__ ? 'home' : $GLOBALS['between'];", "chdir('/tmp');", "home"),
    row("shutdown_in_root", "", "register_shutdown_function(fn () => print getcwd());", "", "/"),
    row("destroyed_in_root", "", "$_SERVER['v'] = new class { function __destruct() { echo getcwd(); } };", "", "/"),
    row("requested_in_root", "", "$_REQUEST['v'] = new class { function __destruct() { echo getcwd(); } };", "", "/"),
    row("buffered_in_root", "", "ob_start(fn () => getcwd());", "", "/"),
    // ext/filter has a copy of $_SERVER, which it gets when a request asks for it.
    row("filter", "class Late { function __destruct() { filter_input(INPUT_SERVER, 'HTTP_COOKIE'); } function handle() { return false; } }",
        "echo filter_input(INPUT_SERVER, 'QUERY_STRING'), json_encode([filter_has_var(INPUT_SERVER, 'HTTP_COOKIE'), filter_input_array(INPUT_SERVER)['REQUEST_METHOD']]);",
        "set_error_handler([new Late, 'handle']);", r#"do=filter[false,"GET"]"#),
    row("umask", "umask(027);", "echo decoct(umask());", "umask(0);", "27"),
    row("context", "stream_context_set_default(['http' => ['header' => 'X: boot']]);", "echo json_encode(stream_context_get_options(stream_context_get_default()));",
        "stream_context_set_default(['http' => ['header' => 'X: spoiled', 'method' => 'POST']]);", r#"{"http":{"header":"X: boot"}}"#),
    row("wrappers", "class Wrapper {} stream_wrapper_register('boot', 'Wrapper');", "echo json_encode(array_map(fn ($name) => in_array($name, stream_get_wrappers()), ['boot', 'own', 'http']));",
        "stream_wrapper_register('own', 'Wrapper'); stream_wrapper_unregister('http');", "[true,false,true]"),
    row("ticks", "$GLOBALS['ticks'] = 0;", "eval('declare(ticks=1) { $one = 1; $two = 2; }'); echo $GLOBALS['ticks'];", "register_tick_function(function () { $GLOBALS['ticks']++; });", "0"),
    row("libxml", "", "echo count(libxml_get_errors()), json_encode(libxml_use_internal_errors());", "libxml_use_internal_errors(true); simplexml_load_string('<spoiled');", "0false"),
    row("last_of_functions", "", "echo json_last_error(), preg_last_error(), json_encode(@strtok(' '));",
        "json_decode('{'); preg_match('/(?:\\D+|<\\d+>)*[!?]/', 'foobar foobar foobar'); strtok('spoiled by one', ' ');", "00false"),
];

/// The rows' script; `?do=all` is everything a request can bring.
fn served_in(mode: &str) -> Server {
    let (boot, cases) = (boot(ROWS), cases(ROWS));
    let script = format!(
        "<?php\nheader_remove('X-Powered-By');\n{boot}\n$handler = function () {{\nswitch ($_GET['do']) {{\n{cases}
        case 'all': filter_has_var(INPUT_SERVER, 'HTTP_COOKIE'); set_error_handler([new Late, 'handle']); echo $_POST['v'], $_COOKIE['v'], $_SERVER['PHP_AUTH_USER'], file_get_contents($_FILES['f']['tmp_name']), json_encode(move_uploaded_file($_FILES['g']['tmp_name'], '/dev/null')); break;\n}} }};
        while (reprise_handle_request($handler, survives_exit: true)) {{ $GLOBALS['between'] = getcwd(); }}\n"
    );
    let setup = Setup::empty()
        .file("index.php", script)
        .file("which.php", "<?php return 'home';")
        .file("other/which.php", "<?php return 'other';")
        .application(&format!("workers = 2\nmode.\"index.php\" = \"{mode}\""));
    let [place, uploads] = ["place", "place/uploads"].map(|name| setup.writable(name));
    setup
        .env("PLACE", &place)
        .ini("upload_tmp_dir", &uploads)
        .ini("opcache.file_update_protection", "0")
        .ini("expose_php", "0")
        .ini("output_buffering", "4096")
        .ini("display_errors", "1")
        .ini("date.timezone", "Europe/Oslo")
        .ini("intl.default_locale", "de_DE")
        .ini("url_rewriter.tags", "a=href")
        .start()
}

/// What is wrong with the answers that one client gets: each row, from another one on, between requests that bring much.
fn wrong_of(port: u16, number: usize) -> Vec<String> {
    let mut client = Client::new(port);
    let mut wrong = Vec::new();
    let mark = format!("v{number}v");
    let (kind, body) = client::multipart(
        &[("v", &mark)],
        &[("f", "f.txt", "text/plain", mark.as_bytes()), ("g", "g.txt", "text/plain", b"moved")],
    );
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{mark}:secret")));
    let cookie = format!("v={mark}");
    let headers = [("Content-Type", kind.as_str()), ("Authorization", &authorization), ("Cookie", &cookie)];
    for (place, row) in ROWS.iter().cycle().skip(number % ROWS.len()).take(ROWS.len()).enumerate() {
        if place % 3 == 0 {
            let answer = client.request("POST", "/?do=all", &headers, &body);
            if answer.text() != format!("{}true", mark.repeat(4)) {
                wrong.push(format!("all of {mark}: {}", answer.text()));
            }
        }
        let answer = client.get(&format!("/?do={}", row.name));
        let own = answer.header("x-own").is_none_or(|name| name == row.name);
        let cookies = matches!(row.name, "session" | "headers") || answer.header("set-cookie").is_none();
        let status = if row.name == "headers" { 203 } else { 200 };
        if answer.text() != row.expected || answer.status != status || !own || !cookies {
            wrong.push(format!("{}: {} {} {:?}", row.name, answer.status, answer.text(), answer.headers));
        }
    }
    wrong
}

/// For each hazard of the table a request begins in worker mode as in classic mode, with a hundred clients at once.
#[test]
fn each_request_begins_as_in_classic_mode() {
    for mode in ["worker", "classic"] {
        let server = served_in(mode);
        let port = server.port;
        let mut wrong: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..100).map(|number| scope.spawn(move || wrong_of(port, number))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        });
        wrong.sort();
        wrong.dedup();
        assert!(wrong.is_empty(), "{mode}: {wrong:#?}");
        let uploads = server.directory().join("place/uploads");
        wait_until("uploaded files are gone", 5, || fs::read_dir(&uploads).expect("a directory").count() == 0);
        assert!(!server.log().contains("recycled"), "{mode}: {}", server.log());
    }
}

/// A request that blocks or ignores the signal of PHP's timer does not take the time limit from the next one.
#[test]
fn a_request_has_its_time_limit_whatever_the_last_did_to_signals() {
    let script = "<?php $handler = function () { switch ($_GET['do']) {
        case 'block': pcntl_sigprocmask(SIG_BLOCK, [SIGPROF]); pcntl_signal(SIGPROF, SIG_IGN); echo getmypid(); break;
        case 'pid': echo getmypid(); break;
        case 'spin': set_time_limit(1); for (;;); } };
        while (reprise_handle_request($handler)) {}";
    let server = Setup::empty()
        .file("index.php", script)
        .ini("display_errors", "1")
        .application("workers = 1\nmode.\"index.php\" = \"worker\"")
        .start();
    let mut client = server.client();
    for _ in 0..2 {
        let blocked = client.get("/?do=block").text();
        assert_eq!(client.get("/?do=pid").text(), blocked, "the same process goes on");
        let ended = client.get("/?do=spin");
        assert!(ended.text().contains("Maximum execution time of 1 second exceeded"), "{}", ended.text());
    }
}

/// The directory of a script may come to be another one under the same path.
#[test]
fn a_request_begins_in_the_directory_that_the_path_names_now() {
    let loop_of = |text: &str| {
        format!(
            "<?php while (reprise_handle_request(function () {{ echo file_get_contents('text'), '{text}'; }})) {{}}"
        )
    };
    let server = Setup::empty()
        .file("app/index.php", loop_of("!"))
        .file("app/text", "old")
        .file("next/index.php", loop_of("?"))
        .file("next/text", "new")
        .application("mode.\"app/index.php\" = \"worker\"")
        .start();
    let mut client = server.client();
    assert_eq!(client.get("/app/index.php").text(), "old!");
    let at = |name: &str| server.directory().join("app/public").join(name);
    fs::rename(at("app"), at("before")).expect("a rename");
    fs::rename(at("next"), at("app")).expect("a rename");
    wait_until("the process is in the new directory", 5, || client.get("/app/index.php").text() == "new!");
}

/// Profilers and agents count requests by what they see of them.
#[test]
fn an_extension_of_others_sees_each_request_begin_and_end() {
    let directory = Directory::new();
    let library = directory.0.join("probe.so");
    let includes = Command::new("php-config").arg("--includes").output().expect("php-config").stdout;
    let includes = String::from_utf8(includes).expect("paths");
    let compiled = Command::new("gcc")
        .args(["-shared", "-fPIC", "-DCOMPILE_DL_PROBE", "-o"])
        .arg(&library)
        .args(includes.split_whitespace())
        .arg(project().join("tests/apps/probe/probe.c"))
        .status();
    assert!(compiled.expect("gcc").success());
    let script = "<?php $handler = function () { echo implode(' ', probe_seen()); if (isset($_GET['exit'])) exit; };
        while (reprise_handle_request($handler, survives_exit: true)) {}";
    let server = Setup::empty()
        .file("index.php", script)
        .application("workers = 1\nmode.\"index.php\" = \"worker\"")
        .ini("extension", library.to_str().expect("a name"))
        .start();
    let mut before: Vec<u32> = Vec::new();
    for round in 0..20 {
        let text = server.get(if round % 3 == 0 { "/?exit=1" } else { "/" }).text();
        let seen: Vec<u32> = text.split(' ').map(|number| number.parse().expect("a number")).collect();
        // The one that asks has begun and not ended.
        assert!(seen[0] == seen[1] + 1 && seen[1] == seen[2], "{round}: {seen:?}");
        assert!(before.is_empty() || seen[0] == before[0] + 1, "{round}: {before:?} {seen:?}");
        before = seen;
    }
}

/// The setting cannot be set back: PHP turns opcache on where a request begins for it, which it does not in a loop.
#[test]
fn a_request_that_turns_opcache_off_is_its_workers_last() {
    let script = "<?php $handler = function () { echo getmypid(), json_encode(opcache_get_status(false)['opcache_enabled'] ?? false); if (isset($_GET['off'])) ini_set('opcache.enable', '0'); };
        while (reprise_handle_request($handler)) {}";
    let server = Setup::empty().file("index.php", script);
    let server = server.application("workers = 1\nmode.\"index.php\" = \"worker\"").start();
    for _ in 0..3 {
        let before = server.get("/").text();
        assert!(before.ends_with("true"), "{before}");
        assert_eq!(server.get("/").text(), before);
        assert_eq!(server.get("/?off=1").text(), before);
        let after = server.get("/").text();
        assert!(after != before && after.ends_with("true"), "{before} {after}");
    }
}

/// After each of these the script is over, and that is counted.
#[test]
fn a_script_that_ends_by_an_error_between_two_requests_is_counted() {
    let script = "<?php $n = 0; $handler = function () use (&$n) { $n++; echo getmypid(), ' ', $n, ' ', reprise_info()['recycles']['bailout']; };
        while (reprise_handle_request($handler)) { if ($n === 2 && getenv('END') === 'throw') { throw new Exception('between'); } if ($n === 2) { exit; } }";
    for (end, counts) in [("throw", true), ("exit", false)] {
        let setup = Setup::empty().file("index.php", script).env("END", end).ini("display_errors", "0");
        let server = setup.application("workers = 1\nmode.\"index.php\" = \"worker\"").start();
        let ask = || {
            let text = server.get("/").text();
            text.rsplit(' ').next().expect("a number").parse::<u32>().unwrap_or_else(|_| panic!("{text}"))
        };
        for _ in 0..6 {
            ask();
        }
        assert_eq!(ask() >= 2, counts, "{end}: {}", server.log());
        let words = "recycled: bailout: the script ended by a fatal error between two requests";
        assert_eq!(server.log().contains(words), counts, "{end}");
    }
}
