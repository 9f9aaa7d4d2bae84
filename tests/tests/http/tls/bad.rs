//! Bad input: certificates that cannot be served, clients that speak no TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tests::server::{Directory, free_port, program};
use tests::tls::{Authority, both, curl};
use tests::{Setup, wait_until};

/// What `reprise check` says of a configuration with these lines.
fn check(directory: &Directory, lines: &str) -> (bool, String) {
    let root = directory.0.join("public");
    fs::create_dir_all(&root).unwrap();
    let config = directory.0.join("reprise.toml");
    fs::write(&config, format!("listen = [\"https://127.0.0.1:0\"]\n{lines}\n[[application]]\nroot = \"public\"\n"))
        .unwrap();
    let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Each message names the file and says what to do.
#[test]
fn certificates_that_cannot_be_served_are_explained() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue("good", "DNS:a.example", 20);
    authority.issue("other", "DNS:a.example", 20);
    let read = |name: &str| fs::read_to_string(authority.path(name)).unwrap();
    let write = |name: &str, text: &[u8]| fs::write(authority.path(name), text).unwrap();
    write("half.pem", &read("good.pem").as_bytes()[..300]);
    write("half.key", &read("good.key").as_bytes()[..100]);
    write("empty.pem", b"");
    write("text.key", b"this is no key\n");
    write("binary.pem", b"\x30\x82\xff\xfe");
    write("broken.pem", read("good.pem").replace('M', "!").as_bytes());
    let encrypted = authority.path("encrypted.key");
    let plain = authority.path("good.key");
    let made = Command::new("openssl")
        .args(["pkey", "-in", &plain, "-aes128", "-passout", "pass:x", "-out", &encrypted])
        .status();
    assert!(made.unwrap().success());
    for (chain, key, expected) in [
        ("half.pem", "good.key", &["half.pem", "written in part", "rename"][..]),
        ("good.pem", "half.key", &["half.key", "written in part", "rename"]),
        ("empty.pem", "good.key", &["empty.pem", "there is no certificate in it"]),
        ("good.pem", "text.key", &["text.key", "there is no private key in it"]),
        ("good.pem", "encrypted.key", &["encrypted.key", "encrypted", "openssl pkey"]),
        ("binary.pem", "good.key", &["binary.pem", "no PEM", "openssl x509 -inform DER"]),
        ("broken.pem", "good.key", &["broken.pem", "base64"]),
        ("good.pem", "other.key", &["other.key", "is not the key of the certificate", "good.pem"]),
        ("missing.pem", "good.key", &["missing.pem", "No such file"]),
        ("good.pem", ".", &["not a regular file"]),
        ("ca.pem", "ca.key", &["ca.pem", "names no host", "hosts = "]),
    ] {
        let table = format!("[[certificate]]\nchain = \"{chain}\"\nkey = \"{key}\"");
        let (is_good, text) = check(&directory, &table);
        assert!(!is_good && text.contains("reprise.toml:2"), "{chain} {key}: {text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{chain} {key}: {text}");
    }
    for (lines, expected) in [
        ("", "there is no certificate for it"),
        ("[certificate]\nchain = \"good.pem\"", "write [[certificate]]"),
        ("[[certificate]]\nchain = \"good.pem\"", "has no key"),
        ("[[certificate]]\nchain = \"good.pem\"\nkey = \"good.key\"\nhost = [\"a\"]", "did you mean 'hosts'"),
        (
            "[[certificate]]\nchain = \"good.pem\"\nkey = \"good.key\"\nclient_certificate = \"request\"",
            "says nothing without client_ca",
        ),
        (
            "tls_ticket_keys = \"good.pem\"\n[[certificate]]\nchain = \"good.pem\"\nkey = \"good.key\"",
            "openssl rand 80",
        ),
        (
            "admin_listen = [\"https://127.0.0.1:1\"]\n[[certificate]]\nchain = \"good.pem\"\nkey = \"good.key\"",
            "takes no https",
        ),
    ] {
        let (is_good, text) = check(&directory, lines);
        assert!(!is_good && text.contains(expected), "{lines}: {text}");
    }
}

/// What is only doubtful is served, and said.
#[test]
fn doubtful_certificates_are_served_with_a_warning() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue_expired("old", "DNS:a.example");
    fs::set_permissions(authority.path("old.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let table = format!("{}hosts = [\"a.example\", \"b.example\"]", authority.table("old"));
    let (is_good, text) = check(&directory, &table);
    assert!(is_good, "{text}");
    for expected in ["it expired on ", "every user can read the key", "it does not name b.example"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let (setup, ports) = both(Setup::empty().file("a.txt", "file"), "", &format!("{table}\n"));
    let server = setup.start();
    assert!(server.log().contains("old.pem: it expired on "), "{}", server.log());
    let got = curl(&format!("https://b.example:{}/a.txt", ports.https), &["-k"]);
    assert!(got.text.ends_with("file"), "{}", got.said);
}

/// A server does not start with a certificate that it cannot serve.
#[test]
fn a_start_with_a_broken_certificate_fails() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue("good", "DNS:a.example", 20);
    fs::write(authority.path("good.key"), "-----BEGIN PRIVATE KEY-----\nAAAA\n").unwrap();
    let (setup, _) = both(Setup::empty(), "", &authority.table("good"));
    let mut server = setup.launch();
    assert_eq!(server.wait(20), 78, "{}", server.log());
    assert!(server.log().contains("good.key: it ends within a section"), "{}", server.log());
}

fn send(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut response = Vec::new();
    // The server may reset the connection.
    let _ = stream.read_to_end(&mut response);
    response
}

/// HTTP in clear gets plain words, everything else its end; each is counted.
#[test]
fn clients_without_tls_are_told_so_or_closed_and_counted() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue("good", "DNS:a.example", 20);
    let admin = free_port();
    let more = format!("admin_listen = [\"127.0.0.1:{admin}\"]\ntls_handshake_timeout = \"1s\"");
    let (setup, ports) = both(Setup::empty().file("a.txt", "file"), &more, &authority.table("good"));
    let server = setup.start();
    let clear = curl(&format!("http://a.example:{}/a.txt", ports.https), &[]);
    assert!(clear.status == 400 && clear.text.contains("This port takes HTTPS only"), "{}", clear.text);
    let large = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n".to_vec(), vec![b'x'; 60_000]].concat();
    assert!(send(ports.https, &large).starts_with(b"HTTP/1.1 400 "));
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0; 40]].concat();
    for bytes in [
        &b"\x80\x2e\x01\x00\x02"[..],
        b"\x00\x00\x00\x00",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"SSH",
        b"\x16\xff\xff\xff\xff\xff",
    ] {
        let response = send(ports.https, bytes);
        // An alert at most.
        assert!(response.len() <= 7 || bytes == b"SSH", "{bytes:?}: {response:?}");
    }
    // A hello that never ends.
    assert_eq!(send(ports.https, &hello), b"");
    assert_eq!(send(ports.https, b""), b"", "nothing at all");
    let good = curl(&format!("https://a.example:{}/a.txt", ports.https), &["--cacert", &authority.path("ca.pem")]);
    assert!(good.text.ends_with("file"), "{}", good.said);
    let unknown = curl(&format!("https://a.example:{}/a.txt", ports.https), &[]);
    assert_eq!(unknown.code, 60, "the authority is unknown to it: {}", unknown.said);
    wait_until("all are counted", 10, || {
        let metrics = tests::get(admin, "/metrics").text();
        let count = |word: &str| {
            let name = format!("reprise_tls_handshakes_total{{result=\"{word}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&name)).and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        // curl leaves a handshake whose certificate it does not take with an alert, or after it is complete.
        count("clear") == 3 && count("failed") >= 4 && count("timeout") >= 1 && count("full") >= 1
    });
    let metrics = tests::get(admin, "/metrics").text();
    let name = "reprise_certificate_expiry_seconds{certificate=\"1\",host=\"a.example\"} ";
    let until: u64 = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).expect("its metric");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((19 * 86400..=20 * 86400).contains(&(until - now)), "{until} {now}");
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

/// The first message of a client that speaks TLS 1.3, with X25519.
fn hello() -> Vec<u8> {
    let key = [&[9][..], &[0; 31]].concat();
    let extensions = [
        &b"\x00\x2b\x00\x03\x02\x03\x04\x00\x0a\x00\x04\x00\x02\x00\x1d"[..],
        b"\x00\x0d\x00\x08\x00\x06\x04\x03\x08\x04\x08\x07",
        b"\x00\x33\x00\x26\x00\x24\x00\x1d\x00\x20",
        &key,
    ]
    .concat();
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let begin = [&b"\x03\x03"[..], &[7; 32], b"\x00\x00\x02\x13\x01\x01\x00"].concat();
    let message = [&begin[..], &length(&extensions), &extensions].concat();
    let handshake = [&b"\x01\x00"[..], &length(&message), &message].concat();
    [&b"\x16\x03\x01"[..], &length(&handshake), &handshake].concat()
}

/// Clients that begin a handshake and do not end it keep nobody else from one.
#[test]
fn handshakes_that_do_not_end_hold_up_nobody() {
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 4096, 4096)
        .expect("a limit below the hard one");
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue("good", "DNS:a.example", 20);
    let more = "tls_handshake_timeout = \"10m\"\nclient_connections = 0";
    let (setup, ports) = both(Setup::empty().file("a.txt", "file"), more, &authority.table("good"));
    let _server = setup.start();
    let begun: Vec<TcpStream> = (0..1100)
        .map(|number| {
            let mut client = TcpStream::connect(("127.0.0.1", ports.https)).unwrap();
            client.set_read_timeout(Some(tests::seconds(10))).unwrap();
            client.write_all(&hello()).unwrap();
            // The certificate is on its way: the handshake waits for the client.
            let mut first = [0];
            client.read_exact(&mut first).unwrap_or_else(|error| panic!("client {number}: {error}"));
            assert_eq!(first, [22], "client {number}");
            client
        })
        .collect();
    let good = curl(&format!("https://a.example:{}/a.txt", ports.https), &["--cacert", &authority.path("ca.pem")]);
    assert!(good.text.ends_with("file"), "{}", good.said);
    drop(begun);
}
