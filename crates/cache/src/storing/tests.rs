//! Which responses are stored, and on which terms.

use http::HeaderValue;

use super::*;

type Fields<'a> = &'a [(&'static str, &'a str)];

fn headers(fields: Fields<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn of(rules: Rules, request: Fields<'_>, status: u16, response: Fields<'_>) -> Result<Terms, Why> {
    let request = headers(request);
    let has_cookie = request.contains_key(header::COOKIE);
    let asked = Asked { method: &Method::GET, headers: &request, has_cookie, has_body: false };
    let came = Came { at: 1_800_000_000, waited: 1 };
    decide(rules, &asked, StatusCode::from_u16(status).unwrap(), &headers(response), came)
}

const BOTH: [Rules; 2] = [Rules::Safe, Rules::Rfc9111];
const SHARED: (&str, &str) = ("cache-control", "s-maxage=60");
const PUBLIC: (&str, &str) = ("cache-control", "public, max-age=60");

#[test]
fn only_what_says_so_to_shared_caches_is_stored() {
    for response in [SHARED, PUBLIC, ("reprise-cache-control", "max-age=60"), ("cdn-cache-control", "max-age=60")] {
        assert_eq!(of(Rules::Safe, &[], 200, &[response]).map(|terms| terms.lifetime), Ok(60), "{response:?}");
    }
    let modified = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
    let expires = ("expires", "Sun, 06 Nov 2094 08:49:37 GMT");
    for response in
        [&[][..], &[("cache-control", "max-age=60")], &[("cache-control", "public")], &[modified], &[expires]]
    {
        assert_eq!(of(Rules::Safe, &[], 200, response), Err(Why::NoFreshness), "{response:?}");
    }
    assert!(of(Rules::Rfc9111, &[], 200, &[("cache-control", "max-age=60")]).is_ok());
    assert!(of(Rules::Rfc9111, &[], 200, &[modified]).is_ok());
    assert_eq!(of(Rules::Rfc9111, &[], 200, &[]), Err(Why::NoFreshness));
}

#[test]
fn what_sets_a_cookie_is_never_stored() {
    for rules in BOTH {
        for says in [
            "public, max-age=60",
            "s-maxage=60",
            "public, max-age=60, no-cache=\"set-cookie\"",
            "public, max-age=60, private=\"set-cookie\"",
        ] {
            let response =
                [("set-cookie", "a=b"), ("cache-control", says), ("reprise-cache-control", "max-age=60, public")];
            assert_eq!(of(rules, &[], 200, &response), Err(Why::SetCookie), "{says}");
        }
    }
}

#[test]
fn what_was_made_for_a_visitor_is_stored_only_if_it_is_public() {
    for (field, why) in [("cookie", Why::Cookie), ("authorization", Why::Authorization)] {
        let request = [(field, "a=b")];
        assert_eq!(of(Rules::Safe, &request, 200, &[SHARED]), Err(why));
        assert_eq!(of(Rules::Safe, &request, 200, &[("cache-control", "s-maxage=60, must-revalidate")]), Err(why));
        assert!(of(Rules::Safe, &request, 200, &[PUBLIC]).is_ok_and(|terms| terms.is_public));
        assert!(of(Rules::Safe, &request, 200, &[("cdn-cache-control", "max-age=60")]).is_ok());
        assert!(of(Rules::Rfc9111, &request, 200, &[SHARED]).is_ok());
        assert_eq!(of(Rules::Rfc9111, &request, 200, &[("cache-control", "max-age=60")]), Err(why));
    }
    // What was made for nobody in particular.
    for rules in BOTH {
        let terms = of(rules, &[], 200, &[SHARED]).unwrap();
        assert_eq!(terms.is_public, rules == Rules::Rfc9111);
    }
    let password = [("authorization", "Basic eA==")];
    assert_eq!(of(Rules::Rfc9111, &password, 200, &[("cache-control", "max-age=60")]), Err(Why::Authorization));
    assert!(of(Rules::Rfc9111, &password, 200, &[("cache-control", "max-age=60, must-revalidate")]).is_ok());
}

#[test]
fn what_forbids_it_is_not_stored() {
    for rules in BOTH {
        for (says, why) in [
            ("public, max-age=60, no-store", Why::NoStore),
            ("public, s-maxage=60, private", Why::Private),
            ("public, max-age=60, private=x y", Why::Private),
            ("public, max-age=60, x=\"", Why::NoStore),
            ("public, max-age=0", Why::Stale),
        ] {
            assert_eq!(of(rules, &[], 200, &[("cache-control", says)]), Err(why), "{says}");
        }
        assert_eq!(of(rules, &[], 200, &[PUBLIC, ("vary", "*")]), Err(Why::Vary));
        for status in [206, 304, 412, 416] {
            assert_eq!(of(rules, &[], status, &[PUBLIC]), Err(Why::Status), "{status}");
        }
        assert_eq!(of(rules, &[("cache-control", "no-store")], 200, &[PUBLIC]), Err(Why::RequestNoStore));
        assert!(of(rules, &[], 200, &[("cache-control", "public, max-age=60, no-store, must-understand")]).is_ok());
    }
    assert_eq!(of(Rules::Safe, &[], 200, &[("cache-control", "public, max-age=60, max-age=x")]), Err(Why::Malformed));
}

#[test]
fn statuses_without_a_known_meaning_are_stored_by_the_letter_alone() {
    for status in [299, 305, 499, 599] {
        assert_eq!(of(Rules::Safe, &[], status, &[PUBLIC]), Err(Why::Status), "{status}");
        assert!(of(Rules::Rfc9111, &[], status, &[PUBLIC]).is_ok(), "{status}");
        let understood = ("cache-control", "public, max-age=60, must-understand");
        assert_eq!(of(Rules::Rfc9111, &[], status, &[understood]), Err(Why::Status), "{status}");
        // Nothing is assumed of them.
        let etag = ("etag", "\"a\"");
        assert_eq!(of(Rules::Rfc9111, &[], status, &[etag]), Err(Why::NoFreshness), "{status}");
        assert!(of(Rules::Rfc9111, &[], 200, &[etag]).is_ok());
    }
    let part = ("content-range", "bytes 0-1/2");
    assert!(of(Rules::Safe, &[], 200, &[PUBLIC, part]).is_ok());
    assert_eq!(of(Rules::Safe, &[("range", "bytes=0-1")], 200, &[PUBLIC, part]), Err(Why::Status));
    assert!(of(Rules::Rfc9111, &[], 200, &[PUBLIC, part]).is_ok());
}

#[test]
fn a_surrogate_is_told_apart() {
    let response = [("surrogate-control", "max-age=60"), ("cache-control", "no-store")];
    assert_eq!(of(Rules::Safe, &[], 200, &response), Err(Why::NoStore));
    assert_eq!(of(Rules::Rfc9111, &[], 200, &response).map(|terms| terms.lifetime), Ok(60));
    let forbidden = [("surrogate-control", "no-store"), ("cache-control", "max-age=60")];
    assert_eq!(of(Rules::Rfc9111, &[], 200, &forbidden), Err(Why::NoStore));
}

#[test]
fn another_method_and_a_body_are_not_stored() {
    let none = HeaderMap::new();
    let came = Came::default();
    for method in
        [Method::HEAD, Method::POST, Method::from_bytes(b"QUERY").unwrap(), Method::from_bytes(b"get").unwrap()]
    {
        let asked = Asked { method: &method, headers: &none, has_cookie: false, has_body: false };
        assert_eq!(
            decide(Rules::Safe, &asked, StatusCode::OK, &headers(&[PUBLIC]), came),
            Err(Why::Method),
            "{method}"
        );
    }
    let fat = Asked { method: &Method::GET, headers: &none, has_cookie: false, has_body: true };
    assert_eq!(decide(Rules::Safe, &fat, StatusCode::OK, &headers(&[PUBLIC]), came), Err(Why::Body));
}

#[test]
fn terms_say_how_it_may_be_used() {
    let terms = |says: &str| of(Rules::Safe, &[], 200, &[("cache-control", says), ("etag", "\"a\"")]).unwrap();
    let stale = terms("public, s-maxage=60, stale-while-revalidate=5, stale-if-error=9");
    assert_eq!((stale.stale_while_revalidate, stale.stale_if_error, stale.is_strict), (5, Some(9), false));
    assert!(terms("s-maxage=60").is_strict && terms("public, max-age=1, must-revalidate, stale-if-error=9").is_strict);
    assert!(
        terms("public, max-age=60, no-cache").is_validated
            && !terms("public, max-age=60, no-cache=\"x-a\"").is_validated
    );
    assert_eq!(terms("public, max-age=60").age, 1);
}

#[test]
fn what_is_for_one_client_or_one_connection_is_taken_away() {
    let mut all = headers(&[
        ("cache-control", "public, max-age=60, private=\"x-a\", no-cache=\"x-b\""),
        ("x-a", "1"),
        ("x-b", "2"),
        ("x-c", "3"),
        ("x-d", "4"),
        ("connection", "close, X-C"),
        ("keep-alive", "5"),
        ("age", "6"),
        ("proxy-authenticate", "7"),
    ]);
    strip(&mut all);
    let left: Vec<&str> = all.keys().map(HeaderName::as_str).collect();
    assert_eq!(left, ["cache-control", "x-d"]);
    let mut own = headers(&[("reprise-cache-control", "max-age=1, private=\"x-a\""), ("x-a", "1"), ("x-b", "2")]);
    strip(&mut own);
    assert_eq!(own, headers(&[("x-b", "2")]));
}

/// Whatever a response says, some words keep it out, and without the others it does not come in.
#[test]
fn no_combination_shares_what_is_private() {
    let says = [
        "public",
        "max-age=60",
        "s-maxage=60",
        "no-cache",
        "must-revalidate",
        "must-understand",
        "immutable",
        "stale-while-revalidate=9",
        "private",
        "no-store",
        "private=\"set-cookie\"",
    ];
    let others = [
        ("set-cookie", "a=b"),
        ("etag", "\"a\""),
        ("vary", "cookie"),
        ("vary", "*"),
        ("age", "1"),
        ("expires", "0"),
        ("cdn-cache-control", "max-age=60"),
    ];
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let words: Vec<&str> = says.iter().copied().filter(|_| random.u8(..3) == 0).collect();
        let control = words.join(", ");
        let mut response: Vec<(&'static str, &str)> = others.iter().copied().filter(|_| random.u8(..4) == 0).collect();
        response.push(("cache-control", &control));
        let has_cookie = random.bool();
        let request: Fields<'_> = if has_cookie { &[("cookie", "a=b")] } else { &[] };
        let Ok(terms) = of(Rules::Safe, request, 200, &response) else { continue };
        let is_targeted = response.iter().any(|(name, _)| *name == "cdn-cache-control");
        let is_public = is_targeted || words.contains(&"public");
        let forbidding = ["private", "no-store"].iter().any(|word| words.contains(word));
        assert!(
            is_targeted || !forbidding || words.contains(&"must-understand") && !words.contains(&"private"),
            "{seed}: {response:?}"
        );
        assert!(
            !response.iter().any(|field| field.0 == "set-cookie" || *field == ("vary", "*")),
            "{seed}: {response:?}"
        );
        assert!(!has_cookie || is_public, "{seed}: {response:?}");
        assert_eq!(terms.is_public, is_public, "{seed}: {response:?}");
        assert!(is_public || words.contains(&"s-maxage=60"), "{seed}: {response:?}");
    }
}

#[test]
fn cookies_that_a_response_names_stand_in_the_place_of_cookie_in_vary() {
    let vary = ("vary", "Accept-Language, Cookie");
    let names = |rules, response: Fields<'_>| {
        let terms = of(rules, &[], 200, response).unwrap();
        terms.nominated.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
    };
    let all = ["accept-language", "cookie"];
    assert_eq!(names(Rules::Safe, &[PUBLIC, vary]), all);
    assert_eq!(names(Rules::Safe, &[PUBLIC, vary, ("reprise-cache-cookies", "session")]), all[..1]);
    // A field that cannot be read names none, and by RFC 9111 Vary is all there is.
    assert_eq!(names(Rules::Safe, &[PUBLIC, vary, ("reprise-cache-cookies", "\"a")]), all);
    assert_eq!(names(Rules::Rfc9111, &[PUBLIC, vary, ("reprise-cache-cookies", "session")]), all);
}

/// Whatever a glance says, a closer look says too; and what it has a reason for says nothing to caches.
#[test]
fn a_glance_says_what_a_closer_look_says() {
    let fields = [
        ("cache-control", "no-store, no-cache"),
        ("cache-control", "private, max-age=60"),
        ("cache-control", "max-age=60"),
        ("cache-control", "\""),
        ("cache-control", "no-store, must-understand"),
        ("cache-control", "s-maxage=60"),
        ("cache-control", "public"),
        ("set-cookie", "a=b"),
        ("vary", "*"),
        ("vary", "cookie"),
        ("content-encoding", "gzip"),
        ("content-range", "bytes 0-1/2"),
        ("content-type", "text/html"),
        ("cdn-cache-control", "max-age=60"),
        ("reprise-cache-control", "max-age=60"),
        ("reprise-cache-tag", "a"),
        ("reprise-cache-purge", "*"),
        ("reprise-cache-cookies", "a"),
        ("x-litespeed-cache-control", "public, max-age=60"),
        ("x-litespeed-tag", "a"),
        ("x-litespeed-purge", "*"),
        ("cache-tag", "a"),
        ("cache-tags", "a"),
        ("x-cache-tags", "a"),
        ("surrogate-key", "a"),
        ("surrogate-control", "max-age=60"),
        ("xkey", "a"),
        ("cache-groups", "\"a\""),
        ("expires", "Sun, 06 Nov 2094 08:49:37 GMT"),
        ("etag", "\"a\""),
        ("x-own", "a"),
    ];
    let requests = [("cookie", "a=b"), ("authorization", "b"), ("cache-control", "no-store"), ("accept", "*/*")];
    let mut random = fastrand::Rng::with_seed(22);
    let mut said = 0;
    for _ in 0..50_000 {
        let response: Vec<_> = (0..random.usize(..4)).map(|_| *random.choice(&fields).unwrap()).collect();
        let request: Vec<_> = (0..random.usize(..3)).map(|_| *random.choice(&requests).unwrap()).collect();
        let status = *random.choice(&[200u16, 206, 299, 304, 404, 500]).unwrap();
        let (request_headers, response_headers) = (headers(&request), headers(&response));
        let has_cookie = request_headers.contains_key(header::COOKIE);
        let asked = Asked { method: &Method::GET, headers: &request_headers, has_cookie, has_body: false };
        let Some(why) = glance(&asked, StatusCode::from_u16(status).unwrap(), &response_headers) else { continue };
        said += 1;
        assert_eq!(of(Rules::Safe, &request, status, &response), Err(why), "{request:?} {status} {response:?}");
        assert!(!Said::by(&response_headers).is_for_shared_caches(), "{response:?}");
        assert!(purge::Purge::of_response(&response_headers).is_none(), "{response:?}");
        assert!(OWN_FIELDS.iter().all(|name| !response_headers.contains_key(name)), "{response:?}");
    }
    assert!(said > 10_000, "{said}");
}
