//! The PROXY protocol: the client that a load balancer names is the client, and nobody else can name one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use tests::server::free_port;
use tests::{Client, Response, Server, Setup, wait_until};

const SCRIPT: &str = r#"<?php
if (isset($_GET['wait'])) while (!file_exists(getenv('PLACE') . '/go')) { usleep(2000); clearstatcache(); }
echo "$_SERVER[REMOTE_ADDR] $_SERVER[REMOTE_PORT] $_SERVER[SERVER_ADDR] $_SERVER[SERVER_PORT]";
"#;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn site(declared: &str) -> Setup {
    Setup::empty()
        .file("index.php", SCRIPT)
        .server(&format!("proxy_protocol = [{declared}]"))
        .server(&format!("admin_listen = [\"127.0.0.1:{}\"]", free_port()))
}

fn metrics(server: &Server) -> String {
    let text = std::fs::read_to_string(server.directory().join("reprise.toml")).unwrap();
    let port = text.split("admin_listen = [\"127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    // The balancer need not introduce itself there.
    tests::client::get(port.parse().unwrap(), "/metrics").text()
}

fn refused(server: &Server, reason: &str) -> u64 {
    let text = metrics(server);
    let name = format!("reprise_proxy_headers_refused_total{{reason=\"{reason}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).expect("a metric").parse().unwrap()
}

fn introduced(server: &Server, header: &[u8]) -> Client {
    let mut client = server.client();
    client.send(header).unwrap();
    client
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    [SIGNATURE, &[command, family], &(rest.len() as u16).to_be_bytes(), rest].concat()
}

/// Asks with all bytes at once, and with one at a time.
fn asked(server: &Server, header: &[u8]) -> Response {
    let request = [header, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    let mut one = server.client();
    for byte in &request {
        one.send(&[*byte]).unwrap();
    }
    let slowly = one.read(false).unwrap();
    let mut client = introduced(server, &request);
    let first = client.read(false).unwrap();
    // Two connections of the balancer itself have two ports.
    let address = |response: &Response| response.text().split(' ').next().unwrap_or("").to_owned();
    assert_eq!(address(&slowly), address(&first));
    assert_eq!(client.get("/").text(), first.text(), "the next request of the connection");
    first
}

#[test]
fn the_client_is_the_one_that_the_header_names() {
    let server = site("\"127.0.0.0/8\"").start();
    let (four, mut six) = ([192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb], [0; 36]);
    (six[0], six[1], six[15], six[31], six[33], six[35]) = (0x20, 0x01, 7, 1, 1, 2);
    // A host name, a certificate and a byte too many, as extensions.
    let extended = [&four[..], &[2, 0, 7], b"evil.tv", &[0x20, 0, 5, 7, 0, 0, 0, 0], &[0xff]].concat();
    for (header, expected) in [
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n".to_vec(), "192.0.2.1 56324 198.51.100.2 443"),
        (b"PROXY TCP6 2001::7 ::1 1 2\r\n".to_vec(), "2001::7 1 ::1 2"),
        (v2(0x21, 0x11, &four), "192.0.2.1 56324 198.51.100.2 443"),
        (v2(0x21, 0x11, &extended), "192.0.2.1 56324 198.51.100.2 443"),
        (v2(0x21, 0x21, &six), "2001::7 1 ::1 2"),
    ] {
        assert_eq!(asked(&server, &header).text(), expected, "{header:?}");
        let address = expected.split(' ').next().unwrap();
        wait_until("the access log has the client", 10, || {
            server.access_log().matches(&format!("{address} - ")).count() >= 3
        });
    }
    // The balancer itself, and protocols without addresses.
    for header in [b"PROXY UNKNOWN x\r\n".to_vec(), v2(0x20, 0, b""), v2(0x21, 0, b"abc"), v2(0x21, 0x31, &[0; 216])] {
        let text = asked(&server, &header).text();
        assert!(text.starts_with("127.0.0.1 ") && text.ends_with(&format!(" 127.0.0.1 {}", server.port)), "{text}");
    }
    assert_eq!((refused(&server, "malformed"), refused(&server, "late")), (0, 0));
}

/// Each is closed without a response, and counted.
#[test]
fn a_balancer_has_to_send_a_header() {
    let server = site("\"127.0.0.1\"").server("header_timeout = \"1s\"").start();
    let bad = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 99999\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        [&v2(0x31, 0x11, &[0; 12])[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat(),
        v2(0x21, 0x11, &[0; 9000]),
        // A TLS hello.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03xxxxxxxxxxxxxxxxxx".to_vec(),
    ];
    for header in &bad {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut answer = Vec::new();
        // What was not read may come back as a reset.
        let _ = stream.write_all(header).and_then(|()| stream.read_to_end(&mut answer));
        assert_eq!(answer, b"", "{header:?}");
    }
    wait_until("all are counted", 10, || refused(&server, "malformed") == bad.len() as u64);
    for begun in [&b""[..], b"PROXY TCP4 192.0.2.1", SIGNATURE, &v2(0x21, 0x11, b"")[..14]] {
        let mut client = introduced(&server, begun);
        assert!(client.is_closed(), "{begun:?}");
    }
    assert_eq!(refused(&server, "late"), 4);
    // One that goes away is not counted as late; without a byte it is nothing at all.
    drop(introduced(&server, b"PROXY"));
    drop(server.client());
    wait_until("it is counted", 10, || refused(&server, "malformed") == bad.len() as u64 + 1);
    assert_eq!(server.access_log(), "");
}

/// A header from somebody else is a malformed request.
#[test]
fn nobody_else_can_name_a_client() {
    let server = site("\"10.0.0.0/8\", \"unix:\"").start();
    for header in [b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n".to_vec(), v2(0x21, 0x11, &[0; 12])] {
        let mut client = introduced(&server, &[&header[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        let answer = client.read(false).unwrap();
        assert_eq!((answer.status, answer.header("reprise-refused")), (400, Some("bad-request")));
    }
    assert!(server.get("/").text().starts_with("127.0.0.1 "));
}

/// Limits count the client, not the balancer; a declared proxy behind the balancer is believed.
#[test]
fn limits_and_proxies_go_by_the_client() {
    let setup = site("\"127.0.0.1\"").server("client_connections = 1").server("proxies = [\"192.0.2.0/24\"]");
    let setup = setup.application("client_requests = 1").application("workers = 4");
    let place = setup.writable("place");
    let server = setup.env("PLACE", &place).start();
    let header = |address: &str| format!("PROXY TCP4 {address} 198.51.100.2 1 80\r\n").into_bytes();
    let ask = |client: &mut Client, target: &str| {
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n").as_bytes())
            .unwrap();
    };
    let mut first = introduced(&server, &header("198.18.0.1"));
    ask(&mut first, "/?wait=1");
    wait_until("it runs", 10, || server.status(&[]).contains("/?wait=1"));
    assert!(introduced(&server, &header("198.18.0.1")).is_closed(), "a second connection of the same client");
    let mut other = introduced(&server, &header("198.18.0.2"));
    ask(&mut other, "/");
    assert!(other.read(false).unwrap().text().starts_with("198.18.0.2 1 "), "its own header is not believed");
    let mut proxies: Vec<Client> = (0..2).map(|_| introduced(&server, &header("192.0.2.7"))).collect();
    ask(&mut proxies[0], "/?wait=1");
    wait_until("it runs", 10, || server.status(&[]).matches("/?wait=1").count() == 2);
    ask(&mut proxies[1], "/");
    assert_eq!(proxies[1].read(false).unwrap().status, 429, "a request of the same client behind the proxy");
    std::fs::write(format!("{place}/go"), "").unwrap();
    assert!(proxies[0].read(false).unwrap().text().starts_with("203.0.113.9 "));
    assert!(first.read(false).unwrap().text().starts_with("198.18.0.1 1 "));
}

/// Through a unix socket; and a reload takes the declaration back.
#[test]
fn unix_sockets_and_reloads() {
    let setup = Setup::empty().file("index.php", SCRIPT);
    let path = setup.directory().join("socket");
    let server =
        setup.server(&format!("listen = [\"unix:{}\"]", path.display())).server("proxy_protocol = [\"unix:\"]").start();
    let ask = |header: &[u8]| {
        let mut client = Client::over(UnixStream::connect(&path).unwrap(), "a");
        client.send(&[header, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).unwrap();
        client.read(false)
    };
    let header = b"PROXY TCP4 192.0.2.1 198.51.100.2 5 443\r\n";
    assert_eq!(ask(header).unwrap().text(), "192.0.2.1 5 198.51.100.2 443");
    assert!(ask(b"").is_err());
    server.reconfigure("proxy_protocol = [\"unix:\"]", "proxy_protocol = []");
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    assert_eq!(ask(b"").unwrap().status, 200);
    assert_eq!(ask(header).unwrap().status, 400);
}

/// A header that is on its way is waited for, as the first byte of a request is; silence is not.
#[test]
fn a_stop_does_not_wait_for_headers() {
    let mut server = site("\"127.0.0.1\"").start();
    let mut silent: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut late = introduced(&server, b"PROXY TCP4 192.0.2.1 198.");
    wait_until("they are accepted", 10, || metrics(&server).contains("\nreprise_connections 5\n"));
    server.signal(nix::sys::signal::Signal::SIGTERM);
    late.send(b"51.100.2 5 443\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(late.read(false).unwrap().text(), "192.0.2.1 5 198.51.100.2 443");
    assert_eq!(server.wait(20), 0);
    assert!(silent.iter_mut().all(Client::is_closed));
}
