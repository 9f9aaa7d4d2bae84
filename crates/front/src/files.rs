//! Static files: types, ETag, Last-Modified, conditions (RFC 9110 §13), one range (§14).

use cache::condition::{Condition, Validators};
use cache::range::{self, Range};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::file_body::FileBody;
use crate::page;
use crate::response_body::ResponseBody;
use inbound::request::Request;
use routing::refusal::Refusal;
use routing::route::Found;

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
    let validators = Validators { etag: found.etag.to_str().ok(), modified: Some(found.modified) };
    let mut response = Response::new(ResponseBody::none());
    // As many as are set here and behind.
    response.headers_mut().reserve(8);
    match validators.check(&head.headers) {
        Condition::Failed => return Err(Refusal::Precondition),
        Condition::NotModified => *response.status_mut() = StatusCode::NOT_MODIFIED,
        Condition::Holds => {
            let wanted = range::asked(&head.headers, size).filter(|_| may_range && !is_head);
            let range = match wanted.filter(|_| validators.range_is_current(&head.headers)) {
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
