//! How `Host` is read, and which headers may stand in a request once only: the same requests to Reprise and to nginx.

use tests::client::connect;
use tests::peer::Fpm;
use tests::{Client, Response, Server, Setup};

const SHOW: &str = "<?php echo $_SERVER['SERVER_NAME'], ' ', $_SERVER['HTTP_HOST'];";

/// Sends these header lines with nothing added.
fn ask(port: u16, lines: &str) -> Response {
    let mut client = Client::over(connect(port).expect("a connection"), "");
    client.send(format!("GET /index.php HTTP/1.1\r\n{lines}Connection: close\r\n\r\n").as_bytes()).expect("sent");
    client.read(false).unwrap_or_else(|error| panic!("{lines:.80}: {error}"))
}

fn with_host(port: u16, host: &str) -> Response {
    ask(port, &format!("Host: {host}\r\n"))
}

fn refusal(response: &Response) -> (u16, Option<&str>) {
    (response.status, response.header("reprise-refused"))
}

fn pair() -> (Server, Fpm) {
    let server = Setup::empty().file("index.php", SHOW).start();
    let peer = Fpm::start(&server.root);
    (server, peer)
}

/// Hosts with a dot at their end, in upper case or with a port choose the application that nginx chooses.
#[test]
fn hosts_with_a_dot_at_their_end_are_read_as_by_nginx() {
    let (server, peer) = pair();
    for host in [
        "a.example",
        "a.example.",
        "A.Example.",
        "a.",
        "a.example.:8080",
        "a.example:8080",
        "127.0.0.1.",
        "[::1]",
        "[::1]:80",
    ] {
        let (ours, theirs) = (with_host(server.port, host), with_host(peer.port, host));
        assert_eq!((theirs.status, ours.status), (200, 200), "{host}");
        assert_eq!(ours.text(), theirs.text(), "{host}");
    }
    assert_eq!(with_host(server.port, "A.example.:81").text(), "a.example A.example.:81");
    for host in ["127.0.0..1", "a..b", "a..", "..", ".", "..a", ".:80", "a..:80"] {
        assert_eq!(with_host(peer.port, host).status, 400, "nginx: {host}");
        assert_eq!(refusal(&with_host(server.port, host)), (400, Some("bad-host")), "{host}");
    }
    // nginx lets an empty label pass where no other follows it.
    assert_eq!(with_host(peer.port, ".a.example").status, 200);
    assert_eq!(refusal(&with_host(server.port, ".a.example")), (400, Some("bad-host")));
    let absolute = "GET http://a.example./index.php HTTP/1.1\r\nHost: a.example.\r\nConnection: close\r\n\r\n";
    for (port, expected) in [(server.port, "a.example a.example."), (peer.port, "a.example a.example.")] {
        let mut client = Client::over(connect(port).expect("a connection"), "");
        client.send(absolute.as_bytes()).expect("sent");
        assert_eq!(client.read(false).expect("an answer").text(), expected);
    }
}

/// By an exact name, by a wildcard, and by a name that the configuration itself writes with the dot.
#[test]
fn a_dot_at_the_end_of_a_host_leads_to_its_application() {
    let server = Setup::empty()
        .file("index.php", SHOW)
        .application("hosts = [\"a.example\", \"*.b.example\", \"c.example.\", \"*.d.example.\"]")
        .start();
    for (host, expected) in [
        ("a.example.", "a.example a.example."),
        ("A.Example.:8080", "a.example A.Example.:8080"),
        ("x.b.example.", "x.b.example x.b.example."),
        ("c.example", "c.example c.example"),
        ("c.example.", "c.example c.example."),
        ("x.d.example", "x.d.example x.d.example"),
    ] {
        let answer = with_host(server.port, host);
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{host}");
    }
    assert_eq!(refusal(&with_host(server.port, "other.example.")), (421, Some("unknown-host")));
}

/// A host of ten kilobytes is refused as too large, as by nginx.
#[test]
fn a_host_of_ten_kilobytes_is_too_large() {
    let (server, peer) = pair();
    let long = "a".repeat(10_000);
    // nginx calls it 400 Request Header Or Cookie Too Large; it has no 431.
    let theirs = with_host(peer.port, &long);
    assert!(theirs.status == 400 && theirs.text().contains("Too Large"), "{}", theirs.text());
    assert_eq!(refusal(&with_host(server.port, &long)), (431, Some("head-too-large")));
    assert_eq!(refusal(&with_host(server.port, &"a.".repeat(5_000))), (431, Some("head-too-large")));
    // Beyond a buffer of the front's, where no request is read any more.
    assert_eq!(with_host(server.port, &"a".repeat(100_000)).status, 431);
    let longest = "a.".repeat(127);
    assert_eq!(with_host(server.port, &longest).status, 200);
    assert_eq!(refusal(&with_host(server.port, &format!("{longest}:8"))), (431, Some("head-too-large")));
    assert_eq!(refusal(&with_host(server.port, &"a/".repeat(5_000))), (400, Some("bad-host")));
}

/// Every request header that nginx 1.22 treats in a way of its own, sent twice.
#[test]
fn a_header_with_one_value_is_refused_if_it_comes_twice() {
    let (server, peer) = pair();
    let twice = |port: u16, name: &str, one: &str, two: &str| {
        let host = if name == "Host" { "" } else { "Host: a\r\n" };
        ask(port, &format!("{host}{name}: {one}\r\nX-Between: 1\r\n{}: {two}\r\n", name.to_ascii_lowercase()))
    };
    let (date, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT");
    for (name, one, two, word) in [
        ("Host", "a", "b", "bad-host"),
        ("Host", "a", "a", "bad-host"),
        ("Authorization", "Basic YTpi", "Basic Yzpk", "repeated-header"),
        ("Authorization", "Basic YTpi", "Basic YTpi", "repeated-header"),
        ("If-Modified-Since", date, later, "repeated-header"),
        ("If-Unmodified-Since", later, date, "repeated-header"),
        ("If-Range", "\"a\"", "\"b\"", "repeated-header"),
        ("Transfer-Encoding", "chunked", "chunked", "bad-framing"),
    ] {
        assert_eq!(twice(peer.port, name, one, two).status, 400, "nginx: {name}");
        assert_eq!(refusal(&twice(server.port, name, one, two)), (400, Some(word)), "{name}");
    }
    for (name, one, two) in [("Content-Length", "0", "1"), ("Content-Length", "1", "0")] {
        assert_eq!(twice(peer.port, name, one, two).status, 400, "nginx: {name}");
        assert_eq!(twice(server.port, name, one, two).status, 400, "{name}");
    }
    // Where RFC 9110 has a list, it may come in several lines; nginx refuses some of them.
    for (name, one, two, theirs) in [
        ("If-Match", "*", "\"b\"", 400),
        ("If-None-Match", "\"a\"", "\"b\"", 400),
        ("Cookie", "a=1", "b=2", 200),
        ("Accept", "text/html", "*/*", 200),
        ("X-Forwarded-For", "192.0.2.1", "192.0.2.2", 200),
        ("User-Agent", "a", "b", 200),
        ("Referer", "http://a/", "http://b/", 200),
        ("Content-Type", "text/plain", "text/html", 200),
        ("Range", "bytes=0-0", "bytes=1-1", 200),
        ("X-Own", "1", "2", 200),
    ] {
        assert_eq!(twice(peer.port, name, one, two).status, theirs, "nginx: {name}");
        assert_eq!(twice(server.port, name, one, two).status, 200, "{name}");
    }
}

/// What runs from a snapshot of `a.test` has booted with that in HTTP_HOST.
#[test]
fn a_dot_at_the_end_of_a_host_gets_no_snapshot_of_another_spelling() {
    let script = "<?php $host = $_SERVER['HTTP_HOST']; reprise_snapshot(per_host: true);
        echo reprise_info()['mode'], ' ', $host, ' ', $_SERVER['HTTP_HOST'];";
    let server = Setup::empty().file("index.php", script).application("hosts = [\"a.test\"]").start();
    assert_eq!(with_host(server.port, "a.test").text(), "snapshot a.test a.test");
    for _ in 0..3 {
        assert_eq!(with_host(server.port, "a.test.").text(), "classic a.test. a.test.");
    }
}
