//! X-Sendfile and X-Accel-Redirect: the front sends the file that a script names, from declared directories alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tests::modes::modes;
use tests::{Response, Server, Setup, wait_until};

/// Sets the headers that the query names, and writes something that nobody is to see.
const SCRIPT: &str = r#"<?php
$handle = function () {
    foreach ($_GET['h'] ?? [] as $line) header($line, false);
    if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
    echo str_repeat("not for the client\n", (int) ($_GET['lines'] ?? 1));
    if (isset($_GET['note'])) file_put_contents(getenv('PLACE') . '/ended', connection_aborted());
};
"#;

fn site(code: &str) -> Setup {
    let setup = Setup::empty().file("index.php", format!("{SCRIPT}{code}")).application("workers = 1");
    let base = setup.directory().to_owned();
    for directory in ["files/sub", "more", "beside"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    for (file, text) in
        [("files/a b.txt", "spaced"), ("files/sub/n.bin", "0123456789"), ("more/é", "accent"), ("beside/s", "SECRET")]
    {
        fs::write(base.join(file), text).unwrap();
    }
    fs::write(base.join("files/large"), vec![b'x'; 3_000_000]).unwrap();
    fs::write(base.join("files/closed"), "SECRET").unwrap();
    fs::set_permissions(base.join("files/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("../beside/s", base.join("files/out")).unwrap();
    symlink("../more", base.join("files/across")).unwrap();
    let place = setup.writable("place");
    setup.env("PLACE", &place)
}

fn both(setup: Setup) -> Setup {
    // Relative to the configuration's directory.
    setup
        .application("x_sendfile = [\"files\", \"more\"]")
        .application("x_accel_redirect.\"/internal\" = \"files\"")
        .application("x_accel_redirect.\"/internal/more\" = \"more\"")
}

fn query(headers: &[&str]) -> String {
    let each = headers.iter().map(|line| format!("h[]={}", tests::client::encode(line)));
    format!("/?{}", each.collect::<Vec<_>>().join("&"))
}

fn named(server: &Server, header: &str) -> Response {
    server.get(&query(&[header]))
}

/// In every mode, for both headers; the script runs to its end and is not told that its client has left.
#[test]
fn a_script_has_files_sent() {
    for (mode, end, lines) in modes() {
        let setup = lines.iter().fold(both(site(end)), |setup, line| setup.application(line));
        let server = setup.start();
        let base = server.directory().display().to_string();
        for header in
            [format!("X-Sendfile: {base}/files/sub/n.bin"), "X-Accel-Redirect: /internal/sub/n.bin".to_owned()]
        {
            let target = query(&[
                &header,
                "Content-Type: text/x-own",
                "Content-Length: 7",
                "ETag: \"php\"",
                "Set-Cookie: a=1",
                "Set-Cookie: b=2",
            ]);
            let answer = server.get(&format!("{target}&lines=200000&note=1"));
            assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{mode}, {header}");
            assert_eq!(answer.header("content-type").map(|kind| kind.split(';').next().unwrap()), Some("text/x-own"));
            assert_eq!((answer.header("content-length"), answer.all("set-cookie")), (Some("10"), vec!["a=1", "b=2"]));
            assert!(answer.header("etag").unwrap() != "\"php\"" && answer.header("last-modified").is_some());
            assert!(answer.header("x-sendfile").or(answer.header("x-accel-redirect")).is_none());
            let noted = || fs::read_to_string(format!("{base}/place/ended")).unwrap_or_default();
            wait_until("the script has ended", 10, || noted() == "0");
            fs::remove_file(format!("{base}/place/ended")).unwrap();
        }
        // The connection goes on, and a POST gets the file too.
        let mut client = server.client();
        let target = query(&["X-Accel-Redirect: /internal/a%20b.txt"]);
        assert_eq!(client.request("POST", &target, &[], b"x=1").text(), "spaced");
        assert_eq!(client.get(&query(&[&format!("X-Sendfile: {base}/more/é")])).text(), "accent");
        assert_eq!(client.get(&query(&["X-Accel-Redirect: /internal/more/%C3%A9"])).text(), "accent");
        assert_eq!(client.get("/").text(), "not for the client\n");
    }
}

/// As for static files.
#[test]
fn ranges_and_conditions_work() {
    let server = both(site("$handle();")).start();
    let target = query(&[
        "X-Accel-Redirect: /internal/sub/n.bin",
        "Content-Type: image/png",
        "X-Own: dropped",
        "Cache-Control: private",
    ]);
    let ask = |method: &str, headers: &[(&str, &str)]| server.client().request(method, &target, headers, b"");
    let whole = ask("GET", &[]);
    assert_eq!(
        (whole.header("cache-control"), whole.header("x-own"), whole.header("accept-ranges")),
        (Some("private"), None, Some("bytes"))
    );
    let etag = whole.header("etag").unwrap().to_owned();
    let part = ask("GET", &[("Range", "bytes=2-4")]);
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "234", Some("bytes 2-4/10")));
    assert_eq!(ask("GET", &[("Range", "bytes=2-4"), ("If-Range", "\"other\"")]).status, 200);
    let beyond = ask("GET", &[("Range", "bytes=10-")]);
    assert_eq!(
        (beyond.status, beyond.header("content-range"), beyond.header("content-type")),
        (416, Some("bytes */10"), Some("text/html; charset=utf-8"))
    );
    let same = ask("GET", &[("If-None-Match", &etag)]);
    assert_eq!((same.status, same.body.len(), same.header("content-type")), (304, 0, None));
    assert_eq!(ask("GET", &[("If-Match", "\"other\"")]).status, 412);
    let head = ask("HEAD", &[]);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("10"), 0));
    // The script forbids ranges.
    let target = query(&["X-Accel-Redirect: /internal/sub/n.bin", "Accept-Ranges: none"]);
    let whole = server.client().request("GET", &target, &[("Range", "bytes=2-4")], b"");
    assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("none")));
    // X-Sendfile keeps all headers but those of the script's own body.
    let path = server.directory().join("files/sub/n.bin");
    let answer =
        server.get(&query(&[&format!("X-Sendfile: {}", path.display()), "X-Own: kept", "Content-Encoding: gzip"]));
    assert_eq!(
        (answer.text().as_str(), answer.header("x-own"), answer.header("content-encoding")),
        ("0123456789", Some("kept"), None)
    );
}

/// What lies elsewhere is never sent, however its path is spelled, and the log says why.
#[test]
fn nothing_else_is_sent() {
    let server = both(site("$handle();")).start();
    let base = server.directory().display().to_string();
    for (lines, (header, status)) in [
        ("X-Sendfile: BASE/beside/s", 500),
        ("X-Sendfile: BASE/files/../beside/s", 500),
        ("X-Sendfile: BASE/files/out", 500),
        ("X-Sendfile: /proc/self/root/BASE/beside/s", 500),
        ("X-Sendfile: /etc/passwd", 500),
        ("X-Sendfile: files/sub/n.bin", 500),
        ("X-Sendfile: /internal/sub/n.bin", 404),
        ("X-Sendfile: BASE/files/none", 404),
        ("X-Sendfile: BASE/files", 404),
        ("X-Accel-Redirect: /internal/../beside/s", 500),
        ("X-Accel-Redirect: /internal/%2e%2e/beside/s", 500),
        ("X-Accel-Redirect: /internal/..%2fbeside%2fs", 500),
        ("X-Accel-Redirect: /internal/sub/..%2f..%2f..%2fbeside/s", 500),
        ("X-Accel-Redirect: /internal/%252e%252e/beside/s", 404),
        ("X-Accel-Redirect: /internal/out", 500),
        ("X-Accel-Redirect: /internal/across/%C3%A9", 500),
        ("X-Accel-Redirect: //internal/sub/n.bin/../../../beside/s", 500),
        ("X-Accel-Redirect: /internal\\..\\beside\\s", 500),
        ("X-Accel-Redirect: /internalx/a", 500),
        ("X-Accel-Redirect: /index.php", 500),
        ("X-Accel-Redirect: @named", 500),
        ("X-Accel-Redirect: BASE/files/sub/n.bin", 500),
        ("X-Accel-Redirect: /internal/%00", 500),
        ("X-Accel-Redirect: /internal/none", 404),
        ("X-Accel-Redirect: /internal/", 404),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = named(&server, &header.replace("BASE", &base));
        let word = answer.header("reprise-refused");
        let expected = if status == 500 { "sent-file" } else { "not-found" };
        assert_eq!((answer.status, word), (status, Some(expected)), "{header}: {}", answer.text());
        assert!(!answer.text().contains("SECRET") && !answer.text().contains("not for"), "{header}");
        wait_until(&format!("{header} is logged"), 10, || {
            server.log().matches("a file that a script named is not sent").count() == lines + 1
        });
    }
    let log = server.log();
    assert!(
        log.contains("app: a file that a script named is not sent: x-accel-redirect: \"/internal/out\": "),
        "{log}"
    );
    assert!(log.contains("/beside/s lies outside of the declared directories"), "{log}");
    let closed = named(&server, "X-Accel-Redirect: /internal/closed");
    assert_eq!((closed.status, closed.header("reprise-refused")), (403, Some("forbidden")));
}

/// Behind nginx or Apache these headers are for them.
#[test]
fn without_a_declaration_the_header_goes_to_the_client() {
    let server = site("$handle();").application("x_sendfile = [\"more\"]").start();
    let answer = named(&server, "X-Accel-Redirect: /internal/sub/n.bin");
    assert_eq!(
        (answer.header("x-accel-redirect"), answer.text().as_str()),
        (Some("/internal/sub/n.bin"), "not for the client\n")
    );
    let server = site("$handle();").start();
    let path = server.directory().join("files/sub/n.bin").display().to_string();
    assert_eq!(named(&server, &format!("X-Sendfile: {path}")).header("x-sendfile"), Some(path.as_str()));
}

/// A client that takes a large file slowly holds no worker, and no permit of its address.
#[test]
fn a_file_holds_no_worker() {
    let server = both(site("$handle();")).application("client_requests = 1").start();
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for client in &mut clients {
        let target = query(&["X-Accel-Redirect: /internal/large"]);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_head().unwrap().status, 200);
    }
    assert_eq!(server.get("/").text(), "not for the client\n");
}

/// Mistakes in the configuration have their line.
#[test]
fn directories_are_checked_at_the_start() {
    for (line, why) in [
        ("x_sendfile = [\"nowhere\"]", "nowhere: No such file"),
        ("x_accel_redirect.\"/a\" = \"nowhere\"", "nowhere: No such file"),
        ("x_accel_redirect.\"/a\" = \"reprise.toml\"", "reprise.toml is not a directory"),
        ("x_accel_redirect.\"/a/../b\" = \".\"", "'/a/../b' is no path"),
        ("x_accel_redirect = \"/a\"", "'x_accel_redirect' takes a table"),
    ] {
        let mut server = Setup::empty().file("index.php", "x").application(line).launch();
        assert_eq!(server.wait(30), 78, "{line}");
        assert!(server.log().contains("reprise.toml:") && server.log().contains(why), "{line}: {}", server.log());
    }
}
