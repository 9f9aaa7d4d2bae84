//! What a review of the cache has found, each as a test.

use tests::{Client, wait_until};

use super::{PUBLIC, SHARED, ask, encoded, is_hit, runs_of, site};

/// A page that goes stale after a second, with an ETag.
const FLEETING: &str = "h[]=Cache-Control:+public,max-age%3D1&etag=a";

/// A 304 with a cookie is for the one who has asked; nobody else gets the cookie.
#[test]
fn a_304_with_a_cookie_is_for_one_visitor() {
    for then in ["set-cookie: id=ada", "cache-control: private", "cache-control: no-store"] {
        let server = site(2).start();
        let target = format!("/x?{FLEETING}&then[]={}", encoded(then));
        let first = ask(&server, &target, &[]);
        let (name, value) = then.split_once(": ").expect("a header");
        let renewed = tests::wait_for("it was validated", 10, || {
            let page = ask(&server, &target, &[]);
            (page.header(name) == Some(value)).then_some(page)
        });
        assert!(renewed.status == 200 && renewed.body == first.body, "{then}");
        let next = ask(&server, &target, &[]);
        assert!(!is_hit(&next) && next.header("set-cookie").is_none() && next.body != first.body, "{then}");
    }
}

/// A 304 that speaks of another response than the stored one reaches nobody who asked for a page.
#[test]
fn a_304_of_another_response_is_asked_again() {
    let server = site(2).start();
    let target = format!("/x?{FLEETING}&then[]={}", encoded("ETag: \"b\""));
    ask(&server, &target, &[]);
    wait_until("it was validated", 10, || {
        runs_of(&server, "/x") < 3 && {
            let page = ask(&server, &target, &[]);
            assert!(page.status == 200 && !page.body.is_empty());
            runs_of(&server, "/x") == 3
        }
    });
}

/// A page that becomes private when a file is there.
const TURNS: &str = r"<?php
$private = file_exists('@runs@/turned');
header('Cache-Control: ' . ($private ? 'private' : 'public, max-age=1, stale-while-revalidate=600, stale-if-error=600'));
echo bin2hex(random_bytes(8));
";

/// A page whose next response is for one visitor is not sent to others any longer, though it might have been used for a while.
#[test]
fn what_becomes_private_is_not_sent_any_more() {
    let setup = site(2);
    let page = TURNS.replace("@runs@", &setup.writable("turned"));
    let server = setup.file("turns.php", page).start();
    let first = ask(&server, "/turns.php", &[]).text();
    std::fs::write(server.directory().join("turned/turned"), "").expect("a file");
    wait_until("it was found to be private", 10, || ask(&server, "/turns.php", &[]).text() != first);
    for _ in 0..5 {
        let page = ask(&server, "/turns.php", &[]);
        assert!(!is_hit(&page) && page.text() != first);
    }
}

/// Rules look at headers and addresses, which a request of nobody's does not have: it renews nothing that the rules lead elsewhere.
#[test]
fn a_page_that_rules_choose_is_renewed_by_its_visitors() {
    let server = site(2)
        .file("m.php", "<?php header('Cache-Control: public, max-age=1, stale-while-revalidate=600'); echo 'mobile ', microtime(true);")
        .file("d.php", "<?php header('Cache-Control: public, max-age=1, stale-while-revalidate=600'); echo 'desktop ', microtime(true);")
        .route("path = \"/page\"\nheader = { User-Agent = \"Mobile\" }\nscript = \"/m.php\"")
        .route("path = \"/page\"\nscript = \"/d.php\"")
        .start();
    let mobile = || ask(&server, "/page", &[("User-Agent", "Mobile")]).text();
    let first = mobile();
    assert!(first.starts_with("mobile"));
    wait_until("it was renewed", 20, || {
        let page = mobile();
        assert!(page.starts_with("mobile"), "{page}");
        page != first
    });
    assert!(ask(&server, "/page", &[]).text().starts_with("desktop"));
    assert!(mobile().starts_with("mobile"));
}

/// A visitor who leaves before he has seen the response to what he has changed has changed it all the same.
#[test]
fn a_change_counts_whose_visitor_leaves() {
    let server = site(4).start();
    let target = format!("/sign?{SHARED}&ms=300");
    let before = ask(&server, &target, &[]).text();
    assert!(is_hit(&ask(&server, &target, &[])));
    let mut leaving = Client::new(server.port);
    let head = format!("POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\n\r\n", server.port);
    leaving.send(head.as_bytes()).expect("sent");
    wait_until("it runs", 10, || runs_of(&server, "POST /sign") == 1);
    drop(leaving);
    wait_until("the change has counted", 10, || ask(&server, &target, &[]).text() != before);
}

/// Spellings that PHP takes for one.
#[test]
fn no_spelling_of_a_header_poisons() {
    let server = site(2).application("").start();
    for name in ["X_Original_URL", "X_Forwarded_Host", "X-HTTP_Method-Override"] {
        let target = format!("/{name}?{PUBLIC}");
        let poisoned = ask(&server, &target, &[(name, "evil.example")]);
        if poisoned.status != 200 {
            continue;
        }
        assert_ne!(poisoned.text(), ask(&server, &target, &[]).text(), "{name}");
    }
    // Two lines are not one line with a comma: PHP sees the first alone.
    let target = format!("/agents?{SHARED}&h[]=Vary:+User-Agent");
    let two = ask(&server, &target, &[("User-Agent", "a (b"), ("User-Agent", "c)")]);
    let one = ask(&server, &target, &[("User-Agent", "a (b,c)")]);
    assert_ne!(two.text(), one.text());
    // A coding that nobody can tell from none is not stored.
    let target = format!("/deflate?{SHARED}&h[]=Content-Encoding:+deflate");
    ask(&server, &target, &[("Accept-Encoding", "deflate")]);
    assert!(!is_hit(&ask(&server, &target, &[])));
    // One that is stored is not for whoever does not know it, though the page says no Vary.
    let target = format!("/gzip?{SHARED}&h[]=Content-Encoding:+gzip");
    ask(&server, &target, &[("Accept-Encoding", "gzip")]);
    assert!(is_hit(&ask(&server, &target, &[("Accept-Encoding", "gzip")])));
    assert!(!is_hit(&ask(&server, &target, &[])));
}

/// Cookies that the configuration or the page names tell visitors apart; others do not.
#[test]
fn only_cookies_that_matter_matter() {
    let server = site(2).application("cache_cookies = [\"session\", \"cart_*\"]").start();
    let target = format!("/cookies?{SHARED}");
    let first = ask(&server, &target, &[("Cookie", "_ga=1")]);
    assert!(first.text().contains("\"cookie\":null"), "{}", first.text());
    for cookies in ["_ga=2; other=3", ""] {
        assert!(is_hit(&ask(&server, &target, &[("Cookie", cookies)])), "{cookies}");
    }
    for cookies in ["session=1", "_ga=1; cart_x=2", "%73ession=1"] {
        let own = ask(&server, &target, &[("Cookie", cookies)]);
        assert!(!is_hit(&own) && own.text() != first.text(), "{cookies}");
    }
    let target = format!("/named?{PUBLIC}&h[]={}", encoded("Reprise-Cache-Cookies: login_*"));
    let first = ask(&server, &target, &[]);
    assert!(
        first.header("reprise-cache-cookies").is_none() && is_hit(&ask(&server, &target, &[("Cookie", "session=1")]))
    );
    assert!(!is_hit(&ask(&server, &target, &[("Cookie", "login_x=1")])));
}

/// Large pages are stored as long as `cache_object` lets them.
#[test]
fn large_pages_are_stored() {
    let server = site(2).start();
    let target = format!("/large?{SHARED}&bytes=3000000");
    ask(&server, &target, &[]);
    wait_until("it is stored", 10, || is_hit(&ask(&server, &target, &[])));
}

/// A response whose body is not what its head says is for who asked, and for nobody else.
#[test]
fn a_body_of_another_length_is_not_kept() {
    // PHP sends less than it says, or says what is no length. Of more than it says all get as much as it says (`announced_lengths`).
    let server = site(3).start();
    for length in ["1000", "x"] {
        let target = format!("/short?{PUBLIC}&h[]=Content-Length:+{length}");
        for _ in 0..3 {
            if let Ok(response) = std::panic::catch_unwind(|| ask(&server, &target, &[])) {
                assert!(!is_hit(&response), "{length}: {:?} {}", response.headers, response.text());
            }
        }
    }
    // Another server's response breaks off, then comes as a whole.
    let upstream = tests::upstream::Upstream::start(|mut talk| {
        use std::io::Write;
        while talk.head().is_some() {
            let body = if talk.number == 1 { "half" } else { "the whole page" };
            let head = "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 14\r\n\r\n";
            let is_sent = talk.stream.write_all(format!("{head}{body}").as_bytes()).is_ok();
            if talk.number == 1 || !is_sent {
                return;
            }
        }
    });
    let server = site(2).route(&format!("prefix = \"/other\"\n{}", upstream.rule())).start();
    let broken = std::panic::catch_unwind(|| ask(&server, "/other", &[]));
    assert!(broken.is_err() || !broken.is_ok_and(|response| response.text() == "the whole page"));
    assert_eq!(ask(&server, "/other", &[]).text(), "the whole page");
    assert!(is_hit(&ask(&server, "/other", &[])));
}
