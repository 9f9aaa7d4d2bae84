//! Requests of HTTP/2 that a server behind another could read in two ways, with nginx as judge: what is taken here is taken there, with
//! the same method, host and target. Who reads a request otherwise than the server before it can be used to smuggle one.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tests::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, fields, frame};
use tests::peer::Program;
use tests::server::{Directory, free_port};
use tests::{Server, Setup};

/// What a request is for both: its method, its host in lower case and without port, its target.
const SCRIPT: &str = r#"<?php
$host = strtolower(preg_replace('/:\d*$/', '', $_SERVER['HTTP_HOST'] ?? ''));
echo "$_SERVER[REQUEST_METHOD] $host $_SERVER[REQUEST_URI]", strlen(file_get_contents('php://input')) ? ' body' : '';
"#;

type Fields = Vec<(String, String)>;

fn request(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const USUAL: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/x?y")];

/// The usual fields, with the value of one replaced.
fn with(name: &str, value: &str) -> Fields {
    let mut all = request(&USUAL);
    all.iter_mut().filter(|(known, _)| known == name).for_each(|(_, old)| *old = value.to_owned());
    all
}

/// The usual fields, then one more.
fn and(name: &str, value: &str) -> Fields {
    [request(&USUAL), request(&[(name, value)])].concat()
}

/// Requests whose heads are doubtful, and some that are not.
fn heads() -> Vec<Fields> {
    let mut all = vec![request(&USUAL)];
    // Pseudo-header fields that are missing, doubled, unknown, or behind others.
    for left_out in 0..USUAL.len() {
        let rest: Vec<_> = USUAL.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, one)| *one).collect();
        all.push(request(&rest));
        all.push([request(&rest), request(&[("x", "y")]), request(&USUAL[left_out..=left_out])].concat());
    }
    for (name, value) in USUAL {
        all.push(and(name, value));
    }
    for (name, value) in [
        (":method", "POST"),
        (":path", "/other"),
        (":authority", "b.example"),
        (":scheme", "https"),
        (":status", "200"),
        (":protocol", "websocket"),
        (":x", "y"),
        (":", "y"),
        ("", "y"),
        (":Path", "/z"),
    ] {
        all.push(and(name, value));
        all.push([request(&[(name, value)]), request(&USUAL)].concat());
    }
    // Reversed, and rotated.
    all.push(request(&USUAL).into_iter().rev().collect());
    all.push([request(&USUAL[2..]), request(&USUAL[..2])].concat());
    // The host is said twice.
    for host in [
        "a.example",
        "A.EXAMPLE",
        "b.example",
        "a.example:80",
        "a.example, b.example",
        "",
        "a.example b",
        "a/b",
        "a@b.example",
    ] {
        all.push(and("host", host));
        let without: Vec<_> = USUAL.iter().filter(|(name, _)| *name != ":authority").copied().collect();
        all.push([request(&without), request(&[("host", host)])].concat());
        all.push([and("host", "a.example"), request(&[("host", host)])].concat());
    }
    // Fields of a connection of HTTP/1, and of a body that is framed there.
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("transfer-encoding", "gzip, chunked"),
        ("transfer-encoding", "\u{b}chunked"),
        ("connection", "close"),
        ("connection", "keep-alive"),
        ("connection", "x-y"),
        ("connection", "transfer-encoding"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "h2c"),
        ("upgrade", "websocket"),
        ("http2-settings", "AAMAAABk"),
        ("te", "trailers"),
        ("te", "chunked"),
        ("te", "trailers, chunked"),
        ("te", "gzip"),
        ("content-length", "5"),
        ("content-length", "0"),
        ("content-length", "-1"),
        ("content-length", "+0"),
        ("content-length", "0, 0"),
        ("content-length", "0x0"),
        ("content-length", " 0"),
        ("content-length", ""),
        ("content-length", "00"),
        ("content-length", "99999999999999999999"),
        ("content-length", "0\r\nx: y"),
    ] {
        all.push(and(name, value));
    }
    all.push([and("content-length", "0"), request(&[("content-length", "0")])].concat());
    all.push([and("content-length", "0"), request(&[("content-length", "5")])].concat());
    // Names that HTTP/1 could not carry, or reads as others.
    for name in [
        "X",
        "Content-Length",
        "Transfer-Encoding",
        "HOST",
        "x y",
        "x:",
        "x:y",
        ":x",
        " x",
        "x ",
        "x\t",
        "x\r\ny",
        "x\n",
        "x\0",
        "x\u{7f}",
        "\u{e9}",
        "x(",
        "x/y",
        "x\"",
        "content-length ",
        "transfer-encoding:",
        "x\r\nhost: b.example\r\nx",
        "transfer_encoding",
        "content_length",
    ] {
        all.push(and(name, "0"));
    }
    // The bytes of values, and of everything that becomes a request line.
    for byte in (0..=32).chain([35, 37, 92, 127]) {
        let byte = char::from(byte);
        all.push(and("x", &format!("a{byte}b")));
        all.push(and("x", &format!("{byte}a")));
        all.push(and("cookie", &format!("a={byte}b")));
        all.push(with(":path", &format!("/x{byte}y")));
        all.push(with(":path", &format!("/{byte}")));
        all.push(with(":method", &format!("GE{byte}T")));
        all.push(with(":authority", &format!("a{byte}.example")));
        all.push(with(":scheme", &format!("ht{byte}tp")));
    }
    for path in [
        "",
        "x",
        "*",
        "?y",
        "http://b.example/",
        "http://a.example/x",
        "//b.example/x",
        "/x HTTP/1.1",
        "/x HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "/x HTTP/1.1\r\nx: ",
        "\\x",
        "/\\..\\x",
        "/../x",
        "/x/%2e%2e/y",
        "/%00",
        "/x%0d%0ay",
        "/x#y",
        "//",
        "/x//y",
        "/\u{e9}",
        "/%",
        "/%zz",
        ":80",
        "a.example:443",
        "/x?a b",
        "/x?\u{7f}",
    ] {
        all.push(with(":path", path));
        all.push([with(":path", path), request(&[("host", "a.example")])].concat());
    }
    for method in [
        "get",
        "G T",
        "",
        "GET ",
        " GET",
        "GET /y HTTP/1.1\r\nHost: b\r\n\r\nGET",
        "POST",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PRI",
        "(",
        "G\u{e9}T",
    ] {
        all.push(with(":method", method));
    }
    for host in [
        "",
        "b.example",
        "A.Example",
        "a.example:8080",
        "a.example:",
        "a.example:x",
        "user@a.example",
        "a.example/x",
        "a.example?x",
        "a.example#x",
        "[::1]",
        "[::1",
        "a b",
        "a.example\r\nx: y",
        "a.example,b.example",
        "http://a.example",
        "\u{e9}.example",
        "..",
        ".",
        "a..b",
        "%61.example",
    ] {
        all.push(with(":authority", host));
    }
    for scheme in ["https", "HTTP", "", "ftp", "http://b.example/x?", "http:", "h ttp", "javascript", "http\r\nx: y"] {
        all.push(with(":scheme", scheme));
    }
    all
}

/// What a server makes of a request: what it has understood, or nothing if it refuses.
fn outcome(port: u16, sent: &[u8]) -> Option<String> {
    let mut client = Http2::new(port);
    client.wait_at_most(Duration::from_secs(20));
    client.send(sent).expect("the server reads");
    loop {
        if let Some(answer) = client.answers.get(&1).filter(|one| one.is_complete || one.reset.is_some()) {
            let is_taken = answer.status == Some(200) && answer.is_complete;
            return is_taken.then(|| String::from_utf8_lossy(&answer.body).into_owned());
        }
        match client.read() {
            Err(error) if [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut].contains(&error.kind()) => {
                panic!("neither a response nor an end: {}", sent.escape_ascii())
            }
            Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn head(request: &Fields) -> Vec<u8> {
    let pairs: Vec<(&str, &str)> = request.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&pairs))
}

struct Nginx {
    port: u16,
    _program: Program,
    _directory: Directory,
}

fn nginx() -> Nginx {
    let (directory, port) = (Directory::new(), free_port());
    let text = format!(
        "daemon off; pid nginx.pid; error_log stderr; events {{}}\nhttp {{ access_log off; \
         server {{ listen 127.0.0.1:{port} http2; return 200 \"$request_method $host $request_uri\"; }} }}"
    );
    fs::write(directory.0.join("nginx.conf"), text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory.0).arg("-c").arg(directory.0.join("nginx.conf")).args(["-e", "stderr"]);
    let mut program = Program::start(&mut command, &directory.0.join("nginx.log"));
    program.await_ready(30, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Nginx { port, _program: program, _directory: directory }
}

fn site() -> Server {
    Setup::empty().file("index.php", SCRIPT).start()
}

/// The request as nginx has to see it to take it, where it is stricter or keeps more than HTTP asks for:
///
/// - it refuses a Host that repeats `:authority`, which RFC 9113 §8.3.1 allows;
/// - it shows a target with its fragment, and serves it without: nobody's path or query has one;
/// - it refuses methods that are not made of capital letters; any token is one (RFC 9110 §9.1), and the method is passed on as it is.
fn as_nginx_takes_it(request: &Fields) -> Fields {
    let value = |wanted: &str| request.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let authority = value(":authority").unwrap_or_default();
    let is_repeated = |name: &str, value: &str| name == "host" && value.eq_ignore_ascii_case(&authority);
    let reduced = request.iter().filter(|(name, value)| !is_repeated(name, value)).map(|(name, value)| {
        let value = match name.as_str() {
            ":path" => value.split('#').next().unwrap_or_default().to_owned(),
            ":method" if value.bytes().all(|byte| byte.is_ascii_alphabetic() || b"#%".contains(&byte)) => {
                "GET".to_owned()
            }
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    reduced.collect()
}

/// Whether the difference hides no request: nginx takes what remains without it, and reads that alike.
fn is_harmless(request: &Fields, ours: &str, nginx: u16) -> bool {
    // An empty Host names no host, as in HTTP/1 (RFC 9112 §3.2); nginx refuses it here alone.
    let names_none = !request.iter().any(|(name, _)| name == ":authority")
        && request.iter().any(|(name, value)| name == "host" && value.is_empty());
    let reduced = as_nginx_takes_it(request);
    let theirs = outcome(nginx, &head(&reduced)).unwrap_or_default();
    let rest = |text: &str| text.split_once(' ').map(|(_, rest)| rest.to_owned());
    let method = request.iter().find(|(name, _)| name == ":method").map_or("", |(_, value)| value);
    names_none && ours == "GET  /x?y" || (ours.starts_with(&format!("{method} ")) && rest(ours) == rest(&theirs))
}

#[test]
fn nginx_reads_each_head_that_is_taken_alike() {
    let (nginx, server) = (nginx(), site());
    let usual = head(&request(&USUAL));
    assert_eq!(outcome(server.port, &usual).as_deref(), Some("GET a.example /x?y"));
    assert_eq!(outcome(nginx.port, &usual).as_deref(), Some("GET a.example /x?y"));
    let (mut taken, mut differ) = (0, Vec::new());
    for request in heads() {
        let sent = head(&request);
        let Some(ours) = outcome(server.port, &sent) else { continue };
        taken += 1;
        let theirs = outcome(nginx.port, &sent);
        if theirs.as_deref() != Some(&ours) && !is_harmless(&request, &ours, nginx.port) {
            differ.push(format!("{request:?}: here {ours:?}, there {theirs:?}"));
        }
    }
    assert!(taken > 20, "{taken} requests are taken");
    assert!(differ.is_empty(), "{} of {taken}:\n{}", differ.len(), differ.join("\n"));
    assert_eq!(outcome(server.port, &usual).as_deref(), Some("GET a.example /x?y"), "it serves on");
}

/// A body that has not the length that was said reaches no script as a whole one.
#[test]
fn no_body_of_another_length_is_taken() {
    let (nginx, server) = (nginx(), site());
    let post = |length: &str| {
        let mut all = with(":method", "POST");
        all.push(("content-length".to_owned(), length.to_owned()));
        let pairs: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields(&pairs)
    };
    let hidden = b"GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for (length, parts) in [
        ("0", &[&hidden[..]][..]),
        ("5", &[b"1234"]),
        ("5", &[b"123456"]),
        ("5", &[b"12345", b"6"]),
        ("5", &[b"", b"1234"]),
        ("1", &[&hidden[..]]),
        ("5, 5", &[b"12345"]),
        ("+5", &[b"12345"]),
        ("0x5", &[b"12345"]),
        ("5 ", &[b"12345"]),
    ] {
        let mut sent = frame(HEADERS, END_HEADERS, 1, &post(length));
        for (at, part) in parts.iter().enumerate() {
            let end = if at + 1 == parts.len() { END_STREAM } else { 0 };
            sent.extend(frame(DATA, end, 1, part));
        }
        assert_eq!(outcome(server.port, &sent), None, "{length} {parts:?}");
    }
    let good = [frame(HEADERS, END_HEADERS, 1, &post("5")), frame(DATA, END_STREAM, 1, b"12345")].concat();
    assert_eq!(outcome(server.port, &good).as_deref(), Some("POST a.example /x?y body"));
    assert_eq!(outcome(nginx.port, &good).as_deref(), Some("POST a.example /x?y"));
    assert!(!server.access_log().contains("hidden"), "{}", server.access_log());
}
