//! Compresses a response for its client, as a part of the phase "deliver": only responses of PHP and of upstreams, and those that are stored.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};

use super::admit::Admitted;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use cache_store::stored::coded;
use cache_store::stored::entry::Entry;
use cache_store::stored::responses::Responses;
use compression::negotiation::{self, Wanted};
use compression::squeeze::{STEP, STEPS, Squeeze};
use compression::{Coding, Codings, eligible, encoder};
use inbound::request::{Head, Request};

/// Marks a response that may be compressed.
#[derive(Clone)]
pub(super) struct Dynamic {
    codings: Codings,
    /// Whether others get the same response.
    pub(super) is_shared: bool,
    /// What is stored of it.
    stored: Option<(Arc<Responses>, Arc<Entry>)>,
}

impl Dynamic {
    /// Marks a response that PHP or an upstream has made for a request.
    pub(super) fn mark<B>(admitted: &Admitted<'_>, response: &mut Response<B>) {
        let codings = admitted.application.compression;
        if !codings.is_empty() {
            response.extensions_mut().insert(Dynamic { codings, is_shared: false, stored: None });
        }
    }

    /// Marks one that others get too. `stored`: what is stored of it.
    pub(super) fn mark_shared<B>(
        admitted: &Admitted<'_>,
        response: &mut Response<B>,
        stored: Option<(&Arc<Responses>, &Arc<Entry>)>,
    ) {
        let codings = admitted.application.compression;
        if !codings.is_empty() {
            let stored = stored.map(|(responses, entry)| (responses.clone(), entry.clone()));
            response.extensions_mut().insert(Dynamic { codings, is_shared: true, stored });
        }
    }
}

/// Notes that a response is another than the one that is stored, and for one visitor: its holes were filled.
pub(super) fn is_filled<B>(response: &mut Response<B>) {
    if let Some(dynamic) = response.extensions_mut().get_mut::<Dynamic>() {
        (dynamic.is_shared, dynamic.stored) = (false, None);
    }
}

/// Whether a part of a stored response may be sent. A client that resumes by a date may have the beginning of a compressed one, which has the same date.
pub(super) fn may_be_in_parts(codings: Codings, entry: &Entry, head: &Head) -> bool {
    let wanted = negotiation::wanted(&head.headers, codings);
    !eligible::resumes_by_date(&head.headers)
        || wanted.coding.is_none()
        || !could_be(&wanted, entry.status, &entry.headers, Some(entry.body.len() as u64))
}

fn could_be(wanted: &Wanted, status: StatusCode, headers: &HeaderMap, length: Option<u64>) -> bool {
    eligible::could_be(status, headers, length, wanted.refuses_identity)
}

/// Compresses the response to a request, if both allow it.
pub(super) fn compress(request: &Request, response: &mut Response<Made>) {
    let Some(dynamic) = response.extensions_mut().remove::<Dynamic>() else { return };
    let head = &request.head;
    if response.status() == StatusCode::NOT_MODIFIED {
        return confirm(&dynamic, head, response.headers_mut());
    }
    let wanted = negotiation::wanted(&head.headers, dynamic.codings);
    let said = length(response.headers());
    let known = response.body().body().known_length().filter(|_| head.method != Method::HEAD);
    let (status, headers) = (response.status(), response.headers());
    if !could_be(&wanted, status, headers, known.or(said)) {
        return;
    }
    vary(response.headers_mut());
    let Some(coding) = wanted.coding else { return };
    let headers = response.headers();
    let is_certified = request.connection.peer.tls.as_ref().is_some_and(|tls| tls.served.verifier.is_some());
    let is_shared = dynamic.is_shared || eligible::is_public(headers);
    if headers.contains_key(header::SET_COOKIE)
        || head.headers.contains_key(header::RANGE) && !eligible::resumes_by_date(&head.headers)
        || !is_shared && eligible::could_be_probed(&head.headers, is_certified)
    {
        return;
    }
    if let Some((responses, entry)) = &dynamic.stored {
        if let Some(bytes) = coded::body(responses, entry, coding) {
            describe(response.headers_mut(), coding);
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            if head.method != Method::HEAD {
                *response.body_mut() = Made::plain(ResponseBody::full(bytes));
            }
        }
        return;
    }
    if head.method == Method::HEAD {
        response.headers_mut().remove(header::CONTENT_LENGTH);
        return describe(response.headers_mut(), coding);
    }
    // A short body goes out with its length, as before.
    if let Some(whole) = response.body().body().whole().filter(|whole| whole.len() <= STEPS * STEP) {
        let Ok(bytes) = encoder::whole(coding, whole, encoder::Effort::Once) else { return };
        describe(response.headers_mut(), coding);
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        return change(response, |body| ResponseBody::full(bytes).after(crate::response_body::Used::usage(&body)));
    }
    let Some(squeeze) = Squeeze::begin(coding) else { return };
    response.headers_mut().remove(header::CONTENT_LENGTH);
    describe(response.headers_mut(), coding);
    change(response, |body| body.squeezed(squeeze));
}

fn change(response: &mut Response<Made>, change: impl FnOnce(ResponseBody) -> ResponseBody) {
    let made = std::mem::replace(response.body_mut(), Made::plain(ResponseBody::none()));
    *response.body_mut() = made.map(change);
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What is said of a compressed response. Its bytes are others than those that its ETag was made for (RFC 9110 §8.8.1), and it has no parts.
fn describe(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::CONTENT_ENCODING, coding.value());
    headers.remove(header::ACCEPT_RANGES);
    weaken(headers);
}

fn weaken(headers: &mut HeaderMap) {
    let Some(etag) = headers.get(header::ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/")) else { return };
    if let Ok(weak) = HeaderValue::from_bytes(&[b"W/", etag.as_bytes()].concat()) {
        headers.insert(header::ETAG, weak);
    }
}

/// A client that knows the response by its weak ETag is told by that one that nothing has changed (RFC 9110 §15.4.5).
fn confirm(dynamic: &Dynamic, head: &Head, headers: &mut HeaderMap) {
    let asked = cache::list::members(&head.headers, header::IF_NONE_MATCH).unwrap_or_default();
    let own = headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    let is_weak = !asked.contains(&own) && asked.iter().any(|tag| tag.strip_prefix("W/") == Some(own));
    let varies = || {
        let (_, entry) = dynamic.stored.as_ref()?;
        let wanted = negotiation::wanted(&head.headers, dynamic.codings);
        Some(could_be(&wanted, entry.status, &entry.headers, Some(entry.body.len() as u64)))
    };
    if is_weak || varies().unwrap_or(false) {
        vary(headers);
    }
    if is_weak {
        weaken(headers);
    }
}

/// Says that Accept-Encoding chooses the response.
pub(super) fn vary(headers: &mut HeaderMap) {
    let names = cache::list::members(headers, header::VARY);
    let is_said = names.is_some_and(|names| {
        names.iter().any(|name| *name == "*" || name.eq_ignore_ascii_case(header::ACCEPT_ENCODING.as_str()))
    });
    if !is_said {
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}
