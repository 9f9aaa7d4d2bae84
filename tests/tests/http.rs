//! HTTP/1.1 as clients speak it: connections, framing, limits, time-outs, the end of a server.

mod time;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::marking::*;
use tests::server::{Directory, free_port};
use tests::{Client, Response, Server, Setup, process, wait_until};

// ---- connections ---------------------------------------------------------------------------------------------------

#[test]
fn a_connection_serves_many_requests() {
    let server = marking().start();
    let mut client = server.client();
    for n in 0..300 {
        let answer = client.get(&format!("/echo.php?n={n}"));
        assert_eq!((answer.status, answer.text()), (200, format!("GET {n} ")));
        assert_eq!(client.get("/a.txt").text(), "static");
    }
    let last = client.request("GET", "/a.txt", &[("Connection", "close")], b"");
    assert_eq!(last.header("connection"), Some("close"));
    assert!(closes_within(&mut client, 5));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut setup = marking();
    for n in 0..50 {
        setup = setup.file(&format!("{n}.txt"), format!("file {n}"));
    }
    let server = setup.start();
    let mut client = server.client();
    for _ in 0..5 {
        let request = |n: usize| match n % 3 {
            0 => format!("GET /{n}.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("GET /echo.php?n={n} HTTP/1.1\r\nHost: a\r\n\r\n"),
            _ => format!("POST /echo.php?n={n} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
        };
        client.send((0..50).map(request).collect::<String>().as_bytes()).unwrap();
        for n in 0..50 {
            let answer = client.read(false).unwrap_or_else(|error| panic!("answer {n}: {error}"));
            let expected = match n % 3 {
                0 => format!("file {n}"),
                1 => format!("GET {n} "),
                _ => format!("POST {n} body"),
            };
            assert_eq!((answer.status, answer.text()), (200, expected));
        }
    }
}

#[test]
fn an_answer_does_not_wait_for_the_rest_of_the_next_request() {
    let server = marking().start();
    for first in ["/a.txt", "/echo.php?n=1"] {
        let mut client = server.client();
        client.stream().set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        client.send(format!("GET {first} HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HT").as_bytes()).unwrap();
        assert_eq!(client.read(false).expect("the first answer").status, 200, "{first}");
        client.send(b"TP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(client.read(false).expect("the second answer").text(), "static");
    }
}

#[test]
fn a_last_answer_is_sent_whatever_follows_its_request() {
    let server = marking().start();
    for path in ["/a.txt", "/echo.php?n=1", "/none"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /mark.php?hidden HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        let (answer, closed) = exchange(server.port, request.as_bytes(), None, 5);
        assert_eq!((statuses(&answer).len(), closed), (1, true), "{path}: {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(seen(&server), "");
}

#[test]
fn a_streamed_answer_is_not_held_back_by_the_next_request() {
    let script = "<?php ob_end_clean(); echo 'first'; flush(); $mark = getenv('MARKS'); for ($i = 0; $i < 4000 && !file_exists(\"$mark/go\"); $i++) { usleep(5000); clearstatcache(); } echo 'last';";
    let server = marking().file("parts.php", script).start();
    let mut client = server.client();
    client.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send(b"GET /parts.php HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut head = client.read_head().expect("the head while the script runs");
    assert_eq!(client.read_chunk().expect("a chunk while the script runs"), Some(b"first".to_vec()));
    fs::write(mark(&server, "go"), "").unwrap();
    client.read_body(&mut head, false).unwrap();
    assert_eq!(head.text(), "last");
    assert_eq!(client.read(false).unwrap().text(), "static");
}

#[test]
fn a_client_that_pipelines_without_reading_costs_no_memory() {
    let server = marking().file("page.txt", vec![b'x'; 4096]).server("send_timeout = \"1s\"").start();
    assert_eq!(server.get("/page.txt").status, 200);
    let front = server.front().unwrap();
    let before = process::anonymous_kib(front);
    let mut stream = tests::client::connect(server.port).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let batch = "GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let mut sent = 0;
    while sent < 3000 && stream.write_all(batch.as_bytes()).is_ok() {
        sent += 1;
    }
    let after = process::anonymous_kib(front);
    assert!(after < before + 16 * 1024, "{before} KiB became {after} KiB after {sent} thousand requests");
    wait_until("the client is cut off", 10, || {
        stream.write_all(b"G").is_err_and(|error| !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    });
    assert_eq!(server.get("/page.txt").status, 200);
}

#[test]
fn http_1_0_is_spoken() {
    let server = marking().file("flow.php", "<?php ob_end_clean(); echo 'a'; flush(); echo 'b';").start();
    // No Host, no keep-alive.
    let (answer, closed) = exchange(server.port, b"GET /echo.php?n=1 HTTP/1.0\r\n\r\n", None, 5);
    let text = String::from_utf8_lossy(&answer);
    assert!(closed && text.ends_with("\r\n\r\nGET 1 "), "{text}");
    // An answer of unknown length ends with the connection: HTTP/1.0 knows no chunks.
    let (answer, closed) = exchange(server.port, b"GET /flow.php HTTP/1.0\r\nHost: a\r\n\r\n", None, 5);
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(closed && text.ends_with("\r\n\r\nab") && !text.contains("chunked"), "{text}");
    let mut client = server.client();
    for _ in 0..3 {
        client.send(b"GET /a.txt HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let answer = client.read(false).unwrap();
        assert_eq!((answer.text().as_str(), answer.header("connection")), ("static", Some("keep-alive")));
    }
    client.send(b"POST /echo.php?n=2 HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    assert_eq!(client.read(false).unwrap().text(), "POST 2 abc");
    assert!(closes_within(&mut client, 5));
}

#[test]
fn listeners_are_tcp_and_unix_sockets() {
    let (first, second) = (free_port(), free_port());
    let setup = marking().file("who.php", "<?php echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['SERVER_PORT'];");
    let socket = setup.directory().join("web.sock");
    // What a killed server leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let line = format!("listen = [\"127.0.0.1:{first}\", \"unix:{}\", \"127.0.0.1:{second}\"]", socket.display());
    let mut server = setup.server(&line).start();
    for port in [first, second] {
        assert_eq!(tests::get(port, "/who.php").text(), format!("127.0.0.1 {port}"));
    }
    let mut client = Client::over(UnixStream::connect(&socket).unwrap(), "localhost");
    assert_eq!(client.get("/who.php").text(), "unix: ");
    assert_eq!(client.get("/a.txt").text(), "static");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
    drop(client);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(10), 0);
    assert!(!socket.exists(), "the socket is removed");
}

// ---- requests ------------------------------------------------------------------------------------------------------

#[test]
fn chunked_bodies_are_put_together() {
    let server = marking().start();
    let mut client = server.client();
    for (body, expected) in [
        ("0\r\n\r\n", ""),
        ("3\r\nabc\r\n0\r\n\r\n", "abc"),
        ("3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n", "abc0123456789"),
        ("3;name=value\r\nabc\r\n1;\"quoted\"\r\nd\r\n0;last\r\n\r\n", "abcd"),
        ("a\r\n0123456789\r\n0\r\nX-Trailer: t\r\nY: u\r\n\r\n", "0123456789"),
    ] {
        let head = "POST /echo.php?n=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n";
        client.send(format!("{head}{body}").as_bytes()).unwrap();
        assert_eq!(client.read(false).unwrap().text(), format!("POST 1 {expected}"), "{body:?}");
    }
    // Byte by byte, no two in one segment.
    let request = b"POST /echo.php?n=2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x\r\n!\r\n0\r\n\r\n";
    request.iter().for_each(|byte| client.send(&[*byte]).unwrap());
    assert_eq!(client.read(false).unwrap().text(), "POST 2 hello!");
    // A body that nobody reads does not harm what follows.
    client.send(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").unwrap();
    assert_eq!(client.read(false).unwrap().text(), "static");
    assert_eq!(client.get("/a.txt").text(), "static");
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    let server = marking().application("max_body = 10").start();
    let mut client = server.client();
    for _ in 0..3 {
        client
            .send(b"POST /echo.php?n=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_head().unwrap().status, 100);
        client.send(b"body").unwrap();
        let mut answer = client.read_head().unwrap();
        client.read_body(&mut answer, false).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "POST 1 body"));
    }
    // Nobody is asked for a body that is refused anyway.
    for (request, status) in [
        ("POST /echo.php HTTP/1.1\r\nHost: a\r\nContent-Length: 11", 413),
        ("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 4", 405),
        ("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 4", 404),
        ("POST /%zz HTTP/1.1\r\nHost: a\r\nContent-Length: 4", 400),
    ] {
        let mut client = server.client();
        client.send(format!("{request}\r\nExpect: 100-continue\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_head().unwrap().status, status, "{request}");
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let server = marking().start();
    let mut client = server.client();
    for path in ["/a.txt", "/echo.php?n=1", "/none", "/%zz"] {
        let get = client.get(path);
        let head = client.request("HEAD", path, &[], b"");
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        if let Some(length) = head.header("content-length") {
            assert_eq!(Some(length), get.header("content-length"), "{path}");
        }
    }
}

#[test]
fn an_absolute_target_names_the_host() {
    let first = marking().file(
        "host.php",
        "<?php echo 'first ', $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'], ' ', $_SERVER['REQUEST_URI'];",
    );
    let other = Directory::new();
    fs::write(
        other.0.join("host.php"),
        "<?php echo 'second ', $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'], ' ', $_SERVER['REQUEST_URI'];",
    )
    .unwrap();
    let lines = format!(
        "hosts = [\"first.example\"]\n[[application]]\nname = \"second\"\nroot = \"{}\"\nworkers = 1\nhosts = [\"second.example\"]",
        other.0.display()
    );
    let server = Setup::root(first.document_root()).application(&lines).start();
    let ask = |request: &str| {
        let mut client = server.client();
        client.send(request.as_bytes()).unwrap();
        client.read(false).unwrap()
    };
    let same = ask("GET http://second.example/host.php?q=1 HTTP/1.1\r\nHost: second.example\r\n\r\n");
    assert_eq!(same.text(), "second second.example second.example /host.php?q=1");
    assert_eq!(ask("GET http://first.example HTTP/1.1\r\nHost: first.example\r\n\r\n").status, 404);
    assert_eq!(ask("GET http://first.example/host.php HTTP/1.1\r\n\r\n").status, 400, "HTTP/1.1 wants a Host");
    assert_eq!(ask("GET http://third.example/host.php HTTP/1.1\r\nHost: first.example\r\n\r\n").status, 421);
    // RFC 9112 §3.2.2: the received Host is ignored; PHP must not be told another host than the one that was chosen by.
    let differing = ask("GET http://second.example/host.php HTTP/1.1\r\nHost: first.example\r\n\r\n");
    assert_eq!(differing.text(), "second second.example second.example /host.php");
}

#[test]
fn options_goes_to_php_and_connect_and_trace_nowhere() {
    let server = marking().start();
    let mut client = server.client();
    assert_eq!(client.request("OPTIONS", "/echo.php?n=1", &[], b"").text(), "OPTIONS 1 ");
    assert_eq!(client.request("OPTIONS", "/a.txt", &[], b"").status, 405);
    for method in ["PUT", "PATCH", "DELETE", "PROPFIND", "M-SEARCH", "x"] {
        assert_eq!(client.request(method, "/echo.php?n=1", &[], b"").text(), format!("{method} 1 "));
    }
    for request in [
        "TRACE /mark.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "CONNECT /mark.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ] {
        let (answer, closed) = exchange(server.port, request.as_bytes(), None, 5);
        let status = statuses(&answer);
        assert!(closed && status.len() == 1 && (400..500).contains(&status[0]), "{request} {status:?}");
    }
    assert_eq!(seen(&server), "");
}

#[test]
fn hosts_choose_the_application() {
    let directory = Directory::new();
    let names = ["one", "wild", "deep"];
    for name in names {
        fs::create_dir(directory.0.join(name)).unwrap();
        fs::write(directory.0.join(name).join("index.php"), format!("<?php echo '{name}';")).unwrap();
    }
    let application = |name: &str, hosts: &str| {
        let root = directory.0.join(name);
        format!("[[application]]\nname = \"{name}\"\nroot = \"{}\"\nworkers = 1\nhosts = [{hosts}]\n", root.display())
    };
    let rest =
        application("wild", "\"*.example.org\"") + &application("deep", "\"*.deep.example.org\", \"xn--a.test\"");
    let lines = format!("hosts = [\"one.example.org\", \"One.Test\"]\n{rest}");
    let server = Setup::root(&directory.0.join("one")).application(&lines).start();
    let mut client = server.client();
    for (host, expected) in [
        ("one.example.org", "one"),
        ("ONE.example.ORG", "one"),
        ("one.example.org:8080", "one"),
        ("one.test", "one"),
        ("two.example.org", "wild"),
        ("a.b.example.org", "wild"),
        ("x.deep.example.org", "deep"),
        ("deep.example.org", "wild"),
        ("xn--a.test", "deep"),
    ] {
        let answer = client.request("GET", "/", &[("Host", host)], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{host}");
    }
    for host in ["example.org", "badexample.org", "other", "127.0.0.1", "[::1]", "one.example.org.evil", ".example.org"]
    {
        let answer = client.request("GET", "/", &[("Host", host)], b"");
        assert_eq!(answer.status, 421, "{host}: {}", answer.text());
    }
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
    assert_eq!(client.read(false).unwrap().status, 421, "HTTP/1.0 without a host");
}

// ---- limits --------------------------------------------------------------------------------------------------------

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

#[test]
fn a_path_info_may_be_longer_than_a_file_name() {
    let server = marking().start();
    let path = format!("/mark.php/{}", "t".repeat(300));
    assert_eq!(server.get(&path).text(), "marked 0");
}

#[test]
fn one_request_more_than_the_queue_holds_is_answered_503() {
    let server = marking().application("workers = 1\nqueue = 3").start();
    let mut held = hold(&server, "one");
    let mut waiting: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.send(b"GET /mark.php?waits HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
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
