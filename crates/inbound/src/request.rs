//! A request, from a transport or, for a warm-up, from the front itself. Nothing here depends on a protocol's syntax.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, Version};

use crate::connection::Connection;
use crate::forwarded;
use crate::request_id::RequestId;
use routing::refusal::Refusal;
use routing::target;

/// A request on its way through the phases ([`crate::phases`]).
pub struct Request {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: RequestBody,
    /// Its connection.
    pub connection: Arc<Connection>,
    /// The client behind the proxy that sent it, which the phase "admit" finds.
    pub behind: Option<forwarded::Client>,
    /// The refusal, if its transport has found something wrong with it.
    pub refusal: Option<Refusal>,
    /// Whose request it is.
    pub by: By,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A client's.
    Client,
    /// A warm-up of the application with this number, which it is for whatever host it names.
    WarmUp(usize),
    /// One by which the cache fetches a response for many. Its visitor's request has been let in already.
    Fetch,
    /// One for a hole in a page, whose visitor's request has been let in already.
    Fragment,
}

impl Request {
    /// Whether it is a warm-up.
    pub const fn is_warm_up(&self) -> bool {
        matches!(self.by, By::WarmUp(_))
    }

    /// Whether its client spoke HTTPS to the front or to the first proxy.
    pub fn is_https(&self) -> bool {
        self.connection.peer.is_https(self.behind.as_ref())
    }

    /// Whether its client is on this machine. A proxy on this machine may send requests of other clients: a declared one
    /// says so, and a request with forwarding headers of an undeclared one does not count as local.
    pub fn is_local(&self) -> bool {
        // What a page or the cache asks for is asked for in a visitor's name.
        matches!(self.by, By::Client | By::WarmUp(_)) && self.comes_from_here()
    }

    /// The same, whoever asks in its client's name.
    pub fn comes_from_here(&self) -> bool {
        let peer = &self.connection.peer;
        let passes_on = || {
            let names = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
            names.iter().any(|name| self.head.headers.contains_key(*name))
        };
        peer.is_on_this_machine(self.behind.as_ref()) && (peer.is_proxy || !passes_on())
    }
}

/// What a request asks for.
#[derive(Clone)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The target: path, query, and scheme and host if it names them.
    pub target: Target,
    /// Version of the protocol.
    pub protocol: Version,
    /// All headers.
    pub headers: HeaderMap,
    /// Its id: one that was made, until the phase "admit" finds one of a declared proxy.
    pub id: RequestId,
}

/// The target of a request: as the client sent it, and cleaned, as it is routed.
#[derive(Clone)]
pub struct Target {
    uri: Uri,
    clean: Result<Vec<u8>, target::Bad>,
    original: Option<Box<Original>>,
}

/// The request line as the client sent it, if the transport had to change it: for a target that hyper does not accept, or
/// for a request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The method, or what stands in its place.
    pub method: Bytes,
    /// The whole target.
    pub target: Bytes,
    /// Path and query.
    pub path: Bytes,
    /// The protocol, such as HTTP/1.1. Empty: none was sent.
    pub protocol: Bytes,
}

impl Head {
    /// From what a transport has parsed; `original`: the request line as it came, if it was another.
    pub fn new(
        method: Method,
        uri: Uri,
        protocol: Version,
        headers: HeaderMap,
        original: Option<Box<Original>>,
    ) -> Head {
        let clean = target::clean(uri.path());
        Head { method, target: Target { uri, clean, original }, protocol, headers, id: RequestId::made() }
    }

    /// Method, target and protocol as they came.
    pub fn line(&self) -> [&[u8]; 3] {
        if let Some(original) = &self.target.original {
            return [&original.method, &original.target, &original.protocol];
        }
        let target = self.target.uri.path_and_query().map_or("/", |target| target.as_str());
        [self.method.as_str().as_bytes(), target.as_bytes(), self.protocol_name()]
    }

    /// The protocol by its name and version.
    pub fn protocol_name(&self) -> &'static [u8] {
        match self.protocol {
            Version::HTTP_10 => b"HTTP/1.0",
            // nginx's name for it.
            Version::HTTP_2 => b"HTTP/2.0",
            _ => b"HTTP/1.1",
        }
    }

    /// Whether the request need not run if nobody waits for the response.
    pub fn is_withdrawable(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}

impl Target {
    /// The path decoded and cleaned ([`target::clean`]).
    pub fn clean(&self) -> Result<&[u8], Refusal> {
        self.clean.as_deref().map_err(|_| Refusal::BadTarget)
    }

    /// Path and query as they came, in pieces.
    pub fn raw(&self) -> [&[u8]; 3] {
        match &self.original {
            Some(original) => [&original.path, b"", b""],
            None => {
                let query = self.uri.query();
                let mark = if query.is_some() { &b"?"[..] } else { b"" };
                [self.uri.path().as_bytes(), mark, query.unwrap_or("").as_bytes()]
            }
        }
    }

    /// The query as it came: without a fragment, as nginx has it.
    pub fn raw_query(&self) -> &[u8] {
        let Some(original) = &self.original else { return self.uri.query().unwrap_or("").as_bytes() };
        let whole = memchr::memchr(b'#', &original.path).map_or(&original.path[..], |end| &original.path[..end]);
        memchr::memchr(b'?', whole).map_or(b"", |mark| &whole[mark + 1..])
    }

    /// The query, if all its bytes may stand in a header.
    pub fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    /// The path, not decoded.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The scheme that an absolute target names.
    pub fn scheme(&self) -> Option<&str> {
        self.uri.scheme_str()
    }

    /// The host that an absolute target names. It takes precedence over the header (RFC 9112 §3.2.2).
    pub fn host(&self) -> Option<&str> {
        self.uri.authority().map(|authority| authority.as_str())
    }
}

/// The body of a request. A body in parts costs an allocation; in return the phases do not depend on the transport.
#[derive(Default)]
pub enum RequestBody {
    /// There is none, or it is empty.
    #[default]
    None,
    /// The body comes in parts.
    Stream(Box<dyn BodyStream>),
}

/// The source of the parts of a body.
pub trait BodyStream: Send + Sync {
    /// The next part, which is not empty; `None`: the body is complete.
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenBody>>>;
    /// Whether it is known that no part follows.
    fn is_complete(&self) -> bool;
    /// Bytes that are still to come, if the client has named the length.
    fn length(&self) -> Option<u64>;
}

/// The client has violated the framing of its body, or has left.
#[derive(Debug)]
pub struct BrokenBody;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Nobody, Peer};

    fn head(target: &str, original: Option<Box<Original>>) -> Head {
        Head::new(Method::GET, target.parse().unwrap(), Version::HTTP_11, HeaderMap::new(), original)
    }

    #[test]
    fn targets_are_raw_as_they_came_and_clean_as_they_are_routed() {
        for (target, raw, query, clean) in [
            ("/a/../b%2Fc?x=%20", "/a/../b%2Fc?x=%20", "x=%20", "/b/c"),
            ("/a?", "/a?", "", "/a"),
            ("http://a.example", "/", "", "/"),
            ("http://a.example?x", "/?x", "x", "/"),
        ] {
            let head = head(target, None);
            assert_eq!(head.target.raw().concat(), raw.as_bytes(), "{target}");
            assert_eq!(head.target.raw_query(), query.as_bytes(), "{target}");
            assert_eq!(head.target.clean(), Ok(clean.as_bytes()), "{target}");
        }
        assert_eq!(head("/../a", None).target.clean(), Err(Refusal::BadTarget));
    }

    #[test]
    fn what_was_made_fit_is_shown_as_it_came() {
        let part = |text: &'static str| Bytes::from_static(text.as_bytes());
        let (target, path) = (part("http://a/<?\"#b"), part("/<?\"#b"));
        let original = Original { method: part("GET"), target, path, protocol: part("HTTP/1.1") };
        let head = head("http://a/%3C?%22", Some(Box::new(original)));
        assert_eq!(head.line().map(String::from_utf8_lossy).join(" "), "GET http://a/<?\"#b HTTP/1.1");
        assert_eq!((head.target.raw().concat(), head.target.raw_query()), (b"/<?\"#b".to_vec(), &b"\""[..]));
        assert_eq!((head.target.clean(), head.target.query()), (Ok(&b"/<"[..]), Some("%22")));
    }

    #[test]
    fn a_request_is_local_unless_it_was_passed_on() {
        let mut peer = Peer::ourselves(None);
        peer.is_proxy = false;
        let connection = Arc::new(Connection { peer: Arc::new(peer), client: Box::new(Nobody) });
        let (body, head) = (RequestBody::None, head("/", None));
        let mut request = Request { head, body, connection, behind: None, refusal: None, by: By::Client };
        assert!(request.is_local() && !request.is_https());
        request.head.headers.insert("x-real-ip", http::HeaderValue::from_static("127.0.0.1"));
        assert!(!request.is_local());
        request.head.headers.clear();
        let (address, port) = ("192.0.2.1".to_owned(), String::new());
        request.behind = Some(forwarded::Client { address, port, is_https: Some(true), server_port: None });
        assert!(!request.is_local() && request.is_https());
    }
}
