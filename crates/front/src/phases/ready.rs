//! Responses that are there without a run of the request's own: stored ones, and those that another request has fetched.

use std::sync::Arc;

use cache::status::{Did, Forward};
use cache::{cookies, variant};
use http::{Method, Response};

use super::admit::Admitted;
use super::compress::{self, Dynamic};
use super::keep::{Candidate, say_waited, tell};
use crate::hit;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use cache_store::stored::asking::Asking;
use cache_store::stored::entry::Entry;
use cache_store::stored::flight::{Begun, Follower, Head};
use cache_store::stored::responses::Responses;
use routing::refusal::Refusal;

/// Whether what has come of a response on its way is a response to this request too.
pub(super) fn is_for(head: &Head, asking: &Asking, admitted: &Admitted<'_>) -> bool {
    match head {
        Head::Shared(begun) => is_for_begun(begun, asking, admitted),
        Head::Stored(entry) => is_for_entry(entry, asking, admitted),
        _ => false,
    }
}

/// Responds with what has come, which [`is_for`] the request. `is_first`: it has begun the flight.
pub(super) fn take(
    head: Head,
    follower: Follower,
    admitted: &Admitted<'_>,
    responses: &Arc<Responses>,
    (why, is_first): (Forward, bool),
) -> Result<Response<Made>, Refusal> {
    match head {
        Head::Shared(begun) => {
            let did = Did::Forwarded { why, status: None, is_stored: true, is_collapsed: !is_first, detail: None };
            Ok(shared(&begun, follower, admitted, &did))
        }
        Head::Stored(entry) => Ok(answer(responses, &entry, admitted)),
        _ => Err(Refusal::BadResponse),
    }
}

impl Candidate {
    /// Responds with what another request has led to, which [`is_for`] this one.
    pub(super) fn take(
        self,
        admitted: &Admitted<'_>,
        head: Head,
        follower: Follower,
    ) -> Result<Response<Made>, Refusal> {
        let mut taken = take(head, follower, admitted, &self.responses, (self.why, false));
        taken.iter_mut().for_each(|response| say_waited(admitted, response, self.asking.waited));
        taken
    }
}

/// Whether a response that has just come is for this request too.
fn is_for_begun(begun: &Begun, asking: &Asking, admitted: &Admitted<'_>) -> bool {
    let headers = &admitted.request.head.headers;
    let is_vetoed = begun.cookies.as_ref().is_some_and(|names| cookies::has_any(headers, names));
    (begun.is_public || asking.may_share)
        && !is_vetoed
        && variant::key(&begun.nominated, &begun.asked) == variant::key(&begun.nominated, headers)
}

fn is_for_entry(entry: &Entry, asking: &Asking, admitted: &Admitted<'_>) -> bool {
    let headers = &admitted.request.head.headers;
    let is_vetoed = entry.terms.cookies.as_ref().is_some_and(|names| cookies::has_any(headers, names));
    (entry.terms.is_public || asking.may_share)
        && !is_vetoed
        && variant::key(&entry.terms.nominated, &entry.asked) == variant::key(&entry.terms.nominated, headers)
}

/// Responds with a stored response.
pub(super) fn answer(responses: &Arc<Responses>, entry: &Arc<Entry>, admitted: &Admitted<'_>) -> Response<Made> {
    let head = &admitted.request.head;
    let may_be_in_parts = compress::may_be_in_parts(admitted.application.compression, entry, head);
    let mut response = hit::respond(entry, head, may_be_in_parts).map(Made::plain);
    Dynamic::mark_shared(admitted, &mut response, Some((responses, entry)));
    let age = entry.terms.age.saturating_add(entry.since());
    let ttl = i64::try_from(entry.terms.lifetime).unwrap_or(i64::MAX) - i64::try_from(age).unwrap_or(i64::MAX);
    tell(admitted, &mut response, &Did::Hit(ttl));
    response
}

fn shared(begun: &Begun, follower: Follower, admitted: &Admitted<'_>, did: &Did) -> Response<Made> {
    let mut response = Response::new(ResponseBody::none());
    *response.status_mut() = begun.status;
    *response.headers_mut() = begun.headers.clone();
    if let Some(reason) = &begun.reason {
        response.extensions_mut().insert(reason.clone());
    }
    if !begun.status.is_informational() && admitted.request.head.method != Method::HEAD {
        *response.body_mut() = ResponseBody::followed(follower, admitted.request.connection.clone());
    }
    let mut response = response.map(Made::plain);
    Dynamic::mark_shared(admitted, &mut response, None);
    tell(admitted, &mut response, did);
    response
}
