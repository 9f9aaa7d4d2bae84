//! Purges by requests with the methods of other caches, from the addresses that may send them.

use std::net::IpAddr;

use cache::purge::{Purge, What};
use http::{Response, StatusCode};

use super::admit::Admitted;
use crate::page;
use crate::wrapped::Made;
use cache_store::stored::Cached;
use routing::refusal::Refusal;

/// Whether the request may purge if it comes from the right address.
pub(super) fn is_purge(admitted: &Admitted<'_>) -> bool {
    let methods = ["PURGE", "BAN", "PURGETAGS", "PURGEKEYS"];
    !admitted.application.purge_from.is_empty() && methods.contains(&admitted.request.head.method.as_str())
}

/// Purges, if the request has such a method and its application takes them.
pub(super) fn purge(admitted: &Admitted<'_>) -> Option<Result<Response<Made>, Refusal>> {
    let &Admitted { request, application, shared, .. } = admitted;
    // A request with a common method costs no more than this.
    if application.purge_from.is_empty() || request.head.method.is_safe() {
        return None;
    }
    let target = String::from_utf8_lossy(&request.head.target.raw().concat()).into_owned();
    let mut purge = Purge::of_request(request.head.method.as_str(), &target, &request.head.headers)?;
    let address = admitted.address();
    let is_socket = address == "unix:";
    let is_declared = application.purge_from.iter().any(|network| match address.parse::<IpAddr>() {
        Ok(address) => network.contains(address),
        Err(_) => is_socket && *network == routing::settings::Network::Unix,
    });
    if !is_declared {
        return Some(Err(Refusal::Forbidden));
    }
    // A path is one of the host that was asked.
    for what in &mut purge.whats {
        if let What::Url(path) | What::Prefix(path) = what {
            if path.starts_with('/') && !path.starts_with("//") {
                *path = format!("//{}{path}", admitted.host);
            }
        }
    }
    if let Some(Cached { responses, .. }) = shared.stored.named(&application.name) {
        responses.purge(&purge);
    }
    let text = page::text(StatusCode::OK, "text/plain; charset=utf-8", "no-store", "purged\n".to_owned());
    Some(Ok(text.map(Made::plain)))
}
