//! Purges: what was purged is made anew, what began before is not stored, and whoever purges sees what he has changed.

use std::thread;

use tests::{Server, wait_until};

use super::{PUBLIC, SHARED, ask, encoded, is_hit, runs_of, site};

/// A page with tags, which a shared cache may keep.
fn tagged(path: &str, tags: &str) -> String {
    format!("{path}?{SHARED}&h[]={}", encoded(&format!("Reprise-Cache-Tag: {tags}")))
}

fn is_stored(server: &Server, target: &str) -> bool {
    is_hit(&ask(server, target, &[]))
}

fn purge(server: &Server, arguments: &str) -> String {
    ask(server, &format!("/purge?{arguments}"), &[]).text()
}

/// From PHP: by tag, URL, prefix and all; each leaves the rest as it is, and counts when the call returns.
#[test]
fn php_purges_by_tag_url_prefix_and_all() {
    let server = site(4).start();
    let (one, two, other) =
        (tagged("/blog/1", "post-1,home"), tagged("/blog/2", "post-2,home"), tagged("/shop", "shop"));
    let all = [&one, &two, &other];
    let url = format!("purge[urls][]={}", encoded(&one));
    for (arguments, meant) in [
        ("purge[tags][]=post-1", [false, true, true]),
        ("purge[tags][]=home", [false, false, true]),
        ("purge[tags][]=nothing", [true, true, true]),
        (url.as_str(), [false, true, true]),
        ("purge[prefixes][]=/blog/", [false, false, true]),
        ("purge[all]=1", [false, false, false]),
        ("purge[tags][]=post-2&purge[tags][]=shop", [true, false, false]),
    ] {
        for target in all {
            ask(&server, target, &[]);
            assert!(is_stored(&server, target));
        }
        assert!(purge(&server, arguments).starts_with("true\n"), "{arguments}");
        assert_eq!(all.map(|target| is_stored(&server, target)), meant, "{arguments}");
    }
}

/// More names than fit into what a worker hands over at once.
#[test]
fn many_tags_are_purged_in_one_call() {
    let setup = site(2).file("many.php", "<?php $tags = []; for ($i = 0; $i < 5000; $i++) $tags[] = 'tag-of-some-length-' . $i;\nvar_dump(reprise_cache_purge(tags: $tags));");
    let server = setup.start();
    let (first, last) = (tagged("/first", "tag-of-some-length-0"), tagged("/last", "tag-of-some-length-4999"));
    for target in [&first, &last] {
        ask(&server, target, &[]);
    }
    assert_eq!(ask(&server, "/many.php", &[]).text(), "bool(true)\n");
    assert!(!is_stored(&server, &first) && !is_stored(&server, &last));
}

/// By headers of a response, ours and LiteSpeed's. No client sees them.
#[test]
fn responses_purge_and_tag_in_the_words_of_other_caches() {
    let server = site(4).start();
    for (name, tags, purge) in [
        ("Reprise-Cache-Tag", "a, b", "Reprise-Cache-Purge: tag=b"),
        ("X-LiteSpeed-Tag", "a,b", "X-LiteSpeed-Purge: public,tag=b"),
        ("Surrogate-Key", "a b", "Reprise-Cache-Purge: tag=b"),
        ("Cache-Tag", "a,b", "X-LiteSpeed-Purge: *"),
        ("xkey", "a b", "Reprise-Cache-Purge: /words*"),
    ] {
        let target = format!("/words?{SHARED}&h[]={}", encoded(&format!("{name}: {tags}")));
        let page = ask(&server, &target, &[]);
        assert!(is_stored(&server, &target) && page.header("reprise-cache-tag").is_none(), "{name}");
        assert!(page.header("x-litespeed-tag").is_none());
        let purging = ask(&server, &format!("/other?h[]={}", encoded(purge)), &[]);
        assert!(purging.header("reprise-cache-purge").is_none() && purging.header("x-litespeed-purge").is_none());
        assert!(!is_stored(&server, &target), "{name}");
    }
    // LiteSpeed's own Cache-Control is for visitors without a cookie.
    let target = format!("/litespeed?h[]={}", encoded("X-LiteSpeed-Cache-Control: public,max-age=60"));
    let page = ask(&server, &target, &[]);
    assert!(is_stored(&server, &target) && page.header("x-litespeed-cache-control").is_none());
    assert!(!is_hit(&ask(&server, &target, &[("Cookie", "a=b")])));
}

/// What is on its way when it is purged goes to those who wait for it, but is not stored, and nobody who asks later gets it.
#[test]
fn what_began_before_a_purge_is_not_stored() {
    let server = site(4).start();
    let target = format!("{}&ms=700", tagged("/slow", "x"));
    let (port, early) = (server.port, target.clone());
    let early = thread::spawn(move || tests::Client::new(port).get(&early));
    wait_until("it runs", 10, || runs_of(&server, "/slow") == 1);
    purge(&server, "purge[tags][]=x");
    let late = ask(&server, &target, &[]);
    let early = early.join().expect("a response");
    assert!(early.status == 200 && early.text() != late.text());
    assert!(is_stored(&server, &target));
    assert_eq!(ask(&server, &target, &[]).text(), late.text());
}

/// A soft purge: the page is sent once more, and renewed behind its visitor.
#[test]
fn a_soft_purge_makes_pages_stale() {
    let server = site(4).start();
    let target = format!("/soft?{PUBLIC}&h[]={}", encoded("Reprise-Cache-Tag: x"));
    let before = ask(&server, &target, &[]).text();
    purge(&server, "purge[tags][]=x&purge[soft]=1");
    assert_eq!(ask(&server, &target, &[]).text(), before);
    wait_until("it is renewed", 10, || ask(&server, &target, &[]).text() != before);
    assert!(is_stored(&server, &target));
}

/// The command line, and what it says of a page.
#[test]
fn the_command_purges_and_explains() {
    let server = site(2).start();
    let target = tagged("/a", "x");
    let explain = |target: &str| {
        let url = format!("http://127.0.0.1:{}{target}", server.port);
        server.reprise(&["cache", "explain", &url])
    };
    assert!(explain(&target).0.contains("nobody has asked for it"));
    ask(&server, &target, &[]);
    let (text, _) = explain(&target);
    assert!(text.contains("stored: 200 OK") && text.contains("tags: x") && text.contains("fresh for"), "{text}");
    ask(&server, "/set?h[]=Set-Cookie:+a%3Db&h[]=Cache-Control:+public,max-age%3D9", &[]);
    let (text, _) = explain("/set?h[]=Set-Cookie:+a%3Db&h[]=Cache-Control:+public,max-age%3D9");
    assert!(text.contains("not stored: set-cookie: the response sets a cookie"), "{text}");
    for (arguments, is_stored_then) in [
        (&["purge", "--tag", "y"][..], true),
        (&["purge", "--tag", "x"], false),
        (&["purge", "--prefix", "/a"], false),
        (&["purge", "--all"], false),
    ] {
        ask(&server, &target, &[]);
        let (text, code) = server.reprise(arguments);
        assert!(code == 0 && text.contains("purged in"), "{arguments:?}: {text}");
        assert_eq!(is_stored(&server, &target), is_stored_then, "{arguments:?}");
    }
    for bad in [
        &["purge"][..],
        &["purge", "--tag", ""],
        &["purge", "--all", "--application", "nobody"],
        &["cache", "explain", "x"],
    ] {
        let (text, code) = server.reprise(bad);
        assert!(code == 64, "{bad:?}: {code} {text}");
    }
}

/// The methods of other caches, from declared addresses alone; without the option they are the application's.
#[test]
fn methods_of_other_caches_purge() {
    let server = site(2).application("purge_from = [\"127.0.0.1\"]").start();
    let target = tagged("/blog/a", "x");
    let client = || server.client();
    for (method, target_of, headers) in [
        ("PURGE", target.as_str(), &[][..]),
        ("PURGE", "/blog/.*", &[("X-Purge-Method", "regex")]),
        ("PURGETAGS", "/", &[("X-Cache-Tags", "x,y")]),
        ("PURGEKEYS", "/", &[("xkey-purge", "x")]),
        ("BAN", "/", &[("X-Cache-Tags", "(^|,)(x)(,|$)")]),
        ("BAN", "/", &[("X-Url", "^/blog/.*$"), ("X-Host", ".*")]),
    ] {
        ask(&server, &target, &[]);
        assert!(is_stored(&server, &target));
        assert_eq!(client().request(method, target_of, headers, b"").status, 200, "{method} {target_of}");
        assert!(!is_stored(&server, &target), "{method} {target_of} {headers:?}");
    }
    let closed = site(2).application("purge_from = [\"192.0.2.1\"]").start();
    assert_eq!(closed.client().request("PURGE", "/", &[], b"").status, 403);
    let open = site(2).start();
    let response = open.client().request("PURGE", "/", &[], b"");
    assert!(response.status == 200 && response.text().contains("\"uri\""), "{}", response.text());
}

/// What a script says of its page ends the request, or goes on.
#[test]
fn a_script_says_that_nothing_was_modified() {
    let server = site(2).start();
    for (query, headers, status) in [
        ("known[etag]=a", &[("If-None-Match", "\"a\"")][..], 304),
        ("known[etag]=a", &[("If-None-Match", "W/\"b\", W/\"a\"")], 304),
        ("known[etag]=a", &[("If-None-Match", "*")], 304),
        ("known[etag]=a", &[("If-None-Match", "\"b\"")], 200),
        ("known[etag]=a", &[], 200),
        ("known[last_modified]=1000000000", &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], 304),
        ("known[last_modified]=1000000001", &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], 200),
        (
            "known[last_modified]=1000000000",
            &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Cookie", "a=b")],
            200,
        ),
        (
            "known[last_modified]=1000000000&known[etag]=a",
            &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Cookie", "a=b")],
            304,
        ),
        (
            "known[last_modified]=1000000000&known[etag]=a",
            &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("If-None-Match", "\"b\"")],
            200,
        ),
    ] {
        let response = ask(&server, &format!("/?{query}"), headers);
        assert_eq!(response.status, status, "{query} {headers:?}");
        assert_eq!(response.body.is_empty(), status == 304);
        let has_etag = query.contains("etag");
        assert_eq!(response.header("etag"), has_etag.then_some("\"a\""), "{query}");
    }
    let bad = ask(&server, "/?known[etag]=a%20b", &[]);
    assert_eq!(bad.status, 500, "{}", bad.text());
    assert_eq!(server.client().request("POST", "/?known[etag]=a", &[("If-None-Match", "\"a\"")], b"").status, 200);
}
