//! HTTP/2: the same requests and responses as over HTTP/1, whatever a client does.

use std::process::Command;

use nix::sys::signal::Signal;
use tests::client::Client;
use tests::http2::{
    CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, INITIAL_WINDOW, NO_ERROR, PREFACE, PROTOCOL_ERROR,
    RST_STREAM, fields, frame, get,
};
use tests::server::{Server, Setup, free_port};
use tests::{wait_for, wait_until};

/// Says what it was asked for, after as long as it shall take, or once it may go on.
const SCRIPT: &str = "<?php
usleep((int) ($_GET['us'] ?? 0));
while (isset($_GET['held']) && !file_exists(getenv('MARKS') . '.go')) { usleep(2000); clearstatcache(); }
$body = file_get_contents('php://input');
file_put_contents(getenv('MARKS'), $_SERVER['REQUEST_METHOD'] . ' ' . $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND);
if (isset($_GET['kib'])) { for ($i = 0; $i < $_GET['kib']; $i++) { echo str_repeat('x', 1024); }
    if (isset($_GET['done'])) { file_put_contents(getenv('MARKS'), \"done\\n\", FILE_APPEND); }
    exit; }
echo implode(' ', [$_SERVER['SERVER_PROTOCOL'], $_SERVER['REQUEST_METHOD'], $_SERVER['HTTP_HOST'], $_SERVER['REQUEST_URI'],
    $_SERVER['HTTP_COOKIE'] ?? '-', $_SERVER['CONTENT_LENGTH'], strlen($body), md5($body)]);";

fn setup() -> Setup {
    let setup = Setup::empty().file("index.php", SCRIPT).file("a.txt", "static").file("large.bin", vec![7; 3_000_000]);
    let marks = setup.writable("marks");
    setup.env("MARKS", &format!("{marks}/all"))
}

fn marks(server: &Server) -> String {
    std::fs::read_to_string(server.directory().join("marks/all")).unwrap_or_default()
}

/// What is held goes on.
fn release(server: &Server) {
    std::fs::write(server.directory().join("marks/all.go"), "").unwrap();
}

/// curl with these arguments: its output.
fn curl(server: &Server, path: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("curl")
        .args(["-sS", "-g", "--http2-prior-knowledge", "--max-time", "60"])
        .args(arguments)
        .arg(format!("http://127.0.0.1:{}{path}", server.port))
        .output()
        .expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn post(path: &str, length: &str) -> Vec<u8> {
    fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
        ("content-length", length),
    ])
}

#[test]
fn curl_is_served_as_over_http_1() {
    let server = setup().start();
    let text = |path: &str, arguments: &[&str]| String::from_utf8_lossy(&curl(&server, path, arguments)).into_owned();
    let host = format!("127.0.0.1:{}", server.port);
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    let answer = text("/a?b={c}|", &["-H", "Cookie: d=e"]);
    assert_eq!(answer, format!("HTTP/2.0 GET {host} /a?b={{c}}| d=e  0 {empty}"));

    let body = server.directory().join("body");
    std::fs::write(&body, vec![b'x'; 1_000_000]).unwrap();
    let data = format!("@{}", body.display());
    let answer = text("/up", &["--data-binary", &data]);
    assert!(answer.starts_with(&format!("HTTP/2.0 POST {host} /up - 1000000 1000000 ")), "{answer}");
    let answer = text("/up", &["-X", "PUT", "-H", "Content-Length:", "--data-binary", &data]);
    assert!(answer.starts_with(&format!("HTTP/2.0 PUT {host} /up -  1000000 ")), "{answer}");

    assert_eq!(curl(&server, "/?kib=3000", &[]).len(), 3_000 * 1024);
    assert_eq!(curl(&server, "/large.bin", &[]), vec![7; 3_000_000]);
    assert_eq!(text("/large.bin", &["-r", "5-6"]), "\u{7}\u{7}");
    let head = text("/a.txt", &["-I"]);
    for line in
        ["HTTP/2 200 ", "content-length: 6", "content-type: text/plain; charset=utf-8", "server: reprise", "date: "]
    {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(text("/none.txt", &["-I"]).starts_with("HTTP/2 200"), "the front controller");
    let first = text("/", &["-i", "-H", "Expect: 100-continue", "--data-binary", "abc"]);
    assert!(first.starts_with("HTTP/2 100 \r\n\r\nHTTP/2 200 \r\n"), "{first}");

    wait_until("the log has the requests", 10, || server.access_log().matches("HTTP/2.0\" 200").count() == 8);
}

/// Streams of one connection do not wait for each other, and a large response does not keep others back.
#[test]
fn streams_are_served_at_once() {
    let server = setup().application("workers = 4").start();
    let mut client = Http2::new(server.port);
    client.request(1, &get("/?held&first"));
    client.request(3, &get("/?second"));
    client.request(5, &get("/a.txt"));
    assert!(String::from_utf8_lossy(&client.answer(3).body).contains("/?second"));
    assert_eq!(client.answer(5).body, b"static");
    assert!(!client.answers.contains_key(&1));
    // A window of 64 KiB is not enough for this, and nobody gives more.
    client.request(7, &get("/?kib=500"));
    client.request(9, &fields(&[(":method", "HEAD"), (":scheme", "http"), (":authority", "a"), (":path", "/a.txt")]));
    let head = client.answer(9);
    assert!(head.status == Some(200) && head.body.is_empty());
    client.give_window(0, 10_000_000).unwrap();
    release(&server);
    assert!(String::from_utf8_lossy(&client.answer(1).body).contains("/?held&first"));
    assert!(client.answers.get(&7).is_none_or(|answer| !answer.is_complete));
    client.give_window(7, 10_000_000).unwrap();
    assert_eq!(client.answer(7).body.len(), 500 * 1024);
}

/// The window of a connection is for all streams that wait for it, whoever came first and whatever each may send by itself.
#[test]
fn a_window_reaches_all_streams_that_wait() {
    let server = setup().application("workers = 4").start();
    for round in 0..20 {
        let mut client = Http2::new(server.port);
        client.request(1, &get("/?kib=500"));
        while client.answers.get(&1).is_none_or(|answer| answer.body.len() < 65_535) {
            client.read().unwrap();
        }
        for stream in [3, 5, 7] {
            client.request(stream, &get("/?second"));
        }
        // Their heads need no window.
        while [3, 5, 7].iter().any(|stream| client.answers.get(stream).is_none_or(|answer| answer.status.is_none())) {
            client.read().unwrap();
        }
        client.give_window(0, 10_000_000).unwrap();
        for stream in [3, 5, 7] {
            assert!(String::from_utf8_lossy(&client.answer(stream).body).contains("/?second"), "round {round}");
        }
        client.give_window(1, 10_000_000).unwrap();
        assert_eq!(client.answer(1).body.len(), 500 * 1024);
    }
}

/// However little window a client gives to a large response that PHP has long written, its other streams are served.
#[test]
fn a_stream_without_a_window_keeps_no_other_waiting() {
    let server = setup().file("wait.txt", "small").start();
    let mut client = Http2::with(server.port, &[(INITIAL_WINDOW, 1000)]);
    client.give_window(0, 10_000_000).unwrap();
    client.request(1, &get("/?kib=1500&done"));
    // All of it is in the spool.
    wait_until("PHP has written all", 10, || marks(&server).contains("done\n"));
    for turn in 0..100 {
        let stream = 3 + 2 * turn;
        client.request(stream, &get(["/wait.txt", "/?small"][turn as usize % 2]));
        assert!(!client.answer(stream).body.is_empty(), "turn {turn}");
        client.give_window(1, 16_000).unwrap();
    }
    assert_eq!(client.answer(1).body.len(), 1500 * 1024);
}

#[test]
fn heads_are_checked() {
    let server = setup().server("http2_fields = 20").start();
    let mut client = Http2::new(server.port);
    let base = [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];
    let with = |more: &[(&str, &str)]| fields(&[&base[..], more].concat());
    let without = |name: &str, more: &[(&str, &str)]| {
        let rest: Vec<_> = base.into_iter().filter(|(known, _)| *known != name).chain(more.iter().copied()).collect();
        fields(&rest)
    };
    let mut stream = 1;
    let mut answer = |fields: Vec<u8>| {
        client.request(stream, &fields);
        stream += 2;
        client.answer(stream - 2)
    };
    let crumbs = answer(with(&[("cookie", "a=b"), ("x", "y"), ("cookie", "c=d")]));
    assert!(String::from_utf8_lossy(&crumbs.body).contains("GET a.example / a=b; c=d "), "{crumbs:?}");
    for (good, what) in [
        (with(&[("host", "a.example")]), "the host is named twice"),
        (without(":authority", &[("host", "a.example")]), "only Host names it"),
        (with(&[("te", "trailers")]), "TE"),
    ] {
        assert_eq!(answer(good).status, Some(200), "{what}");
    }
    for (bad, word) in [
        (with(&[("host", "b.example")]), "bad-host"),
        (without(":authority", &[]), "bad-host"),
        (without(":authority", &[(":authority", "a@b")]), "bad-host"),
        (without(":path", &[(":path", "?b")]), "bad-scheme"),
        (without(":path", &[(":path", "*")]), "bad-scheme"),
        (without(":scheme", &[(":scheme", "ftp")]), "bad-scheme"),
        (with(&[("cookie", "a=b"); 21]), "head-too-large"),
        (with(&[("x", &"y".repeat(33_000))]), "head-too-large"),
        (fields(&[(":method", "CONNECT"), (":authority", "a.example:80")]), "bad-method"),
        (without(":method", &[(":method", "TRACE")]), "bad-method"),
    ] {
        let answer = answer(bad);
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(page.contains(&format!("Reprise: {word}")), "{word}: {answer:?}");
    }
    for bad in [
        without(":method", &[(":method", "CONNECT"), (":protocol", "websocket")]),
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "x")]),
        with(&[("keep-alive", "1")]),
        with(&[("proxy-connection", "keep-alive")]),
        with(&[("te", "gzip")]),
        with(&[("X", "y")]),
        with(&[("x", "a\r\nb: c")]),
        with(&[("content-length", "1")]),
        with(&[("content-length", "x")]),
        with(&[(":path", "/b")]),
        without(":path", &[]),
        without(":path", &[(":path", "")]),
        without(":path", &[(":path", "http://b.example/")]),
        without(":scheme", &[]),
        without(":method", &[]),
        without(":path", &[("x", "y"), (":path", "/")]),
    ] {
        // Some are an error of the stream, some of the connection (RFC 9113 §8.1.1).
        let mut client = Http2::new(server.port);
        client.request(1, &bad);
        let code = wait_for("the head is refused", 10, || {
            let over = client.read().is_err();
            let reset = client.answers.get(&1).map(|answer| answer.reset);
            assert!(!over || reset.is_some() || client.goaway.is_some(), "it is not said why");
            reset.unwrap_or(client.goaway)
        });
        assert_eq!(code, PROTOCOL_ERROR, "{}", String::from_utf8_lossy(&bad));
    }
    let log = wait_for("the log has the refusals", 10, || {
        let log = server.access_log();
        (log.matches("HTTP/2.0\" 4").count() == 10).then_some(log)
    });
    assert!(log.contains("\"CONNECT a.example:80 HTTP/2.0\" 405"), "{log}");
}

/// A body that is shorter or longer than its Content-Length never reaches PHP as a whole one.
#[test]
fn bodies_have_the_length_that_was_said() {
    let server = setup().start();
    let mut client = Http2::new(server.port);
    for (stream, length, body, is_fine) in [(1, "3", "abc", true), (3, "4", "abc", false), (5, "2", "abc", false)] {
        let head = frame(HEADERS, END_HEADERS, stream, &post(&format!("/{stream}"), length));
        client.send(&[head, frame(DATA, END_STREAM, stream, body.as_bytes())].concat()).unwrap();
        let answer = client.answer(stream);
        assert_eq!((answer.status == Some(200), answer.reset == Some(PROTOCOL_ERROR)), (is_fine, !is_fine), "{stream}");
    }
    assert_eq!(marks(&server), "POST /1\n");
}

/// A client may send as much of a body as its window allows, and gets more window as PHP reads.
#[test]
fn bodies_wait_for_php() {
    let server = setup().application("max_body = 0").start();
    let mut client = Http2::new(server.port);
    let size = 5_000_000;
    let head = frame(HEADERS, END_HEADERS, 1, &post("/?us=300000", &size.to_string()));
    client.send(&head).unwrap();
    let (mut window, mut left, mut largest) = ([65_535i64; 2], size, 0);
    while left > 0 {
        let count = window[0].min(window[1]).min(left).min(16_384);
        if count > 0 {
            let flags = if count == left { END_STREAM } else { 0 };
            client.send(&frame(DATA, flags, 1, &vec![b'x'; count as usize])).unwrap();
            (window[0], window[1], left) = (window[0] - count, window[1] - count, left - count);
            continue;
        }
        let found = client.read().unwrap();
        if let (8, bytes) = (found.kind, found.payload) {
            window[usize::from(found.stream > 0)] += i64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
            largest = largest.max(window[0].max(window[1]));
        }
        if found.kind == 4 && found.flags == 0 {
            // The server's settings give streams a window of another size.
            window[1] += 65_536 - 65_535;
        }
    }
    assert!(String::from_utf8_lossy(&client.answer(1).body).contains(" 5000000 5000000 "));
    assert!(largest <= 256 * 1024, "the client had a window of {largest} bytes");
}

/// As over HTTP/1: a GET that waits is withdrawn, anything else runs, and PHP is told if it runs.
#[test]
fn requests_of_streams_that_were_reset_end_as_over_http_1() {
    let server = setup().application("workers = 1").start();
    let mut client = Http2::new(server.port);
    client.request(1, &get("/?held&first"));
    wait_until("the worker is busy", 10, || server.status(&["--json"]).contains("\"state\":\"running\""));
    client.request(3, &get("/?withdrawn"));
    let head = frame(HEADERS, END_HEADERS, 5, &post("/?posted", "2"));
    client.send(&[head, frame(DATA, END_STREAM, 5, b"ab")].concat()).unwrap();
    client.request(7, &get("/?last"));
    wait_until("all wait", 10, || tests::status::sum(&server.status(&["--json"]), "waiting") == 3);
    for stream in [3, 5] {
        client.send(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())).unwrap();
    }
    // The frames are read in their order, and the request that is withdrawn has its line at once.
    wait_until("one is withdrawn", 10, || server.access_log().contains("GET /?withdrawn HTTP/2.0\" 499"));
    release(&server);
    assert_eq!(client.answer(7).status, Some(200));
    assert_eq!(marks(&server), "GET /?held&first\nPOST /?posted\nGET /?last\n");
    wait_until("both have a line", 10, || server.access_log().matches("HTTP/2.0\" 499").count() == 2);
}

/// As over HTTP/1: what was complete when the client left runs.
#[test]
fn complete_requests_run_whose_client_closes_with_them() {
    let server = setup().start();
    for number in 0..20 {
        let mut client = Http2::silent(server.port);
        let whole = frame(HEADERS, END_HEADERS, 1, &post(&format!("/?whole{number}"), "2"));
        let half = frame(HEADERS, END_HEADERS, 3, &post("/?half", "3"));
        let bodies = [frame(DATA, END_STREAM, 1, b"ab"), frame(DATA, 0, 3, b"ab")].concat();
        client.send(&[PREFACE, &frame(4, 0, 0, &[]), &whole, &half, &bodies].concat()).unwrap();
    }
    wait_until("the complete ones have run", 10, || marks(&server).matches("?whole").count() == 20);
    assert!(server.get("/?end").status == 200 && !marks(&server).contains("?half"));
}

/// A stop says which requests were taken, and these have their responses.
#[test]
fn a_stop_lets_streams_end() {
    let mut server = setup().start();
    let mut client = Http2::new(server.port);
    let mut idle = Http2::new(server.port);
    client.request(1, &get("/?held"));
    client.request(3, &get("/?held&kib=60"));
    wait_until("both run", 10, || server.status(&["--json"]).matches("\"state\":\"running\"").count() == 2);
    server.signal(Signal::SIGTERM);
    assert_eq!(idle.end(), Some(NO_ERROR));
    release(&server);
    assert_eq!(client.end(), Some(NO_ERROR));
    assert!([1, 3].iter().all(|stream| client.answers[stream].is_complete), "{:?}", client.answers);
    assert_eq!(server.wait(20), 0);
}

/// A client that does not acknowledge the ping after GOAWAY does not hold a stop up.
#[test]
fn a_stop_does_not_wait_for_a_client_that_says_nothing() {
    let mut server = setup().start();
    let mut client = Http2::silent(server.port);
    client.send(&[PREFACE, &frame(4, 0, 0, &[])].concat()).unwrap();
    client.request(1, &get("/a.txt"));
    assert_eq!(client.answer(1).status, Some(200));
    let began = std::time::Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
    assert!(began.elapsed() < tests::seconds(10), "{:?}", began.elapsed());
}

/// Reloads do not end connections; each request is served by the code of its time.
#[test]
fn reloads_lose_no_stream() {
    let server = setup().start();
    let mut client = Http2::new(server.port);
    for number in 0..tests::amount(3, 50) as u32 {
        let stream = 4 * number + 1;
        client.request(stream, &get("/?us=100000"));
        assert!(server.reload().0);
        client.request(stream + 2, &get("/"));
        assert!(client.answer(stream).status == Some(200) && client.answer(stream + 2).status == Some(200));
    }
    assert_eq!(client.goaway, None);
}

#[test]
fn idle_connections_end() {
    let server = setup().server("header_timeout = \"1s\"").start();
    let mut client = Http2::new(server.port);
    client.request(1, &get("/?us=1500000"));
    assert_eq!(client.answer(1).status, Some(200));
    assert_eq!(client.end(), Some(NO_ERROR));
    let mut silent = Http2::silent(server.port);
    silent.send(&PREFACE[..20]).unwrap();
    assert_eq!(silent.end(), None);
}

#[test]
fn it_can_be_switched_off() {
    let admin = free_port();
    let server = setup().server("http2 = false").server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]")).start();
    for port in [server.port, admin] {
        let mut stream = tests::client::connect(port).unwrap();
        std::io::Write::write_all(&mut stream, PREFACE).unwrap();
        let response = Client::over(stream, "a").read(false).unwrap();
        assert_eq!((response.status, response.header("reprise-refused")), (400, Some("bad-request")));
    }
}

/// The metrics tell how much of what is served is HTTP/2.
#[test]
fn it_is_counted() {
    let admin = free_port();
    let server = setup().server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]")).start();
    let mut client = Http2::with(server.port, &[(INITIAL_WINDOW, 0)]);
    client.request(1, &get("/a.txt"));
    let metrics = || Client::new(admin).get("/metrics").text();
    wait_until("its response waits for a window", 10, || !metrics().contains("reprise_http2_held_bytes 0\n"));
    assert!(
        metrics().contains("reprise_http2_connections 1\n") && metrics().contains("reprise_http2_requests_total 1\n")
    );
    client.give_window(1, 100).unwrap();
    assert_eq!(client.answer(1).body, b"static");
    wait_until("nothing is held", 10, || metrics().contains("reprise_http2_held_bytes 0\n"));
    client.send(&frame(GOAWAY, 0, 0, &[0; 8])).unwrap();
    drop(client);
    wait_until("the connection has ended", 10, || metrics().contains("reprise_http2_connections 0\n"));
}

/// A head has one limit over both protocols: 20 KB of cookies pass, as one field or as crumbs, and what is over 32 KiB is refused alike.
#[test]
fn heads_are_as_large_as_over_http_1() {
    let server = setup().start();
    let over = |protocol: &str, headers: &[String]| {
        let mut arguments = vec![protocol.to_owned(), "-o/dev/null".to_owned(), "-w%{http_code}".to_owned()];
        headers.iter().for_each(|header| arguments.extend(["-H".to_owned(), header.clone()]));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        String::from_utf8(curl(&server, "/", &arguments)).unwrap()
    };
    let cookie = |bytes: usize| format!("Cookie: a={}", "x".repeat(bytes));
    let lines = |count: usize, bytes: usize| -> Vec<String> {
        (0..count).map(|n| format!("X-{n}: {}", "y".repeat(bytes))).collect()
    };
    let rows: [(Vec<String>, &str); 6] = [
        (vec![cookie(20_000)], "200"),
        (vec![cookie(10_000), format!("X-Long: {}", "z".repeat(20_000))], "200"),
        (lines(90, 330), "200"),
        (vec![cookie(33_000)], "431"),
        (lines(90, 400), "431"),
        (vec![cookie(20_000), format!("X-Long: {}", "z".repeat(20_000))], "431"),
    ];
    for (number, (headers, expected)) in rows.iter().enumerate() {
        for protocol in ["--http1.1", "--http2-prior-knowledge"] {
            assert_eq!(over(protocol, headers), *expected, "{number} {protocol}");
        }
    }
    // A browser with such cookies asks for much at once.
    let mut client = Http2::new(server.port);
    let crumbs: Vec<String> = (0..50).map(|n| format!("c{n}={}", "x".repeat(400))).collect();
    let mut head = vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/?kib=0")];
    head.extend(crumbs.iter().map(|crumb| ("cookie", crumb.as_str())));
    let streams: Vec<u32> = (0..90).map(|n| 2 * n + 1).collect();
    streams.iter().for_each(|stream| client.request(*stream, &fields(&head)));
    for stream in streams {
        assert_eq!(client.answer(stream).status, Some(200), "{stream}");
    }
}
