//! Limits of requests, workers and clients; workers that come and go; what `reprise status` shows of all that.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::snapshot::{is_sanitized, rewind, snapshot};
use tests::status::{sum, workers_in};
use tests::{Client, Server, Setup, amount, process, wait_for, wait_until};

/// A handler in each mode, in a script that calls what it has to.
const MODES: [(&str, &str, &str); 3] = [
    ("classic", "(function () {", "})();"),
    ("snapshot", "reprise_snapshot(); (function () {", "})();"),
    ("worker", "while (reprise_handle_request(function () {", "})) {}"),
];

fn script(mode: (&str, &str, &str), body: &str) -> String {
    format!("<?php\n{}\n{body}\n{}\n", mode.1, mode.2)
}

/// A server whose index.php runs in that mode.
fn in_mode(mode: (&str, &str, &str), body: &str) -> Setup {
    let setup = Setup::empty().file("index.php", script(mode, body));
    if mode.0 == "classic" { setup } else { setup.application(&format!("mode.\"index.php\" = \"{}\"", mode.0)) }
}

fn pids(server: &Server, requests: usize) -> Vec<String> {
    let mut client = server.client();
    (0..requests)
        .map(|_| {
            let answer = client.get("/");
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.text()
        })
        .collect()
}

/// A worker ends after about `max_requests` requests, and no request is lost.
#[test]
fn workers_are_replaced_after_max_requests() {
    for mode in [MODES[0], MODES[2]] {
        let server = in_mode(mode, "echo getmypid();").application("workers = 1\nmax_requests = 20").start();
        let all = pids(&server, 200);
        let each: BTreeSet<&String> = all.iter().collect();
        // A tenth more or less.
        assert!((9..=12).contains(&each.len()), "{}: {} workers", mode.0, each.len());
        for pid in each {
            let count = all.iter().filter(|one| *one == pid).count();
            assert!(count <= 22, "{}: {count} requests by one", mode.0);
        }
        assert!(sum(&server.status(&["--json"]), "requests") > 8);
    }
}

/// A worker ends when it is older than `max_age`.
#[test]
fn workers_are_replaced_when_they_are_old() {
    let server = in_mode(MODES[0], "echo getmypid();").application("workers = 1\nmax_age = \"1s\"").start();
    let first = pids(&server, 1);
    wait_until("another worker", 20, || pids(&server, 1) != first);
    assert!(sum(&server.status(&["--json"]), "age") >= 1);
}

/// A worker that holds more than `max_memory` after a request ends.
#[test]
fn workers_that_hold_too_much_are_replaced() {
    let leak = "$GLOBALS['all'][] = str_repeat('x', 4 << 20); echo getmypid();";
    let server =
        in_mode(MODES[2], leak).application("workers = 1\nmax_memory = \"64M\"").ini("memory_limit", "1G").start();
    let all = pids(&server, 60);
    let each: BTreeSet<&String> = all.iter().collect();
    assert!((3..=12).contains(&each.len()), "{} workers for 240 MB", each.len());
    assert!(sum(&server.status(&["--json"]), "memory") >= 2);
    assert!(server.log().contains("recycled: memory"), "{}", server.log());
}

/// After `soft_timeout` PHP ends the request itself, with shutdown functions and a trace, in every mode.
#[test]
fn php_itself_ends_what_runs_over_the_soft_limit() {
    let body = "function work() { if (isset($_GET['sleep'])) { for (;;) usleep(1000); } for (;;); }\n\
                register_shutdown_function(function () { error_log('shut down by itself'); });\n\
                if (isset($_GET['quick'])) { echo getmypid(); return; } work();";
    // A function that is declared inside a handler would be declared twice.
    let body = body
        .replace("function work()", "$work = function ()")
        .replace("} for (;;); }", "} for (;;); };")
        .replace("work();", "$work();");
    for mode in MODES {
        let setup = in_mode(mode, &body).application("workers = 1\nlimits.\"/slow\" = { soft_timeout = \"300ms\" }");
        let server = setup.ini("max_execution_time", "0").start();
        wait_until("the mode", 20, || server.get("/?quick").status == 200);
        let before = server.get("/?quick").text();
        for path in ["/slow", "/slow/below?sleep"] {
            let began = Instant::now();
            let answer = server.get(path);
            assert_eq!(answer.status, 500, "{}: {}", mode.0, answer.text());
            assert!(began.elapsed() < tests::seconds(5), "{}: {path} took {:?}", mode.0, began.elapsed());
        }
        let words = ["ran over its soft_timeout", "Stack trace:", "{closure", "index.php", "shut down by itself"];
        wait_until("both are in the log", 10, || words.iter().all(|words| server.log().matches(words).count() >= 2));
        let after = server.get("/?quick").text();
        let ends = mode.0 == "worker" || mode.0 == "snapshot" && is_sanitized();
        assert_eq!(before == after, !ends, "{}: a fatal error ends a worker of a script alone, and a fork", mode.0);
    }
}

/// A path with a `request_timeout` of its own may run longer than the others.
#[test]
fn a_path_may_have_more_time_than_the_others() {
    let body = "usleep(1_500_000); echo 'done';";
    let setup = in_mode(MODES[0], body)
        .application("workers = 4\nrequest_timeout = \"500ms\"\nlimits.\"/export\" = { request_timeout = \"10s\" }");
    let server = setup.start();
    assert_eq!(server.get("/").status, 504);
    assert_eq!(server.get("/export/all").text(), "done");
}

/// A client's requests over `client_requests` are 429, and other clients are served.
#[test]
fn a_client_has_no_more_requests_than_it_may() {
    let setup = in_mode(MODES[0], "if (isset($_GET['slow'])) usleep(700_000); echo 'done';");
    let server = setup.application("workers = 8\nclient_requests = 2").server("proxies = [\"127.0.0.1\"]").start();
    let ask = &|client: &str, path: &str| {
        let answer = server.client().request("GET", path, &[("X-Forwarded-For", client)], b"");
        (answer.status, answer.header("retry-after").map(str::to_owned))
    };
    std::thread::scope(|scope| {
        // Pages of their own: who waits for another's response has no request that runs.
        let slow: Vec<_> = (0..6).map(|n| scope.spawn(move || ask("192.0.2.1", &format!("/?slow={n}")))).collect();
        let statuses: Vec<_> = slow.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(statuses.iter().filter(|(status, _)| *status == 200).count(), 2, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|one| **one == (429, Some("1".to_owned()))).count(), 4, "{statuses:?}");
    });
    std::thread::scope(|scope| {
        let slow: Vec<_> = (2..8).map(|n| scope.spawn(move || ask(&format!("192.0.2.{n}"), "/?slow").0)).collect();
        assert!(slow.into_iter().all(|one| one.join().unwrap() == 200));
    });
    assert!((0..9).all(|_| ask("192.0.2.1", "/").0 == 200));
}

/// The number of workers follows the load between `min_workers` and `workers`, in every mode.
#[test]
fn workers_come_with_a_burst_and_go_when_it_is_quiet() {
    for mode in MODES {
        let setup = in_mode(mode, "if (isset($_GET['slow'])) usleep(400_000); echo getmypid();");
        let server = setup.application("workers = 12\nmin_workers = 1").start();
        let live = || sum_of_workers(&server, mode.0);
        wait_until("the least", 20, || live() == 1);
        let began = Instant::now();
        let used: BTreeSet<String> = std::thread::scope(|scope| {
            let burst: Vec<_> = (0..12).map(|_| scope.spawn(|| Client::new(server.port).get("/?slow"))).collect();
            burst.into_iter().map(|one| one.join().unwrap()).map(|one| one.text()).collect()
        });
        // One worker would take 4.8 seconds, and twelve from the beginning 0.4.
        assert!(began.elapsed() < Duration::from_millis(4000), "{}: {:?}", mode.0, began.elapsed());
        assert!(used.len() >= 6, "{}: {} workers", mode.0, used.len());
        if mode.0 == "classic" {
            wait_until("most of them go", 40, || live() <= 3);
            assert_eq!(server.get("/").status, 200);
        }
    }
}

/// Workers of the classic lane and of the other, one moment.
fn workers_of_both(server: &Server, mode: &str) -> (usize, usize) {
    let status = server.status(&["--json"]);
    (workers_in(&status, "classic"), workers_in(&status, mode))
}

/// Sets it at the end, however that comes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ten clients for each path ask for it again and again until that holds of the workers, which are never more than six. Who has
/// answered, and the workers at the end.
fn under_load(
    server: &Server,
    mode: &str,
    paths: &[&str],
    mut is_reached: impl FnMut((usize, usize)) -> bool,
) -> (BTreeSet<String>, (usize, usize)) {
    let (is_over, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let ask = |path: &str| {
            let (mut client, mut pids) = (Client::new(server.port), BTreeSet::new());
            while !is_over.load(Ordering::Relaxed) {
                let answer = client.get(path);
                assert_eq!(answer.status, 200, "{mode}: {path}: {}", answer.text());
                pids.insert(answer.text());
            }
            pids
        };
        let clients = (0..10 * paths.len()).map(|number| scope.spawn(move || ask(paths[number % paths.len()])));
        let clients: Vec<_> = clients.collect();
        let mut seen = workers_of_both(server, mode);
        while seen.0 + seen.1 <= 6 && !is_reached(seen) && began.elapsed() < tests::seconds(20) {
            seen = workers_of_both(server, mode);
        }
        drop(over);
        let pids = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(seen.0 + seen.1 <= 6, "{mode}: {seen:?}");
        (pids, seen)
    })
}

/// Lanes share `max_workers` by their load.
#[test]
fn lanes_share_max_workers_by_need() {
    for mode in &MODES[1..] {
        let body = "usleep(1000 * (int) ($_GET['ms'] ?? 0)); echo getmypid();";
        let setup = in_mode(*mode, body).file("classic.php", script(MODES[0], body));
        // What takes long at the end is given up.
        let server = setup.server("drain_timeout = \"1s\"").application("max_workers = 6").start();
        wait_until("one of each", 20, || workers_of_both(&server, mode.0) == (1, 1));
        let reach = |paths: &[&str], what: &str, wanted: &dyn Fn((usize, usize)) -> bool| {
            let (_, seen) = under_load(&server, mode.0, paths, wanted);
            assert!(wanted(seen), "{}: {what}: {seen:?}", mode.0);
        };
        reach(&["/classic.php?ms=50"], "all but one for classic", &|(classic, _)| classic == 5);
        // Soon, not when the others have been idle for ten seconds.
        let began = Instant::now();
        reach(&["/?ms=50"], "and then for the other", &|(_, other)| other == 5);
        assert!(began.elapsed() < tests::seconds(3), "{}: {:?}", mode.0, began.elapsed());
        // Two that take long do not keep the places of the others.
        let long: Vec<Client> = (0..2)
            .map(|_| {
                let mut client = server.client();
                client.send(b"GET /?ms=30000 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                client
            })
            .collect();
        reach(&["/?ms=50", "/classic.php?ms=50"], "half for each", &|seen| seen == (3, 3));
        drop(long);
    }
}

/// Short bursts do not move workers from lane to lane all the time.
#[test]
fn places_do_not_go_to_and_fro() {
    for mode in &MODES[amount(2, 1)..] {
        let body = "usleep(1000 * (int) ($_GET['ms'] ?? 0)); echo getmypid();";
        let setup = in_mode(*mode, body).file("classic.php", script(MODES[0], body));
        let server = setup.application("max_workers = 6\nmin_workers = 2").start();
        wait_until("the least of each", 20, || workers_of_both(&server, mode.0) == (2, 2));
        let began = Instant::now();
        let is_over = AtomicBool::new(false);
        let (pids, _) = std::thread::scope(|scope| {
            let over = Over(&is_over);
            // Bursts of three, beside a lane that has more to do than all workers can.
            let bursts: Vec<_> = (0..3)
                .map(|_| {
                    let is_over = &is_over;
                    let mut client = server.client();
                    scope.spawn(move || {
                        while !is_over.load(Ordering::Relaxed) {
                            assert_eq!(client.get("/?ms=5").status, 200);
                            std::thread::sleep(Duration::from_millis(40));
                        }
                    })
                })
                .collect();
            let outcome = under_load(&server, mode.0, &["/classic.php?ms=20"], |(classic, other)| {
                assert!(other >= 2 || mode.0 == "snapshot", "{}: {classic} and {other}", mode.0);
                began.elapsed() > Duration::from_secs(3)
            });
            drop(over);
            bursts.into_iter().for_each(|burst| burst.join().unwrap());
            outcome
        });
        // Classic has two to four of them, and one change each tenth of a second at most.
        let most = 10 + began.elapsed().as_millis() as usize / 100;
        assert!((2..most).contains(&pids.len()), "{}: {} workers, expected {most} at most", mode.0, pids.len());
    }
}

/// Workers of the lanes of a mode.
fn sum_of_workers(server: &Server, mode: &str) -> usize {
    workers_in(&server.status(&["--json"]), mode)
}

/// `reprise status` shows the request of a worker, without control characters, in every mode.
#[test]
fn the_status_shows_who_does_what() {
    let body = "if (isset($_GET['slow'])) { for ($i = 0; $i < 300; $i++) usleep(10_000); } echo 'done';";
    for mode in MODES {
        let server = in_mode(mode, body).application("workers = 2").start();
        let mut slow = server.client();
        slow.send(b"GET /?slow=1&secret=\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n").ok();
        slow.send(b"").ok();
        drop(slow);
        let mut slow = server.client();
        slow.send(b"GET /page?slow=1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let text = wait_for("the request is shown", 20, || {
            let text = server.status(&[]);
            // Before it runs it is starting.
            let runs = |line: &str| line.contains("GET /page?slow=1") && line.contains("running");
            text.lines().any(runs).then_some(text)
        });
        let line = text.lines().find(|line| line.contains("GET /page?slow=1")).unwrap();
        assert!(line.contains("running") && !text.contains('\x1b'), "{text}");
        for words in ["generation 1, serving", "LANE", "WAITING", mode.0] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        // Where each request has a process of its own, the idle one may still be forked.
        let words = ["\"request\":\"GET /page?slow=1\"", "\"state\":\"idle\"", "\"cpu_seconds\":", "\"waiting\":0"];
        wait_until("all of it is in the JSON", 20, || {
            let json = server.status(&["--json"]);
            words.iter().all(|words| json.contains(words))
        });
        assert_eq!(slow.read(false).unwrap().text(), "done");
    }
}

// The two that follow wait for half a minute, as the burst above does: here they do so at the same time.

/// Whoever drains when the supervisor is killed gives up later all the same, though a request never ends.
#[test]
fn a_supervisor_killed_while_it_drains_leaves_nothing_behind() {
    let script = "<?php file_put_contents(getenv('FLAG'), 'x'); for (;;) { usleep(1000); }";
    let setup = Setup::empty().file("index.php", script);
    let flag = setup.directory().join("flag");
    std::fs::write(&flag, "").unwrap();
    std::fs::set_permissions(&flag, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let name = flag.to_str().unwrap().to_owned();
    let server = setup.env("FLAG", &name).start();
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the script runs", 20, || std::fs::read_to_string(&flag).is_ok_and(|text| text == "x"));
    let all = server.processes();
    server.signal(Signal::SIGTERM);
    wait_until("the drain", 10, || server.log().contains("draining"));
    process::kill(server.pid(), Signal::SIGKILL);
    wait_until("everything ends", 60, || !all[1..].iter().any(|&pid| process::is_alive(pid)));
}

/// What requests have written stays a clone's own; one that is left alone gives it back, by leaving its place to another.
#[test]
fn idle_clones_give_their_memory_back() {
    let boot = "$pages = []; for ($i = 0; $i < 1000; $i++) $pages[] = str_repeat('a', 4000);\n";
    let cases = "case 'write': foreach ($pages as $i => $_) $pages[$i][0] = 'b'; echo getmypid(); break;\n";
    rewind(
        || snapshot(boot, cases),
        |lane| {
            let mut pids: Vec<i32> = (0..6).flat_map(|_| lane.pair("write")).map(|pid| pid.parse().unwrap()).collect();
            pids.sort_unstable();
            pids.dedup();
            wait_until("no clone is left that has served", 90, || pids.iter().all(|&pid| !process::is_alive(pid)));
            for pid in lane.pair("write") {
                assert!(!pids.contains(&pid.parse().unwrap()), "{pid} of {pids:?}");
            }
            assert_eq!(lane.recycled("idle"), pids.len() as u64);
            assert!(!lane.log().contains("recycled"), "{}", lane.log());
        },
    );
}
