//! Static files: types, ETag, Last-Modified, conditions (RFC 9110 §13), one range (§14).

use std::time::SystemTime;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::file_body::FileBody;
use crate::page;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response_body::ResponseBody;
use crate::route::Found;

/// Responds with a file that the request is for.
pub fn respond(found: &Found, request: &Request) -> Result<Response<ResponseBody>, Refusal> {
    if request.head.method != Method::GET && request.head.method != Method::HEAD {
        return Err(Refusal::FileMethod);
    }
    send(found, request, true)
}

/// Responds with a file, whatever the method; only HEAD gets no body. `may_range`: a part of it may be asked for.
pub fn send(found: &Found, request: &Request, may_range: bool) -> Result<Response<ResponseBody>, Refusal> {
    let (head, is_head) = (&request.head, request.head.method == Method::HEAD);
    let size = found.size;
    let state = State { etag: found.etag.to_str().unwrap_or(""), modified: found.modified };
    let mut response = Response::new(ResponseBody::none());
    // As many as are set here and behind.
    response.headers_mut().reserve(8);
    match state.check(&head.headers) {
        Condition::Failed => return Err(Refusal::Precondition),
        Condition::NotModified => *response.status_mut() = StatusCode::NOT_MODIFIED,
        Condition::Holds => {
            let wanted = range(&head.headers, size).filter(|_| may_range && !is_head);
            let range = match wanted.filter(|_| state.range_is_current(&head.headers)) {
                Some(Range::Part(first, last)) => {
                    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                    set(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes {first}-{last}/{size}"));
                    (first, last + 1 - first)
                }
                Some(Range::Beyond) => {
                    let mut refused = page::refusal(Refusal::Range);
                    set(refused.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{size}"));
                    return Ok(refused);
                }
                None => (0, size),
            };
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(range.1));
            response.headers_mut().insert(header::CONTENT_TYPE, found.content_type.clone());
            if !is_head {
                *response.body_mut() = body(found, range.0, range.1, request);
            }
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, found.etag.clone());
    headers.insert(header::LAST_MODIFIED, found.last_modified.clone());
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// Marks a response whose Cache-Control is the front's own, which a rule may replace.
#[derive(Clone, Copy, Debug)]
pub struct OwnCacheControl;

/// Says that the file may be kept for ever, if the response is the file or a part of it.
pub fn keep_for_ever(response: &mut Response<ResponseBody>) {
    if [StatusCode::OK, StatusCode::PARTIAL_CONTENT, StatusCode::NOT_MODIFIED].contains(&response.status()) {
        let value = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, value);
        response.extensions_mut().insert(OwnCacheControl);
    }
}

/// Makes a file the body of a response that has its status already, such as a refusal.
pub fn replace_body(response: &mut Response<ResponseBody>, found: &Found, request: &Request) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(found.size));
    headers.insert(header::CONTENT_TYPE, found.content_type.clone());
    *response.body_mut() = match request.head.method == Method::HEAD {
        true => ResponseBody::none(),
        false => body(found, 0, found.size, request),
    };
}

/// `size` bytes of a file from `at`. Bytes that are in memory go out with the head, in one system call.
fn body(found: &Found, at: u64, size: u64, request: &Request) -> ResponseBody {
    let kept = found.body.as_ref().and_then(|bytes| {
        let (first, end) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(size)?).ok()?);
        (end <= bytes.len()).then(|| bytes.slice(first..end))
    });
    let file = FileBody::new(found.file.clone(), found.path.clone(), at, size);
    ResponseBody::file(file, kept, request.connection.clone())
}

fn set(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

struct State<'a> {
    etag: &'a str,
    modified: SystemTime,
}

enum Condition {
    Holds,
    NotModified,
    Failed,
}

impl State<'_> {
    /// In the order of RFC 9110 §13.2.2.
    fn check(&self, headers: &HeaderMap) -> Condition {
        if headers.contains_key(header::IF_MATCH) {
            if !self.matches(headers, header::IF_MATCH, false) {
                return Condition::Failed;
            }
        } else if date(headers, header::IF_UNMODIFIED_SINCE).is_some_and(|since| self.modified > since) {
            return Condition::Failed;
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            if self.matches(headers, header::IF_NONE_MATCH, true) {
                return Condition::NotModified;
            }
        } else if date(headers, header::IF_MODIFIED_SINCE).is_some_and(|since| self.modified <= since) {
            return Condition::NotModified;
        }
        Condition::Holds
    }

    fn matches(&self, headers: &HeaderMap, name: header::HeaderName, weak: bool) -> bool {
        let values = headers.get_all(name);
        let mut tags = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        tags.any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag == self.etag || (weak && tag.strip_prefix("W/") == Some(self.etag))
        })
    }

    /// If-Range: the range counts only if the file is still the one that the client knows.
    fn range_is_current(&self, headers: &HeaderMap) -> bool {
        match headers.get(header::IF_RANGE).map(|value| value.to_str().unwrap_or("")) {
            None => true,
            Some(tag) if tag.starts_with('"') => tag == self.etag,
            Some(text) => httpdate::parse_http_date(text).is_ok_and(|date| date == self.modified),
        }
    }
}

fn date(headers: &HeaderMap, name: header::HeaderName) -> Option<SystemTime> {
    headers.get(name)?.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok())
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// First and last byte.
    Part(u64, u64),
    /// The range has no byte of the file.
    Beyond,
}

/// The range that was asked for, if it is a single one. Several ranges, other units and malformed ranges get the whole
/// file, as RFC 9110 allows.
fn range(headers: &HeaderMap, size: u64) -> Option<Range> {
    let text = headers.get(header::RANGE)?.to_str().ok()?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    if first.is_empty() {
        let count = number(last)?;
        return Some(if count == 0 || size == 0 {
            Range::Beyond
        } else {
            Range::Part(size - count.min(size), size - 1)
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(if first >= size { Range::Beyond } else { Range::Part(first, last.min(size - 1)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, size: u64) -> Option<Range> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_str(text).unwrap());
        range(&headers, size)
    }

    #[test]
    fn ranges_are_understood() {
        assert_eq!(asked("bytes=0-0", 10), Some(Range::Part(0, 0)));
        assert_eq!(asked("bytes=5-", 10), Some(Range::Part(5, 9)));
        assert_eq!(asked("bytes=-3", 10), Some(Range::Part(7, 9)));
        assert_eq!(asked("bytes=-30", 10), Some(Range::Part(0, 9)));
        assert_eq!(asked("bytes=2-99", 10), Some(Range::Part(2, 9)));
        assert_eq!(asked("bytes=10-", 10), Some(Range::Beyond));
        assert_eq!(asked("bytes=-0", 10), Some(Range::Beyond));
        for nonsense in ["bytes=5-2", "bytes=a-b", "items=0-1", "bytes=0-1,3-4", "bytes=+1-2", "bytes=1"] {
            assert_eq!(asked(nonsense, 10), None, "{nonsense}");
        }
    }
}
