//! Worker scripts that do what they must not: each costs its own request at most, the log says what it was, and the next
//! request is served.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use tests::{Server, Setup, process, wait_until};

/// A script of one worker, with this text before its loop and these cases by `?do=name`; `$n` counts requests.
fn looped(boot: &str, cases: &str) -> Server {
    let script = format!(
        "<?php {boot}\n$n = 0;\n$handler = function () use (&$n) {{ $n++; switch ($_GET['do'] ?? '') {{ {cases}
        case 'pid': echo getmypid(); break; default: echo 'served by ', reprise_info()['mode']; }} }};\n$call = $handler;
        while (reprise_handle_request($call)) {{ if ($n >= 5 && isset($break)) {{ $break($call); }} }}"
    );
    let setup = Setup::empty().file("index.php", script).application("mode.\"index.php\" = \"worker\"");
    // From 8.3 on PHP ends deep recursion in C itself, unless this forbids it.
    let setup = setup.ini("zend.max_allowed_stack_size", "-1");
    setup.application("workers = 1").ini("display_errors", "0").ini("ffi.enable", "1").start()
}

fn serves(server: &Server, what: &str) {
    let mut client = server.client();
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, "served by worker"), "{what}");
        assert_eq!(answer.header("x-boot"), None);
    }
}

fn says(server: &Server, word: &str) {
    wait_until(word, 10, || server.log().contains(word));
}

/// Each fault of a request costs only that request, and the log names it.
#[test]
fn a_bad_request_costs_itself_and_is_told() {
    let boot = "$GLOBALS['c'] = FFI::cdef('int close(int);'); function deep() { array_map('deep', [1]); }";
    let cases = r#"
        case 'memory': ini_set('memory_limit', '8M'); str_repeat('x', 100 << 20); break;
        case 'recursion': ini_set('memory_limit', '32M'); $f = function () use (&$f) { return $f() + 1; }; $f();
        case 'native': ini_set('memory_limit', '-1'); deep();
        case 'header': header('X-A: ' . str_repeat('a', 8 << 20)); echo 'x'; break;
        case 'headers': for ($i = 0; $i < 200; $i++) header("X-H$i: " . str_repeat('h', 41000)); echo 'x'; break;
        case 'close': for ($i = 0; $i < 2000; $i++) $GLOBALS['c']->close($i); echo 'x'; break;
    "#;
    let bailout = "recycled: bailout: a request ended by a fatal error";
    for (what, status, keeps_worker, words) in [
        ("memory", 500, false, ["Allowed memory size of 8388608 bytes exhausted", bailout]),
        ("recursion", 500, false, ["Allowed memory size of 33554432 bytes exhausted", bailout]),
        ("native", 502, false, ["app was killed by SIGSEGV", ""]),
        ("header", 500, true, ["Response headers too large: more than 262144 bytes; the response is 500", ""]),
        ("headers", 500, true, ["Response headers too large: more than 262144 bytes; the response is 500", ""]),
        ("close", 200, false, ["exited with code 90 (a request closed the worker's own descriptors)", ""]),
    ] {
        let server = looped(boot, cases);
        let pid = server.get("/?do=pid").text();
        for _ in 0..3 {
            let answer = server.get(&format!("/?do={what}"));
            assert_eq!(answer.status, status, "{what}: {}", answer.text());
            serves(&server, what);
        }
        words.iter().for_each(|word| says(&server, word));
        assert_eq!(server.get("/?do=pid").text() == pid, keeps_worker, "{what}");
    }
}

/// Children that a request leaves: one that waits, one that comes back into the loop.
#[test]
fn what_a_request_forks_is_no_worker() {
    let cases = "case 'wait': if (($pid = pcntl_fork()) === 0) { while (true) { sleep(60); } } echo $pid; break;
        case 'back': if (pcntl_fork() === 0) { echo 'never shown'; return; } echo 'parent'; break;";
    let server = looped("", cases);
    let pid = server.get("/?do=pid").text();
    for _ in 0..3 {
        let child: i32 = server.get("/?do=wait").text().parse().unwrap();
        assert_eq!(server.get("/?do=back").text(), "parent");
        serves(&server, "forks");
        assert!(process::is_alive(child), "as under PHP-FPM");
        process::kill(child, Signal::SIGKILL);
    }
    assert_eq!(server.get("/?do=pid").text(), pid);
}

/// Output, headers and status from before the loop are in no response, and the log says so.
#[test]
fn what_stands_before_the_loop_is_in_no_answer() {
    let server = looped("echo str_repeat('written before ', 2000); header('X-Boot: 1'); http_response_code(404);", "");
    serves(&server, "output before the loop");
    says(&server, "/index.php: output before the request loop is discarded");
}

/// A handler that is none any more, in the middle of the loop: the script ends, as any does for that, and the next begins.
#[test]
fn a_handler_that_is_no_callable_ends_its_script() {
    let server = looped("$break = function (&$call) { $call = 'no_such_function'; };", "");
    let first = server.get("/?do=pid").text();
    for _ in 0..8 {
        serves(&server, "no callable");
    }
    says(&server, "reprise_handle_request(): Argument #1 ($handler) must be a valid callback");
    assert_ne!(server.get("/?do=pid").text(), first);
}

/// Between two requests no limit of a request applies.
#[test]
fn a_script_that_does_not_come_back_to_its_loop_is_ended() {
    let script = "<?php\nwhile (reprise_handle_request(function () { echo 'done ', getmypid(); })) {\n\
                  if (file_exists(getenv('FLAG'))) { touch(getenv('FLAG') . '.seen'); for (;;) usleep(1000); } }\n";
    let setup = Setup::empty().file("index.php", script).application("workers = 1\nboot_timeout = \"1s\"");
    // The script says there that it hangs.
    std::fs::set_permissions(setup.directory(), std::fs::Permissions::from_mode(0o777)).expect("permissions");
    let flag = setup.directory().join("flag");
    let name = flag.to_str().expect("a name").to_owned();
    let server = setup.application("mode.\"index.php\" = \"worker\"").env("FLAG", &name).start();
    std::fs::write(&flag, "").expect("a flag");
    let first = server.get("/").text();
    wait_until("the script hangs", 10, || flag.with_extension("seen").exists());
    std::fs::remove_file(&flag).expect("no flag");
    let answer = server.get("/");
    assert!(answer.status == 200 && answer.text() != first, "{}", answer.text());
    assert!(server.log().contains("did not reach its loop within 1s and is killed"), "{}", server.log());
}
