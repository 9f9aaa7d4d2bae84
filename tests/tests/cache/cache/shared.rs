//! What is shared, and what never is.

use std::fs;
use std::time::{Duration, SystemTime};

use super::{PUBLIC, SHARED, ask, encoded, is_hit, runs, runs_of, site, status_of};

/// Whatever else a response says: with a cookie of its own it is for one visitor.
#[test]
fn what_sets_a_cookie_goes_to_one_visitor() {
    let server = site(4).start();
    for says in
        [SHARED, PUBLIC, "h[]=Reprise-Cache-Control:+max-age%3D60", "h[]=CDN-Cache-Control:+max-age%3D60,public"]
    {
        let target = format!("/a?{says}&h[]=Set-Cookie:+who%3Dada");
        let [one, other] = [0, 1].map(|_| ask(&server, &target, &[]));
        assert_ne!(one.text(), other.text(), "{says}");
        assert!(!is_hit(&other) && status_of(&one).contains("detail=set-cookie"), "{}", status_of(&one));
    }
}

/// A page for a cookie or a password is neither stored nor answered from what is stored for others, unless it says that it is public.
#[test]
fn what_was_made_for_a_visitor_stays_his() {
    let server = site(4).start();
    for (name, value) in [("Cookie", "who=ada"), ("Authorization", "Basic YWRhOng=")] {
        let target = format!("/{name}?{SHARED}");
        let own = ask(&server, &target, &[(name, value)]);
        let anonymous = ask(&server, &target, &[]);
        assert!(own.text().contains(value) && !anonymous.text().contains(value), "{}", anonymous.text());
        // Now there is a stored page, and it is not for that visitor.
        assert!(is_hit(&ask(&server, &target, &[])));
        let again = ask(&server, &target, &[(name, value)]);
        assert!(again.text().contains(value) && status_of(&again).contains("fwd=bypass"), "{}", again.text());
        let target = format!("/public-{name}?{PUBLIC}");
        let first = ask(&server, &target, &[(name, value)]);
        assert_eq!(ask(&server, &target, &[]).text(), first.text());
        assert_eq!(ask(&server, &target, &[(name, "other")]).text(), first.text());
    }
}

/// Nothing is stored that does not say so to shared caches.
#[test]
fn what_does_not_say_so_is_not_stored() {
    let server = site(4).start();
    for (says, why) in [
        ("", ""),
        ("h[]=Cache-Control:+max-age%3D60", ""),
        ("h[]=Cache-Control:+public", "no-freshness"),
        ("h[]=Expires:+Thu,+01+Jan+2099+00:00:00+GMT", ""),
        ("h[]=Cache-Control:+private,s-maxage%3D60", "private"),
        ("h[]=Cache-Control:+no-store,s-maxage%3D60", "no-store"),
        ("h[]=Cache-Control:+public,max-age%3D60&h[]=Vary:+*", "vary"),
        ("h[]=Cache-Control:+public,max-age%3Dsixty", "malformed"),
        ("h[]=Reprise-Cache-Control:+max-age%3D60,private", "private"),
    ] {
        let target = format!("/b?{says}");
        let [one, other, third] = [0, 1, 2].map(|_| ask(&server, &target, &[]));
        assert!(one.text() != other.text() && other.text() != third.text(), "{says}");
        let told = if why.is_empty() { String::new() } else { format!("Reprise; fwd=uri-miss; detail={why}") };
        assert_eq!(status_of(&one), told, "{says}");
        assert!(one.header("reprise-cache-control").is_none(), "{says}");
    }
}

/// A page is stored under the URL as PHP sees it, with its scheme and host: no other URL finds it.
#[test]
fn no_other_url_finds_a_page() {
    let server = site(4).start();
    let mut seen = Vec::new();
    for path in ["/c/d", "/c//d", "/c%2Fd", "/c/./d", "/x/../c/d", "/c/d/", "/%63/d", "/c/d;a", "/C/d"] {
        seen.push(ask(&server, &format!("{path}?{SHARED}"), &[]).text());
    }
    for host in ["a.example", "b.example", "a.example:81"] {
        seen.push(ask(&server, &format!("/c/d?{SHARED}"), &[("Host", host)]).text());
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

/// Headers that many applications heed and that are not part of the key make no page for others.
#[test]
fn headers_that_are_not_part_of_the_key_poison_nothing() {
    let server = site(4).start();
    for name in [
        "X-Forwarded-Host",
        "X-Host",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "Forwarded",
        "X-Forwarded-Prefix",
        "Front-End-Https",
        "X-Scheme",
        "CF-Visitor",
        "CloudFront-Forwarded-Proto",
        "Fastly-SSL",
        "X-ARR-SSL",
        "CF-IPCountry",
        "CloudFront-Viewer-Country",
        "True-Client-IP",
    ] {
        let target = format!("/{name}?{PUBLIC}");
        let poisoned = ask(&server, &target, &[(name, "evil.example")]);
        assert_eq!(status_of(&poisoned), "Reprise; fwd=uri-miss; detail=request-header", "{name}");
        let (why, _) = server.reprise(&["cache", "explain", &format!("http://127.0.0.1:{}{target}", server.port)]);
        assert!(why.contains("not stored: request-header"), "{name}: {why}");
        let clean = ask(&server, &target, &[]);
        assert_ne!(poisoned.text(), clean.text(), "{name}");
        assert!(is_hit(&ask(&server, &target, &[])), "{name}");
    }
    // What says the scheme that the request has makes no other page.
    for (name, value) in [("X-Scheme", "http"), ("Front-End-Https", "off"), ("CF-Visitor", "{\"scheme\":\"http\"}")] {
        let target = format!("/same/{name}?{PUBLIC}");
        assert!(!is_hit(&ask(&server, &target, &[(name, value)])), "{name}");
        assert!(is_hit(&ask(&server, &target, &[(name, value)])) && is_hit(&ask(&server, &target, &[])), "{name}");
    }
    // Nor when they come at the moment when a page has to be made anew.
    let target = "/stale?h[]=Cache-Control:+public,max-age%3D1";
    ask(&server, target, &[]);
    let poisoned = tests::wait_for("the page is stale", 20, || {
        let page = ask(&server, target, &[("X-Forwarded-Host", "evil.example"), ("Cookie", "who=ada")]);
        (!is_hit(&page)).then_some(page)
    });
    assert_ne!(poisoned.text(), ask(&server, target, &[]).text());
    // A request with a body is not what is stored.
    let target = format!("/fat?{PUBLIC}");
    let fat = server.client().request("GET", &target, &[("Content-Length", "3")], b"a=b");
    assert_ne!(fat.text(), ask(&server, &target, &[]).text());
}

/// What a client says of freshness counts for nothing by default: a crowd presses reload.
#[test]
fn reloading_does_not_pass_by_the_cache() {
    let server = site(4).start();
    let target = format!("/d?{SHARED}");
    let first = ask(&server, &target, &[]).text();
    for (name, value) in [
        ("Cache-Control", "no-cache"),
        ("Cache-Control", "max-age=0"),
        ("Pragma", "no-cache"),
        ("Cache-Control", "no-store"),
    ] {
        let again = ask(&server, &target, &[(name, value)]);
        assert!(again.text() == first && is_hit(&again), "{value}: {}", status_of(&again));
    }
    assert_eq!(runs_of(&server, "/d?"), 1);
    let cached = [("Cache-Control", "only-if-cached")];
    assert_eq!(ask(&server, &target, &cached).status, 200);
    let none = ask(&server, "/nothing", &cached);
    assert_eq!((none.status, none.header("reprise-refused")), (504, Some("only-if-cached")));
}

/// Conditions, ranges and HEAD are answered from what is stored.
#[test]
fn a_stored_page_answers_conditions_ranges_and_head() {
    let server = site(4).start();
    let target = format!("/e?{PUBLIC}&etag=one");
    let whole = ask(&server, &target, &[]);
    let known = ask(&server, &target, &[("If-None-Match", "W/\"one\"")]);
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, Some("\"one\"")));
    let part = ask(&server, &target, &[("Range", "bytes=2-5")]);
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[2..6]));
    let other = ask(&server, &target, &[("Range", "bytes=2-5"), ("If-Range", "\"two\"")]);
    assert_eq!((other.status, other.body == whole.body), (200, true));
    let beyond = ask(&server, &target, &[("Range", "bytes=99999-")]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some(&*format!("bytes */{}", whole.body.len()))));
    let head = server.client().request("HEAD", &target, &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*whole.body.len().to_string())));
    assert!(head.header("age").is_some() && is_hit(&head));
    assert_eq!(runs(&server).len(), 1);
}

/// By its rules a request may be denied, guarded by a password, redirected or limited while the page is stored.
#[test]
fn rules_come_before_the_cache() {
    let setup = site(4);
    fs::write(setup.directory().join("users"), "ada:{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=\n").expect("a file");
    let users = setup.directory().join("users").display().to_string();
    let server = setup
        .file("closed.html", "closed")
        .route("pattern = \"^/denied\"\nheader = { X-Mark = \"1\" }\ndeny = 403")
        .route("path = \"/moved\"\nheader = { X-Mark = \"1\" }\nredirect = \"/elsewhere\"")
        .route(&format!("path = \"/guarded\"\nheader = {{ X-Mark = \"1\" }}\nrealm = \"x\"\nusers = \"{users}\""))
        .route("path = \"/closed\"\nheader = { X-Mark = \"1\" }\nmaintenance = \"/closed.html\"")
        .start();
    for (path, status) in [("/denied", 403), ("/moved", 302), ("/guarded", 401), ("/closed", 503)] {
        let target = format!("{path}?{PUBLIC}");
        assert_eq!(ask(&server, &target, &[]).status, 200, "{path}");
        assert!(is_hit(&ask(&server, &target, &[])), "{path}");
        let ruled = ask(&server, &target, &[("X-Mark", "1")]);
        assert!(ruled.status == status && !is_hit(&ruled), "{path}: {}", ruled.status);
    }
}

/// Who has changed something sees it: an unsafe method makes its URL, and the one it leads to, be asked for anew.
#[test]
fn a_change_is_seen_by_the_next_visitor() {
    let server = site(4).start();
    let page = format!("/petition?{SHARED}");
    for number in 0..5 {
        let before = ask(&server, &page, &[]).text();
        assert_eq!(ask(&server, &page, &[]).text(), before);
        let location = encoded(&page);
        let target = if number % 2 == 0 { page.clone() } else { format!("/sign?status=303&h[]=Location:+{location}") };
        server.client().request("POST", &target, &[], b"");
        let after = ask(&server, &page, &[]).text();
        assert_ne!(after, before, "{number}");
    }
    // What failed has changed nothing.
    let before = ask(&server, &page, &[]).text();
    server.client().request("POST", &format!("{page}&status=500"), &[], b"");
    assert_eq!(ask(&server, &page, &[]).text(), before);
}

/// A petition: whoever signs is redirected, and sees his signature, however many read it meanwhile.
const PETITION: &str = r"<?php
$file = '@runs@/signatures';
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    file_put_contents($file, '[' . $_GET['who'] . ']', FILE_APPEND | LOCK_EX);
    header('Location: /petition.php', true, 303);
    exit;
}
header('Cache-Control: s-maxage=3600');
header('Reprise-Cache-Tag: petition');
clearstatcache();
echo substr((string)@file_get_contents($file), -400);
";

#[test]
fn who_signs_sees_his_signature() {
    let setup = site(4);
    let page = PETITION.replace("@runs@", &setup.writable("signed"));
    let server = setup.file("petition.php", page).start();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let count = tests::amount(200, 10_000);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = server.client();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(client.get("/petition.php").status, 200);
                }
            });
        }
        let mut signer = server.client();
        for number in 0..count {
            let signed = signer.request("POST", &format!("/petition.php?who={number}"), &[], b"");
            assert_eq!((signed.status, signed.header("location")), (303, Some("/petition.php")));
            let page = signer.get("/petition.php").text();
            if !page.contains(&format!("[{number}]")) {
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("signature {number} is not on the page: {page}");
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Vary chooses among stored pages; spellings that mean the same share one.
#[test]
fn variants_are_chosen_by_what_vary_names() {
    let server = site(4).start();
    let target = format!("/f?{PUBLIC}&h[]=Vary:+Accept-Language");
    let of = |language: &str| ask(&server, &target, &[("Accept-Language", language)]);
    let (german, english) = (of("de").text(), of("en").text());
    assert!(german != english && german.contains("\"lang\":\"de\""));
    assert_eq!((of("de").text(), of(" en ").text()), (german, english));
    // As many variants as are allowed, however many are asked for.
    for number in 0..100 {
        of(&format!("x-{number}"));
    }
    assert_eq!(runs_of(&server, "/f?"), 102);
    let last = of("x-99");
    assert!(is_hit(&last), "{}", status_of(&last));
}

/// What is stale and may be used is used, and renewed once, by nobody's request; a 304 keeps the stored bytes.
#[test]
fn a_stale_page_is_renewed_behind_the_visitors() {
    let server = site(4).start();
    let stale = "h[]=Cache-Control:+public,max-age%3D1,stale-while-revalidate%3D60";
    for etag in ["", "&etag=one"] {
        let target = format!("/g?{stale}{etag}");
        let first = ask(&server, &target, &[("Cookie", "who=ada")]);
        tests::wait_until("the page is stale", 20, || {
            ask(&server, &target, &[]).header("age").is_some_and(|age| age == "1")
        });
        tests::wait_until("it is renewed", 20, || {
            let page = ask(&server, &target, &[]);
            assert!(is_hit(&page), "{}", status_of(&page));
            page.header("age") == Some("0")
        });
        let renewed = ask(&server, &target, &[]);
        if etag.is_empty() {
            let text = renewed.text();
            assert!(text.contains("\"cookie\":null") && text.contains("192.0.0.8"), "{text}");
        } else {
            assert_eq!(renewed.text(), first.text());
        }
    }
}

/// A 304 that sets a cookie, or says that the page is for one client, is for the visitor whose request it answers; the page is no longer one
/// for all.
#[test]
fn a_page_that_is_confirmed_for_one_visitor_is_withdrawn_from_others() {
    for (number, own) in ["Set-Cookie: session={}", "Cache-Control: private, x={}", "Cache-Control: no-store, x={}"]
        .into_iter()
        .enumerate()
    {
        let (name, value) = own.split_once(": ").unwrap();
        let value = value.replace("{}", "' . $_SERVER['HTTP_X_WHO'] . '");
        let server = site(4)
            .file(
                "page.php",
                format!(
                    "<?php header('ETag: \"one\"'); header('Cache-Control: public, max-age=1');
                    if (isset($_SERVER['HTTP_IF_NONE_MATCH'])) {{ header('{name}: {value}'); http_response_code(304); exit; }}
                    echo 'page';"
                ),
            )
            .start();
        let of = |who: &str| ask(&server, "/page.php", &[("X-Who", who)]);
        assert_eq!(of("ada").text(), "page");
        // It is fresh for a second.
        let own = tests::wait_for("the page is validated", 20, || {
            let page = of("ada");
            assert_eq!((page.status, page.text()), (200, "page".to_owned()));
            (!is_hit(&page)).then_some(page)
        });
        let has = |page: &tests::Response, who: &str| {
            page.header(&name.to_lowercase()).is_some_and(|said| said.contains(who))
        };
        assert!(has(&own, "=ada") && own.header("content-length") == Some("4"), "{number}: {:?}", own.headers);
        let other = of("eve");
        assert!(!has(&other, "=ada") && !is_hit(&other) && other.text() == "page", "{number}: {:?}", other.headers);
    }
}

/// A reload leaves pages stale: they are served, and renewed by the new code.
#[test]
fn a_reload_leaves_pages_stale() {
    let server = site(4).start();
    let target = format!("/h?{PUBLIC}");
    let first = ask(&server, &target, &[]).text();
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    let after = ask(&server, &target, &[]);
    assert!(is_hit(&after) && after.text() == first);
    tests::wait_until("the new code has renewed it", 20, || ask(&server, &target, &[]).text() != first);
    let renewed = ask(&server, &target, &[]).text();
    assert_eq!((ask(&server, &target, &[]).text(), runs_of(&server, "/h?")), (renewed, 2));
}

/// An error is not sent while a page that says so may stand in.
#[test]
fn a_stale_page_stands_in_for_an_error() {
    let setup = site(4);
    let server = setup
        .file(
            "sie.php",
            "<?php header('Cache-Control: public, max-age=1, stale-if-error=60'); \
        if (file_exists(__DIR__ . '/broken')) { http_response_code(500); } echo 'page';",
        )
        .start();
    assert_eq!(ask(&server, "/sie.php", &[]).text(), "page");
    fs::write(server.directory().join("app/public/broken"), "").expect("a file");
    let until = SystemTime::now() + Duration::from_secs(20);
    let stale = tests::wait_for("the page is stale", 20, || {
        let page = ask(&server, "/sie.php", &[]);
        assert!(page.status == 200 && SystemTime::now() < until, "{}", page.status);
        (page.header("age").is_some_and(|age| age.parse::<u32>().unwrap() >= 2)).then_some(page)
    });
    assert!(is_hit(&stale) && status_of(&stale).contains("ttl=-"), "{}", status_of(&stale));
}

/// A Content-Range beside another status than 206 means nothing (RFC 9110 §14.4): such a page is kept with it. A part is not, whatever its status says.
#[test]
fn a_content_range_without_a_part_keeps_no_page_out() {
    let server = site(2).start();
    for (number, range) in ["items+0-24/319", "bytes+0-1/2", "bytes+*/2"].iter().enumerate() {
        let target = format!("/list/{number}?{SHARED}&h[]=Content-Range:+{range}");
        let made = ask(&server, &target, &[]);
        let kept = ask(&server, &target, &[]);
        let said = Some(range.replace('+', " "));
        assert!(is_hit(&kept) && kept.body == made.body, "{range}");
        assert_eq!((kept.status, kept.header("content-range").map(str::to_owned)), (200, said), "{range}");
        // A part of what is kept has a Content-Range of its own.
        let part = ask(&server, &target, &[("Range", "bytes=0-3")]);
        assert_eq!((part.status, part.all("content-range").len(), part.body.len()), (206, 1, 4), "{range}");
    }
    let target = format!("/part?{SHARED}&h[]=Content-Range:+bytes+0-1/2");
    ask(&server, &target, &[("Range", "bytes=0-1")]);
    assert!(!is_hit(&ask(&server, &target, &[])));
}
