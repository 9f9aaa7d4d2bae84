//! Requests that the front answers by itself while their client still sends the body: the client sees the response.

use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;
use tests::client::connect;
use tests::server::free_port;
use tests::tls::{Authority, both};
use tests::{Client, Setup, seconds, wait_until};

use crate::upstreams::metric;

fn site() -> Setup {
    Setup::empty()
        .file("index.php", "<?php echo strlen(file_get_contents('php://input'));")
        .file("a.txt", "static")
        .file("down.html", "down")
        .application("max_body = \"100K\"")
        .route("prefix = \"/denied\"\ndeny = true")
        .route("prefix = \"/moved\"\nredirect = \"https://b.example/$rest\"\nstatus = 308")
        .route("prefix = \"/down\"\nmaintenance = \"/down.html\"")
        .route("prefix = \"/often\"\nlimits = { rate = \"1/h\" }")
}

/// A head for a body of so many bytes.
fn head(path: &str, size: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n")
}

/// More than the sockets of both ends take.
const LARGE: usize = 20_000_000;

const REFUSED: [(&str, u16); 6] =
    [("/index.php", 413), ("/a.txt", 405), ("/denied/x", 403), ("/moved/x", 308), ("/down/x", 503), ("/often/x", 429)];

/// Sends all of a large body and reads then, as many clients do.
#[test]
fn a_client_that_reads_when_it_has_sent_sees_why_it_was_refused() {
    let server = site().start();
    assert_eq!(server.get("/often/first").status, 200);
    let body = vec![b'x'; LARGE];
    for (path, status) in REFUSED {
        for is_chunked in [false, true] {
            let mut client = server.client();
            let (head, chunk, end) = match is_chunked {
                false => (head(path, LARGE), String::new(), &b""[..]),
                true => {
                    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
                    (head, format!("{LARGE:x}\r\n"), &b"\r\n0\r\n\r\n"[..])
                }
            };
            for part in [head.as_bytes(), chunk.as_bytes(), &body, end] {
                client.send(part).unwrap_or_else(|error| panic!("{path}, {is_chunked}: {error}"));
            }
            let answer = client.read(false).unwrap_or_else(|error| panic!("{path}, {is_chunked}: {error}"));
            assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{path}, {is_chunked}");
            assert!(client.is_closed(), "{path}, {is_chunked}");
        }
    }
}

/// A client that reads when it has sent all.
const PYTHON: &str = "import http.client, ssl, sys
client = http.client.HTTPSConnection('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())
client.request('POST', sys.argv[2], b'x' * 20000000, {'Host': 'a'})
answer = client.getresponse()
print(answer.status, answer.headers['Connection'])";

/// The same by TLS.
#[test]
fn a_client_of_tls_sees_why_it_was_refused() {
    let setup = site();
    let authority = Authority::new(&setup.directory().join("ca"));
    authority.issue("a", "DNS:a", 9);
    let (setup, ports) = both(setup, "", &authority.table("a"));
    let server = setup.start();
    for (path, status) in [("/a.txt", 405), ("/index.php", 413)] {
        let port = ports.https.to_string();
        let output = Command::new("python3").args(["-c", PYTHON, &port, path]).stdin(Stdio::null()).output();
        let output = output.expect("python3");
        let said = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&said), format!("{status} close\n"), "{}", server.log());
    }
}

/// What is left of a small body is read, and the connection goes on, however the body comes.
#[test]
fn a_small_body_that_is_not_wanted_does_not_end_the_connection() {
    let server = site().start();
    assert_eq!(server.get("/often/first").status, 200);
    for (path, status) in REFUSED.into_iter().skip(1) {
        for first in [30_000, 10_000, 0] {
            let mut client = server.client();
            client.send(&[head(path, 30_000).as_bytes(), &vec![b'x'; first]].concat()).unwrap();
            let answer = client.read(false).unwrap();
            assert_eq!((answer.status, answer.header("connection")), (status, None), "{path}, {first}");
            client.send(&vec![b'x'; 30_000 - first]).unwrap();
            assert_eq!(client.get("/a.txt").text(), "static", "{path}, {first}");
        }
    }
    // A client that waits for 100 is not told to send what nobody wants.
    for (path, status) in REFUSED {
        let mut client = server.client();
        let size = if status == 413 { LARGE } else { 30_000 };
        let head = head(path, size).replace("Host: a", "Host: a\r\nExpect: 100-continue");
        client.send(head.as_bytes()).unwrap();
        let mut answer = client.read_head().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{path}");
        client.read_body(&mut answer, false).unwrap();
        assert!(client.is_closed(), "{path}");
    }
    // What PHP wants is not touched.
    let mut client = server.client();
    assert_eq!(client.request("POST", "/index.php", &[], &vec![b'x'; 50_000]).text(), "50000");
    assert_eq!(client.get("/a.txt").text(), "static");
}

/// A client that is only read from is counted, is not read from for long, and keeps no server from ending.
#[test]
fn a_client_that_is_only_read_from_is_let_go() {
    let port = free_port();
    let mut server = site().server(&format!("admin_listen = [\"127.0.0.1:{port}\"]")).start();
    let refused = || {
        let mut client = Client::over(connect(server.port).unwrap(), "a");
        client.send(head("/a.txt", LARGE).as_bytes()).unwrap();
        assert_eq!(client.read(false).unwrap().status, 405);
        assert!(client.is_closed());
        client
    };
    let lingering = || metric(port, "reprise_connections_lingering");
    let began = Instant::now();
    let (_silent, leaves) = (refused(), refused());
    wait_until("both are counted", 5, || lingering() == 2);
    drop(leaves);
    wait_until("one has left", 5, || lingering() == 1);
    wait_until("the other is given up", 10, || lingering() == 0);
    assert!(began.elapsed() >= std::time::Duration::from_secs(4), "{:?}", began.elapsed());

    let mut sending = refused();
    wait_until("another is counted", 5, || lingering() == 1);
    sending.send(b"more").unwrap();
    let began = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
    assert!(began.elapsed() < seconds(4), "{:?}", began.elapsed());
}
