//! HTTPS: certificates by name, what PHP sees, who is refused.

mod bad;
mod clients;
mod swaps;

use std::collections::BTreeMap;

use tests::server::{Directory, program};
use tests::tls::{Authority, Got, Kept, Ports, both, curl, s_client};
use tests::{Server, Setup, wait_until};

const SHOW: &str =
    "<?php ksort($_SERVER); header('Content-Length: ' . strlen($text = json_encode($_SERVER))); echo $text;";

/// What the script has shown.
fn shown(text: &str) -> BTreeMap<String, String> {
    let body = text.rsplit("\r\n\r\n").next().unwrap_or(text);
    let all: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"));
    let pairs = all.as_object().expect("an object").iter();
    pairs.map(|(name, value)| (name.clone(), value.as_str().map_or(value.to_string(), str::to_owned))).collect()
}

/// A server with a certificate for a.example, one for *.b.example, and one for x.b.example and an address.
struct Site {
    authority: Authority,
    _directory: Directory,
    server: Server,
    ports: Ports,
}

impl Site {
    fn start(more: &str) -> Site {
        Site::with(more, "")
    }

    /// The same, with lines of the server and of the application.
    fn with(more: &str, application: &str) -> Site {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("tls"));
        authority.issue("first", "DNS:a.example,DNS:other.example", 20);
        authority.issue("wildcard", "DNS:*.b.example", 20);
        authority.issue("exact", "DNS:x.b.example,IP:127.0.0.1", 20);
        let tables = ["first", "wildcard", "exact"].map(|name| authority.table(name)).concat();
        let setup = Setup::empty().file("show.php", SHOW).file("a.txt", "file").application(application);
        let setup = setup.file("own.php", "<?php header('Strict-Transport-Security: max-age=1');");
        let (setup, ports) = both(setup, more, &tables);
        Site { server: setup.start(), authority, _directory: directory, ports }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.ports.https)
    }

    fn get(&self, host: &str, path: &str, arguments: &[&str]) -> Got {
        curl(&self.url(host, path), &[&["--cacert", &self.authority.path("ca.pem")], arguments].concat())
    }

    /// The subject of the certificate that a client of this name gets.
    fn subject(&self, arguments: &[&str]) -> String {
        let said =
            s_client(self.ports.https, arguments, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let line = said.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or_else(|| panic!("{said}"));
        line.replace("CN = ", "").replace("CN=", "")
    }
}

#[test]
fn certificates_are_chosen_by_name() {
    let site = Site::start("");
    for (arguments, expected) in [
        (&["-servername", "a.example"][..], "first"),
        (&["-servername", "A.Example"], "first"),
        (&["-servername", "x.b.example"], "exact"),
        (&["-servername", "y.b.example"], "wildcard"),
        (&["-servername", "z.y.b.example"], "first"),
        (&["-servername", "elsewhere.example"], "first"),
        (&["-noservername"], "first"),
        (&["-servername", "x.b.example", "-tls1_2"], "exact"),
    ] {
        assert_eq!(site.subject(arguments), expected, "{arguments:?}");
    }
    for host in ["a.example", "other.example", "x.b.example", "y.b.example", "127.0.0.1"] {
        let host_arguments: &[&str] = if host == "127.0.0.1" { &["-H", "Host: a.example"] } else { &[] };
        let got = site.get(host, "/a.txt", host_arguments);
        assert_eq!(
            (got.code, got.text.ends_with("file")),
            (if host == "127.0.0.1" { 60 } else { 0 }, host != "127.0.0.1"),
            "{host}: {}",
            got.said
        );
    }
    assert!(!site.server.log().contains("is forbidden"), "{}", site.server.log());
}

#[test]
fn php_sees_https() {
    let site = Site::start("");
    for (arguments, protocol) in [(&["--tlsv1.3"][..], "TLSv1.3"), (&["--tls-max", "1.2"], "TLSv1.2")] {
        let seen = shown(&site.get("x.b.example", "/show.php?a", arguments).text);
        let is = |name: &str| seen.get(name).map_or("", String::as_str);
        assert_eq!((is("HTTPS"), is("REQUEST_SCHEME"), is("SERVER_PROTOCOL")), ("on", "https", "HTTP/1.1"));
        assert_eq!((is("SERVER_PORT"), is("SERVER_NAME")), (site.ports.https.to_string().as_str(), "x.b.example"));
        assert_eq!((is("SSL_PROTOCOL"), is("SSL_TLS_SNI")), (protocol, "x.b.example"));
        assert!(is("SSL_CIPHER").contains("AES") || is("SSL_CIPHER").contains("CHACHA20"), "{seen:?}");
        assert!(!seen.contains_key("SSL_CLIENT_VERIFY"), "{seen:?}");
    }
    let clear = curl(&format!("http://plain.example:{}/show.php", site.ports.http), &["-H", "SSL-Protocol: x"]);
    let seen = shown(&clear.text);
    assert!(!seen.contains_key("HTTPS") && !seen.contains_key("SSL_PROTOCOL"), "{seen:?}");
    assert_eq!(seen.get("REQUEST_SCHEME").map(String::as_str), Some("http"));
}

/// A host that is none of the connection's certificate, in the first request and in a later one, and on a resumed connection.
#[test]
fn a_host_outside_of_the_certificate_is_421() {
    let site = Site::start("");
    let mut kept = Kept::connect(site.ports.https, &["-servername", "a.example"]);
    for (host, expected) in [
        ("a.example", 200),
        ("A.Example.", 200),
        (&format!("other.example:{}", site.ports.https), 200),
        ("x.b.example", 421),
        ("elsewhere.example", 421),
        ("a.example.elsewhere.example", 421),
        ("a.example", 200),
    ] {
        assert_eq!(kept.get(host, "/a.txt").0, expected, "{host}");
    }
    let (status, page) = Kept::connect(site.ports.https, &["-noservername"]).get("y.b.example", "/a.txt");
    assert!(status == 421 && page.contains("misdirected"), "{status} {page}");
    let session = site.server.directory().join("session").to_str().expect("a path").to_owned();
    for version in ["-tls1_2", "-tls1_3"] {
        let request = |host: &str| format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let first = s_client(
            site.ports.https,
            &[version, "-servername", "a.example", "-sess_out", &session],
            &request("a.example"),
        );
        assert!(first.contains("HTTP/1.1 200") && !first.contains("Reused, TLS"), "{first}");
        for (host, expected) in [("a.example", "HTTP/1.1 200"), ("x.b.example", "HTTP/1.1 421")] {
            let resumed = s_client(
                site.ports.https,
                &[version, "-servername", "a.example", "-sess_in", &session],
                &request(host),
            );
            assert!(resumed.contains("Reused, TLS") && resumed.contains(expected), "{version} {host}: {resumed}");
        }
        // A ticket is for the name that it was given to.
        let other = s_client(
            site.ports.https,
            &[version, "-servername", "x.b.example", "-sess_in", &session],
            &request("x.b.example"),
        );
        assert!(!other.contains("Reused, TLS") && other.contains("HTTP/1.1 200"), "{version}: {other}");
    }
}

#[test]
fn check_names_each_certificate() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0);
    authority.issue("site", "DNS:a.example,DNS:*.a.example,IP:::1", 3650);
    let root = directory.0.join("public");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("index.php"), "<?php").unwrap();
    let config = directory.0.join("reprise.toml");
    let listen = "listen = [\"https://127.0.0.1:0\"]\n";
    std::fs::write(&config, format!("{listen}{}[[application]]\nroot = \"public\"\n", authority.table("site")))
        .unwrap();
    let output = std::process::Command::new(program()).args(["check", "--config"]).arg(&config).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("certificate   a.example, *.a.example, [::1] (until "),
        "{output:?}"
    );
}

/// What a response says in a header.
fn header<'a>(got: &'a Got, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| line.split_once(": ").filter(|(known, _)| known.eq_ignore_ascii_case(name));
    got.text.lines().take_while(|line| !line.is_empty()).find_map(of_line).map(|(_, value)| value)
}

#[test]
fn requests_in_clear_are_redirected_where_there_is_a_certificate() {
    let site = Site::with("proxies = [\"127.0.0.2\"]", "hsts = \"max-age=600; includeSubDomains\"");
    let ask = |host: &str, path: &str, arguments: &[&str]| {
        curl(&format!("http://{host}:{}{path}", site.ports.http), arguments)
    };
    let https = site.ports.https;
    let got = ask("a.example", "/show.php?x=%20y", &[]);
    let expected = format!("https://a.example:{https}/show.php?x=%20y");
    assert_eq!((got.status, header(&got, "location")), (301, Some(expected.as_str())), "{}", got.text);
    assert_eq!(header(&got, "strict-transport-security"), None, "in clear it means nothing");
    assert_eq!(ask("A.Example", "/a.txt", &["-X", "POST"]).status, 308);
    assert_eq!(ask("y.b.example", "/a.txt", &["-I"]).status, 301);
    // Nobody serves this host by https.
    assert_eq!(ask("elsewhere.example", "/a.txt", &[]).status, 200);
    assert_eq!(ask("a.example", "/.well-known/acme-challenge/none", &[]).status, 404);
    // A proxy says what its client spoke, or is not redirected.
    let by_proxy = |more: &[&str]| ask("a.example", "/a.txt", &[&["--interface", "127.0.0.2"], more].concat()).status;
    assert_eq!(by_proxy(&[]), 200);
    let says = |scheme: &str| format!("X-Forwarded-Proto: {scheme}");
    let client = ["-H", "X-Forwarded-For: 192.0.2.1", "-H"];
    assert_eq!(by_proxy(&[&client[..], &[&says("https")]].concat()), 200);
    assert_eq!(by_proxy(&[&client[..], &[&says("http")]].concat()), 301);
    // The header is in each response by https, of files too.
    for path in ["/show.php", "/a.txt"] {
        let got = site.get("a.example", path, &[]);
        assert_eq!(header(&got, "strict-transport-security"), Some("max-age=600; includeSubDomains"), "{}", got.text);
    }
    assert_eq!(header(&site.get("a.example", "/own.php", &[]), "strict-transport-security"), Some("max-age=1"));
}

#[test]
fn the_redirect_can_be_switched_off() {
    let site = Site::with("", "https_redirect = false");
    assert_eq!(curl(&format!("http://a.example:{}/a.txt", site.ports.http), &[]).status, 200);
}

/// A snapshot for https never serves a visitor of http, and the other way round.
#[test]
fn snapshots_per_host_go_by_the_scheme_of_the_connection() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0.join("tls"));
    authority.issue("site", "DNS:a.example", 20);
    let script =
        "<?php $boot = $_SERVER['REQUEST_SCHEME'] . ($_SERVER['HTTPS'] ?? ''); reprise_snapshot(per_host: true);
        echo $boot, ' ', $_SERVER['REQUEST_SCHEME'] . ($_SERVER['HTTPS'] ?? '');";
    let setup = Setup::empty().file("index.php", script).application("hosts = [\"a.example\"]\nhttps_redirect = false");
    let (setup, ports) = both(setup, "", &authority.table("site"));
    let server = setup.start();
    let ask = |scheme: &str, port: u16| {
        let got = curl(&format!("{scheme}://a.example:{port}/"), &["--cacert", &authority.path("ca.pem")]);
        assert_eq!(got.status, 200, "{}", got.said);
        got.text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
    };
    wait_until("a lane for each scheme", 30, || {
        assert_eq!(ask("https", ports.https), "httpson httpson");
        assert_eq!(ask("http", ports.http), "http http");
        let status = server.status(&["--json"]);
        let has = |scheme: &str, port: u16| status.contains(&format!("{scheme}://a.example:{port}/index.php"));
        has("https", ports.https) && has("http", ports.http)
    });
    for _ in 0..20 {
        assert_eq!(
            (ask("https", ports.https), ask("http", ports.http)),
            ("httpson httpson".into(), "http http".into())
        );
    }
}

/// HTTP/2 is negotiated, unless it is switched off; the rules for hosts are the same.
#[test]
fn http_2_is_negotiated() {
    let site = Site::start("");
    let http2 = |host: &str, arguments: &[&str]| site.get(host, "/show.php", &[&["--http2"], arguments].concat());
    let got = http2("a.example", &[]);
    assert!(got.text.starts_with("HTTP/2 200"), "{} {}", got.said, got.text);
    let seen = shown(&got.text);
    let is = |name: &str| seen.get(name).map_or("", String::as_str);
    assert_eq!((is("SERVER_PROTOCOL"), is("HTTPS"), is("SSL_PROTOCOL")), ("HTTP/2.0", "on", "TLSv1.3"));
    assert_eq!((is("SERVER_PORT"), is("SERVER_NAME")), (site.ports.https.to_string().as_str(), "a.example"));
    assert!(http2("a.example", &["--tls-max", "1.2"]).text.starts_with("HTTP/2 200"));
    assert!(http2("a.example", &["-H", "Host: other.example"]).text.starts_with("HTTP/2 200"));
    let other = http2("a.example", &["-H", "Host: x.b.example"]);
    assert!(other.text.starts_with("HTTP/2 421") && other.text.contains("misdirected"), "{}", other.text);
    let negotiated = |site: &Site, offered: &str| {
        let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let said = s_client(site.ports.https, &["-servername", "a.example", "-alpn", offered], request);
        let line = said.lines().find_map(|line| line.strip_prefix("ALPN protocol: "));
        line.map_or_else(|| "none".to_owned(), str::to_owned)
    };
    assert_eq!(negotiated(&site, "http/1.1"), "http/1.1");
    assert_eq!(negotiated(&site, "h2,http/1.1"), "h2");
    assert_eq!(negotiated(&site, "nothing-known"), "none", "the handshake fails (RFC 7301 §3.2)");
    let without = Site::start("http2 = false");
    assert_eq!(negotiated(&without, "h2,http/1.1"), "http/1.1");
    let got = without.get("a.example", "/show.php", &["--http2"]);
    assert!(got.text.starts_with("HTTP/1.1 200"), "{}", got.text);
}

/// A balancer that passes TLS on says by a PROXY header who its client is; the handshake follows.
#[test]
fn a_proxy_header_comes_before_the_handshake() {
    let site = Site::start("proxy_protocol = [\"127.0.0.1\"]");
    let got = site.get("a.example", "/show.php", &["--haproxy-protocol"]);
    let seen = shown(&got.text);
    assert_eq!(seen.get("HTTPS").map(String::as_str), Some("on"), "{seen:?}");
    let without = site.get("a.example", "/show.php", &[]);
    assert_eq!(without.status, 0, "{}", without.text);
}
