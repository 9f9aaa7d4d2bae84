//! Server-sent events with very many idle clients: an upstream holds the streams, and PHP's workers are free for pages.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::server::{Setup, free_port};
use tests::status::sum;
use tests::{amount, process, wait_until};

use super::metric;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of events: it holds a stream for each client, without a thread of its own for each.
struct Events {
    port: u16,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Events {
    fn start() -> Events {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let taken = streams.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // The front sends a head at once.
                let head = read_until(&mut stream, "\r\n\r\n");
                assert!(head.starts_with("GET /events?"), "{head}");
                let mut streams = taken.lock().unwrap();
                stream.write_all(format!("{HEAD}data: first of {}\n\n", streams.len()).as_bytes()).unwrap();
                streams.push(stream);
            }
        });
        Events { port, streams }
    }

    /// Sends each client its next event. The front may have given a stream up.
    fn publish(&self) {
        for (number, stream) in self.streams.lock().unwrap().iter_mut().enumerate() {
            let _ = stream.write_all(format!("data: second of {number}\n\n").as_bytes());
        }
    }

    /// Whether the other side has closed all streams.
    fn are_closed(&self) -> bool {
        self.streams.lock().unwrap().iter_mut().all(|stream| {
            stream.set_nonblocking(true).unwrap();
            stream.read(&mut [0; 16]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |count| count == 0)
        })
    }
}

/// Reads until the text ends so.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.ends_with(end.as_bytes()) {
        let count = stream.read(&mut part).unwrap_or_else(|error| panic!("{error}: {}", text.escape_ascii()));
        assert!(count > 0, "it ended: {}", text.escape_ascii());
        text.extend_from_slice(&part[..count]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn thousands_of_idle_clients_of_events_hold_no_worker() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // Both ends of a stream are descriptors of this process, as they are of the front, which keeps some for itself.
    let count = amount(300, 5_000).min((soft.saturating_sub(1_000) / 2) as usize);
    let (admin, events) = (free_port(), Events::start());
    let rule =
        format!("upstream = \"http://127.0.0.1:{}\"\nconnections = {count}\nidle_timeout = \"10m\"", events.port);
    let server = Setup::empty()
        .file("index.php", "<?php echo 'PHP ', $_GET['n'];")
        .server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]"))
        .application("workers = 4")
        .route(&format!("path = \"/events\"\n{rule}"))
        .start();
    let front = server.front().unwrap();
    let pages = || {
        let asked = |number: usize| {
            let began = Instant::now();
            assert_eq!(server.get(&format!("/?n={number}")).text(), format!("PHP {number}"));
            began.elapsed()
        };
        (0..50).map(asked).max().unwrap()
    };
    pages();
    let before = process::anonymous_kib(front);
    let mut clients: Vec<(TcpStream, String)> = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = tests::client::connect(server.port).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("GET /events?{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        clients.push((stream, String::new()));
    }
    for (stream, name) in &mut clients {
        // An event is a chunk of its own.
        let text = read_until(stream, "\n\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("text/event-stream"), "{text}");
        let (_, event) = text.split_once("data: first of ").unwrap_or_else(|| panic!("{text}"));
        *name = event.trim_end().to_owned();
    }
    assert_eq!(metric(admin, "reprise_upstream_running"), count as u64);
    let (held, slowest) = (process::anonymous_kib(front), pages());
    assert!(slowest < tests::seconds(1), "a page beside {count} idle clients took {slowest:?}");
    // The bound of the places at the upstream holds: there is none for one more.
    assert_eq!(server.get("/events?more").status, 503);
    events.publish();
    for (stream, name) in &mut clients {
        let text = read_until(stream, "\n\n\r\n");
        assert!(text.contains(&format!("data: second of {name}\n\n")), "{name}: {text}");
    }
    println!(
        "{count} clients: {} KiB of the front for each, the slowest page took {slowest:?}",
        held.saturating_sub(before) as f64 / count as f64
    );
    // A client that has closed its connection may still read, as far as its system has said. The next event shows that it does not.
    drop(clients);
    wait_until("the front has given the streams up", 20, || {
        events.publish();
        metric(admin, "reprise_upstream_running") == 0
    });
    wait_until("the upstream knows", 20, || events.are_closed());
    wait_until("no connection of a client is left", 20, || sum(&server.status(&["--json"]), "connections") == 0);
    pages();
}
