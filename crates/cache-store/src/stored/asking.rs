//! What a request asks the cache for.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use cache::cookies;
use cache::key::Key;
use cache::status::Why;
use cache::storing::Asked;
use http::Method;
use http::header::{self, HeaderMap, HeaderName};

use super::heeded;
use inbound::request::{Head, Request};
use routing::derived::{self, Derived};
use routing::settings::Application;

/// By these a client says which response it has.
const CONDITIONS: [HeaderName; 2] = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// Whether a request says which response its client has.
pub fn has_condition(headers: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// What a response is a response to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Names the URL.
    pub url: Key,
    /// Names what the rules have said.
    pub led: Key,
    /// Names what responds: a script or an upstream.
    pub outcome: Key,
    /// The host as the first request for it has sent it, without a default port.
    pub host: String,
    /// Path and query as PHP sees them.
    pub target: String,
}

impl Place {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.url.as_bytes().len()
            + self.led.as_bytes().len()
            + self.outcome.as_bytes().len()
            + self.host.len()
            + self.target.len()
    }
}

/// What a request asks the cache for before it is known what responds.
pub enum Asks {
    /// Nothing.
    Nothing,
    /// For nothing that others get: the last response to its URL could not be shared, for this reason.
    Passed(Why),
    /// For this.
    For(Asking),
}

/// A request for which the cache is asked.
pub struct Asking {
    /// What it asks for.
    pub place: Arc<Place>,
    /// Whether it has a cookie, or its client may have a certificate.
    pub has_cookie: bool,
    /// Whether its response may be the response of others, and theirs be its own.
    pub may_share: bool,
    /// Whether it has no header that could have made a page for others.
    pub is_heedless: bool,
    /// Whether it is a GET without a range: one that fetches the whole response.
    pub is_whole: bool,
    /// How long it has waited for another one's response.
    pub waited: Duration,
}

impl Asking {
    /// `None`: the cache has nothing for such a request. `host`: as it was sent; `url`: its key, by [`with_url`]; `led`: what the rules have said; `has_body`: bytes follow its head.
    /// What responds is not known yet ([`Asking::leads_to`]).
    pub fn new(
        request: &Request,
        application: &Application,
        host: &str,
        url: Key,
        led: Key,
        has_body: bool,
    ) -> Option<Asking> {
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
        let is_heedless = !heeded::is_heedful(
            &head.headers,
            request.connection.peer.is_proxy,
            request.is_https(),
            &application.derive,
        );
        let has_cookie = has_cookie(request, application);
        let is_anonymous = !has_cookie && !head.headers.contains_key(header::AUTHORIZATION);
        let (is_https, raw) = (request.is_https(), head.target.raw().concat());
        let place = Place {
            url,
            led,
            outcome: Key::new(),
            host: without_default_port(host, is_https).to_owned(),
            target: String::from_utf8_lossy(&raw).into_owned(),
        };
        Some(Asking {
            place: Arc::new(place),
            has_cookie,
            may_share: is_anonymous && is_heedless,
            is_heedless,
            is_whole: head.method == Method::GET && !head.headers.contains_key(header::RANGE),
            waited: Duration::ZERO,
        })
    }

    /// The same, with what responds.
    pub fn leads_to(mut self, outcome: Key) -> Asking {
        Arc::make_mut(&mut self.place).outcome = outcome;
        self
    }

    /// As the rules see it.
    pub fn asked<'a>(&self, head: &'a Head) -> Asked<'a> {
        Asked { method: &Method::GET, headers: &head.headers, has_cookie: self.has_cookie, has_body: false }
    }
}

/// Whether a request has a cookie that may make a page its own. A client that is known by its certificate is a visitor like one with a cookie.
pub fn has_cookie(request: &Request, application: &Application) -> bool {
    let is_certified = request.connection.peer.tls.as_ref().is_some_and(|tls| tls.served.verifier.is_some());
    is_certified || has_own_cookie(&request.head.headers, application)
}

/// Does something with the key of the URL of a request, which takes no memory of its own. `derived`: what the front derives; `host`: as it was sent.
pub fn with_url<R>(request: &Request, derived: &[Derived], host: &str, use_key: impl FnOnce(&Key) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Key> = const { RefCell::new(Key::new()) };
    }
    let head = &request.head;
    let proxy = request.connection.peer.is_proxy.then_some((&head.headers, derived));
    SCRATCH.with_borrow_mut(|key| {
        key.clear();
        add_url(key, request.is_https(), host, &head.target.raw(), proxy);
        use_key(key)
    })
}

/// The key of a URL. `proxy`: the headers of a request that a declared proxy has sent, and what the front derives.
pub fn url(is_https: bool, host: &str, target: &[u8], proxy: Option<(&HeaderMap, &[Derived])>) -> Key {
    let mut key = Key::new();
    add_url(&mut key, is_https, host, &[target], proxy);
    key
}

/// `target`: in pieces.
fn add_url(key: &mut Key, is_https: bool, host: &str, target: &[&[u8]], proxy: Option<(&HeaderMap, &[Derived])>) {
    let host = without_default_port(host, is_https);
    key.add(if is_https { b"https" } else { b"http" });
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => key.add(host.to_ascii_lowercase().as_bytes()),
        false => key.add(host.as_bytes()),
    };
    key.add_pieces(target);
    if let Some((headers, derived)) = proxy {
        for name in heeded::in_key(derived) {
            for value in headers.get_all(name) {
                key.add(name.as_str().as_bytes()).add(value.as_bytes());
            }
        }
        key.absent();
    }
}

fn without_default_port(host: &str, is_https: bool) -> &str {
    host.strip_suffix(if is_https { ":443" } else { ":80" }).unwrap_or(host)
}

fn has_own_cookie(headers: &HeaderMap, application: &Application) -> bool {
    headers.contains_key(header::COOKIE)
        && match &application.cache_cookies {
            Some(names) => cookies::has_any(headers, names),
            None => derived::has_other_cookie(&application.derive, headers),
        }
}

/// The head of the request that fetches a response for many: without what only its first visitor wants of it. `keeps_conditions`: nobody knows yet whether
/// the response is for many, so the application judges whether that visitor has it already.
pub fn of_many(head: &Head, application: &Application, keeps_conditions: bool) -> Head {
    const OWN: [HeaderName; 4] = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE, header::IF_RANGE, header::RANGE];
    let mut head = head.clone();
    head.method = Method::GET;
    let conditions = if keeps_conditions { &[][..] } else { &CONDITIONS[..] };
    for name in OWN.iter().chain(conditions) {
        head.headers.remove(name);
    }
    // Cookies that make no difference are not there to make one.
    if !has_own_cookie(&head.headers, application) {
        head.headers.remove(header::COOKIE);
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
        let of_proxy = url(false, "a.example", b"/x", Some((&headers, &[])));
        headers.insert("x-forwarded-host", http::HeaderValue::from_static("evil"));
        let evil = url(false, "a.example", b"/x", Some((&headers, &[])));
        headers.append("x-forwarded-host", http::HeaderValue::from_static("more"));
        let both = url(false, "a.example", b"/x", Some((&headers, &[])));
        assert!(of_proxy != evil && evil != both);
    }
}
