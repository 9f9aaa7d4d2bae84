//! The index of a directory: which file it is, and that what rules decide of that file's path holds for the directory.

use std::fs;

use tests::server::Directory;
use tests::{Server, Setup};

const SHOW: &str = "<?php echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];";

fn site() -> Setup {
    let scripts =
        ["index.php", "app.php", "a/index.php", "a/home.php", "b/home.php", "guarded/index.php", "moved/index.php"];
    let setup = scripts.into_iter().fold(Setup::empty(), |setup, name| setup.file(name, SHOW));
    let files = ["b/index.html", "c/default.htm", "home/x.txt", "headed/index.html", "down/index.html", "down.html"];
    files.into_iter().fold(setup, |setup, name| setup.file(name, format!("file {name}")))
}

fn all(server: &Server, expected: &[(&str, u16, &str)]) {
    for (path, status, part) in expected {
        let answer = server.get(path);
        let text = format!("{} {}", answer.header("location").unwrap_or(""), answer.text());
        assert!(answer.status == *status && text.contains(part), "{path}: {} {text}", answer.status);
    }
}

/// The first of the names that exists, for the root too; else the front controller.
#[test]
fn names_can_be_chosen() {
    let usual = [
        ("/", 200, "/index.php"),
        ("/a/", 200, "/a/index.php"),
        ("/b/", 200, "file b/index.html"),
        ("/c/", 200, "/index.php"),
    ];
    all(&site().start(), &usual);
    let server = site().application("index = [\"home.php\", \"default.htm\", \"app.php\"]").start();
    all(
        &server,
        &[
            ("/", 200, "/app.php"),
            ("/a/", 200, "/a/home.php"),
            ("/a", 301, "/a/"),
            ("/b/", 200, "/b/home.php"),
            ("/c/?x", 200, "file c/default.htm"),
            ("/home/", 200, "/index.php"),
            ("/home", 200, "/index.php"),
            ("/b/index.html", 200, "file b/index.html"),
        ],
    );
    let none = site().application("index = []\nfront_controller = \"\"").start();
    all(&none, &[("/", 404, ""), ("/a/", 404, ""), ("/a", 404, ""), ("/a/index.php", 200, "/a/index.php")]);
}

/// Each action on the path of an index.
#[test]
fn rules_for_an_index_hold_for_its_directory() {
    let mounted = Directory::new();
    for (name, text) in [("open/index.php", SHOW), ("closed/index.php", SHOW)] {
        let path = mounted.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let server = site()
        .route("path = \"/lib/closed/index.php\"\ndeny = true")
        .route(&format!("prefix = \"/lib\"\nmount = \"{}\"", mounted.0.display()))
        .route("path = \"/guarded/index.php\"\nrewrite = \"/app.php?from=guarded\"")
        .route("path = \"/moved/index.php\"\nredirect = \"/elsewhere\"")
        // What removes the name of an index from URLs does not send its directory to itself.
        .route("pattern = '^/(a/)index\\.php$'\nredirect = \"/$1\"")
        .route("path = \"/b/index.html\"\nscript = \"/app.php\"")
        .route("path = \"/headed/index.html\"\nheaders = { \"X-Index\" = \"yes\" }\nexpires = \"1h\"")
        .route("path = \"/down/index.html\"\nmaintenance = \"/down.html\"")
        .start();
    all(
        &server,
        &[
            ("/lib/open/", 200, "/lib/open/index.php"),
            ("/lib/closed/", 403, "denied"),
            ("/guarded/", 200, "/app.php from=guarded"),
            ("/moved/?q", 302, "/elsewhere?q"),
            ("/a/", 200, "/a/index.php"),
            ("/a/index.php", 302, "/a/"),
            ("/b/", 200, "/app.php"),
            ("/headed/", 200, "file headed/index.html"),
            ("/down/", 503, "file down.html"),
        ],
    );
    let headed = server.get("/headed/");
    assert_eq!((headed.header("x-index"), headed.header("cache-control")), (Some("yes"), Some("max-age=3600")));
}

/// An escape in the text of a rule is the byte that it stands for.
#[test]
fn escapes_in_rewrites_are_bytes() {
    let server = site()
        .file("with space.txt", "a file with a space")
        .route("path = \"/spaced\"\nrewrite = \"/with%20space.txt\"")
        .start();
    all(&server, &[("/spaced", 200, "a file with a space"), ("/with%20space.txt", 200, "a file")]);
}
