//! Static files, and what must never be one: source, hidden files, anything outside the root.

mod fingerprints;
mod in_motion;
mod kept;
mod links;
mod never_sent;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{Uid, mkfifo};
use tests::server::Directory;
use tests::{Client, Response, Server, Setup, process};

/// Stands in every file that must not be sent.
const SECRET: &str = "<?php /* TOP-SECRET */ echo 'ran';";

/// Without a front controller, so that nobody answers for what is missing.
fn plain() -> Setup {
    Setup::empty().application("front_controller = \"\"").file("a.txt", "static")
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

/// A request whose target goes out as it is.
fn raw(server: &Server, target: &[u8]) -> Response {
    let mut client = server.client();
    client.send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).unwrap();
    client.read(false).unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(target)))
}

fn with(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> Response {
    client.request("GET", path, headers, b"")
}

// ---- what a file is answered with ----------------------------------------------------------------------------------

/// Each ending has its content type, with a charset for text.
#[test]
fn files_have_their_type() {
    let types = [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "application/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.avif", "image/avif"),
        ("a.ico", "image/x-icon"),
        ("a.woff2", "font/woff2"),
        ("a.pdf", "application/pdf"),
        ("a.wasm", "application/wasm"),
        ("a.mp4", "video/mp4"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.unknown", "application/octet-stream"),
        ("LICENSE", "application/octet-stream"),
    ];
    let server = types.iter().fold(plain(), |setup, (name, _)| setup.file(name, "x")).start();
    let mut client = server.client();
    let wrong: Vec<String> = types
        .iter()
        .filter_map(|(name, expected)| {
            let answer = client.get(&format!("/{name}"));
            assert_eq!((answer.status, answer.text().as_str()), (200, "x"), "{name}");
            let kind = answer.header("content-type").unwrap_or("none").to_owned();
            (kind != *expected).then(|| format!("{name}: {kind} instead of {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files are found by any name, percent-encoded or not.
#[test]
fn names_may_hold_anything_but_a_slash() {
    let names = [
        ("a b.txt", "a%20b.txt"),
        ("ü.txt", "%C3%BC.txt"),
        ("100%.txt", "100%25.txt"),
        ("a+b.txt", "a+b.txt"),
        ("q?.txt", "q%3F.txt"),
        ("h#.txt", "h%23.txt"),
        ("\\.txt", "%5C.txt"),
        ("a;b=c.txt", "a;b=c.txt"),
        ("..a.b", "%2e.a.b/../a.txt"),
        ("...x", "a.txt"),
    ];
    let server = names.iter().fold(plain(), |setup, (name, _)| setup.file(name, "static")).start();
    for (name, target) in names {
        assert_eq!(server.get(&format!("/{target}")).text(), "static", "{name}");
    }
    assert_eq!(raw(&server, "/ü.txt".as_bytes()).text(), "static");
}

/// Conditional requests (RFC 9110 §13) get 304 or 412 as they should.
#[test]
fn a_client_that_has_the_file_is_told_so() {
    let server = plain().start();
    let mut client = server.client();
    let first = client.get("/a.txt");
    let tag = first.header("etag").expect("an ETag").to_owned();
    let date = first.header("last-modified").expect("Last-Modified").to_owned();
    let weak = format!("W/{tag}");
    let list = format!("\"x\", {tag}, \"y\"");
    let (earlier, later) = ("Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (headers, status) in [
        (vec![("If-None-Match", tag.as_str())], 304),
        (vec![("If-None-Match", &weak)], 304),
        (vec![("If-None-Match", &list)], 304),
        (vec![("If-None-Match", "\"x\""), ("If-None-Match", &tag)], 304),
        (vec![("If-None-Match", "*")], 304),
        (vec![("If-None-Match", "\"x\"")], 200),
        (vec![("If-None-Match", "")], 200),
        (vec![("If-None-Match", "\"x\""), ("If-Modified-Since", &date)], 200),
        (vec![("If-Modified-Since", &date)], 304),
        (vec![("If-Modified-Since", later)], 304),
        (vec![("If-Modified-Since", earlier)], 200),
        (vec![("If-Modified-Since", "yesterday")], 200),
        (vec![("If-Match", &tag)], 200),
        (vec![("If-Match", "*")], 200),
        (vec![("If-Match", &list)], 200),
        (vec![("If-Match", "\"x\"")], 412),
        (vec![("If-Match", &weak)], 412),
        (vec![("If-Match", &tag), ("If-None-Match", &tag)], 304),
        (vec![("If-Unmodified-Since", &date)], 200),
        (vec![("If-Unmodified-Since", later)], 200),
        (vec![("If-Unmodified-Since", earlier)], 412),
        (vec![("If-Unmodified-Since", "tomorrow")], 200),
        (vec![("If-Match", &tag), ("If-Unmodified-Since", earlier)], 200),
    ] {
        let answer = with(&mut client, "/a.txt", &headers);
        assert_eq!(answer.status, status, "{headers:?}");
        if status == 304 {
            assert_eq!(
                (answer.header("etag"), answer.header("last-modified")),
                (Some(&*tag), Some(&*date)),
                "{headers:?}"
            );
            assert!(answer.header("content-length").is_none_or(|length| length == "6"), "{answer:?}");
        }
    }
    fs::write(server.root.join("a.txt"), "changed").unwrap();
    let answer = with(&mut client, "/a.txt", &[("If-None-Match", &tag)]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "changed"));
}

/// Range requests get their part, 416 or the whole file (RFC 9110 §14).
#[test]
fn parts_of_a_file_are_sent() {
    let server = plain().file("ten.bin", "0123456789").file("empty.bin", "").start();
    let mut client = server.client();
    let first = client.get("/ten.bin");
    assert_eq!(first.header("accept-ranges"), Some("bytes"));
    let (tag, date) = (first.header("etag").unwrap().to_owned(), first.header("last-modified").unwrap().to_owned());
    for (range, part, shown) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=7-99999999999999999999", "", ""),
        ("bytes=7-100", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-100", "0123456789", "bytes 0-9/10"),
        ("bytes=0-", "0123456789", "bytes 0-9/10"),
    ] {
        let answer = with(&mut client, "/ten.bin", &[("Range", range)]);
        // A number beyond all is not understood, and may be.
        if part.is_empty() {
            assert!(matches!(answer.text().as_str(), "789" | "0123456789"), "{range}");
            continue;
        }
        assert_eq!((answer.status, answer.text().as_str()), (206, part), "{range}");
        assert_eq!((answer.header("content-range"), answer.header("etag")), (Some(shown), Some(&*tag)), "{range}");
    }
    for range in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999-"] {
        let answer = with(&mut client, "/ten.bin", &[("Range", range)]);
        assert_eq!((answer.status, answer.header("content-range")), (416, Some("bytes */10")), "{range}");
    }
    for range in [
        "bytes=4-2",
        "bytes=a-b",
        "bytes=1",
        "bytes",
        "lines=0-1",
        "bytes=0-1,3-4",
        "bytes=--1",
        "bytes=+1-2",
        "bytes= 1-2",
        "0-1",
        "",
    ] {
        let answer = with(&mut client, "/ten.bin", &[("Range", range)]);
        assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{range}");
    }
    let weak = format!("W/{tag}");
    for (condition, status) in [
        (tag.as_str(), 206),
        (&date, 206),
        ("\"other\"", 200),
        (&weak, 200),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 200),
        ("nonsense", 200),
    ] {
        let answer = with(&mut client, "/ten.bin", &[("Range", "bytes=0-1"), ("If-Range", condition)]);
        assert_eq!(answer.status, status, "{condition}");
    }
    assert_eq!(with(&mut client, "/ten.bin", &[("Range", "bytes=0-1"), ("If-None-Match", &tag)]).status, 304);
    assert_eq!(with(&mut client, "/ten.bin", &[("Range", "bytes=0-1"), ("If-Match", "\"x\"")]).status, 412);
    for range in ["bytes=0-", "bytes=-5", "bytes=0-0"] {
        let answer = with(&mut client, "/empty.bin", &[("Range", range)]);
        assert!(answer.status == 416 || (answer.status == 200 && answer.body.is_empty()), "{range}: {answer:?}");
    }
    let empty = client.get("/empty.bin");
    assert_eq!((empty.status, empty.header("content-length"), empty.body.len()), (200, Some("0"), 0));
}

/// HEAD of a file has the headers of GET and no body.
#[test]
fn head_is_get_without_a_body() {
    let server = plain().file("ten.bin", "0123456789").start();
    let mut client = server.client();
    let get = client.get("/ten.bin");
    let head = client.request("HEAD", "/ten.bin", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    assert_eq!(client.request("HEAD", "/ten.bin", &[("If-None-Match", "*")], b"").status, 304);
    // RFC 9110 §14.2: ranges are GET's alone.
    let ranged = client.request("HEAD", "/ten.bin", &[("Range", "bytes=0-1")], b"");
    assert_eq!((ranged.status, ranged.header("content-length")), (200, Some("10")));
}

/// Files refuse every method but GET and HEAD with 405.
#[test]
fn files_answer_get_and_head_only() {
    let server = plain().start();
    let mut client = server.client();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        let answer = client.request(method, "/a.txt", &[], if method == "POST" { b"body" } else { b"" });
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(client.get("/a.txt").text(), "static");
}

/// A directory gives its index, a redirect to the path with a slash, or the front controller.
#[test]
fn directories_lead_to_their_index() {
    let server = plain()
        .file("page/index.html", "page")
        .file("both/index.html", "html")
        .file("both/index.php", "<?php echo 'php ', $_SERVER['SCRIPT_NAME'];")
        .file("bare/a.txt", "a")
        .file("hidden/.index.html", "a")
        .start();
    let mut client = server.client();
    assert_eq!(client.get("/page/").text(), "page");
    assert_eq!(client.get("/page/").header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(client.get("/both/").text(), "php /both/index.php");
    for path in ["/", "/bare", "/bare/", "/hidden/", "/page/.", "/page/index.html/", "/a.txt/"] {
        let answer = client.get(path);
        assert!(matches!(answer.status, 404 | 301) || answer.text() == "page", "{path}: {answer:?}");
        assert!(!answer.text().contains("a.txt"), "{path} lists its directory");
    }
    assert_eq!(client.get("/bare/").status, 404);
    for path in ["/page", "/both"] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.header("location")), (301, Some(&*format!("{path}/"))));
    }
}

/// The redirect of a directory never leads to another host, whatever the directory's name.
#[test]
fn a_redirect_stays_on_this_server() {
    let names = [
        "page",
        "a b",
        "ü",
        "100%",
        "q?",
        "h#",
        "\"quoted\"",
        "\\evil.example",
        "evil.example",
        "a:b@c",
        "<b>",
        "a&b;c=d",
        "javascript:alert(1)",
    ];
    let server = names.iter().fold(plain(), |setup, name| setup.file(&format!("{name}/index.html"), *name)).start();
    let encode = |name: &str| {
        name.bytes()
            .map(
                |byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") },
            )
            .collect::<String>()
    };
    for name in names {
        let answer = server.get(&format!("/{}?q=1&r=/x", encode(name)));
        assert_eq!(answer.status, 301, "{name}");
        let location = answer.header("location").unwrap_or_else(|| panic!("no Location for {name}")).to_owned();
        assert!(location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\"), "{location}");
        assert!(location.ends_with("/?q=1&r=/x") && location.bytes().all(|byte| byte.is_ascii_graphic()), "{location}");
        assert_eq!(server.get(&location).text(), name, "{location}");
    }
    for target in [
        "//evil.example",
        "///evil.example",
        "/%2Fevil.example",
        "//page/../evil.example",
        "/.//evil.example",
        "/%2e/%2f/evil.example",
        "//evil.example/..//evil.example",
    ] {
        let answer = raw(&server, target.as_bytes());
        assert_eq!((answer.status, answer.header("location")), (301, Some("/evil.example/")), "{target}");
    }
    let split = server.get("/page?x=%0d%0aSet-Cookie:%20a=b");
    assert_eq!(
        (split.header("location"), split.header("set-cookie")),
        (Some("/page/?x=%0d%0aSet-Cookie:%20a=b"), None)
    );
    // Bytes that a browser may leave as they are in a query.
    let query = raw(&server, "/page?x=ü".as_bytes());
    assert!(
        query.status == 400 || query.header("location").is_some_and(|location| location.starts_with("/page/?x=")),
        "{query:?}"
    );
    let absolute = raw(&server, b"http://evil.example/page");
    assert_eq!(absolute.header("location"), Some("/page/"));
}

/// The path behind a script's name is its PATH_INFO, as under PHP-FPM.
#[test]
fn scripts_take_path_info() {
    let script = "<?php echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '-', '|', $_SERVER['PHP_SELF'];";
    let server = plain().file("s.php", script).file("dir/t.php", script).start();
    for (target, expected) in [
        ("/s.php", "/s.php|-|/s.php"),
        ("/s.php/", "/s.php|/|/s.php/"),
        ("/s.php/a/b", "/s.php|/a/b|/s.php/a/b"),
        ("/s.php/a.php", "/s.php|/a.php|/s.php/a.php"),
        ("/s.php/a%20b%2Fc?q", "/s.php|/a b/c|/s.php/a b/c"),
        ("/dir/t.php/x", "/dir/t.php|/x|/dir/t.php/x"),
        ("/dir/../s.php", "/s.php|-|/s.php"),
        ("/s%2ephp", "/s.php|-|/s.php"),
    ] {
        assert_eq!(server.get(target).text(), expected, "{target}");
    }
    // Dots are common in what applications put there; only files are hidden by them.
    assert_eq!(server.get("/s.php/.well-known/x").text(), "/s.php|/.well-known/x|/s.php/.well-known/x");
    for target in [
        "/a.txt/x.php",
        "/none.php",
        "/none.php/x",
        "/s.phpx",
        "/s.php.txt",
        "/S.PHP",
        "/s.php%20",
        "/s.php.",
        "/s.php;x",
        "/s.php%3Fx",
    ] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    assert_eq!(server.get("/s.php/v1/.hidden").text(), "/s.php|/v1/.hidden|/s.php/v1/.hidden");
}
