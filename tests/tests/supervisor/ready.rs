//! "ready" is said once, when it is true: visitors who come before wait, and none is served in another mode than `mode` says.

use std::fs;

use tests::client::connect;
use tests::{Client, Server, Setup, wait_for};

/// A boot that takes a while and then says that it is over.
const BOOT: &str = "usleep(600000); file_put_contents(getenv('PLACE') . '/booted', getmypid() . \"\\n\", FILE_APPEND);";

fn setup(mode: &str) -> Setup {
    let answer = "echo reprise_info()['mode'];";
    let script = match mode {
        "worker" => format!("<?php {BOOT} while (reprise_handle_request(function () {{ {answer} }})) {{}}"),
        _ => format!("<?php {BOOT} reprise_snapshot(); {answer}"),
    };
    let setup = Setup::empty().file("index.php", script).application("workers = 3");
    let setup = setup.application(&format!("mode.\"index.php\" = \"{mode}\""));
    let place = setup.writable("place");
    setup.env("PLACE", &place)
}

/// Boots that were over when the log said "ready".
fn booted_when_ready(server: &Server) -> usize {
    wait_for("it is ready", 30, || server.log().contains("ready after").then_some(()));
    fs::read_to_string(server.directory().join("place/booted")).unwrap_or_default().lines().count()
}

/// "ready" comes once, after all workers of a worker script have booted.
#[test]
fn ready_is_said_when_the_workers_of_a_script_have_booted() {
    let server = setup("worker").launch();
    // The trial, then each of the three by itself.
    assert_eq!(booted_when_ready(&server), 4, "{}", server.log());
    let log = server.log();
    assert_eq!(log.matches("ready after").count(), 1, "{log}");
    assert!(!log.contains("listening"), "{log}");
    assert_eq!(server.get("/").text(), "worker");
}

/// Clients that connect during the boot wait, and are served in the configured mode.
#[test]
fn visitors_who_come_while_it_boots_wait_for_the_mode_that_is_configured() {
    for mode in ["worker", "snapshot"] {
        let server = setup(mode).launch();
        let port = server.port;
        let answers: Vec<String> = std::thread::scope(|scope| {
            let ask = |_| {
                scope.spawn(move || {
                    let stream = wait_for("its port is bound", 20, || connect(port).ok());
                    Client::over(stream, "a.example").get("/").text()
                })
            };
            let visitors: Vec<_> = (0..6).map(ask).collect();
            visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer == mode), "{mode}: {answers:?}\n{}", server.log());
    }
}

/// A front that takes the place of another finds everything booted, or waits for it.
#[test]
fn a_front_that_begins_anew_serves_no_request_in_another_mode() {
    let server = setup("worker").start();
    let front = server.front().expect("a front");
    tests::process::kill(front, nix::sys::signal::Signal::SIGKILL);
    let answer = wait_for("another front", 20, || {
        let stream = connect(server.port).ok()?;
        Client::over(stream, "a.example").try_request("GET", "/", &[], b"").ok()
    });
    assert_eq!(answer.text(), "worker");
}
