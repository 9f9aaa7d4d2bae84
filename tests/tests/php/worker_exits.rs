//! Worker scripts whose requests end by `exit`: no `finally` runs then, so what a request has put onto a stack of the
//! application stays there. The script ends with the request, and a fresh run of it takes the next one.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::Signal;
use tests::client::connect;
use tests::snapshot::Info;
use tests::{Client, Server, Setup};

/// Each ends its request by `exit`, from another depth. `deep()` calls its argument below ten calls, each with a `finally`.
const EXITS: &[(&str, &str)] = &[
    ("plain", "exit;"),
    ("text", "exit('text');"),
    ("code", "exit(3);"),
    ("die", "die('dump of ' . $_GET['user']);"),
    ("nested", "deep(10, function () { echo 'nested'; exit; });"),
    ("callback", "usort($GLOBALS['list'], function () { echo 'sorting'; exit; });"),
    ("included", "include __DIR__ . '/included.inc';"),
    ("evaluated", "eval('deep(3, function () { exit(\"evaluated\"); });');"),
    (
        "generator",
        "foreach ((function () { yield from (function () { try { yield 1; exit('generator'); } finally { echo 'never'; } })(); })() as $n) echo $n;",
    ),
    (
        "fiber",
        "$f = new Fiber(function () { (new Fiber(function () { Fiber::suspend(); exit('fiber'); }))->start(); exit('outer fiber'); }); $f->start();",
    ),
    (
        "inner_fiber",
        "$f = new Fiber(function () { $g = new Fiber(function () { exit('inner fiber'); }); $g->start(); }); $f->start();",
    ),
    (
        "output_callback",
        "ob_start(function ($text) { if (str_contains($text, 'go')) { exit; } return $text; }); echo 'go'; ob_end_flush(); echo 'never';",
    ),
    ("last_output_callback", "ob_start(function ($text) { exit; }); echo 'buffered';"),
    (
        "shutdown",
        "register_shutdown_function(function () { deep(5, function () { exit('shutdown'); }); }); echo 'end ';",
    ),
    (
        "second_shutdown",
        "register_shutdown_function(function () { register_shutdown_function(function () { exit('second'); }); echo 'first '; });",
    ),
    ("destructor", "$o = new Ends; unset($o); echo 'never';"),
    ("late_destructor", "$GLOBALS['kept'] = new Ends; $_SERVER['kept'] = new Ends; unset($GLOBALS['kept']);"),
    ("superglobal", "$_SERVER['kept'] = new Ends; echo 'end ';"),
    (
        "header_callback",
        "header_register_callback(function () { header('X-Called: 1'); exit; }); echo 'body'; while (ob_get_level()) ob_end_flush(); flush(); echo 'never';",
    ),
    ("last_header_callback", "header_register_callback(function () { header('X-Called: 1'); exit; }); echo 'body';"),
    ("error_handler", "set_error_handler(function () { exit('error handler'); }); echo $undefined; echo 'never';"),
    (
        "exception_handler",
        "set_exception_handler(function () { exit('exception handler'); }); deep(3, function () { throw new Exception; });",
    ),
    (
        "autoloader",
        "spl_autoload_register($a = function () use (&$a) { spl_autoload_unregister($a); exit('autoloader'); }); new Missing;",
    ),
    ("magic", "echo new class { function __toString() { exit('magic'); } };"),
    ("in_finally", "try { throw new Exception; } finally { exit('in finally'); }"),
    ("in_catch", "try { throw new Exception; } catch (Exception) { deep(2, function () { exit('in catch'); }); }"),
    (
        "session",
        "session_set_save_handler(new class implements SessionHandlerInterface { function open($p, $n): bool { return true; } function close(): bool { return true; } function read($i): string|false { return ''; } function write($i, $d): bool { exit('write'); } function destroy($i): bool { return true; } function gc($l): int|false { return 0; } }); session_start(); $_SESSION['a'] = 1; echo 'end ';",
    ),
    ("finished", "echo 'finished'; fastcgi_finish_request(); deep(3, function () { exit('never'); });"),
];

/// A worker script that goes on by that call, and does `reset` as each request begins.
fn script(call: &str, reset: &str) -> String {
    let cases: String = EXITS.iter().map(|(name, code)| format!("case '{name}': {code} break;\n")).collect();
    format!(
        "<?php
final class Stack {{ public static array $requests = [], $notes = []; }}
final class Ends {{ function __destruct() {{ deep(2, function () {{ exit('destructor'); }}); }} }}
function deep(int $n, callable $end) {{ Stack::$notes[] = $_GET['user'] . $n; try {{ $n > 0 ? deep($n - 1, $end) : $end(); }} finally {{ array_pop(Stack::$notes); }} }}
$list = [3, 1, 2];
register_shutdown_function(function () {{ file_put_contents(getenv('PLACE') . '/ended', getmypid() . \"\\n\", FILE_APPEND); }});
$handler = function () {{
    {reset}
    if (isset($_GET['info'])) {{ foreach (reprise_info() as $k => $v) foreach (is_array($v) ? $v : ['' => $v] as $n => $w) echo $k, $n === '' ? '' : \".$n\", '=', $w, \"\\n\"; return; }}
    Stack::$requests[] = $_GET['user'];
    file_put_contents(getenv('PLACE') . '/ran', '.', FILE_APPEND);
    try {{
        header('X-Pid: ' . getmypid());
        echo 'for ', Stack::$requests[0], implode(Stack::$notes), ': ';
        switch ($_GET['do'] ?? '') {{\n{cases}case 'stays': echo 'stays'; break;\ncase 'waits': usleep(2000); exit('waited');\n }}
    }} finally {{ array_pop(Stack::$requests); }}
}};
while ({call}) {{}}
"
    )
}

const PLAIN: &str = "frankenphp_handle_request($handler)";
const SURVIVING: &str = "reprise_handle_request($handler, survives_exit: true)";
/// What a script does that resets itself.
const RESET: &str = "Stack::$requests = Stack::$notes = [];";

fn setup(call: &str, reset: &str, mode: &str) -> Setup {
    setup_with(1, call, reset, mode)
}

fn setup_with(workers: usize, call: &str, reset: &str, mode: &str) -> Setup {
    let setup = Setup::empty()
        .file("index.php", script(call, reset))
        .file("included.inc", "<?php deep(4, function () { exit('included'); });")
        .application(&format!("workers = {workers}"))
        .application(&format!("mode.\"index.php\" = \"{mode}\""));
    let place = setup.writable("place");
    setup.env("PLACE", &place).ini("display_errors", "0")
}

fn info(server: &Server) -> Info {
    Info::parse(&server.get("/?info=1").text())
}

fn read(server: &Server, name: &str) -> String {
    fs::read_to_string(server.directory().join("place").join(name)).unwrap_or_default()
}

/// As many as REPRISE_REQUESTS says: ten thousand in the long run.
fn requests() -> usize {
    std::env::var("REPRISE_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(232)
}

/// What each of them answers for `USER` where a process serves one request.
fn answers_of_classic_mode() -> Vec<(u16, String, bool)> {
    let server = setup(PLAIN, "", "classic").start();
    let ask = |(name, _): &(&str, &str)| {
        // Behind the script's end PHP loses what is in its buffers; in a loop the script is not at its end.
        match *name {
            "last_output_callback" => return (200, "for USER: buffered".to_owned(), false),
            "last_header_callback" => return (200, "for USER: body".to_owned(), true),
            _ => {}
        }
        let answer = server.get(&format!("/?do={name}&user=USER"));
        (answer.status, answer.text(), answer.header("x-called").is_some())
    };
    EXITS.iter().map(ask).collect()
}

/// Two visitors by turns, all of whose requests end by exit: what each gets is what classic mode answers.
fn visit_by_turns(call: &str, reset: &str) -> Server {
    let expected = answers_of_classic_mode();
    let server = setup(call, reset, "worker").start();
    let mut visitors = [("alice", server.client()), ("bob", server.client())];
    for round in 0..requests() {
        let (name, client) = &mut visitors[round % 2];
        // Each of them has its turn with each of the cases.
        let number = round / 2 % EXITS.len();
        let (what, user) = (EXITS[number].0, format!("{name}{round}z"));
        let answer = client.request("POST", &format!("/?do={what}&user={user}"), &[], b"");
        let (status, text, is_called) = &expected[number];
        let got = (answer.status, answer.text(), answer.header("x-called").is_some());
        assert_eq!(got, (*status, text.replace("USER", &user), *is_called), "{what}, {round}\n{}", server.log());
        if round % 7 == 0 {
            let user = format!("carol{round}z");
            assert_eq!(client.get(&format!("/?do=stays&user={user}")).text(), format!("for {user}: stays"), "{what}");
        }
    }
    let extra = requests().div_ceil(7);
    assert_eq!(read(&server, "ran").len(), requests() + extra, "each ran once");
    assert_eq!(info(&server).text("mode"), "worker");
    assert!(!server.log().contains("failed soon after its start"), "{}", server.log());
    server
}

/// After `exit()` the next visitor gets nothing of the ended request.
#[test]
fn an_exit_leaves_no_request_to_the_next_visitor() {
    let script = "<?php $stack = []; while (frankenphp_handle_request(function () use (&$stack) { $stack[] = $_GET['user']; try { if (isset($_GET['exit'])) exit('bye '); echo $stack[0]; } finally { array_pop($stack); } })) {}";
    let server = Setup::empty().file("index.php", script).application("workers = 1").start();
    for _ in 0..20 {
        assert_eq!(server.get("/?user=alice&exit").text(), "bye ");
        assert_eq!(server.get("/?user=bob").text(), "bob");
    }
}

/// After `exit()` at any depth a fresh run of the script takes the next request.
#[test]
fn exits_at_every_depth_leave_nothing_to_the_next_visitor() {
    let server = visit_by_turns(PLAIN, "");
    // Each that ended by exit ended its script too, with the script's own shutdown functions.
    let info = info(&server);
    assert_eq!((info.number("recycles.exit"), info.number("recycles.bailout")), (requests() as u64, 0));
    assert!(read(&server, "ended").lines().count() >= requests());
    assert_eq!(server.log().matches("recycled: exit").count(), 1, "said once: {}", server.log());
}

/// A script that resets itself survives `exit()` at any depth, and leaks nothing.
#[test]
fn exits_at_every_depth_are_survived_by_a_script_that_resets_itself() {
    let server = visit_by_turns(SURVIVING, RESET);
    let info = info(&server);
    assert_eq!((info.number("recycles.exit"), info.number("recycles.bailout")), (0, 0), "{}", server.log());
}

/// Requests wait for the fresh run: none is lost, none runs twice, with a single worker and with several.
#[test]
fn requests_wait_while_a_script_begins_anew() {
    for workers in [1, 3] {
        let server = setup_with(workers, PLAIN, "", "worker").start();
        let pids: HashSet<String> = std::thread::scope(|scope| {
            let visitors: Vec<_> = (0..8)
                .map(|visitor| {
                    let port = server.port;
                    scope.spawn(move || {
                        let mut client = Client::new(port);
                        let ask = |n: usize| {
                            let (user, what) = (format!("v{visitor}n{n}z"), ["waits", "stays"][n % 2]);
                            let answer = client.request("POST", &format!("/?do={what}&user={user}"), &[], b"");
                            let end = if what == "waits" { "waited" } else { "stays" };
                            assert_eq!((answer.status, answer.text()), (200, format!("for {user}: {end}")));
                            answer.header("x-pid").unwrap_or_default().to_owned()
                        };
                        (0..20).map(ask).collect::<Vec<_>>()
                    })
                })
                .collect();
            visitors.into_iter().flat_map(|visitor| visitor.join().unwrap()).collect()
        });
        assert_eq!(read(&server, "ran").len(), 160, "each ran once");
        assert!(pids.len() >= 80, "a fresh one after each exit: {}", pids.len());
        assert_eq!(info(&server).number("recycles.exit"), 80);
        assert!(!server.log().contains("failed soon after its start"), "no back-off: {}", server.log());
    }
}

/// What a child that a request has forked does is the child's.
#[test]
fn an_exit_of_a_forked_child_ends_nothing_else() {
    let script = "<?php while (reprise_handle_request(function () { if (pcntl_fork() === 0) { echo 'child'; exit(7); } pcntl_wait($status); echo getmypid(), ' ', pcntl_wexitstatus($status); })) {}";
    let server = Setup::empty().file("index.php", script).application("workers = 1").start();
    let first = server.get("/").text();
    assert!(first.ends_with(" 7"), "{first}");
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), first);
    }
}

/// Also where PHP compiles to machine code, and where an extension listens for exit() before.
#[test]
fn an_exit_is_seen_by_compiled_code_too() {
    let code = "$f = function (int $n) { for ($i = 0, $s = 0; $i < 20000; $i++) { $s += $i % 7; } if ($n >= 0) { try { exit('compiled'); } finally { echo 'never'; } } return $s; };
        set_exception_handler(function () use ($f) { $f(0); }); if (isset($_GET['throw'])) throw new Exception; $f(0);";
    let script =
        format!("<?php while (reprise_handle_request(function () {{ header('X-Pid: ' . getmypid()); {code} }})) {{}}");
    let server = Setup::empty()
        .file("index.php", script)
        .application("workers = 1")
        .ini("opcache.jit", "tracing")
        .ini("opcache.jit_buffer_size", "16M")
        .ini("display_errors", "0")
        .start();
    let mut pids = HashSet::new();
    for round in 0..30 {
        let answer = server.get(if round % 2 == 0 { "/" } else { "/?throw" });
        assert_eq!(answer.text(), "compiled");
        assert!(pids.insert(answer.header("x-pid").unwrap().to_owned()), "{round}");
    }
}

/// The server stops while scripts begin anew: what came is answered.
#[test]
fn a_stop_between_two_runs_loses_no_request() {
    let mut server = setup(PLAIN, "", "worker").start();
    let port = server.port;
    let answered = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..4)
            .map(|visitor| {
                scope.spawn(move || {
                    let mut count = 0;
                    // Each on a connection of its own, until none is accepted any more.
                    while let Ok(stream) = connect(port) {
                        let path = format!("/?do=waits&user=v{visitor}");
                        match Client::over(stream, "a.example").try_request("POST", &path, &[], b"") {
                            Ok(answer) => assert_eq!(answer.status, 200),
                            Err(_) => break,
                        }
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        tests::wait_until("they are at it", 20, || read(&server, "ran").len() > 30);
        server.signal(Signal::SIGTERM);
        visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum::<usize>()
    });
    assert_eq!(server.wait(30), 0, "{}", server.log());
    assert_eq!(read(&server, "ran").len(), answered);
}
