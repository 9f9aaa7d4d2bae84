//! Responses that the front itself makes: the page of a refusal, and short texts.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::response_body::ResponseBody;
use routing::refusal::{Connection, HEADER, Refusal};

/// The response that tells a client why its request was refused.
pub fn refusal(why: Refusal) -> Response<ResponseBody> {
    let (status, word) = why.describe();
    let reason = status.canonical_reason().unwrap_or("Error");
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{0} {reason}</title>\n\
         <h1>{0} {reason}</h1>\n<p>Reprise: {word}</p>\n</html>\n",
        status.as_u16()
    );
    let mut response = Response::new(ResponseBody::full(Bytes::from(page)));
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(HEADER, HeaderValue::from_static(word));
    let row = why.row();
    if let Some((name, value)) = row.header {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if row.connection == Connection::Close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A text, with the `Cache-Control` that is given.
pub fn text(
    status: StatusCode,
    kind: &'static str,
    cache_control: &'static str,
    text: String,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    response
}
