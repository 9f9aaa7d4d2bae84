//! `shutdown_delay`: a load balancer learns that a server is about to stop, and while it learns that, the server serves on.

use nix::sys::signal::Signal;
use tests::server::free_port;
use tests::{Client, Server, Setup, client, process, wait_until};

const SCRIPT: &str = "<?php echo 'here';";

/// A server with that delay, and the port of its admin listener.
fn start(delay: &str) -> (Server, u16) {
    let port = free_port();
    let options = format!("shutdown_delay = \"{delay}\"\nadmin_listen = [\"http://127.0.0.1:{port}\"]");
    (Setup::empty().file("index.php", SCRIPT).server(&options).start(), port)
}

/// What the load balancer gets.
fn readiness(port: u16) -> (u16, String) {
    let response = Client::new(port).get("/readyz");
    (response.status, response.text())
}

/// Until the delay is over, requests on old and new connections are served, and told that the connection ends; /readyz says that no new
/// client shall come, and nothing is reloaded. Then the server drains by itself.
#[test]
fn it_serves_on_and_says_that_it_leaves() {
    let (mut server, admin) = start("3s");
    let mut kept = server.client();
    assert_eq!((kept.get("/").text().as_str(), readiness(admin).0), ("here", 200));
    server.signal(Signal::SIGTERM);
    wait_until("it is not ready any more", 10, || readiness(admin) == (503, "stopping\n".to_owned()));
    for client in [&mut kept, &mut server.client()] {
        let response = client.get("/");
        assert_eq!((response.text().as_str(), response.header("connection")), ("here", Some("close")));
    }
    assert!(server.reprise(&["status"]).0.contains(", leaving,"), "{}", server.reprise(&["status"]).0);
    let (said, code) = server.reprise(&["status", "--ready"]);
    assert!(code == 1 && said.contains("not ready: the server is leaving"), "{code} {said}");
    let (reloaded, said) = server.reload();
    assert!(!reloaded && said.contains("the server is stopping"), "{said}");
    assert_eq!(server.wait(20), 0, "{}", server.log());
    let log = server.log();
    let at = |words: &str| log.find(words).unwrap_or_else(|| panic!("no {words:?} in {log}"));
    assert!(at("serving on for 3s (shutdown_delay)") < at("shutdown_delay is over: draining, at most"), "{log}");
}

/// A second signal ends the delay; requests that have begun are finished.
#[test]
fn a_second_signal_ends_the_delay() {
    let (mut server, admin) = start("1h");
    server.signal(Signal::SIGTERM);
    wait_until("it is not ready any more", 10, || readiness(admin).0 == 503);
    assert_eq!(server.get("/").text(), "here");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0, "{}", server.log());
    assert!(server.log().contains(": draining, at most"), "{}", server.log());
}

/// A front that dies meanwhile is replaced, and the new one says the same.
#[test]
fn a_new_front_leaves_too() {
    let (server, admin) = start("1h");
    server.signal(Signal::SIGTERM);
    wait_until("it is not ready any more", 10, || readiness(admin).0 == 503);
    let front = server.front().expect("a front");
    process::kill(front, Signal::SIGKILL);
    wait_until("there is another front", 20, || server.front().is_some_and(|now| now != front));
    wait_until("it leaves, too", 20, || {
        let response = client::connect(admin).ok().map(|stream| Client::over(stream, "a.example"));
        let response = response.and_then(|mut client| client.try_request("GET", "/readyz", &[], b"").ok());
        response.is_some_and(|response| response.status == 503)
    });
    let response = server.get("/");
    assert_eq!((response.text().as_str(), response.header("connection")), ("here", Some("close")));
}
