//! WebSockets: 101, then bytes as they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::client::{Client, connect};
use tests::http2::{Http2, get};
use tests::server::free_port;
use tests::upstream::Upstream;
use tests::wait_until;

use super::{before, metric};

const ASKS: &[u8] =
    b"GET /up/socket HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Accepts WebSockets and sends back what comes.
fn echo() -> Upstream {
    Upstream::start(|mut talk| {
        while let Some(head) = talk.head() {
            if !head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n") {
                talk.say("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\n\r\nno\r\n").unwrap();
                continue;
            }
            assert!(head.contains("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{head}");
            // The first bytes come with the head.
            talk.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello").unwrap();
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = talk.stream.read(&mut part) {
                if talk.say(&part[..count]).is_err() {
                    return;
                }
            }
            return;
        }
    })
}

/// Opens one, with the greeting read.
fn open(port: u16) -> TcpStream {
    let mut client = Client::over(connect(port).unwrap(), "a.example");
    client.send(ASKS).unwrap();
    let head = client.read_head().unwrap();
    assert_eq!(
        (head.status, head.header("upgrade"), head.header("sec-websocket-accept")),
        (101, Some("websocket"), Some("x"))
    );
    let mut greeting = [0; 5];
    let mut read = 0;
    while read < greeting.len() {
        read += client.read_some(&mut greeting[read..]).unwrap();
    }
    assert_eq!(&greeting, b"hello");
    client.stream().try_clone().unwrap()
}

fn exchange(socket: &mut TcpStream, text: &[u8]) {
    socket.write_all(text).unwrap();
    let mut back = vec![0; text.len()];
    socket.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

#[test]
fn a_websocket_passes_bytes_as_they_are() {
    let (upstream, metrics) = (echo(), free_port());
    let server = before(&upstream, "").server(&format!("admin_listen = [\"127.0.0.1:{metrics}\"]")).start();
    let mut socket = open(server.port);
    exchange(&mut socket, b"\x81\x05\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    // More than sockets hold: both directions go at their own speed.
    let many = vec![7; 4 << 20];
    let (mut writer, copy) = (socket.try_clone().unwrap(), many.clone());
    let writing = std::thread::spawn(move || writer.write_all(&copy));
    let mut back = vec![0; many.len()];
    socket.read_exact(&mut back).unwrap();
    writing.join().unwrap().unwrap();
    assert!(back == many);
    assert_eq!(metric(metrics, "reprise_upstream_websockets"), 1);
    // A reload does not touch it.
    let (is_fine, text) = server.reload();
    assert!(is_fine, "{text}");
    exchange(&mut socket, b"still there");
    // The client's end reaches the upstream, and the upstream's end the client.
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0);
    wait_until("the line of the access log", 10, || {
        server.access_log().contains("GET /up/socket HTTP/1.1\" 101 41943")
    });
    wait_until("it is over", 10, || metric(metrics, "reprise_upstream_websockets") == 0);
    assert_eq!(metric(metrics, "reprise_upstream_running"), 0);
}

#[test]
fn bytes_behind_the_request_wait_for_the_switch() {
    let upstream = echo();
    let server = before(&upstream, "").start();
    let mut socket = connect(server.port).unwrap();
    socket.write_all(&[ASKS, b"GET /x HTTP/1.1\r\n\r\n\r\n"].concat()).unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n\r\n") {
        let mut part = [0; 512];
        let count = socket.read(&mut part).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&part[..count]);
    }
    assert!(got.ends_with(b"helloGET /x HTTP/1.1\r\n\r\n\r\n"), "{}", String::from_utf8_lossy(&got));
}

#[test]
fn what_is_no_websocket_stays_http() {
    let upstream = echo();
    let server = before(&upstream, "").start();
    let mut client = server.client();
    assert_eq!(client.get("/up").status, 426);
    // Another protocol, a body, or another method is no WebSocket; the connection goes on.
    for (method, headers, body) in [
        ("GET", [("Connection", "Upgrade"), ("Upgrade", "h2c")], &b""[..]),
        ("GET", [("Connection", "keep-alive"), ("Upgrade", "websocket")], b""),
        ("POST", [("Connection", "Upgrade"), ("Upgrade", "websocket")], b"x"),
    ] {
        assert_eq!(client.request(method, "/up", &headers, body).status, 426, "{headers:?}");
    }
    // PHP has no WebSockets.
    assert_eq!(client.request("GET", "/", &[("Connection", "Upgrade"), ("Upgrade", "websocket")], b"").text(), "PHP");
    // Over HTTP/2 a client uses upstreams without them.
    let mut client = Http2::new(server.port);
    client.request(1, &get("/up"));
    assert_eq!(client.answer(1).body, b"no\r\n");
}

#[test]
fn silence_ends_a_websocket_and_so_does_a_stop() {
    let upstream = echo();
    let mut server = before(&upstream, "idle_timeout = \"1s\"")
        .route(&format!("prefix = \"/\"\n{}", upstream.rule()))
        .server("drain_timeout = \"30s\"")
        .start();
    let mut silent = open(server.port);
    let began = Instant::now();
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
    // Its time began when the server had passed on the greeting.
    let time = began.elapsed();
    assert!(time > Duration::from_millis(500) && time < Duration::from_secs(20), "{time:?}");
    // One that goes on is ended some seconds after a stop begins, long before the drain ends.
    let mut busy = open(server.port);
    let began = Instant::now();
    server.signal(Signal::SIGTERM);
    let mut rounds = 0;
    while busy.write_all(b"x").is_ok() && busy.read(&mut [0; 8]).is_ok_and(|count| count > 0) {
        rounds += 1;
        std::thread::yield_now();
    }
    assert!(rounds > 1 && began.elapsed() > Duration::from_secs(3) && began.elapsed() < Duration::from_secs(25));
    assert_eq!(server.wait(30), 0);
}
