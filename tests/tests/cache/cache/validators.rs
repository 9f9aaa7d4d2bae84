//! Scripts that know whether a page has changed: they run first, and if nothing has, the page's own script does not.

use std::fs;

use tests::{Server, Setup, wait_until};

use super::{ask, is_hit, runs_of};

/// The page; each run is noted.
const PAGE: &str = r#"<?php
file_put_contents('@runs@/log', 'page ' . $_SERVER['REQUEST_URI'] . "\n", FILE_APPEND | LOCK_EX);
reprise_not_modified(etag: trim(file_get_contents('@runs@/version')));
if (isset($_GET['cc'])) header('Cache-Control: ' . $_GET['cc']);
echo 'page ', trim(file_get_contents('@runs@/version'));
"#;

/// Knows the version of the page, or does something else.
const CHANGED: &str = r#"<?php
file_put_contents('@runs@/log', 'validator ' . $_SERVER['REQUEST_URI'] . "\n", FILE_APPEND | LOCK_EX);
if (isset($_GET['sleeps'])) sleep(30);
if (isset($_GET['fails'])) throw new Exception('no');
if (isset($_GET['dies'])) posix_kill(getmypid(), SIGKILL);
reprise_not_modified(etag: trim(file_get_contents('@runs@/version')));
echo 'this is sent to nobody';
"#;

fn site() -> Server {
    let setup = Setup::empty();
    let runs = setup.writable("runs");
    fs::write(format!("{runs}/version"), "one").expect("a file");
    setup
        .file("index.php", PAGE.replace("@runs@", &runs))
        .file("changed.php", CHANGED.replace("@runs@", &runs))
        .application("cache_memory = \"16M\"\nvalidators.\"/blog\" = \"/changed.php\"\nvalidators.\"/nowhere\" = \"/missing.php\"")
        .start()
}

#[test]
fn what_has_not_changed_is_not_made() {
    let server = site();
    let known = [("If-None-Match", "\"one\"")];
    let first = ask(&server, "/blog/1", &[]);
    assert_eq!((first.text().as_str(), first.header("etag")), ("page one", Some("\"one\"")));
    assert_eq!((runs_of(&server, "validator"), runs_of(&server, "page")), (0, 1));
    let second = ask(&server, "/blog/1", &known);
    assert!(second.status == 304 && second.body.is_empty() && second.header("etag") == Some("\"one\""));
    assert_eq!((runs_of(&server, "validator /blog/1"), runs_of(&server, "page")), (1, 1));
    // What has changed is made, and nobody sees what the validator says then.
    fs::write(server.directory().join("runs/version"), "two").expect("a file");
    let third = ask(&server, "/blog/1", &known);
    assert_eq!((third.status, third.text().as_str()), (200, "page two"));
    // Other paths and methods have none, nor has one whose script is missing.
    for (method, path) in [("GET", "/blogs"), ("GET", "/nowhere/x"), ("POST", "/blog/1")] {
        let before = runs_of(&server, "validator");
        let status = server.client().request(method, path, &[("If-None-Match", "\"one\"")], b"").status;
        assert_eq!((status, runs_of(&server, "validator")), (200, before), "{method} {path}");
    }
}

/// A validator that fails, dies or takes too long is no reason not to make the page.
#[test]
fn a_validator_that_fails_is_passed_over() {
    let server = site();
    for query in ["fails", "dies", "sleeps"] {
        let page = ask(&server, &format!("/blog/1?{query}"), &[("If-None-Match", "\"other\"")]);
        assert_eq!((page.status, page.text().as_str()), (200, "page one"), "{query}");
        assert_eq!(runs_of(&server, &format!("validator /blog/1?{query}")), 1);
    }
}

/// The cache asks the validator too when a stored page is stale.
#[test]
fn stored_pages_are_validated() {
    let server = site();
    let target = "/blog/2?cc=public,max-age%3D1";
    ask(&server, target, &[]);
    assert!(is_hit(&ask(&server, target, &[])));
    wait_until("it was validated", 10, || {
        assert_eq!(ask(&server, target, &[]).text(), "page one");
        runs_of(&server, "validator /blog/2") > 0
    });
    assert_eq!(runs_of(&server, "page /blog/2"), 1);
}
