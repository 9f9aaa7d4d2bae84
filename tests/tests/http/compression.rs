//! Responses are compressed: by type, size and what the client takes; what is flushed arrives; what breaks off stays broken.

mod beside;
mod stored;

use std::fs;
use std::io::{self, Read};
use std::process::Command;

use tests::upstream::Upstream;
use tests::{Response, Server, Setup, wait_until};

/// All codings, as an application names them.
const ALL: &str = "compression = [\"zstd\", \"br\", \"gzip\"]";
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// A page of as many lines as it is asked for, with the headers which its query names.
const PAGE: &str = r#"<?php
function await(string $name): void { for ($i = 0; $i < 10000 && !file_exists(getenv('MARKS') . "/$name"); $i++) { usleep(2000); clearstatcache(); } }
foreach ($_GET['h'] ?? [] as $header) header($header);
if (isset($_GET['status'])) http_response_code((int)$_GET['status']);
if (isset($_GET['etag'])) {
    header('ETag: "' . $_GET['etag'] . '"');
    if (str_contains($_SERVER['HTTP_IF_NONE_MATCH'] ?? '', '"' . $_GET['etag'] . '"')) { http_response_code(304); exit; }
}
$body = '';
for ($i = 0; $i < (int)($_GET['lines'] ?? 200); $i++) $body .= '<p class="' . md5("$i") . "\">line $i</p>\n";
if (isset($_GET['length'])) header('Content-Length: ' . (strlen($body) + (int)$_GET['length']));
if (isset($_GET['flush'])) {
    register_shutdown_function(fn () => file_put_contents(getenv('MARKS') . '/ended', connection_aborted()));
    foreach (str_split($body, (int)$_GET['flush']) as $n => $part) { echo $part; flush(); if ($n == 0) await('go'); }
    if (isset($_GET['dies'])) posix_kill(getmypid(), SIGKILL);
    while (isset($_GET['on']) && !connection_aborted()) { echo md5(random_bytes(9)); flush(); usleep(500); }
    exit;
}
if (isset($_GET['part'])) { header('Accept-Ranges: bytes'); }
echo $body;
"#;

fn site() -> Setup {
    let setup = Setup::empty().file("index.php", PAGE).application("workers = 2").application(ALL);
    let marks = setup.writable("marks");
    setup.env("MARKS", &marks).ini("output_buffering", "0")
}

fn mark(server: &Server, name: &str) {
    fs::write(server.directory().join("marks").join(name), "").expect("a mark");
}

/// The page.
fn page(lines: usize) -> Vec<u8> {
    let hashes = Command::new("php")
        .args([
            "-n",
            "-r",
            "for ($i = 0; $i < (int)$argv[1]; $i++) echo '<p class=\"' . md5(\"$i\") . \"\\\">line $i</p>\\n\";",
        ])
        .arg(lines.to_string())
        .output()
        .expect("php");
    hashes.stdout
}

fn ask(server: &Server, target: &str, headers: &[(&str, &str)]) -> Response {
    server.client().request("GET", target, headers, b"")
}

/// What bytes decode to, as far as they go.
fn decoded(coding: &str, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
    let mut reader: Box<dyn Read + '_> = match coding {
        "zstd" => Box::new(zstd::stream::read::Decoder::new(bytes).expect("a decoder")),
        "br" => Box::new(brotli::Decompressor::new(bytes, 4096)),
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        other => panic!("no coding: {other}"),
    };
    let mut all = Vec::new();
    let result = reader.read_to_end(&mut all).map(drop);
    (all, result)
}

/// The body of a response, decoded if it has a coding.
fn plain(response: &Response) -> Vec<u8> {
    match response.header("content-encoding") {
        Some(coding) => {
            let (all, result) = decoded(coding, &response.body);
            result.unwrap_or_else(|error| panic!("{coding}: {error}"));
            all
        }
        None => response.body.clone(),
    }
}

fn coding_of(response: &Response) -> &str {
    response.header("content-encoding").unwrap_or("none")
}

fn varies(response: &Response) -> bool {
    response.all("vary").iter().any(|value| value.to_ascii_lowercase().contains("accept-encoding"))
}

#[test]
fn each_coding_decodes_to_the_same_bytes() {
    let server = site().server("access_log_format = \"json\"").start();
    for lines in [100, 1000, 30_000] {
        let whole = page(lines);
        let target = format!("/?lines={lines}");
        let as_it_is = ask(&server, &target, &[]);
        assert!(as_it_is.body == whole && varies(&as_it_is) && coding_of(&as_it_is) == "none");
        for coding in CODINGS {
            let response = ask(&server, &target, &[("Accept-Encoding", coding)]);
            assert_eq!(coding_of(&response), coding);
            assert_eq!(response.all("content-encoding").len(), 1);
            assert!(plain(&response) == whole, "{coding} {lines}");
            assert!(response.body.len() < whole.len() * 2 / 3 && varies(&response));
            let length = response.header("content-length").map(|length| length.parse::<usize>().unwrap());
            assert!(length.is_none_or(|length| length == response.body.len()));
            wait_until("the log counts what was sent", 30, || {
                server.access_log().lines().any(|line| line.contains(&format!("\"sent\":{},", response.body.len())))
            });
            println!("{coding} {lines}: {} of {} bytes", response.body.len(), whole.len());
            // The same over HTTP/2, whose own decoder curl has.
            let output = Command::new("curl")
                .args(["-sS", "-g", "--http2-prior-knowledge", "--max-time", "60", "-H"])
                .arg(format!("Accept-Encoding: {coding}"))
                .arg(format!("http://127.0.0.1:{}{target}", server.port))
                .output()
                .expect("curl");
            let (all, result) = decoded(coding, &output.stdout);
            assert!(result.is_ok() && all == whole, "HTTP/2 {coding} {lines}: {result:?}");
        }
    }
}

#[test]
fn what_php_flushes_arrives_at_once() {
    for coding in CODINGS {
        let server = site().start();
        let mut client = server.client();
        let head = format!("GET /?lines=100&flush=700 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let head = client.read_head().unwrap();
        assert_eq!(coding_of(&head), coding);
        let mut came = Vec::new();
        // The script waits for the mark, so this ends only if nothing is held back.
        while decoded(coding, &came).0.len() < 700 {
            came.extend(client.read_chunk().unwrap().expect("a chunk"));
        }
        assert!(decoded(coding, &came).0 == page(100)[..700]);
        mark(&server, "go");
        while let Some(chunk) = client.read_chunk().unwrap() {
            came.extend(chunk);
        }
        let (all, result) = decoded(coding, &came);
        assert!(result.is_ok() && all == page(100));
    }
}

#[test]
fn what_must_stay_as_it_is_does() {
    let server = site().start();
    let all = [("Accept-Encoding", "gzip, br, zstd")];
    for (target, may_vary) in [
        ("/?lines=5", false),
        ("/?h[]=Content-Encoding:+gzip", false),
        ("/?h[]=Content-Encoding:+identity", false),
        ("/?h[]=Cache-Control:+no-transform", false),
        ("/?h[]=Content-Type:+image/png", false),
        ("/?h[]=Content-Type:+text/event-stream", false),
        ("/?h[]=Content-Range:+bytes+0-1/2", false),
        ("/?status=206&h[]=Content-Range:+bytes+0-1/2", false),
        ("/?h[]=Content-Digest:+sha-256%3D:x:", false),
        ("/?h[]=Set-Cookie:+a%3Db", true),
    ] {
        let before = ask(&server, target, &[]);
        let response = ask(&server, target, &all);
        assert_eq!(response.body, before.body, "{target}");
        assert_eq!(coding_of(&response), coding_of(&before), "{target}");
        assert_eq!(varies(&response), may_vary, "{target} {:?}", response.headers);
    }
    for target in ["/?status=204", "/?status=304"] {
        let response = ask(&server, target, &all);
        assert!(response.body.is_empty() && coding_of(&response) == "none" && !varies(&response), "{target}");
    }
    for target in
        ["/?status=404", "/?status=500", "/?h[]=Content-Type:+application/json", "/?h[]=Vary:+Accept-Encoding"]
    {
        let response = ask(&server, target, &all);
        assert_eq!(coding_of(&response), "zstd", "{target}");
        assert!(plain(&response) == page(200) && response.all("vary").len() == 1, "{target}");
    }
    // Who takes nothing else gets it whatever its type and length.
    for target in ["/?lines=1", "/?h[]=Content-Type:+image/png"] {
        let response = ask(&server, target, &[("Accept-Encoding", "br, identity;q=0")]);
        assert_eq!(coding_of(&response), "br", "{target}");
    }
    let response = ask(&server, "/?h[]=Vary:+*", &all);
    assert_eq!(response.all("vary"), ["*"]);
}

#[test]
fn without_the_option_nothing_is_compressed() {
    let server = Setup::empty().file("index.php", PAGE).start();
    let response = ask(&server, "/", &[("Accept-Encoding", "gzip, br, zstd")]);
    assert!(coding_of(&response) == "none" && !varies(&response) && response.body == page(200));
}

#[test]
fn validators_become_weak_and_still_confirm() {
    let server = site().start();
    let response = ask(&server, "/?etag=v1&part=1", &[("Accept-Encoding", "gzip")]);
    assert_eq!((coding_of(&response), response.header("etag")), ("gzip", Some("W/\"v1\"")));
    assert_eq!(response.header("accept-ranges"), None);
    let response = ask(&server, "/?etag=v1&part=1", &[]);
    assert_eq!((response.header("etag"), response.header("accept-ranges")), (Some("\"v1\""), Some("bytes")));
    let again = [("Accept-Encoding", "gzip"), ("If-None-Match", "W/\"v1\"")];
    let response = ask(&server, "/?etag=v1", &again);
    assert_eq!((response.status, response.header("etag")), (304, Some("W/\"v1\"")));
    assert!(varies(&response) && coding_of(&response) == "none");
    let response = ask(&server, "/?etag=v1", &[("If-None-Match", "\"v1\"")]);
    assert_eq!((response.status, response.header("etag")), (304, Some("\"v1\"")));
    // HEAD says what GET says.
    let head = server.client().request("HEAD", "/?etag=v1", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(
        (coding_of(&head), head.header("etag"), head.header("content-length")),
        ("gzip", Some("W/\"v1\""), None)
    );
    // A part is a part of what has no coding, and so is what comes in its place.
    let response = ask(&server, "/", &[("Accept-Encoding", "gzip"), ("Range", "bytes=0-9")]);
    assert!(coding_of(&response) == "none" && varies(&response));
}

#[test]
fn pages_of_visitors_are_compressed_for_their_own_site_alone() {
    let server = site().start();
    let cookie = ("Cookie", "session=1");
    let from = |site: &'static str| ("Sec-Fetch-Site", site);
    for (headers, target, coding) in [
        (&[][..], "/", "gzip"),
        (&[from("cross-site")], "/", "gzip"),
        (&[cookie], "/", "none"),
        (&[cookie, from("cross-site")], "/", "none"),
        (&[cookie, from("none")], "/", "gzip"),
        (&[cookie, from("same-origin")], "/", "gzip"),
        (&[cookie, from("same-site")], "/", "gzip"),
        (&[cookie, from("same-site")], "/?h[]=Set-Cookie:+a%3Db", "none"),
        (&[cookie], "/?h[]=Cache-Control:+public", "gzip"),
        (&[("Authorization", "Basic YTpi")], "/", "none"),
        (&[("Authorization", "Bearer x")], "/", "gzip"),
    ] {
        let mut headers = headers.to_vec();
        headers.push(("Accept-Encoding", "gzip"));
        let response = ask(&server, target, &headers);
        assert_eq!(coding_of(&response), coding, "{headers:?} {target}");
        assert!(plain(&response) == page(200) && varies(&response));
    }
}

/// Neither the body nor what it decodes to has an end.
fn assert_broken(server: &Server, target: &str, coding: &str) {
    let mut client = server.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n").as_bytes()).unwrap();
    let head = client.read_head().unwrap();
    assert_eq!((coding_of(&head), head.header("content-length")), (coding, None));
    let mut came = Vec::new();
    let end = loop {
        match client.read_chunk() {
            Ok(Some(chunk)) => came.extend(chunk),
            other => break other,
        }
    };
    assert!(end.is_err(), "{coding} {target}: the body has an end");
    assert!(decoded(coding, &came).1.is_err() || came.is_empty(), "{coding} {target}: the stream has an end");
}

#[test]
fn a_broken_body_stays_broken() {
    for coding in CODINGS {
        let server = site().start();
        mark(&server, "go");
        for target in ["/?lines=3000&flush=5000&dies=1", "/?lines=3000&flush=5000&length=1"] {
            assert_broken(&server, target, coding);
        }
    }
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let server = site().start();
    let mut client = server.client();
    client.send(b"GET /?flush=700&on=1 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n").unwrap();
    client.read_head().unwrap();
    client.read_chunk().unwrap();
    mark(&server, "go");
    drop(client);
    wait_until("PHP learns that the client is gone", 30, || {
        fs::read_to_string(server.directory().join("marks/ended")).is_ok_and(|text| text == "1")
    });
}

#[test]
fn responses_of_upstreams_are_compressed() {
    let whole = page(300);
    let body = whole.clone();
    let upstream = Upstream::start(move |mut talk| {
        let Some(head) = talk.head() else { return };
        let (more, sent) = match head.split(' ').nth(1).unwrap_or("") {
            "/up/coded" => ("Content-Encoding: br\r\n", body.len()),
            // It ends before its body does.
            "/up/short" => ("", body.len() - 5),
            _ => ("ETag: \"u\"\r\n", body.len()),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: {}\r\n{more}\r\n", body.len());
        let _ = talk.say([head.as_bytes(), &body[..sent]].concat());
    });
    let server = Setup::empty()
        .file("index.php", "<?php echo 'PHP';")
        .application(ALL)
        .route(&format!("prefix = \"/up\"\n{}", upstream.rule()))
        .start();
    for coding in CODINGS {
        let response = ask(&server, "/up/x", &[("Accept-Encoding", coding)]);
        assert_eq!((coding_of(&response), response.header("etag")), (coding, Some("W/\"u\"")));
        assert!(plain(&response) == whole && varies(&response) && response.header("content-length").is_none());
    }
    let response = ask(&server, "/up/coded", &[("Accept-Encoding", "zstd")]);
    assert!(coding_of(&response) == "br" && response.body == whole);
    for coding in CODINGS {
        assert_broken(&server, "/up/short", coding);
    }
}

#[test]
fn what_php_has_compressed_is_left_alone() {
    let server = site().ini("zlib.output_compression", "1").start();
    let response = ask(&server, "/", &[("Accept-Encoding", "gzip, br, zstd")]);
    assert_eq!((response.all("content-encoding"), response.all("vary")), (vec!["gzip"], vec!["Accept-Encoding"]));
    assert!(plain(&response) == page(200));
}

#[test]
fn clients_of_http_1_0_read_to_the_end() {
    let server = site().start();
    for target in ["/?lines=100", "/?lines=9000"] {
        let mut client = server.client();
        client.send(format!("GET {target} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes()).unwrap();
        let response = client.read(false).unwrap();
        let lines = target.rsplit('=').next().unwrap().parse().unwrap();
        assert!(coding_of(&response) == "gzip" && plain(&response) == page(lines), "{target}");
    }
}

#[test]
fn codings_are_checked() {
    for (line, why) in [
        ("compression = [\"deflate\"]", "'compression' takes \"zstd\" or \"br\" or \"gzip\", not \"deflate\""),
        ("compression = [\"br\", \"br\"]", "'compression' names \"br\" twice"),
        ("compression = \"br\"", "'compression'"),
    ] {
        let server = Setup::empty().file("index.php", "").application(line).launch();
        wait_until("the configuration is refused", 30, || server.log().contains(why));
    }
}
