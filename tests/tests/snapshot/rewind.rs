//! The split into once and per request: where the call may stand, what a request sees of the boot, what of another.

use std::collections::HashSet;

use tests::snapshot::{Lane, best_isolation, both, fork, isolations, rewind, snapshot, snapshot_script};
use tests::{Setup, wait_until};

const COUNTED: &str = "file_put_contents(getenv('PLACE') . '/boots', 'b', FILE_APPEND); $count = 0; $boot = [$_SERVER['REPRISE_BOOT'] ?? null, $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], $_COOKIE, $_GET];";
const COUNT: &str = "case 'count': echo ++$count, ' ', file_get_contents(getenv('PLACE') . '/boots'); break;\ncase 'boot': echo json_encode($boot), json_encode([isset($_SERVER['REPRISE_BOOT']), getenv('REPRISE_BOOT')]); break;\ncase 'pid': echo getmypid(); break;\n";

/// The boot runs once, and each request starts from the state at the call.
#[test]
fn the_boot_runs_once_and_each_request_from_there() {
    both(
        || snapshot(COUNTED, COUNT),
        |lane| {
            assert_eq!(lane.same("count", 50), "1 b");
            assert_eq!(lane.same("boot", 5), "[\"1\",\"GET\",\"\\/\",[],[]][false,false]");
        },
    );
}

/// With rewind a process serves many requests; with fork each request has its own.
#[test]
fn a_rewound_worker_answers_many_a_forked_one_once() {
    rewind(
        || snapshot(COUNTED, COUNT),
        |lane| {
            let pids: HashSet<String> = lane.repeat("pid", 60).into_iter().collect();
            assert!(pids.len() <= 2, "{pids:?}");
            let info = lane.info();
            assert!(info.number("requests") > 1 && info.number("generation") < 1000, "{info:?}");
            wait_until("rewinds are counted", 10, || {
                let info = lane.info();
                info.number("rewinds.fast") + info.number("rewinds.scanned") > 10 && info.number("rewinds.pages") > 0
            });
        },
    );
    fork(
        || snapshot(COUNTED, COUNT),
        |lane| {
            let pids: HashSet<String> = lane.repeat("pid", 60).into_iter().collect();
            assert_eq!(pids.len(), 60, "each request has a clone of its own");
        },
    );
}

/// `isolation = "auto"` is the best that the kernel allows, and the log names it.
#[test]
fn the_default_isolation_is_named_at_the_start() {
    let server = snapshot(COUNTED, COUNT).start();
    assert!(
        server.get("/?info").text().contains(&format!("isolation={}", best_isolation())),
        "{}",
        server.get("/?info").text()
    );
    let log = server.log();
    let head = log.split("ready after").next().unwrap();
    assert!(head.lines().any(|line| line.contains(&format!("isolation {}", best_isolation()))), "{log}");
}

/// Scripts without a snapshot run in classic mode beside one with a snapshot.
#[test]
fn other_scripts_run_as_ever() {
    both(
        || snapshot(COUNTED, COUNT).file("other.php", "<?php $n = ($n ?? 0) + 1; echo reprise_info()['mode'], $n;"),
        |lane| {
            for _ in 0..10 {
                assert_eq!(lane.get("/other.php").text(), "classic1");
                assert_eq!(lane.text("count"), "1 b");
            }
        },
    );
}

/// An entry that names the function, but is no front controller, is found when it is asked for.
#[test]
fn an_entry_of_its_own_gets_a_lane_of_its_own() {
    let other = "<?php $count = 0; reprise_snapshot(); echo reprise_info()['mode'], ++$count;";
    both(
        || snapshot(COUNTED, COUNT).file("other.php", other),
        |lane| {
            wait_until("the lane is there", 20, || {
                let text = lane.get("/other.php").text();
                assert!(text == "classic1" || text == "snapshot1", "{text}");
                text == "snapshot1"
            });
            assert_eq!(lane.text("count"), "1 b");
        },
    );
}

/// The snapshot stands at the place that `index` names; behind it, `after.php` answers.
fn at(index: &str, files: &[(&str, &str)], check: impl Fn(&Lane)) {
    let setup = || {
        let cases = "case 'count': echo ++$count; break;\ncase 'exit': echo 'exit'; exit;\n";
        files.iter().fold(snapshot_script(index, cases), |setup, (name, text)| setup.file(name, text))
    };
    both(setup, |lane| check(lane));
}

/// `reprise_snapshot()` works deep in functions, closures and included files.
#[test]
fn the_call_may_stand_anywhere() {
    let nested = "<?php function deep(int $n) { if ($n > 0) { $local = str_repeat('x', $n); $result = deep($n - 1); return $result . strlen($local); } reprise_snapshot(); return 'd'; }";
    at(
        "<?php /* reprise_snapshot(), far below */ require 'a.php'; $text = first(); $count = 0; require 'after.php'; echo \" $text\";",
        &[
            (
                "a.php",
                "<?php require 'b.php'; function first() { try { return (function () { return include 'c.php'; })(); } finally { echo 'finally '; } }",
            ),
            ("b.php", nested),
            ("c.php", "<?php return deep(20);"),
        ],
        |lane| {
            assert!(lane.same("count", 20).starts_with("finally 1 d1234567891011"), "{}", lane.text("count"));
        },
    );
    for (place, index) in [
        (
            "callback of a function in C",
            "array_map(function ($n) { if ($n === 2) { reprise_snapshot(); } return $n; }, [1, 2, 3]);",
        ),
        (
            "sort",
            "$list = [3, 1, 2]; $taken = false; usort($list, function ($a, $b) use (&$taken) { if (!$taken) { $taken = true; reprise_snapshot(); } return $a <=> $b; });",
        ),
        ("regular expression", "preg_replace_callback('/b/', function () { reprise_snapshot(); return ''; }, 'abc');"),
        (
            "autoloader",
            "spl_autoload_register(function ($class) { reprise_snapshot(); eval(\"class $class {}\"); }); new Loaded;",
        ),
        ("magic method", "(new class { function __call($name, $arguments) { reprise_snapshot(); } })->anything(1);"),
        ("generator", "foreach ((function () { yield 1; reprise_snapshot(); yield 2; })() as $n) {}"),
        ("output buffer", "ob_start(fn ($text) => $text . ' buffered'); reprise_snapshot();"),
        ("output callback", "ob_start(function () { reprise_snapshot(); return ''; }); echo 'x'; ob_end_flush();"),
        ("eval", "eval('reprise_snapshot();');"),
        ("constructor", "new class { function __construct() { reprise_snapshot(); } };"),
        ("error handler", "set_error_handler(function () { reprise_snapshot(); return true; }); echo $undefined;"),
        ("catch", "try { throw new Exception; } catch (Exception) { reprise_snapshot(); } finally { $x = 1; }"),
    ] {
        at(&format!("<?php $count = 0; {index} require 'after.php';"), &[], |lane| {
            let end = if place == "output buffer" { " buffered" } else { "" };
            assert_eq!(lane.same("count", 12), format!("1{end}"), "{place}");
            assert_eq!(lane.text("exit"), format!("exit{end}"), "{place}");
            assert_eq!(lane.same("count", 5), format!("1{end}"), "{place}");
        });
    }
}

/// In a Fiber the C stack is another mapping: it works, or it is refused and says so.
#[test]
fn in_a_fiber_it_works_or_is_refused() {
    for isolation in isolations() {
        let server = snapshot_script(
            "<?php $count = 0; $fiber = new Fiber(function () { reprise_snapshot(); Fiber::suspend(1); return 2; }); $fiber->start(); $fiber->resume(); require 'after.php';",
            "case 'count': echo ++$count, $fiber->getReturn(); break;\n",
        )
        .application(&format!("isolation = \"{isolation}\""))
        .flag("--audit")
        .start();
        let mode = server.get("/?info").text();
        for _ in 0..20 {
            assert_eq!(server.get("/?do=count").text(), "12", "{isolation}");
        }
        assert!(mode.contains("mode=snapshot") || server.log().contains("Fiber"), "{mode}\n{}", server.log());
        assert!(!server.log().contains("recycled"), "{}", server.log());
    }
}

/// Output and headers from before the call are part of each response, however output is buffered.
#[test]
fn output_and_headers_of_the_boot_are_part_of_every_answer() {
    let boot = "header('X-Boot: one'); header('X-Gone: x'); setcookie('boot', 'v'); http_response_code(201); echo 'before ', str_repeat('b', 9000), ' ';";
    let cases = "case 'plain': echo 'after'; break;\ncase 'headers': header('X-Boot: two'); header('X-Own: 1', false); header_remove('X-Gone'); http_response_code(202); echo 'after'; break;\ncase 'redirect': header('Location: /x'); exit;\ncase 'fatal': nowhere();\n";
    let before = format!("before {} ", "b".repeat(9000));
    // A buffer that holds it all, Debian's, which does not, and none: then the head is out before the snapshot.
    for buffering in ["65536", "4096", "0"] {
        both(
            || snapshot(boot, cases).ini("output_buffering", buffering).ini("display_errors", "0"),
            |lane| {
                let mut client = lane.client();
                for _ in 0..15 {
                    let plain = client.get("/?do=plain");
                    assert_eq!((plain.status, plain.header("x-boot")), (201, Some("one")), "{buffering}");
                    assert_eq!(plain.text(), format!("{before}after"), "{buffering}");
                    assert_eq!(plain.all("set-cookie"), ["boot=v"], "{buffering}");
                    assert_eq!(plain.header("x-own"), None);
                    let headers = client.get("/?do=headers");
                    assert!(headers.text().starts_with(&before), "{buffering}");
                    if buffering == "65536" {
                        let names = ["x-boot", "x-own", "x-gone"].map(|name| headers.header(name));
                        assert_eq!((headers.status, names), (202, [Some("two"), Some("1"), None]));
                        assert_eq!(headers.text(), format!("{before}after"));
                        let redirect = client.get("/?do=redirect");
                        assert_eq!((redirect.status, redirect.header("location")), (201, Some("/x")));
                        // PHP makes a 500 of a 200 only.
                        assert_eq!(client.get("/?do=fatal").status, 201);
                    } else {
                        assert_eq!((headers.status, headers.header("x-boot")), (201, Some("one")), "{buffering}");
                    }
                }
            },
        );
    }
}

/// Exits, errors and exceptions end their own request, as under FPM.
#[test]
fn no_end_of_a_request_touches_the_next() {
    const CASES: &str = r#"
case 'fine': echo 'fine ', ++$count; break;
case 'exit': echo 'exit'; exit(3);
case 'deep_exit': array_map(function () { ob_start(); echo 'exit'; exit; }, [1]);
case 'fatal': echo 'x'; nowhere();
case 'exception': throw new LogicException('unseen');
case 'compile': eval('this is no PHP'); break;
case 'error': ini_set('memory_limit', memory_get_usage() + 4000000); $list = []; while (true) $list[] = str_repeat('x', 10000);
case 'shutdown': register_shutdown_function(function () { echo 'shut'; exit; }); register_shutdown_function(fn () => print('never')); echo 'down '; break;
case 'destructor': $held = new class { function __destruct() { throw new Exception('late'); } }; echo 'd'; break;
case 'callback': ob_start(function () { exit; }); echo 'never'; break;
case 'redeclare': eval('class A {}'); eval('class A {}'); break;
case 'halt': $fiber = new Fiber(function () { Fiber::suspend(); }); $fiber->start(); echo 'halt'; exit;
case 'generator': $generator = (function () { try { yield 1; } finally { echo 'finally'; } })(); $generator->current(); break;
case 'cycle': $a = new stdClass; $a->a = $a; $a->b = new class { function __destruct() { echo 'gone'; } }; unset($a); break;
case 'finish': echo 'sent'; reprise_finish_request(); echo 'unseen'; file_put_contents(getenv('PLACE') . '/finished', 'f', FILE_APPEND); break;
"#;
    let boot = "$count = 0; set_exception_handler(null); register_shutdown_function(function () { echo ' .'; });";
    both(
        || snapshot(boot, CASES).ini("display_errors", "0"),
        |lane| {
            let mut client = lane.client();
            let ends = [
                ("exit", 200, "exit ."),
                ("deep_exit", 200, "exit ."),
                ("fatal", 500, "x ."),
                ("exception", 500, " ."),
                ("compile", 500, " ."),
                ("error", 500, " ."),
                ("shutdown", 200, "down  .shut"),
                ("destructor", 500, "d ."),
                ("redeclare", 500, " ."),
                ("halt", 200, "halt ."),
                ("generator", 200, " .finally"),
                ("cycle", 200, " .gone"),
                ("finish", 200, "sent"),
            ];
            for round in 0..6 {
                for (name, status, body) in ends {
                    let answer = client.get(&format!("/?do={name}"));
                    assert_eq!((answer.status, answer.text().as_str()), (status, body), "{name} in round {round}");
                    assert_eq!(client.get("/?do=fine").text(), "fine 1 .", "after {name} in round {round}");
                }
                client.get("/?do=callback");
                assert_eq!(client.get("/?do=fine").text(), "fine 1 .", "after callback in round {round}");
            }
            let finished = std::fs::read(lane.directory().join("place/finished")).unwrap();
            assert_eq!(finished.len(), 6, "what comes behind finish_request runs, once");
        },
    );
}

/// A request from a snapshot sends each flushed part at once.
#[test]
fn answers_stream() {
    let cases = "case 'stream': for ($i = 0; $i < 3; $i++) { echo \"part $i\\n\"; while (ob_get_level()) ob_end_flush(); flush(); while (!file_exists(getenv('PLACE') . \"/go$i\")) { usleep(2000); clearstatcache(); } } break;\ncase 'big': for ($i = 0; $i < 40; $i++) echo str_repeat(chr(65 + $i), 100000); break;\n";
    both(
        || snapshot("", cases),
        |lane| {
            let mut client = lane.client();
            client.send(b"GET /?do=stream HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert_eq!(client.read_head().unwrap().status, 200);
            for number in 0..3 {
                let part = client.read_chunk().unwrap().unwrap();
                assert_eq!(String::from_utf8_lossy(&part), format!("part {number}\n"));
                std::fs::write(lane.directory().join(format!("place/go{number}")), "").unwrap();
            }
            assert_eq!(client.read_chunk().unwrap(), None);
            for _ in 0..5 {
                let big = client.get("/?do=big").body;
                assert_eq!(big.len(), 4_000_000);
                assert!(big.chunks(100_000).enumerate().all(|(n, part)| part.iter().all(|&b| b == 65 + n as u8)));
            }
        },
    );
}

/// A lane that nobody asked for yet has booted all the same; an application without the function has none.
#[test]
fn an_application_without_the_function_is_classic() {
    let server = Setup::empty().file("index.php", "<?php echo reprise_info()['mode'];").start();
    assert_eq!(server.get("/").text(), "classic");
}
