//! What a client may send, and how long it may wait: bodies, heads, connections, the queue.

use std::time::Duration;

use tests::marking::*;
use tests::{Client, Response, Server};

/// What a body of that many bytes is answered with, and whether the connection is closed then.
fn send_body(port: u16, bytes: usize, chunked: bool) -> (Response, bool) {
    let mut client = Client::new(port);
    let head = "POST /echo.php?n=1 HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n";
    let framing = if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {bytes}") };
    client.send(format!("{head}{framing}\r\n\r\n").as_bytes()).unwrap();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(16_000);
        let piece = vec![b'x'; now];
        let sent = if chunked {
            client.send(&[format!("{now:x}\r\n").as_bytes(), &piece, b"\r\n"].concat())
        } else {
            client.send(&piece)
        };
        // Refused, and closed, before all of it was sent.
        if sent.is_err() {
            break;
        }
        left -= now;
    }
    if chunked {
        let _ = client.send(b"0\r\n\r\n");
    }
    let answer = client.read(false).expect("an answer, though the body is refused");
    let closed = answer.status == 413 && {
        client.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        !matches!(client.read_some(&mut [0; 1]), Ok(1..))
    };
    (answer, closed)
}

/// Bodies up to `post_max_size` or `max_body` pass, longer ones are 413, with a length or chunked.
#[test]
fn bodies_are_limited() {
    let expect = |server: &Server, bytes: usize, fits: bool| {
        for chunked in [false, true] {
            let (answer, closed) = send_body(server.port, bytes, chunked);
            if fits {
                assert_eq!((answer.status, answer.body.len()), (200, bytes + 7), "{bytes} chunked {chunked}");
            } else {
                assert_eq!((answer.status, closed), (413, true), "{bytes} chunked {chunked}");
            }
        }
        assert_eq!(server.get("/a.txt").status, 200);
    };
    let server = marking().ini("post_max_size", "64K").start();
    expect(&server, 65_536, true);
    expect(&server, 65_537, false);
    expect(&server, 5_000_000, false);
    drop(server);
    let server = marking().ini("post_max_size", "64K").application("max_body = \"100K\"").start();
    expect(&server, 102_400, true);
    expect(&server, 102_401, false);
    drop(server);
    let server = marking().ini("post_max_size", "1M").application("max_body = \"10K\"").start();
    expect(&server, 10_241, false);
    drop(server);
    let server = marking().ini("post_max_size", "64K").application("max_body = 0").start();
    expect(&server, 9_000_000, true);
}

/// Heads up to the documented limits of bytes, headers and target pass, larger ones are 431 or 414.
#[test]
fn heads_are_limited() {
    let server = marking().start();
    let mut client = server.client();
    let ask = |target: &str, headers: &str| {
        let mut fresh = server.client();
        fresh.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes()).unwrap();
        fresh.read(false).unwrap_or_else(|error| panic!("{} bytes: {error}", headers.len() + target.len())).status
    };
    let lines = |count: usize| (0..count).map(|n| format!("X-{n}: {n}\r\n")).collect::<String>();
    let long = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    let target = |bytes: usize| format!("/echo.php?n=1&x={}", "x".repeat(bytes - 16));
    assert_eq!(ask("/echo.php", &lines(99)), 200, "100 lines with Host");
    assert_eq!(ask("/echo.php", &lines(100)), 431, "101 lines");
    assert_eq!(ask("/echo.php", &lines(5000)), 431);
    assert_eq!(ask("/echo.php", &long(30_000)), 200);
    assert_eq!(ask("/echo.php", &long(33_000)), 431);
    assert_eq!(ask("/echo.php", &long(120_000)), 431);
    assert_eq!(ask("/echo.php", &long(1_000_000)), 431);
    assert_eq!(ask("/echo.php", &lines(90).replace(": ", &format!(": {}", "y".repeat(400)))), 431);
    assert_eq!(ask(&target(8_000), ""), 200);
    assert_eq!(ask(&target(8 * 1024 + 2), ""), 414);
    assert_eq!(ask(&target(60_000), ""), 414);
    assert_eq!(ask(&target(70_000), ""), 414);
    assert_eq!(ask(&format!("/{}", "x".repeat(17_000)), ""), 414);
    assert_eq!(client.get("/a.txt").status, 200);
    assert_eq!(ask(&target(8 * 1024), ""), 200);
}

/// A path info may have segments that are longer than any file name.
#[test]
fn a_path_info_may_be_longer_than_a_file_name() {
    let server = marking().start();
    let path = format!("/mark.php/{}", "t".repeat(300));
    assert_eq!(server.get(&path).text(), "marked 0");
}

/// The request that finds the queue full is 503, and those that wait are served.
#[test]
fn one_request_more_than_the_queue_holds_is_answered_503() {
    let server = marking().application("workers = 1\nqueue = 3").start();
    let mut held = hold(&server, "one");
    let mut waiting: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        // Pages of their own: requests for the same page may wait for one of them, and then take no place in the queue.
        client.send(format!("GET /mark.php?waits={number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        // The front takes connections in turn: this one is answered when the other has been read.
        assert_eq!(server.get("/a.txt").status, 200);
    }
    let mut client = server.client();
    client.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let full = client.try_request("GET", "/mark.php?over", &[], b"").expect("a refusal");
    assert_eq!((full.status, full.header("reprise-refused")), (503, Some("queue-full")));
    assert!(full.header("retry-after").is_some());
    assert_eq!(client.get("/a.txt").status, 200, "the connection is still good");
    let_go(&server, "one");
    assert_eq!(held.read(false).unwrap().text(), "held");
    for client in &mut waiting {
        assert_eq!(client.read(false).unwrap().text(), "marked 0");
    }
    assert_eq!(client.get("/mark.php?after").text(), "marked 0");
    assert!(!seen(&server).contains("?over"), "{}", seen(&server));
}

/// A request that waits longer than `queue_timeout` is 503 and never runs.
#[test]
fn a_request_that_waits_too_long_is_answered_503() {
    let server = marking().application("workers = 1\nqueue_timeout = \"500ms\"").start();
    let mut held = hold(&server, "one");
    for request in [
        "GET /mark.php?late HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /mark.php?late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
    ] {
        let mut client = server.client();
        client.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.send(request.as_bytes()).unwrap();
        let late = client.read(false).expect("a refusal");
        assert_eq!((late.status, late.header("reprise-refused")), (503, Some("queue-timeout")));
        assert!(late.header("retry-after").is_some());
    }
    let_go(&server, "one");
    assert_eq!(held.read(false).unwrap().text(), "held");
    assert_eq!(server.get("/mark.php?after").text(), "marked 0");
    assert!(!seen(&server).contains("?late"), "{}", seen(&server));
}

/// A request over `request_timeout` is 504, and another worker takes the place of its worker.
#[test]
fn a_request_that_runs_too_long_ends_with_its_worker() {
    let server = marking()
        .application("workers = 1\nrequest_timeout = \"500ms\"")
        .file("pid.php", "<?php echo getmypid();")
        .start();
    let before = server.get("/pid.php").text();
    let answer = server.get("/hold.php?name=long");
    assert_eq!((answer.status, answer.header("reprise-refused")), (504, Some("request-timeout")));
    let after = server.get("/pid.php").text();
    assert!(after != before && after.parse::<i32>().is_ok(), "{before} {after}");
}

/// /proc shows a process' name as it is, and the limit goes by what stands behind it.
#[test]
fn a_process_with_a_name_that_is_no_text_ends_at_its_limit_too() {
    let script = "<?php file_put_contents('/proc/self/comm', \"\\xff)\\xfe(\"); while (true) usleep(1000);";
    let setup = marking().file("named.php", script).application("workers = 1").application("request_timeout = \"1s\"");
    let server = setup.start();
    assert_eq!(server.get("/named.php").status, 504);
    assert_eq!(server.get("/mark.php").text(), "marked 0");
}

/// A connection over `max_connections` waits until another ends.
#[test]
fn connections_beyond_the_limit_wait() {
    let server = marking().server("max_connections = 2").start();
    let (mut first, mut second) = (server.client(), server.client());
    assert_eq!((first.get("/a.txt").status, second.get("/a.txt").status), (200, 200));
    let mut third = server.client();
    third.send(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    third.stream().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(third.read_some(&mut [0; 1]).is_err(), "nobody takes a third connection");
    assert_eq!((first.get("/a.txt").status, second.get("/a.txt").status), (200, 200));
    third.stream().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    drop(first);
    assert_eq!(third.read(false).unwrap().text(), "static");
    drop((second, third));
    for _ in 0..20 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
}
