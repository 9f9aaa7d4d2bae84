//! Clients of several libraries of TLS, by HTTP/1.1 and HTTP/2.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use tests::http2::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, fields, frame};
use tests::tls::curl;

use super::{HOSTS, Site};

const PROTOCOLS: [(&str, &str); 2] = [("http/1.1", "HTTP/1.1"), ("h2", "HTTP/2.0")];
const VERSIONS: [&str; 2] = ["TLSv1.3", "TLSv1.2"];

/// What a client that only speaks TLS sends to ask for a page.
fn request(alpn: &str, host: &str) -> Vec<u8> {
    if alpn == "http/1.1" {
        return format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes();
    }
    let head = fields(&[(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")]);
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)].concat()
}

/// Runs such a client until it has this page.
fn gets(mut command: Command, request: &[u8], page: &str) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a client");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(request).expect("it reads");
    let (mut output, mut seen, mut part) = (child.stdout.take().expect("its output"), Vec::new(), [0; 4096]);
    // A frame of HTTP/2 has the page as it is.
    while !seen.windows(page.len()).any(|bytes| bytes == page.as_bytes()) {
        let length = output.read(&mut part).expect("its output");
        assert!(length > 0, "{command:?} ended without {page:?}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..length]);
    }
    drop(input);
    let _ = child.kill();
    child.wait().expect("its end");
}

/// Calls for each host, protocol and version of TLS.
fn for_all(call: impl Fn(&str, &str, &str, &str)) {
    for host in HOSTS {
        for (alpn, protocol) in PROTOCOLS {
            for version in VERSIONS {
                call(host, alpn, version, &format!("a page by {protocol} and {version}"));
            }
        }
    }
}

#[test]
fn openssl_gets_pages() {
    let site = Site::start();
    let [ca, chain, key] = site.papers();
    let at = format!("127.0.0.1:{}", site.ports.https);
    for_all(|host, alpn, version, page| {
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-connect",
            &at,
            "-CAfile",
            &ca,
            "-servername",
            host,
        ]);
        command.args(["-verify_hostname", host, "-alpn", alpn, "-cert", &chain, "-key", &key]);
        command.arg(if version == "TLSv1.3" { "-tls1_3" } else { "-tls1_2" }).stderr(Stdio::null());
        gets(command, &request(alpn, host), page);
    });
}

#[test]
fn gnutls_gets_pages() {
    let site = Site::start();
    let [ca, chain, key] = site.papers();
    for_all(|host, alpn, version, page| {
        let mut command = Command::new("gnutls-cli");
        command.args([
            &format!("--x509cafile={ca}"),
            &format!("--x509certfile={chain}"),
            &format!("--x509keyfile={key}"),
        ]);
        command.args([
            &format!("--sni-hostname={host}"),
            &format!("--verify-hostname={host}"),
            &format!("--alpn={alpn}"),
        ]);
        let version = version.trim_start_matches("TLSv");
        command.arg(format!("--priority=NORMAL:-VERS-ALL:+VERS-TLS{version}"));
        // Its own words go there, and to the standard error.
        command.arg(format!("--logfile={}", site.place("gnutls.log"))).arg(format!("--port={}", site.ports.https));
        command.arg("127.0.0.1");
        gets(command, &request(alpn, host), page);
    });
}

#[test]
fn curl_gets_pages() {
    let site = Site::start();
    let [ca, chain, key] = site.papers();
    for_all(|host, alpn, version, page| {
        let protocol = if alpn == "h2" { "--http2" } else { "--http1.1" };
        let most = version.trim_start_matches("TLSv");
        let arguments = [protocol, "--tls-max", most, "--cacert", &ca, "--cert", &chain, "--key", &key];
        let got = curl(&format!("https://{host}:{}/", site.ports.https), &arguments);
        assert!(got.text.ends_with(page), "{host} {page}: {got:?}");
    });
}

/// Chromium trusts the test's authority by the database of NSS in its home directory. It shows no certificate of its own, so no host that
/// requires one.
#[test]
fn chromium_gets_pages() {
    let site = Site::start();
    let (ca, home) = (site.authority.path("ca.pem"), site.place("home"));
    let database = format!("{home}/.pki/nssdb");
    fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{database}");
    for arguments in [&["-N", "--empty-password"][..], &["-A", "-t", "C,,", "-n", "authority", "-i", &ca]] {
        let made = Command::new("certutil").args(["-d", &database]).args(arguments).output().expect("certutil");
        assert!(made.status.success(), "certutil {arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
    let dump = |host: &str, more: &[&str]| {
        let mut command = Command::new("chromium");
        command.args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--dump-dom"]);
        // Its own sandbox needs what a container may not give, and nothing here comes from anybody else.
        command.args([
            "--no-sandbox",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        command.args([
            "--host-resolver-rules=MAP *.example 127.0.0.1, MAP * ~NOTFOUND",
            &format!("--user-data-dir={home}/data"),
        ]);
        command
            .args(more)
            .arg(format!("https://{host}:{}/", site.ports.https))
            .env("HOME", &home)
            .env_remove("XDG_CONFIG_HOME");
        let output = command.stdin(Stdio::null()).output().expect("chromium");
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for host in ["ecdsa.example", "rsa.example"] {
        for (more, protocol) in [(&[][..], "HTTP/2.0"), (&["--disable-http2"], "HTTP/1.1")] {
            for (version, most) in [("TLSv1.3", "tls1.3"), ("TLSv1.2", "tls1.2")] {
                let most = format!("--ssl-version-max={most}");
                let (page, said) = dump(host, &[more, &[&most]].concat());
                assert!(
                    page.contains(&format!("a page by {protocol} and {version}")),
                    "{host} {protocol}: {page}\n{said}"
                );
            }
        }
    }
    // Without the authority Chromium shows no page: the one above was for its trust.
    let forgotten =
        Command::new("certutil").args(["-d", &database, "-D", "-n", "authority"]).status().expect("certutil");
    assert!(forgotten.success());
    let (page, _) = dump("ecdsa.example", &[]);
    assert!(!page.contains("a page by"), "{page}");
}
