//! Headers of requests that applications and frameworks take something from which is not part of the key of the cache: the scheme, the host,
//! the path, the method, who the client is, where it is, what it is. A client could make a page with them that others would get, so a request
//! that has one of them neither gives others its response nor waits for theirs.
//!
//! Some say nothing that the key does not have. That is up to who has sent them ([`Says`]).

use http::header::{HeaderMap, HeaderName, HeaderValue};

use routing::derived::Derived;

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// The scheme. It is part of the key, so a header that says the same does no harm, whoever sends it.
    Scheme,
    /// A host, port or prefix that a declared proxy writes itself. From such a proxy it is part of the key.
    Place,
    /// The client's address. A declared proxy is believed about it, and it is part of no key: a page that it changes has to say so.
    Address,
    /// The client's country or kind. From a declared proxy it is part of the key.
    Client,
    /// Something else, which proxies pass on as their clients have sent it.
    More,
}

use Says::{Address, Client, More, Place, Scheme};

/// All of them. The names are compared with `_` as `-`, as PHP and other servers do.
static HEEDED: [(HeaderName, Says); 57] = {
    const fn row(name: &'static str, says: Says) -> (HeaderName, Says) {
        (HeaderName::from_static(name), says)
    }
    [
        row("forwarded", More),
        // The scheme: by Symfony, Laravel, WordPress, Rack and WSGI, IIS, CDNs.
        row("cf-visitor", Scheme),
        row("cloudfront-forwarded-proto", Scheme),
        row("fastly-ssl", Scheme),
        row("front-end-https", Scheme),
        row("x-arr-ssl", Scheme),
        row("x-forwarded-proto", Scheme),
        row("x-forwarded-protocol", Scheme),
        row("x-forwarded-scheme", Scheme),
        row("x-forwarded-ssl", Scheme),
        row("x-https", Scheme),
        row("x-scheme", Scheme),
        row("x-url-scheme", Scheme),
        // Host, port and path.
        row("x-forwarded-host", Place),
        row("x-forwarded-port", Place),
        row("x-forwarded-prefix", Place),
        row("x-forwarded-path", More),
        row("x-forwarded-server", More),
        row("x-forwarded-uri", More),
        row("x-forwarded-url", More),
        row("x-host", More),
        row("x-http-destinationurl", More),
        row("x-original-host", More),
        row("x-original-uri", More),
        row("x-original-url", More),
        row("x-proxy-url", More),
        row("x-rewrite-url", More),
        row("x-script-name", More),
        row("proxy-host", More),
        row("request-uri", More),
        // The method, and what an application takes for one.
        row("x-http-method", More),
        row("x-http-method-override", More),
        row("x-method-override", More),
        row("surrogate-capability", More),
        // The address. X-Forwarded-For is not here: proxies that nobody has declared send it everywhere.
        row("cf-connecting-ip", Address),
        row("client-ip", Address),
        row("fastly-client-ip", Address),
        row("true-client-ip", Address),
        row("x-client-ip", Address),
        row("x-cluster-client-ip", Address),
        row("x-original-forwarded-for", Address),
        // Country and device, as CDNs and modules of servers write them.
        row("cf-ipcity", Client),
        row("cf-ipcountry", Client),
        row("cf-region-code", Client),
        row("cf-timezone", Client),
        row("cloudfront-is-desktop-viewer", Client),
        row("cloudfront-is-mobile-viewer", Client),
        row("cloudfront-is-smarttv-viewer", Client),
        row("cloudfront-is-tablet-viewer", Client),
        row("cloudfront-viewer-country", Client),
        row("geoip-country-code", Client),
        row("mm-country-code", Client),
        row("x-appengine-country", Client),
        row("x-country-code", Client),
        row("x-device", Client),
        row("x-geoip-country", Client),
        row("x-ua-device", Client),
    ]
};

/// First letters of their names.
const FIRST: &[u8] = b"cfgmprstx";

/// Those that are part of the key, from a declared proxy. Not what the front has derived: Vary says whether that makes a difference.
pub fn in_key(derived: &[Derived]) -> impl Iterator<Item = &'static HeaderName> {
    let are = HEEDED.iter().filter(|(_, says)| matches!(says, Place | Client)).map(|(name, _)| name);
    are.filter(move |name| !is_one_of(derived, name))
}

fn is_one_of(derived: &[Derived], name: &HeaderName) -> bool {
    derived.iter().any(|one| one.name == name.as_str())
}

/// Whether a request has a header that could have made a page for others. `is_proxy`: a declared proxy has sent it, and passes on what its
/// clients send, but for what it writes itself. `derived`: what the front has written in the place of what the client sent.
pub fn is_heedful(headers: &HeaderMap, is_proxy: bool, is_https: bool, derived: &[Derived]) -> bool {
    headers.keys().any(|name| {
        let Some((known, says)) = row_of(name).filter(|_| !is_one_of(derived, name)) else { return false };
        // Another spelling is not what proxies write, and not in the key.
        let is_proxys = is_proxy && known == name;
        match says {
            Scheme => {
                !(is_proxys && *known == "x-forwarded-proto"
                    || headers.get_all(name).iter().all(|value| says_https(value) == Some(is_https)))
            }
            Place | Address | Client => !is_proxys,
            More => !(is_proxys && *known == "forwarded" && is_about_client(name, headers)),
        }
    })
}

fn row_of(name: &HeaderName) -> Option<&'static (HeaderName, Says)> {
    let name = name.as_str().as_bytes();
    if !FIRST.contains(name.first()?) {
        return None;
    }
    let is = |known: &[u8]| {
        name.len() == known.len()
            && name.iter().zip(known).all(|(one, other)| one == other || (*one == b'_' && *other == b'-'))
    };
    HEEDED.iter().find(|(known, _)| is(known.as_str().as_bytes()))
}

/// The scheme that a header names, if it can be understood.
fn says_https(value: &HeaderValue) -> Option<bool> {
    let word = |word: &str| value.as_bytes().eq_ignore_ascii_case(word.as_bytes());
    let any = |words: &[&str]| words.iter().any(|one| word(one));
    match () {
        () if any(&["https", "on", "1", "{\"scheme\":\"https\"}"]) => Some(true),
        () if any(&["http", "off", "0", "{\"scheme\":\"http\"}"]) => Some(false),
        () => None,
    }
}

/// Whether `Forwarded` says nothing of the host, which is not part of the key.
fn is_about_client(name: &HeaderName, headers: &HeaderMap) -> bool {
    let names_host = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().windows(4).any(|part| part == b"host");
    !headers.get_all(name).iter().any(names_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(name: &str, value: &'static str, is_proxy: bool, is_https: bool) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        is_heedful(&headers, is_proxy, is_https, &[])
    }

    #[test]
    fn headers_that_make_pages_for_others_are_seen_in_all_spellings() {
        for (name, _) in &HEEDED {
            assert!(has(name.as_str(), "host=a", false, false), "{name}");
            assert!(has(&name.as_str().replacen('-', "_", 1), "host=a", false, false), "{name}");
            assert!(FIRST.contains(&name.as_str().as_bytes()[0]), "{name}");
        }
        for name in ["x-original-url", "x-host", "x-http-method-override", "x-forwarded-server", "x_forwarded_host"] {
            assert!(has(name, "a", true, false), "{name}");
        }
        for name in ["x-forwarded-for", "x-requested-with", "cookie", "cf-ray", "user-agent"] {
            assert!(!has(name, "a", false, false), "{name}");
        }
    }

    #[test]
    fn a_scheme_that_the_key_has_does_no_harm() {
        for (name, word) in [
            ("x-forwarded-proto", "https"),
            ("front-end-https", "on"),
            ("x-forwarded-ssl", "On"),
            ("fastly-ssl", "1"),
            ("cf-visitor", "{\"scheme\":\"https\"}"),
        ] {
            assert!(!has(name, word, false, true) && has(name, word, false, false), "{name}");
            assert!(!has(name, word, true, true) && has(name, "else", false, true), "{name}");
        }
        assert!(has("x-scheme", "https", true, false) && !has("x-scheme", "http", true, false));
    }

    #[test]
    fn a_declared_proxy_is_believed_about_what_it_writes() {
        assert!(has("forwarded", "for=a;host=b", true, false));
        assert!(!has("forwarded", "for=192.0.2.1;proto=https", true, false));
        let own = [
            "x-forwarded-host",
            "x-forwarded-port",
            "x-forwarded-prefix",
            "x-forwarded-proto",
            "cf-ipcountry",
            "true-client-ip",
        ];
        assert!(own.iter().all(|name| !has(name, "a", true, false) && has(name, "a", false, false)));
        assert!(in_key(&[]).any(|name| *name == "cf-ipcountry") && in_key(&[]).all(|name| *name != "true-client-ip"));
    }
}
