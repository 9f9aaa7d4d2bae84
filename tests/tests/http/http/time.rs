//! Time-outs, and the end of a server.

use super::*;

/// A connection without a complete head within `header_timeout` is closed, whether it is silent, idle or trickles.
#[test]
fn unfinished_heads_and_idle_connections_are_closed() {
    let server = marking().server("header_timeout = \"700ms\"").start();
    let mut silent = server.client();
    let mut unfinished = server.client();
    unfinished.send(b"GET /mark.php HTTP/1.1\r\nHo").unwrap();
    let mut idle = server.client();
    assert_eq!(idle.get("/a.txt").status, 200);
    let began = Instant::now();
    for client in [&mut silent, &mut idle] {
        assert!(closes_within(client, 5));
    }
    // One that sends a byte now and then gains nothing.
    let mut trickling = server.client();
    trickling.send(b"GET /mark.php HTTP/1.1\r\nX: ").unwrap();
    trickling.stream().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let trickle = Instant::now();
    wait_until("a trickling head is closed", 5, || {
        let sent = trickling.send(b"x");
        sent.is_err()
            || !matches!(trickling.read_some(&mut [0; 512]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    assert!(trickle.elapsed() < tests::seconds(3), "{:?}", trickle.elapsed());
    let mut rest = Vec::new();
    unfinished.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    unfinished.stream().read_to_end(&mut rest).expect("an unfinished head is closed");
    assert!(statuses(&rest).iter().all(|status| *status == 408), "{}", String::from_utf8_lossy(&rest));
    assert!(began.elapsed() < tests::seconds(8));
    assert_eq!(seen(&server), "");
}

/// A connection whose request runs longer than `header_timeout` is not closed.
#[test]
fn a_running_request_is_not_idle() {
    let server = marking().server("header_timeout = \"300ms\"").start();
    let mut client = hold(&server, "one");
    // Another connection that is idle from now on is closed first: so long the held one has been quiet too.
    assert!(closes_within(&mut server.client(), 5));
    let_go(&server, "one");
    assert_eq!(client.read(false).unwrap().text(), "held");
}

/// A body that stops coming for `body_timeout` is 408.
#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let server = marking().server("body_timeout = \"500ms\"").start();
    for framing in [
        "Content-Length: 10\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\na",
    ] {
        let mut client = server.client();
        client.send(format!("POST /mark.php HTTP/1.1\r\nHost: a\r\n{framing}").as_bytes()).unwrap();
        client.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let answer = client.read(false).expect("an answer");
        assert_eq!((answer.status, answer.header("reprise-refused")), (408, Some("body-timeout")), "{framing:?}");
        assert!(closes_within(&mut client, 5), "{framing:?}");
    }
    assert_eq!(server.get("/a.txt").status, 200);
    assert_eq!(seen(&server), "", "half a body was taken for a whole one");
}

/// A client that reads nothing for `send_timeout` is cut off, and its worker serves others.
#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let flood = "<?php for ($i = 0; $i < 1000; $i++) { echo str_repeat('x', 65536); }";
    let server =
        marking().server("send_timeout = \"500ms\"").application("workers = 1").file("flood.php", flood).start();
    fs::File::create(server.root.join("big.bin")).and_then(|file| file.set_len(64 << 20)).unwrap();
    for path in ["/flood.php", "/big.bin"] {
        let mut client = server.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_head().unwrap().status, 200);
        // The only worker is free again: its client is gone for it.
        let began = Instant::now();
        assert_eq!(server.get("/mark.php").text(), "marked 0");
        assert!(began.elapsed() < tests::seconds(5), "{path}: {:?}", began.elapsed());
        if path == "/big.bin" {
            let front = server.front().unwrap();
            wait_until("the file is closed", 5, || {
                let open = fs::read_dir(format!("/proc/{front}/fd")).unwrap();
                !open.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.ends_with("big.bin")))
            });
        }
        // The front holds the page for its client; that ends too.
        let line = format!("GET {path} ");
        wait_until("the client is cut off", 5, || server.access_log().contains(&line));
        let mut rest = vec![0; 1 << 20];
        let mut total = 0;
        while let Ok(count @ 1..) = client.read_some(&mut rest) {
            total += count;
        }
        assert!(total < 60 << 20, "{path}: all {total} bytes came");
    }
}

/// A queued GET or HEAD whose client has left does not run; a POST does.
#[test]
fn a_get_whose_client_left_is_withdrawn_and_a_post_is_not() {
    let server = marking().application("workers = 1").start();
    let mut held = hold(&server, "one");
    let mut leaving: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for (number, client) in leaving.iter_mut().enumerate() {
        let request = match number % 3 {
            0 => format!("GET /mark.php?get{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("HEAD /mark.php?head{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            _ => format!("POST /mark.php?post{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
        };
        client.send(request.as_bytes()).unwrap();
    }
    // The front reads connections in turn: once this one is answered, it has read those before.
    assert_eq!(server.get("/a.txt").status, 200);
    drop(leaving);
    wait_until("those that need not run are withdrawn", 5, || server.access_log().matches(" 499 ").count() == 4);
    let_go(&server, "one");
    assert_eq!(held.read(false).unwrap().text(), "held");
    assert_eq!(server.get("/mark.php?last").text(), "marked 0");
    let text = seen(&server);
    assert!(text.contains("POST /mark.php?post2 4\n") && text.contains("POST /mark.php?post5 4\n"), "{text}");
    assert!(!text.contains("?get") && !text.contains("?head"), "{text}");
}

// ---- the end -------------------------------------------------------------------------------------------------------

/// SIGTERM closes listeners and idle connections, and lets running requests finish.
#[test]
fn a_stop_finishes_what_is_running() {
    let mut server = marking().start();
    let mut idle = server.client();
    assert_eq!(idle.get("/a.txt").status, 200);
    let mut held = hold(&server, "one");
    server.signal(Signal::SIGTERM);
    assert!(closes_within(&mut idle, 5), "an idle connection is closed");
    wait_until("new connections are refused", 5, || TcpStream::connect(("127.0.0.1", server.port)).is_err());
    let_go(&server, "one");
    let answer = held.read(false).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "held"));
    assert!(closes_within(&mut held, 5));
    assert_eq!(server.wait(10), 0);
}

/// A second signal ends the server at once, with exit code 1.
#[test]
fn a_second_signal_ends_at_once() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = marking().start();
        let mut held = hold(&server, "one");
        let front = server.front().unwrap();
        let workers = server.workers();
        server.signal(signal);
        wait_until("new connections are refused", 5, || TcpStream::connect(("127.0.0.1", server.port)).is_err());
        let began = Instant::now();
        server.signal(signal);
        assert_eq!(server.wait(10), 1, "requests were cut off");
        assert!(began.elapsed() < tests::seconds(3), "{:?}", began.elapsed());
        assert!(held.read(false).is_err());
        wait_until("nobody is left", 5, || workers.iter().chain([&front]).all(|&pid| !process::is_alive(pid)));
    }
}

/// A stop ends after `drain_timeout` though a request still runs, with exit code 1.
#[test]
fn a_stop_has_a_deadline() {
    let mut server = marking().server("drain_timeout = \"700ms\"").start();
    let mut held = hold(&server, "one");
    let began = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(10), 1, "requests were cut off");
    assert!(
        began.elapsed() > Duration::from_millis(650) && began.elapsed() < tests::seconds(4),
        "{:?}",
        began.elapsed()
    );
    assert!(held.read(false).is_err());
}

/// A stop does not wait for connections without a complete request.
#[test]
fn a_stop_does_not_wait_for_clients_that_only_hold_on() {
    let mut server = marking().server("drain_timeout = \"20s\"\nheader_timeout = \"2s\"").start();
    let mut silent = server.client();
    let mut unfinished = server.client();
    unfinished.send(b"GET / HT").unwrap();
    assert_eq!(server.get("/a.txt").status, 200);
    let began = Instant::now();
    server.signal(Signal::SIGTERM);
    assert!(closes_within(&mut silent, 5), "a connection without a request");
    assert_eq!(server.wait(25), 0);
    assert!(began.elapsed() < tests::seconds(5), "{:?}", began.elapsed());
}
