//! HTTP/2 by TLS, where clients negotiate it; and h2spec, which tests servers of HTTP/2.

use std::process::Command;

use tests::server::{Directory, project};
use tests::tls::{Authority, Got, Ports, both, curl};
use tests::{Server, Setup, wait_until};

struct Site {
    authority: Authority,
    _directory: Directory,
    server: Server,
    ports: Ports,
}

impl Site {
    fn start(more: &str) -> Site {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("tls"));
        authority.issue("site", "DNS:a.example,IP:127.0.0.1", 20);
        let script =
            "<?php echo implode(' ', [$_SERVER['SERVER_PROTOCOL'], $_SERVER['HTTPS'], $_SERVER['SERVER_PORT']]);";
        let setup = Setup::empty()
            .file("index.php", script)
            .file("long.php", "<?php echo str_repeat('long ', 200);")
            .application("https_redirect = false");
        let (setup, ports) = both(setup, more, &authority.table("site"));
        Site { server: setup.start(), authority, _directory: directory, ports }
    }

    fn get(&self, arguments: &[&str]) -> Got {
        let url = format!("https://a.example:{}/", self.ports.https);
        curl(&url, &[&["--http2", "--cacert", &self.authority.path("ca.pem")], arguments].concat())
    }
}

#[test]
fn clients_negotiate_it() {
    let site = Site::start("");
    let port = site.ports.https;
    for (arguments, protocol, line) in [
        (&[][..], "HTTP/2.0", "HTTP/2 200"),
        (&["--tls-max", "1.2"], "HTTP/2.0", "HTTP/2 200"),
        (&["--http1.1"], "HTTP/1.1", "HTTP/1.1 200"),
        (&["--no-alpn"], "HTTP/1.1", "HTTP/1.1 200"),
    ] {
        let got = site.get(arguments);
        assert!(got.text.starts_with(line) && got.text.ends_with(&format!("{protocol} on {port}")), "{got:?}");
    }
    // One connection, and another authority than its certificate has.
    let got = site.get(&["-H", "Host: b.example"]);
    assert!(got.text.starts_with("HTTP/2 421"), "{got:?}");
    // By TLS the preface alone is not enough.
    let got = site.get(&["--http2-prior-knowledge", "--no-alpn"]);
    assert!(got.status == 0 && got.code != 0, "{got:?}");
    wait_until("the log has it", 10, || site.server.access_log().contains("HTTP/2.0\" 421"));
}

#[test]
fn it_is_not_offered_if_it_is_switched_off() {
    let site = Site::start("http2 = false");
    let got = site.get(&[]);
    assert!(got.text.starts_with("HTTP/1.1 200") && got.text.contains("HTTP/1.1 on"), "{got:?}");
}

/// All of h2spec. A script has its response when the body of the request has come. A file has it before; what h2spec still
/// sends on its stream is ignored then, or not, as it happens (RFC 9113 §5.1). In clear the first bytes of a connection that
/// are no preface are a request of HTTP/1, which gets a response.
#[test]
fn h2spec_finds_nothing() {
    let built = Command::new(project().join("scripts/h2spec")).output().expect("scripts/h2spec");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let h2spec = String::from_utf8_lossy(&built.stdout).trim().to_owned();
    let site = Site::start("");
    for (port, more, known) in
        [(site.ports.https, &["-t", "-k"][..], &[][..]), (site.ports.http, &[], &["Sends invalid connection preface"])]
    {
        let mut command = Command::new(&h2spec);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-P", "/long.php", "-o", "5"]).args(more);
        let output = command.output().expect("h2spec");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = known.len();
        assert!(text.contains(&format!("145 tests, {} passed, 0 skipped, {failed} failed", 145 - failed)), "{text}");
        for name in known {
            assert!(text.contains(name), "{text}");
        }
    }
}
