//! From a head that h2 has decoded to a request for the phases, and the body that follows it. h2 refuses heads that break
//! HTTP/2's own rules: connection-specific headers, names in capitals, pseudo headers that are missing, wrong or too late, a
//! body that contradicts its Content-Length (RFC 9113 §8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Uri, Version};

use super::input::{Input, Unread};
use crate::transport::framing;
use inbound::connection::{Client, Connection, Left, Peer};
use inbound::request::{BodyStream, BrokenBody, By, Head, Original, Request, RequestBody};
use routing::refusal::Refusal;
use routing::target::MAX_TARGET;

/// What HTTP/1.1 adds to a field: `: ` and the end of the line.
const LINE: usize = 4;
/// What it adds to method and target: `GET / HTTP/1.1`, the end of the line, and the empty line.
const REQUEST_LINE: usize = 14;
/// What a field takes in memory besides its name and value.
const FIELD_IN_MEMORY: usize = 100;

/// Limits of a head.
#[derive(Clone, Copy)]
pub struct HeadLimits {
    /// Fields, with each crumb of Cookie.
    pub fields: usize,
    /// Size as RFC 9113 §6.5.2 counts it.
    pub size: usize,
}

/// What is known of a stream from both sides of its request.
#[derive(Default)]
pub struct StreamState {
    is_gone: AtomicBool,
    /// Who waits for that in a task of its own: what is made for several clients is.
    waiting: Mutex<Option<Waker>>,
    /// The client waits for 100 (Continue), and the body is waited for.
    wants_continue: AtomicBool,
}

impl StreamState {
    /// The stream was reset, or its connection is gone.
    pub fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Whether 100 (Continue) is to be sent now.
    pub fn takes_continue(&self) -> bool {
        self.wants_continue.load(Ordering::Relaxed) && self.wants_continue.swap(false, Ordering::Relaxed)
    }
}

/// The client of a stream.
struct StreamClient(Arc<StreamState>);

impl Client for StreamClient {
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<Left> {
        if !self.is_gone() {
            *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        }
        // Looked at again: it may have gone before the waker was there.
        if self.is_gone() { Poll::Ready(Left::Gone) } else { Poll::Pending }
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }
}

/// What a head takes in memory.
pub fn weight(headers: &HeaderMap, uri: &Uri) -> usize {
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    headers.len() * FIELD_IN_MEMORY + fields + uri.path().len() + uri.query().map_or(0, str::len)
}

/// Makes a request for the phases of one that h2 has decoded.
pub fn taken_over(
    request: http::Request<RecvStream>,
    limits: HeadLimits,
    peer: &Arc<Peer>,
    state: &Arc<StreamState>,
    input: &Arc<Input>,
) -> Request {
    let (parts, stream) = request.into_parts();
    let (method, uri, mut headers) = (parts.method, parts.uri, parts.headers);
    let checked = check(&method, &uri, &mut headers, limits);
    let expects =
        headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let (uri, original) = fit(&method, &uri);
    let body = if stream.is_end_stream() {
        RequestBody::None
    } else {
        RequestBody::Stream(Box::new(Parts {
            stream,
            length,
            unreleased: 0,
            state: state.clone(),
            expects,
            unread: input.body(),
        }))
    };
    let connection = Connection { peer: peer.clone(), client: Box::new(StreamClient(state.clone())) };
    Request {
        head: Head::new(method, uri, Version::HTTP_2, headers, original),
        body,
        connection: Arc::new(connection),
        behind: None,
        refusal: checked.err(),
        by: By::Client,
    }
}

/// Checks a head, and gives it the form that the phases expect: Host is there, Cookie is one line.
fn check(method: &Method, uri: &Uri, headers: &mut HeaderMap, limits: HeadLimits) -> Result<(), Refusal> {
    let target = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    // As HTTP/1.1 would write it, so that one limit is the same head over both.
    let host = uri.authority().map_or(0, |host| header::HOST.as_str().len() + host.as_str().len() + LINE);
    let line = method.as_str().len() + target + REQUEST_LINE;
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + LINE).sum();
    if headers.len() > limits.fields || line + host + fields > limits.size {
        // Only what the access log shows is kept.
        let kept = [header::HOST, header::REFERER, header::USER_AGENT].map(|name| (headers.remove(&name), name));
        *headers = kept.into_iter().filter_map(|(value, name)| Some((name, value?))).collect();
        return Err(Refusal::HeadTooLarge);
    }
    if *method == Method::CONNECT {
        return Err(Refusal::BadMethod);
    }
    if target > MAX_TARGET {
        return Err(Refusal::TargetTooLong);
    }
    if uri.scheme().is_some_and(|scheme| !["http", "https"].contains(&scheme.as_str())) {
        return Err(Refusal::BadScheme);
    }
    check_length(headers)?;
    name_host(uri.authority(), headers)?;
    join_cookies(headers);
    Ok(())
}

/// Content-Length is one number, or it is not there. h2 takes an empty one and several alike, which others read otherwise.
fn check_length(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let is_number = |value: &HeaderValue| !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if is_number(one) => Ok(()),
        _ => Err(Refusal::BadFraming),
    }
}

/// `:authority` is the host (RFC 9113 §8.3.1). A Host that differs could mean another application to somebody else.
fn name_host(authority: Option<&Authority>, headers: &mut HeaderMap) -> Result<(), Refusal> {
    let mut named = headers.get_all(header::HOST).iter();
    let (first, second) = (named.next(), named.next());
    match (authority, first) {
        (_, Some(_)) if second.is_some() => return Err(Refusal::BadHost),
        (None, None) => return Err(Refusal::BadHost),
        (Some(authority), Some(host)) if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
            return Err(Refusal::BadHost);
        }
        (Some(authority), None) => {
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Refusal::BadHost)?;
            headers.insert(header::HOST, host);
        }
        (_, Some(_)) => {}
    }
    Ok(())
}

/// Clients send the pairs of Cookie as fields of their own (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(header::COOKIE).iter();
    if crumbs.by_ref().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    // What valid values and a separator make is valid.
    if let Ok(whole) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, whole);
    }
}

/// The target without scheme and authority. It is as over HTTP/1: bytes that are not plain become `%XX`, and the request
/// keeps what came.
fn fit(method: &Method, uri: &Uri) -> (Uri, Option<Box<Original>>) {
    if *method == Method::CONNECT {
        let target = uri.authority().map_or("", Authority::as_str);
        return (Uri::from_static("/"), Some(original(method, target)));
    }
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    if !target.starts_with('/') {
        // It could name a host of its own. The phases refuse it.
        return (Uri::from_static("*"), Some(original(method, target)));
    }
    let rewritten = framing::rewrite(target.as_bytes());
    let fitting = rewritten.as_deref().unwrap_or(target.as_bytes());
    match (Uri::try_from(fitting), &rewritten) {
        (Ok(uri), None) => (uri, None),
        (Ok(uri), Some(_)) => (uri, Some(original(method, target))),
        // This cannot be: all bytes are plain.
        (Err(_), _) => (Uri::from_static("*"), Some(original(method, target))),
    }
}

fn original(method: &Method, target: &str) -> Box<Original> {
    let target = Bytes::copy_from_slice(target.as_bytes());
    Box::new(Original {
        method: Bytes::copy_from_slice(method.as_str().as_bytes()),
        path: target.clone(),
        target,
        protocol: Bytes::from_static(b"HTTP/2.0"),
    })
}

/// The body of a request. The client may send as much as its window allows; the window grows again when a part is asked for
/// after the one before it, so no more is held than one window.
struct Parts {
    stream: RecvStream,
    /// Bytes that are still to come, if the client has named the length.
    length: Option<u64>,
    /// Bytes that were handed on and that the client may not replace yet.
    unreleased: usize,
    state: Arc<StreamState>,
    expects: bool,
    unread: Unread,
}

impl BodyStream for Parts {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenBody>>> {
        let unreleased = std::mem::take(&mut self.unreleased);
        if unreleased > 0 && self.stream.flow_control().release_capacity(unreleased).is_err() {
            return Poll::Ready(Some(Err(BrokenBody)));
        }
        loop {
            let next = self.stream.poll_data(context);
            match &next {
                Poll::Pending => self.unread.wait(context),
                Poll::Ready(None | Some(Err(_))) => self.unread.is_read(),
                Poll::Ready(Some(Ok(_))) if self.stream.is_end_stream() => self.unread.is_read(),
                Poll::Ready(Some(Ok(_))) => {}
            }
            if next.is_pending() && std::mem::take(&mut self.expects) {
                self.state.wants_continue.store(true, Ordering::Relaxed);
            }
            return Poll::Ready(match ready!(next) {
                None => None,
                Some(Ok(part)) if part.is_empty() => continue,
                Some(Ok(part)) => {
                    self.unreleased = part.len();
                    self.length = self.length.map(|length| length.saturating_sub(part.len() as u64));
                    Some(Ok(part))
                }
                Some(Err(_)) => Some(Err(BrokenBody)),
            });
        }
    }

    fn is_complete(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { fields: 8, size: 1000 };

    fn checked(uri: &str, fields: &[(&'static str, &str)]) -> (Result<(), Refusal>, HeaderMap) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        (check(&Method::GET, &uri.parse().unwrap(), &mut headers, LIMITS), headers)
    }

    #[test]
    fn the_authority_is_the_host() {
        let (result, headers) = checked("http://a.example:8/", &[]);
        assert_eq!((result, headers[header::HOST].as_bytes()), (Ok(()), &b"a.example:8"[..]));
        for (uri, hosts, expected) in [
            ("http://a/", &["a"][..], Ok(())),
            ("http://a/", &["A"], Ok(())),
            ("/", &["a"], Ok(())),
            ("http://a/", &["b"], Err(Refusal::BadHost)),
            ("http://a/", &["a:80"], Err(Refusal::BadHost)),
            ("http://a/", &["a", "a"], Err(Refusal::BadHost)),
            ("/", &["a", "a"], Err(Refusal::BadHost)),
            ("/", &[], Err(Refusal::BadHost)),
            ("ftp://a/", &[], Err(Refusal::BadScheme)),
        ] {
            let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(checked(uri, &fields).0, expected, "{uri} {hosts:?}");
        }
    }

    #[test]
    fn heads_have_limits() {
        let crumbs = [("cookie", "a=b"); 8];
        let (result, headers) = checked("http://a/", &crumbs);
        assert_eq!((result, headers[header::COOKIE].as_bytes()), (Ok(()), ["a=b"; 8].join("; ").as_bytes()));
        let many = [&crumbs[..], &[("user-agent", "x")]].concat();
        let (result, headers) = checked("http://a/", &many);
        assert_eq!((result, headers.len()), (Err(Refusal::HeadTooLarge), 1));
        assert_eq!(checked("http://a/", &[("x", &"y".repeat(968))]).0, Ok(()));
        assert_eq!(checked("http://a/", &[("x", &"y".repeat(969))]).0, Err(Refusal::HeadTooLarge));
    }

    #[test]
    fn targets_are_as_over_http_1() {
        // From its parts, as h2 makes it.
        let kept = |path: &str| {
            let whole = Uri::builder().scheme("http").authority("a").path_and_query(path).build().unwrap();
            let (uri, original) = fit(&Method::GET, &whole);
            (uri.to_string(), original.map(|line| String::from_utf8_lossy(&line.path).into_owned()))
        };
        assert_eq!(kept("/b?c=%20"), ("/b?c=%20".to_owned(), None));
        assert_eq!(kept("/?q={}|"), ("/?q=%7B%7D%7C".to_owned(), Some("/?q={}|".to_owned())));
        assert_eq!(kept("/é").0, "/%C3%A9");
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = Some(PathAndQuery::from_static("*"));
        assert_eq!(fit(&Method::GET, &Uri::from_parts(parts).unwrap()).0, "*");
        let (uri, original) = fit(&Method::CONNECT, &"a:80".parse().unwrap());
        assert_eq!((uri.to_string(), original.unwrap().target), ("/".to_owned(), Bytes::from_static(b"a:80")));
    }
}
