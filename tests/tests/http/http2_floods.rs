//! Attacks on HTTP/2: each ends with its connection, and others are served meanwhile.

use std::time::Duration;

use tests::client::Client;
use tests::http2::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, Http2, INITIAL_WINDOW, PING,
    REFUSED_STREAM, RST_STREAM, SETTINGS, fields, frame, get,
};
use tests::server::{Server, Setup, free_port};
use tests::{amount, process, wait_until};

const SCRIPT: &str = "<?php
file_put_contents(getenv('MARKS'), $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND);
if (isset($_GET['kib'])) {
    header('X-Accel-Buffering: no');
    for ($i = 0; $i < $_GET['kib']; $i++) { echo str_repeat('x', 1024); }
}
echo 'served';";

struct Attacked {
    server: Server,
    admin: u16,
}

impl Attacked {
    fn with(server: &[&str], application: &str) -> Attacked {
        let admin = free_port();
        let setup = Setup::empty().file("index.php", SCRIPT).file("large.bin", vec![7; 300_000]);
        let marks = format!("{}/all", setup.writable("marks"));
        let setup = setup.env("MARKS", &marks).server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]"));
        let setup = server.iter().fold(setup, |setup, line| setup.server(line));
        Attacked { server: setup.application(application).start(), admin }
    }

    fn start() -> Attacked {
        Attacked::with(&[], "workers = 2")
    }

    fn connect(&self) -> Http2 {
        Http2::new(self.server.port)
    }

    fn count(&self, reason: &str) -> u64 {
        let metrics = Client::new(self.admin).get("/metrics").text();
        let name = format!("reprise_http2_limits_total{{reason=\"{reason}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).expect("the metric")
    }

    fn ran(&self) -> usize {
        std::fs::read_to_string(self.server.directory().join("marks/all")).unwrap_or_default().lines().count()
    }

    fn front_kib(&self) -> u64 {
        process::anonymous_kib(self.server.front().expect("the front"))
    }

    fn serves_others(&self) {
        let mut client = self.connect();
        client.request(1, &get("/?other"));
        assert_eq!(client.answer(1).body, b"served");
    }
}

/// Sends until the server closes, which it has to do before all is sent and answered. The code of its GOAWAY.
fn flood(client: &mut Http2, parts: impl Iterator<Item = Vec<u8>>) -> Option<u32> {
    for part in parts {
        if client.send(&part).is_err() {
            break;
        }
    }
    client.end()
}

#[test]
fn streams_that_are_reset_at_once_end_their_connection() {
    let attacked = Attacked::start();
    let mut client = attacked.connect();
    // Each batch is read as a whole: the reset is known before the request is taken.
    let both = |number: u32| {
        let stream = 2 * number + 1;
        [
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/")),
            frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()),
        ]
        .concat()
    };
    let whole: Vec<u8> = (0..5_000).flat_map(both).collect();
    assert_eq!(flood(&mut client, std::iter::once(whole)), Some(ENHANCE_YOUR_CALM));
    // Here requests are taken before they are reset.
    let mut client = attacked.connect();
    for number in 0..400u32 {
        let stream = 2 * number + 1;
        let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/?kib=1000"));
        if client.send(&head).is_err() || client.goaway.is_some() {
            break;
        }
        while !client.answers.contains_key(&stream) && client.read().is_ok() {}
        if client.send(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())).is_err() {
            break;
        }
    }
    assert_eq!((client.end(), attacked.count("resets")), (Some(ENHANCE_YOUR_CALM), 1));
    assert!(attacked.ran() < 400, "{} requests have run", attacked.ran());
    attacked.serves_others();
}

/// The client makes the server reset streams, by errors of its own.
#[test]
fn streams_that_the_server_has_to_reset_end_their_connection() {
    let attacked = Attacked::start();
    let mut client = attacked.connect();
    let both = |number: u32| {
        let stream = 2 * number + 1;
        // A window larger than 2^31 - 1 is an error of the stream (RFC 9113 §6.9.1).
        let more = frame(8, 0, stream, &0x7fff_ffffu32.to_be_bytes());
        [frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/")), more].concat()
    };
    assert_eq!(flood(&mut client, (0..20_000).map(both)), Some(ENHANCE_YOUR_CALM));
    assert!(attacked.ran() < 1_000, "{} requests have run", attacked.ran());
    attacked.serves_others();
}

#[test]
fn heads_without_end_end_their_connection() {
    let attacked = Attacked::start();
    let before = attacked.front_kib();
    let mut client = attacked.connect();
    let begin = frame(HEADERS, END_STREAM, 1, &get("/"));
    let more = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &fields(&[("x", &"y".repeat(16_000))])), 1_000);
    assert_eq!(flood(&mut client, std::iter::once(begin.clone()).chain(more)), Some(ENHANCE_YOUR_CALM));
    let mut client = attacked.connect();
    let empty = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &[]), 100_000);
    assert_eq!(flood(&mut client, std::iter::once(begin).chain(empty)), Some(ENHANCE_YOUR_CALM));
    assert!(attacked.front_kib() < before + 20_000, "{} KiB, then {}", before, attacked.front_kib());
    attacked.serves_others();
}

#[test]
fn frames_that_carry_nothing_end_their_connection() {
    let attacked = Attacked::start();
    for (number, one) in [
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(2, 0, 1, &[0; 5]),
        frame(8, 0, 0, &[0, 0, 0, 1]),
        frame(99, 0, 0, &[0; 5]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = attacked.connect();
        assert_eq!(flood(&mut client, std::iter::repeat_n(one, 50_000)), Some(ENHANCE_YOUR_CALM), "{number}");
        assert_eq!(attacked.count("frames"), number as u64 + 1);
    }
    let mut client = attacked.connect();
    let post = fields(&[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")]);
    let begin = frame(HEADERS, END_HEADERS, 1, &post);
    let empty = std::iter::repeat_n(frame(DATA, 0, 1, &[]), 50_000);
    assert_eq!(flood(&mut client, std::iter::once(begin).chain(empty)), Some(ENHANCE_YOUR_CALM));
    attacked.serves_others();
}

/// A field in HPACK's table takes a byte to be repeated, and responses without a window keep each head.
#[test]
fn repeated_fields_are_limited() {
    let attacked = Attacked::start();
    let before = attacked.front_kib();
    let mut clients = Vec::new();
    for _ in 0..amount(50, 500) {
        let mut client = Http2::with(attacked.server.port, &[(INITIAL_WINDOW, 0)]);
        // A new entry of the table, and then thousands of references to it.
        let mut head = get("/large.bin");
        head.extend([0x40, 1, b'x', 0]);
        let entry = head.clone();
        client.request(1, &entry);
        let bomb = [&get("/large.bin")[..], &[0xbe; 400]].concat();
        let most = [&get("/large.bin")[..], &[0xbe; 200]].concat();
        for number in 1..100 {
            client.request(2 * number + 1, if number % 2 == 0 { &bomb } else { &most });
        }
        clients.push(client);
    }
    // Many more end the connection.
    let mut client = attacked.connect();
    let mut head = get("/");
    head.extend([0x40, 1, b'x', 0]);
    head.extend([0xbe; 16_000]);
    let whole = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head[..16_000]);
    assert_eq!(flood(&mut client, std::iter::once(whole)), Some(ENHANCE_YOUR_CALM));
    attacked.serves_others();
    for client in &mut clients {
        // The last of them has been read, so all have.
        while !client.answers.contains_key(&199) && client.read().is_ok() {}
    }
    let held = attacked.front_kib();
    assert!(held < 256 << 10, "{before} KiB before, {held} KiB then");
    attacked.serves_others();
}

/// Responses that nobody gives a window: what they hold is limited, and the connections end.
#[test]
fn responses_that_nobody_reads_hold_little_and_end() {
    let attacked = Attacked::with(&["send_timeout = \"5s\""], "workers = 2\nqueue = 3000\nqueue_timeout = \"60s\"");
    let before = attacked.front_kib();
    let connections = amount(100, 1_000);
    let mut clients: Vec<Http2> = Vec::new();
    for _ in 0..connections {
        let mut client = Http2::with(attacked.server.port, &[(INITIAL_WINDOW, 0)]);
        let heads = (0..100u32).map(|number| {
            let path = if number % 50 == 1 { "/?kib=60" } else { "/large.bin" };
            frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &get(path))
        });
        client.send(&heads.flatten().collect::<Vec<u8>>()).unwrap();
        clients.push(client);
    }
    let mut most = 0;
    wait_until("the connections have ended", 50, || {
        attacked.serves_others();
        most = most.max(attacked.front_kib());
        attacked.count("stalled-connection") + attacked.count("in-the-way") >= connections as u64
    });
    println!("{connections} connections with 100 streams: {before} KiB, at most {most} KiB");
    assert!(most < 256 << 10, "{before} KiB before, {most} KiB then");
    for client in &mut clients {
        assert_eq!(client.end(), Some(ENHANCE_YOUR_CALM));
        let is_fine = |reset: Option<u32>| reset.is_none_or(|code| [REFUSED_STREAM, CANCEL].contains(&code));
        assert!(client.answers.values().all(|answer| is_fine(answer.reset)));
    }
    drop(clients);
    wait_until("nothing is held", 10, || {
        Client::new(attacked.admin).get("/metrics").text().contains("reprise_http2_held_bytes 0\n")
    });
}

/// No worker waits for ever for a client that gives no window, though its connection is read and written.
#[test]
fn a_stream_without_a_window_holds_no_worker_for_ever() {
    let attacked = Attacked::with(&["send_timeout = \"2s\""], "workers = 1");
    let mut client = attacked.connect();
    client.give_window(0, 1 << 20).unwrap();
    // More than the window of a stream and the ring.
    client.request(1, &get("/?kib=2000"));
    client.request(3, &get("/large.bin"));
    // The other stream gets a little window from time to time: the connection does not stand still.
    client.wait_at_most(Duration::from_millis(300));
    wait_until("the stream is reset", 20, || {
        client.give_window(3, 1000).unwrap();
        while client.read().is_ok() {}
        client.answers.get(&1).is_some_and(|answer| answer.reset == Some(CANCEL))
    });
    assert_eq!((attacked.count("stalled-stream"), client.goaway), (1, None));
    client.wait_at_most(Duration::from_secs(60));
    client.request(5, &get("/?next"));
    client.give_window(0, 1 << 20).unwrap();
    assert_eq!(client.answer(5).body, b"served");
}

/// A client that begins more requests than it may has to repeat them; none of them has run.
#[test]
fn more_streams_than_allowed_are_refused() {
    let attacked = Attacked::with(&["http2_streams = 10"], "workers = 1");
    let mut client = Http2::with(attacked.server.port, &[(INITIAL_WINDOW, 0)]);
    let heads = (0..15u32).map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &get("/")));
    client.send(&heads.flatten().collect::<Vec<u8>>()).unwrap();
    for stream in (21..30).step_by(2) {
        assert_eq!(client.answer(stream).reset, Some(REFUSED_STREAM));
    }
    for stream in (1..20).step_by(2) {
        client.give_window(stream, 100).unwrap();
        assert_eq!(client.answer(stream).body, b"served");
    }
    assert_eq!(attacked.ran(), 10);
}
