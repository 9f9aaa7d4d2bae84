//! HTTP/1.1 as clients speak it: connections, framing, limits, time-outs, the end of a server.

mod limits;
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
use tests::{Client, Setup, process, wait_until};

// ---- connections ---------------------------------------------------------------------------------------------------

/// One connection serves hundreds of requests, and closes when the client asks for that.
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

/// Pipelined requests of files and scripts get their responses in order.
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

/// A response is sent though only a part of the next request has come.
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

/// After `Connection: close` the response is sent, and what follows the request does not run.
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

/// A streamed response leaves part by part though another request is pipelined behind it.
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

/// A client that sends requests and reads no response is cut off, and costs no memory.
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

/// HTTP/1.0 requests are served: without Host, without chunks, with keep-alive where asked for.
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

/// One server listens on several TCP ports and unix sockets, and takes over a socket that a killed server has left.
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

/// Chunked bodies reach PHP whole, whatever their extensions and trailers.
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

/// `Expect: 100-continue` gets 100, or the refusal of a body that is too long.
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

/// HEAD has status and headers of GET, and no body, for files, scripts and refusals.
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

/// An absolute target chooses the application before the header Host.
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

/// PHP gets every method but CONNECT and TRACE.
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

/// Exact host names win over wildcards, longer wildcards over shorter, and an application without hosts takes the rest.
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
    for host in ["example.org", "badexample.org", "other", "127.0.0.1", "[::1]", "one.example.org.evil", "example.org."]
    {
        let answer = client.request("GET", "/", &[("Host", host)], b"");
        assert_eq!(answer.status, 421, "{host}: {}", answer.text());
    }
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
    assert_eq!(client.read(false).unwrap().status, 421, "HTTP/1.0 without a host");
}
