//! By the rules of RFC 9111 (`cache_rules = "rfc9111"`): what is kept without a word to shared caches, and for whom. bench/cache-conformance
//! judges the rest.

use tests::{Setup, wait_for};

use super::{ask, encoded, is_hit, site, status_of};

const FRESH: &str = "h[]=Cache-Control:+max-age%3D60";

fn letter() -> Setup {
    site(4).application("cache_rules = \"rfc9111\"")
}

/// A visitor with a cookie gets what was made for nobody in particular; what was made for him stays his unless it is meant for shared caches.
#[test]
fn what_was_made_for_a_cookie_stays_his() {
    let server = letter().start();
    for (name, value) in [("Cookie", "who=ada"), ("Authorization", "Basic YWRhOng=")] {
        let target = format!("/{name}?{FRESH}");
        let own = ask(&server, &target, &[(name, value)]);
        let anonymous = ask(&server, &target, &[]);
        assert!(own.text().contains(value) && !anonymous.text().contains(value), "{}", anonymous.text());
        let again = ask(&server, &target, &[(name, value)]);
        assert!(is_hit(&again) && again.text() == anonymous.text(), "{}", status_of(&again));
        let shared = format!("/shared-{name}?h[]=Cache-Control:+s-maxage%3D60");
        let first = ask(&server, &shared, &[(name, value)]);
        assert_eq!(ask(&server, &shared, &[]).text(), first.text());
    }
    let target = format!("/sets?{FRESH},public&h[]=Set-Cookie:+a%3Db");
    assert_ne!(ask(&server, &target, &[]).text(), ask(&server, &target, &[]).text());
}

/// A stale page with a cookie's visitor for its first one: what he gets is not kept for the others.
#[test]
fn who_finds_a_page_stale_does_not_make_it_for_others() {
    let server = letter().start();
    let target = "/stale?h[]=Cache-Control:+max-age%3D1";
    ask(&server, target, &[]);
    let own = wait_for("the page is stale", 20, || {
        let page = ask(&server, target, &[("Cookie", "who=ada")]);
        (!is_hit(&page)).then_some(page)
    });
    assert!(own.text().contains("who=ada"));
    assert!(!ask(&server, target, &[]).text().contains("who=ada"));
}

/// A 304 that speaks of another response than the stored one is nobody's response: the origin is asked for that one.
#[test]
fn a_304_of_another_response_reaches_nobody() {
    let script = "<?php header('Cache-Control: max-age=1'); $tag = $_SERVER['HTTP_IF_NONE_MATCH'] ?? '';
        header('ETag: \"' . ($tag === '' ? 'one' : 'two') . '\"'); if ($tag !== '') { http_response_code(304); exit; } echo 'page';";
    let server = letter().file("other.php", script).start();
    ask(&server, "/other.php", &[]);
    let renewed = wait_for("the page is stale", 20, || {
        let page = ask(&server, "/other.php", &[]);
        assert_eq!((page.status, page.text()), (200, "page".to_owned()));
        (!is_hit(&page)).then_some(page)
    });
    assert_eq!(renewed.header("etag"), Some("\"one\""));
}

/// Surrogate-Control counts, in the place of Cache-Control; who asks for fragments by a header of his own makes no page for others.
#[test]
fn a_surrogate_is_told_apart() {
    let server = letter().start();
    let field = encoded("Surrogate-Control: max-age=60;reprise");
    let target = format!("/surrogate?h[]={field}&h[]=Cache-Control:+no-store");
    assert_eq!(ask(&server, &target, &[]).text(), ask(&server, &target, &[]).text());
    let target = format!("/fragments?{FRESH}");
    let own = ask(&server, &target, &[("Surrogate-Capability", "x=\"ESI/1.0\"")]);
    assert_ne!(ask(&server, &target, &[]).text(), own.text());
    // By default it does not.
    let server = site(4).start();
    let target = format!("/surrogate?h[]={field}");
    assert_ne!(ask(&server, &target, &[]).text(), ask(&server, &target, &[]).text());
}
