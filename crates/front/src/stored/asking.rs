//! What a request asks the cache for.

use cache::key::Key;
use cache::storing::Asked;
use http::Method;
use http::header::{self, HeaderMap, HeaderName};

use crate::request::{Head, Request};

/// Headers that many applications heed and that are not part of the key, unless a declared proxy sends them. A client could make a page with
/// them that others would get.
const HEEDED: [&str; 15] = [
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "forwarded",
    "x-host",
    "x-original-url",
    "x-original-host",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "surrogate-capability",
];

/// Those of them that a declared proxy writes, and that are part of the key then.
const OF_PROXIES: [&str; 3] = ["x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix"];

/// What stands in the key beside the target.
pub struct Site<'a> {
    /// Whether the client speaks https.
    pub is_https: bool,
    /// The host as it was sent.
    pub host: &'a str,
    /// What the rules have made of the target, and what responds.
    pub outcome: Key,
}

/// A request for which the cache is asked.
pub struct Asking {
    /// Names the URL.
    pub url: Key,
    /// Names what the rules have led to.
    pub outcome: Key,
    /// Whether it has a cookie, or its client may have a certificate.
    pub has_cookie: bool,
    /// Whether its response may be the response of others, and theirs be its own.
    pub may_share: bool,
    /// Whether it has no header that could have made a page for others.
    pub is_heedless: bool,
    /// Whether it is a GET without a range: one that fetches the whole response.
    pub is_whole: bool,
}

impl Asking {
    /// `None`: the cache has nothing for such a request. `has_body`: bytes follow its head.
    pub fn new(request: &Request, site: Site<'_>, has_body: bool) -> Option<Asking> {
        let head = &request.head;
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        let is_more = [header::CONTENT_LENGTH, header::UPGRADE].iter().any(|name| head.headers.contains_key(name));
        if !is_read || has_body || is_more {
            return None;
        }
        // Only the origin can judge these (RFC 9111 §4.3.2).
        if head.headers.contains_key(header::IF_MATCH) || head.headers.contains_key(header::IF_UNMODIFIED_SINCE) {
            return None;
        }
        let is_proxy = request.connection.peer.is_proxy;
        let is_heedless = is_proxy || !HEEDED.iter().any(|name| head.headers.contains_key(*name));
        // A client that is known by its certificate is a visitor like one with a cookie.
        let is_certified = request.connection.peer.tls.as_ref().is_some_and(|tls| tls.served.verifier.is_some());
        let has_cookie = is_certified || head.headers.contains_key(header::COOKIE);
        let is_anonymous = !has_cookie && !head.headers.contains_key(header::AUTHORIZATION);
        Some(Asking {
            url: url(site.is_https, site.host, &head.target.raw().concat(), is_proxy.then_some(&head.headers)),
            outcome: site.outcome,
            has_cookie,
            may_share: is_anonymous && is_heedless,
            is_heedless,
            is_whole: head.method == Method::GET && !head.headers.contains_key(header::RANGE),
        })
    }

    /// As the rules see it.
    pub fn asked<'a>(&self, head: &'a Head) -> Asked<'a> {
        Asked { method: &Method::GET, headers: &head.headers, has_cookie: self.has_cookie, has_body: false }
    }
}

/// The key of a URL. `proxy`: the headers of a request that a declared proxy has sent.
pub fn url(is_https: bool, host: &str, target: &[u8], proxy: Option<&HeaderMap>) -> Key {
    let mut key = Key::new();
    key.add(if is_https { b"https" } else { b"http" });
    key.add(without_default_port(host, is_https).to_ascii_lowercase().as_bytes()).add(target);
    for name in OF_PROXIES.iter().filter(|_| proxy.is_some()) {
        match proxy.and_then(|headers| headers.get(*name)) {
            Some(value) => key.add(value.as_bytes()),
            None => key.absent(),
        };
    }
    key
}

fn without_default_port(host: &str, is_https: bool) -> &str {
    host.strip_suffix(if is_https { ":443" } else { ":80" }).unwrap_or(host)
}

/// The head of the request that fetches a response for many: without what only its first visitor wants of it.
pub fn of_many(head: &Head) -> Head {
    const OWN: [HeaderName; 6] = [
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
        header::IF_RANGE,
        header::RANGE,
    ];
    let mut head = head.clone();
    head.method = Method::GET;
    for name in OWN {
        head.headers.remove(name);
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_has_a_key_of_its_own() {
        let plain = |https, host, target: &str| url(https, host, target.as_bytes(), None);
        let key = plain(false, "a.example", "/x");
        assert_eq!(key, plain(false, "A.example:80", "/x"));
        for other in [
            plain(true, "a.example", "/x"),
            plain(false, "a.example:443", "/x"),
            plain(false, "b.example", "/x"),
            plain(false, "a.example", "/x?"),
            plain(false, "a.example", "//x"),
            plain(false, "a.example", "/%78"),
            plain(false, "a.example/x", ""),
        ] {
            assert_ne!(key, other);
        }
        let mut headers = HeaderMap::new();
        let of_proxy = url(false, "a.example", b"/x", Some(&headers));
        headers.insert("x-forwarded-host", http::HeaderValue::from_static("evil"));
        assert_ne!(of_proxy, url(false, "a.example", b"/x", Some(&headers)));
    }
}
