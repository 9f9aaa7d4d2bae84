//! Forkers that are stopped: what they should reap is answered all the same.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::{Server, Setup, process, seconds, wait_for, wait_until};

/// Says which process has forked the worker: one that serves a single request may be gone when its response is here.
const HANG: &str = "if (isset($_GET['hang'])) while (true) usleep(100000); echo posix_getppid();";

fn start(before: &str, after: &str, lines: &str) -> Server {
    let script = format!("<?php {before} {HANG} {after}");
    let server = Setup::empty().file("index.php", script).application(lines).start();
    if !before.is_empty() {
        wait_until("it is booted", 30, || server.log().contains("is booted"));
    }
    server
}

/// Stops the process that forks the workers which answer, kills the one that runs a request, and waits for the answer.
fn stopped_forker(mode: &str, server: &Server, process_of: fn(i32) -> Option<i32>) -> Duration {
    let forker = process_of(server.get("/").text().parse().unwrap()).unwrap();
    let (answer, took) = std::thread::scope(|scope| {
        let request = scope.spawn(|| server.get("/?hang"));
        let busy = wait_for("a worker runs it", 20, || {
            let status = server.status(&["--all"]);
            let line = status.lines().find(|line| line.contains("GET /?hang"))?;
            line.split_whitespace().next()?.parse::<i32>().ok()
        });
        process::kill(forker, Signal::SIGSTOP);
        let began = Instant::now();
        process::kill(busy, Signal::SIGKILL);
        (request.join().unwrap(), began.elapsed())
    });
    assert_eq!(answer.status, 502, "{mode}: {answer:?}");
    assert!(took < seconds(16), "{mode}: {took:?}");
    wait_until("the forker is gone", 10, || !process::is_alive(forker));
    wait_until("another serves", 30, || server.get("/").status == 200);
    assert!(server.log().contains("which forks its workers, is killed: it has not replied for 10s"), "{mode}");
    took
}

/// If a worker dies while its forker is stopped, the request still ends in time, in every mode.
#[test]
fn a_request_whose_worker_dies_ends_though_its_forker_is_stopped() {
    let modes = [
        ("classic", "", "", ""),
        ("rewind", "reprise_snapshot();", "", ""),
        ("fork", "reprise_snapshot();", "", "isolation = \"fork\""),
        ("worker", "while (reprise_handle_request(function () {", "})) {}", ""),
    ];
    // All of them wait most of the time.
    std::thread::scope(|scope| {
        for (mode, before, after, lines) in modes {
            scope.spawn(move || {
                let server = start(before, after, lines);
                let took = stopped_forker(mode, &server, Some);
                println!("{mode}: answered {took:?} after its worker's death");
            });
        }
    });
}

/// A prototype that is stopped is killed and replaced, with its template.
#[test]
fn a_stopped_prototype_takes_its_template_with_it() {
    let server = start("reprise_snapshot();", "", "");
    stopped_forker("prototype", &server, process::parent);
}

/// A boot of eighteen seconds is not taken for a process that hangs.
#[test]
fn a_template_that_boots_for_long_is_not_taken_for_a_hung_one() {
    let script = "<?php if (isset($_SERVER['REPRISE_BOOT'])) sleep(18); reprise_snapshot(); echo 'booted';";
    let server = Setup::empty().file("index.php", script).application("mode.\"index.php\" = \"snapshot\"").launch();
    wait_until("it is booted", 60, || server.log().contains("is booted"));
    assert!(!server.log().contains("is killed"), "{}", server.log());
}
