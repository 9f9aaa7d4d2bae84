//! The example application, and the command of the README that serves it.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use nix::sys::signal::Signal;
use tests::client::multipart;
use tests::peer::{Program, web_user, writable_directory};
use tests::server::{Directory, copy, free_port, project};
use tests::{Client, Response, Server, Setup, process};

/// A guestbook without entries, its files in a directory of its own.
struct Guestbook {
    server: Server,
    data: PathBuf,
    _directory: Directory,
}

impl Guestbook {
    fn start() -> Guestbook {
        let directory = Directory::new();
        let (application, data) = (directory.0.join("guestbook"), directory.0.join("data"));
        copy(&project().join("examples/guestbook"), &application);
        writable_directory(&data, &web_user());
        let place = data.to_str().expect("a plain path");
        let setup = Setup::root(&application.join("public")).env("GUESTBOOK_DATA", place);
        let server = setup.application("cache_memory = \"16M\"").start();
        Guestbook { server, data, _directory: directory }
    }

    fn visitor(&self) -> Visitor {
        let mut client = self.server.client();
        let page = client.get("/");
        assert_eq!(page.status, 200);
        let cookie =
            page.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned();
        let token =
            page.text().split_once("name=\"token\" value=\"").expect("a token").1.split('"').next().unwrap().to_owned();
        Visitor { client, cookie, token }
    }

    /// Pictures stored.
    fn pictures(&self) -> usize {
        std::fs::read_dir(self.data.join("pictures")).map_or(0, Iterator::count)
    }
}

struct Visitor {
    client: Client,
    cookie: String,
    token: String,
}

impl Visitor {
    fn get(&mut self, path: &str) -> Response {
        self.client.request("GET", path, &[("Cookie", &self.cookie)], b"")
    }

    fn sign(&mut self, name: &str, message: &str) -> Response {
        let token = self.token.clone();
        self.send(&token, name, message, None)
    }

    fn send(&mut self, token: &str, name: &str, message: &str, picture: Option<&[u8]>) -> Response {
        let fields = [("token", token), ("name", name), ("message", message)];
        let file = picture.map(|bytes| ("picture", "my picture.gif", "image/gif", bytes));
        let (kind, body) = multipart(&fields, file.as_slice());
        self.client.request("POST", "/", &[("Cookie", &self.cookie), ("Content-Type", &kind)], &body)
    }
}

/// A picture of one pixel with `size` bytes in all.
fn gif(size: usize) -> Vec<u8> {
    let mut bytes = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01D\x00;".to_vec();
    // Behind its end a picture may have anything.
    bytes.extend((bytes.len()..size).map(|number| (number * 7 % 251) as u8));
    bytes
}

const EMPTY: &str = "The first page is still white.";

/// An entry is stored, and shown with its characters escaped.
#[test]
fn an_entry_is_stored_and_shown() {
    let book = Guestbook::start();
    let mut visitor = book.visitor();
    assert!(visitor.get("/").text().contains(EMPTY));
    let answer = visitor.sign("Zoë <b>", "Grüße & \"hi\"");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{}", answer.text());
    let page = visitor.get("/").text();
    for expected in ["Thank you, Zoë &lt;b&gt;.", "One entry", "Grüße &amp; &quot;hi&quot;"] {
        assert!(page.contains(expected), "{expected} is missing in {page}");
    }
    assert!(!visitor.get("/").text().contains("Thank you"), "the message is shown once");
    assert!(book.server.get("/entry/1").text().contains("Zoë"));
    assert!(book.server.get("/feed").text().contains("<title>Zoë &lt;b&gt;</title>"));
    assert!(book.server.get("/about").text().contains("fpm-fcgi"));
    assert_eq!(book.server.get("/entry/2").status, 404);
}

/// Pages that show entries are made once for all, until somebody signs; then everybody sees the new entry.
#[test]
fn pages_with_entries_are_kept_until_the_next_entry() {
    let book = Guestbook::start();
    let mut visitor = book.visitor();
    visitor.sign("Ada", "first");
    let is_hit = |page: &Response| page.header("cache-status").is_some_and(|did| did.starts_with("Reprise; hit"));
    for number in 2..6 {
        for path in ["/entry/1", "/feed"] {
            let page = book.server.get(path);
            assert!(page.header("reprise-cache-tag").is_none() && page.text().contains("Ada"), "{path}");
            assert!(is_hit(&visitor.get(path)) && is_hit(&book.server.get(path)), "{path}");
        }
        assert!(!is_hit(&book.server.get("/")), "the form has a token of its visitor");
        visitor.sign(&format!("Signer {number}"), "another");
        assert!(book.server.get("/feed").text().contains(&format!("Signer {number}")));
    }
}

/// An uploaded picture is stored and sent back byte for byte, with an ETag.
#[test]
fn a_picture_is_stored_and_sent_back() {
    let book = Guestbook::start();
    let mut visitor = book.visitor();
    let token = visitor.token.clone();
    let picture = gif(300_000);
    assert_eq!(visitor.send(&token, "Painter", "See.", Some(&picture)).status, 303);
    let answer = book.server.get("/picture/1");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/gif")));
    assert_eq!(answer.header("content-length"), Some("300000"));
    assert!(answer.body == picture, "the picture's bytes");
    let known = answer.header("etag").expect("an ETag").to_owned();
    let again = book.server.client().request("GET", "/picture/1", &[("If-None-Match", &known)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
}

/// A form with a missing or foreign token is 403 and stores nothing.
#[test]
fn a_form_without_its_token_stores_nothing() {
    let book = Guestbook::start();
    let mut visitor = book.visitor();
    let others = book.visitor().token;
    for token in ["", "0123456789abcdef0123456789abcdef", &others] {
        let answer = visitor.send(token, "Mallory", "Evil.", Some(&gif(1000)));
        assert_eq!(answer.status, 403, "{token}: {}", answer.text());
    }
    assert!(visitor.get("/").text().contains(EMPTY));
    assert_eq!(book.pictures(), 0);
}

/// A picture above the application's limit and a body above the server's store nothing.
#[test]
fn what_is_too_large_stores_nothing() {
    let book = Guestbook::start();
    let mut visitor = book.visitor();
    let token = visitor.token.clone();
    // Above upload_max_filesize: the application refuses.
    let answer = visitor.send(&token, "Painter", "See.", Some(&gif(3 << 20)));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("The picture is larger than 2 MB."), "{}", answer.text());
    // Above post_max_size: the server does, before it has read all of it.
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", 9 << 20);
    let mut client = book.server.client();
    client.send(head.as_bytes()).unwrap();
    assert_eq!(client.read(false).unwrap().status, 413);
    let answer = visitor.send(&token, "Painter", "Not a picture.", Some(b"<?php echo 1;"));
    assert_eq!(answer.status, 422);
    assert!(visitor.get("/").text().contains(EMPTY));
    assert_eq!(book.pictures(), 0);
}

/// The guestbook's stylesheet is served, its source is not.
#[test]
fn its_files_are_served_and_its_source_is_not() {
    let book = Guestbook::start();
    let answer = book.server.get("/style.css");
    let file = std::fs::read(project().join("examples/guestbook/public/style.css")).unwrap();
    assert_eq!((answer.status, answer.body), (200, file));
    assert!(answer.headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("text/css")));
    for path in ["/../src/Book.php", "/src/Book.php", "/%2e%2e/src/Book.php", "/.gitignore"] {
        let answer = book.server.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
    }
}

/// Entries of eight visitors at once are all stored.
#[test]
fn eight_at_once_are_all_stored() {
    let book = Guestbook::start();
    const CLIENTS: usize = 8;
    const EACH: usize = 4;
    let visitors: Vec<Visitor> = (0..CLIENTS).map(|_| book.visitor()).collect();
    thread::scope(|scope| {
        for (number, mut visitor) in visitors.into_iter().enumerate() {
            scope.spawn(move || {
                for entry in 0..EACH {
                    let answer = visitor.sign(&format!("Visitor {number}"), &format!("Entry {number}-{entry}."));
                    assert_eq!(answer.status, 303, "{}", answer.text());
                }
            });
        }
    });
    let pages: String =
        (1..=CLIENTS * EACH / 8).map(|page| book.server.get(&format!("/?page={page}")).text()).collect();
    assert!(pages.contains(&format!("{} entries", CLIENTS * EACH)), "{pages}");
    for (number, entry) in (0..CLIENTS).flat_map(|number| (0..EACH).map(move |entry| (number, entry))) {
        assert_eq!(pages.matches(&format!("Entry {number}-{entry}.")).count(), 1, "entry {number}-{entry}");
    }
}

/// `scripts/local-ca` makes an authority that stays, and that can vouch for this machine alone.
#[test]
fn it_is_served_by_https_with_a_local_authority() {
    let directory = Directory::new();
    let place = directory.0.join("local-ca");
    let run = || {
        let output = Command::new(project().join("scripts/local-ca")).arg(&place).output().expect("bash");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(place.join("ca.pem")).expect("an authority")
    };
    assert_eq!(run(), run(), "who trusts it need not do so again");
    let file = |name: &str| place.join(name).to_str().expect("a plain path").to_owned();
    let root = directory.0.join("guestbook");
    copy(&project().join("examples/guestbook"), &root);
    let data = directory.0.join("data");
    writable_directory(&data, &web_user());
    let table = format!("[[certificate]]\nchain = \"{}\"\nkey = \"{}\"\n", file("site.pem"), file("site.key"));
    let setup = Setup::root(&root.join("public")).env("GUESTBOOK_DATA", data.to_str().expect("a plain path"));
    let (setup, ports) = tests::tls::both(setup, "", &table);
    let _server = setup.start();
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}/", ports.https);
        let got = tests::tls::curl(&url, &["--cacert", &file("ca.pem")]);
        // An address is no server name: the first certificate, the only one, has it.
        assert!(
            got.status == 200 && got.text.contains("<title>Guestbook</title>"),
            "{host}: {} {}",
            got.said,
            got.text
        );
    }
    let clear = tests::tls::curl(&format!("http://localhost:{}/", ports.http), &[]);
    assert_eq!(clear.status, 301, "{}", clear.text);
    let (key, chain) = (file("other.key"), file("other.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"])
        .args(["-addext", "subjectAltName=DNS:shop.example", "-keyout", &key, "-out", &chain])
        .args(["-CA", &file("ca.pem"), "-CAkey", &file("ca.key")])
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
    let verified =
        Command::new("openssl").args(["verify", "-CAfile", &file("ca.pem"), &chain]).output().expect("openssl");
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(!verified.status.success() && said.contains("permitted subtree violation"), "{said}");
}

/// `./run` serves the guestbook.
#[test]
fn the_readme_s_command_serves_it() {
    let directory = Directory::new();
    let port = free_port();
    let mut command = Command::new(project().join("run"));
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--access-log", "off"]);
    // What cargo tells its tests is not what a user's shell has.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
        if name != "CARGO_HOME" && name != "CARGO_TARGET_DIR" {
            command.env_remove(name);
        }
    }
    let mut run = Program::start(&mut command, &directory.0.join("run.log"));
    // It may have to build.
    run.await_ready(600, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let page = tests::get(port, "/");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.text().contains("<title>Guestbook</title>"), "{}", page.text());
    assert!(run.log().contains(&format!("http://127.0.0.1:{port}")), "{}", run.log());
    process::kill(run.pid(), Signal::SIGTERM);
    assert_eq!(run.wait(30), Some(0), "{}", run.log());
}
