//! HTTPS in place of HTTP: the redirect of requests in clear, the header that makes browsers remember (HSTS), and the responses to
//! authorities that check names.

use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};

use super::admit::Admitted;
use crate::page;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use certificates::challenges;

/// The response to an authority that checks a name before it issues a certificate (RFC 8555 §8.3). It comes in clear, when there may be
/// no certificate yet, or by https, where another server has redirected it. Rules and rate limits are not asked: they are for visitors.
pub(super) fn challenge(admitted: &Admitted<'_>) -> Option<Response<Made>> {
    let is_challenge = admitted.path.starts_with(challenges::PATH);
    let head = &admitted.request.head;
    if !is_challenge || admitted.request.is_warm_up() || ![Method::GET, Method::HEAD].contains(&head.method) {
        return None;
    }
    let text = admitted.shared.tls.challenge_response(&admitted.name, admitted.path)?;
    Some(page::text(StatusCode::OK, "application/octet-stream", "no-store", text).map(Made::plain))
}

/// The redirect of a request that came in clear and should not have. Without the option only hosts that have a certificate here are
/// redirected, so that no client is sent where nobody serves it.
pub(super) fn redirect(admitted: &Admitted<'_>) -> Option<Response<Made>> {
    let &Admitted { request, application, view, shared, .. } = admitted;
    if request.is_https() || request.is_warm_up() || admitted.name.is_empty() {
        return None;
    }
    let (settings, peer) = (&view.settings, &request.connection.peer);
    let is_wanted = match application.https_redirect {
        Some(is_wanted) => is_wanted,
        None => settings.https_port.is_some() && shared.tls.has(&admitted.name),
    };
    // A proxy that does not say what its client spoke may be one that has taken TLS off.
    let is_unknown = peer.is_proxy && request.behind.as_ref().is_none_or(|client| client.is_https.is_none());
    if !is_wanted || is_unknown || admitted.path.starts_with(challenges::PATH) {
        return None;
    }
    let port = settings.https_port.filter(|port| *port != 443).map_or(String::new(), |port| format!(":{port}"));
    let location =
        [format!("https://{}{port}", admitted.name).into_bytes(), request.head.target.raw().concat()].concat();
    let mut response = Response::new(Made::plain(ResponseBody::none()));
    // Clients may turn a POST into a GET when they follow a 301.
    let is_safe = [Method::GET, Method::HEAD].contains(&request.head.method);
    *response.status_mut() = if is_safe { StatusCode::MOVED_PERMANENTLY } else { StatusCode::PERMANENT_REDIRECT };
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_bytes(&location).ok()?);
    Some(response)
}

/// Adds the header of HSTS, unless the application has its own. In clear it would mean nothing (RFC 6797 §7.2).
pub(super) fn add_hsts(admitted: &Admitted<'_>, response: &mut Response<Made>) {
    let Some(value) = admitted.application.hsts.as_deref().filter(|_| admitted.request.is_https()) else { return };
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert(value);
    }
}
