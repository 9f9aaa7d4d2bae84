//! A stored response as the response to a request.

use cache::condition::Validators;
use cache::esi;
use cache::range::{self, Range};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::page;
use crate::response_body::ResponseBody;
use cache_store::stored::entry::Entry;
use inbound::request::Head;
use routing::refusal::Refusal;

/// Headers that a 304 has (RFC 9110 §15.4.5).
const OF_NOT_MODIFIED: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::VARY,
];

/// Answers by a stored response. `may_be_in_parts`: a part of it may be sent.
pub fn respond(entry: &Entry, head: &Head, may_be_in_parts: bool) -> Response<ResponseBody> {
    let size = entry.body.len() as u64;
    let validators = Validators::of(&entry.headers);
    let mut response = Response::new(ResponseBody::none());
    // A page with holes is not what its client has.
    let is_read = entry.status == StatusCode::OK && !esi::is_said(&entry.headers);
    if is_read && validators.is_known(&head.headers) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.headers_mut() = of_not_modified(&entry.headers);
        return aged(response, entry);
    }
    *response.status_mut() = entry.status;
    // With room for what is added to each response.
    let mut headers = HeaderMap::with_capacity(entry.headers.len() + 4);
    headers.extend(entry.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    *response.headers_mut() = headers;
    if let Some(reason) = &entry.reason {
        response.extensions_mut().insert(reason.clone());
    }
    let is_head = head.method == Method::HEAD;
    let asked = range::asked(&head.headers, size).filter(|_| is_read && !is_head && may_be_in_parts);
    let part = match asked.filter(|_| validators.range_is_current(&head.headers)) {
        Some(Range::Part(first, last)) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes {first}-{last}/{size}"));
            first as usize..last as usize + 1
        }
        Some(Range::Beyond) => {
            let mut refused = page::refusal(Refusal::Range);
            set(refused.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{size}"));
            return refused;
        }
        None => 0..entry.body.len(),
    };
    if part.len() != entry.body.len() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(part.len()));
    }
    if !is_head {
        *response.body_mut() = ResponseBody::full(entry.body.slice(part));
    }
    aged(response, entry)
}

/// A response that was asked for without the conditions of its client, as that client wants it: 304 if it has it already.
pub fn conditioned<B>(response: Response<B>, head: &Head, none: impl FnOnce() -> B) -> Response<B> {
    let is_own = response.headers().contains_key(header::SET_COOKIE) || esi::is_said(response.headers());
    let is_read = response.status() == StatusCode::OK && !is_own;
    if !is_read || !Validators::of(response.headers()).is_known(&head.headers) {
        return response;
    }
    let (mut head, _) = response.into_parts();
    head.status = StatusCode::NOT_MODIFIED;
    head.headers = of_not_modified(&head.headers);
    Response::from_parts(head, none())
}

fn of_not_modified(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in OF_NOT_MODIFIED {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

fn aged(mut response: Response<ResponseBody>, entry: &Entry) -> Response<ResponseBody> {
    let age = entry.terms.age.saturating_add(entry.since());
    response.headers_mut().insert(header::AGE, HeaderValue::from(age));
    response
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
