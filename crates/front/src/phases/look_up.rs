//! The phase "look up": a stored response answers; or one request fetches the response for all that wait for it ([`super::fetch`]); or the
//! request runs by itself, and its response may be kept ([`super::keep`]).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cache::key::Key;
use cache::reuse::{self, Reuse};
use cache::status::{Did, Forward, Why};
use cache::{Rules, cookies, storing, variant};
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Response};
use tokio::sync::oneshot;

use super::admit::Admitted;
use super::compress::{self, Dynamic};
use super::fetch;
use super::keep::{Candidate, Change, Keeping, tell};
use super::order::Order;
use crate::hit;
use crate::in_force::InForce;
use crate::refusal::Refusal;
use crate::request::{By, RequestBody};
use crate::response_body::ResponseBody;
use crate::stored::asking::{self, Asking, Asks};
use crate::stored::entry::Entry;
use crate::stored::flight::{Begun, Follower, Head};
use crate::stored::responses::{Found, Responses};
use crate::wrapped::Made;

/// How often a request looks again because the response that it has waited for is not for it.
const MOST_LOOKS: usize = 3;

/// What the cache says of a request.
#[expect(clippy::large_enum_variant, reason = "it is made once for a request, and moved once")]
pub(super) enum Looked {
    /// It has answered, or refused.
    Answered(Result<Response<Made>, Refusal>),
    /// The request runs by itself; its response may be kept.
    Run(Keeping),
}

/// What the cache says before the file system is asked.
#[expect(clippy::large_enum_variant, reason = "it is made once for a request, and moved once")]
pub(super) enum Early {
    /// It has answered.
    Answered(Response<Made>),
    /// What the request asks for, once it is known what responds.
    Asks(Asks),
}

/// Asks the cache for a response that needs no look at the file system: a stored one whose URL has led to a script or an upstream a moment ago.
pub(super) fn look_early(admitted: &Admitted<'_>, body: &RequestBody) -> Early {
    let &Admitted { shared, request, application, host, .. } = admitted;
    // `reprise verify` compares what PHP makes.
    let Some(responses) = asked(admitted).filter(|_| shared.token.mode(request).is_none()) else {
        return Early::Asks(Asks::Nothing);
    };
    let has_body = !matches!(body, RequestBody::None);
    let is_plain = is_plain(admitted, has_body);
    let url = asking::with_url(request, host, |url| match responses.passed(url).filter(|_| is_plain) {
        Some(why) => Err(why),
        None => Ok(url.clone()),
    });
    let url = match url {
        Ok(url) => url,
        Err(why) => return Early::Asks(Asks::Passed(why)),
    };
    let Some(asking) = Asking::new(request, application, host, url, admitted.led.clone(), has_body) else {
        return Early::Asks(Asks::Nothing);
    };
    match stored(admitted, responses, &asking) {
        Some(response) => Early::Answered(response),
        None => Early::Asks(Asks::For(asking)),
    }
}

/// Whether a request asks for a whole response in a way that says nothing to caches.
fn is_plain(admitted: &Admitted<'_>, has_body: bool) -> bool {
    const MORE: [HeaderName; 6] = [
        header::CACHE_CONTROL,
        header::CONTENT_LENGTH,
        header::IF_MATCH,
        header::IF_UNMODIFIED_SINCE,
        header::RANGE,
        header::UPGRADE,
    ];
    let head = &admitted.request.head;
    head.method == Method::GET
        && !has_body
        && Rules::from(admitted.application.cache_rules) == Rules::Safe
        && !MORE.iter().any(|name| head.headers.contains_key(name))
}

/// The stored response, if the request surely leads to what has made it.
fn stored(admitted: &Admitted<'_>, responses: &Arc<Responses>, asking: &Asking) -> Option<Response<Made>> {
    let headers = &admitted.request.head.headers;
    // The outcome is not known yet. It was that of the entry when the file system was asked last.
    let (entry, is_old) = match responses.find(&asking.place, headers, false) {
        Found::Entry(entry) => (entry, false),
        Found::Old(entry) => (entry, true),
        _ => return None,
    };
    // Another generation may route it elsewhere.
    if !entry.was_routed() || entry.generation != admitted.application.generation {
        return None;
    }
    match judge(admitted, asking, &entry, is_old) {
        Reuse::Fresh => {}
        Reuse::Renew => renew(admitted, responses, asking, &entry),
        _ => return None,
    }
    Some(answer(responses, &entry, admitted))
}

/// Asks the cache. `asks`: what [`look_early`] has made of the request; `outcome`: what responds.
pub(super) async fn look_up(admitted: &Admitted<'_>, asks: Asks, outcome: impl FnOnce() -> Key) -> Looked {
    if admitted.request.by == By::Fetch {
        return Looked::Run(Keeping::Fetched(Box::new((admitted.led.clone(), outcome()))));
    }
    let Some(responses) = asked(admitted) else {
        return Looked::Run(Keeping::Nothing);
    };
    match asks {
        // The future is large; a request that does not look further does not hold room for it.
        Asks::For(asking) => Box::pin(look(admitted, responses.clone(), asking.leads_to(outcome()))).await,
        Asks::Passed(why) => Looked::Run(Keeping::Passed { since: responses.purges.now(), why }),
        Asks::Nothing if admitted.request.head.method.is_safe() => {
            Looked::Run(Keeping::Purging { responses: responses.clone() })
        }
        Asks::Nothing => Looked::Run(Change::of(admitted).keeping()),
    }
}

/// The cache, if this request is one that asks it.
fn asked<'a>(admitted: &Admitted<'a>) -> Option<&'a Arc<Responses>> {
    let &Admitted { request, application, .. } = admitted;
    if application.cache_memory == 0 || ![By::Client, By::Fragment].contains(&request.by) {
        return None;
    }
    admitted.cached().map(|cached| &cached.responses)
}

async fn look(admitted: &Admitted<'_>, responses: Arc<Responses>, asking: Asking) -> Looked {
    let request = admitted.request;
    let began = Instant::now();
    let mut has_failed = false;
    for _ in 0..MOST_LOOKS {
        let since = responses.purges.now();
        let keep = |responses, asking, why, detail| {
            Looked::Run(Keeping::Copy(Box::new(Candidate { responses, asking, since, why, detail, began })))
        };
        let found = responses.find(&asking.place, &request.head.headers, true);
        let is_old = matches!(found, Found::Old(_));
        // A response of which nobody knows whether it may be shared is the application's and its client's business.
        let keeps_conditions = matches!(found, Found::Nothing);
        let (why, stale) = match found {
            Found::Entry(entry) | Found::Old(entry) => {
                entry.is_routed();
                match judge(admitted, &asking, &entry, is_old) {
                    Reuse::Fresh => return Looked::Answered(Ok(answer(&responses, &entry, admitted))),
                    Reuse::Renew => {
                        renew(admitted, &responses, &asking, &entry);
                        return Looked::Answered(Ok(answer(&responses, &entry, admitted)));
                    }
                    Reuse::Bypass(why) => return keep(responses, asking, Forward::Bypass, Some(why)),
                    Reuse::Unsatisfied => return Looked::Answered(Err(Refusal::OnlyIfCached)),
                    Reuse::Validate => (Forward::Stale, Some(entry)),
                }
            }
            _ if wants_stored(&request.head.headers) => return Looked::Answered(Err(Refusal::OnlyIfCached)),
            Found::Passed => return keep(responses, asking, Forward::UriMiss, None),
            Found::Nothing | Found::Gone => (Forward::UriMiss, None),
            Found::NoVariant => (Forward::VaryMiss, None),
        };
        // What was public may be asked for with a cookie: if it no longer is, it goes to that visitor alone.
        let was_public = stale.as_ref().is_some_and(|entry| entry.terms.is_public);
        let may_share = asking.may_share || was_public && asking.is_heedless;
        if !may_share || !asking.is_whole || storing::may_ask(&asking.asked(&request.head)).is_err() {
            return keep(responses, asking, why, None);
        }
        let (follower, flight) = responses.join(&asking.place, &request.head.headers);
        let (own, first) = oneshot::channel();
        let is_first = flight.is_some();
        if let Some(flight) = flight {
            let (responses, stale) = (responses.clone(), stale.clone());
            let order = Order::of_visitor(admitted, &asking, responses, flight, stale, keeps_conditions);
            tokio::spawn(fetch::run(order, Some(own)));
        }
        let waited = await_head(admitted, follower).await;
        let Some((head, follower)) = waited else {
            // Nobody waits for another's response longer than for a worker.
            return keep(responses, asking, why, None);
        };
        match head {
            Head::Shared(begun) if is_for_begun(&begun, &asking, admitted) => {
                let did = Did::Forwarded { why, status: None, is_stored: true, is_collapsed: !is_first, detail: None };
                return Looked::Answered(Ok(shared(&begun, follower, admitted, &did)));
            }
            Head::Stored(entry) if is_for_entry(&entry, &asking, admitted) => {
                return Looked::Answered(Ok(answer(&responses, &entry, admitted)));
            }
            Head::Shared(_) | Head::Stored(_) => {}
            Head::Unmodified if !is_first => {}
            Head::Unshared | Head::Unmodified if is_first => {
                return Looked::Answered(first.await.unwrap_or(Err(Refusal::BadResponse)).map(|mut response| {
                    let detail = response.extensions_mut().remove::<Why>();
                    let did = Did::Forwarded { why, status: None, is_stored: false, is_collapsed: false, detail };
                    tell(admitted, &mut response, &did);
                    if keeps_conditions {
                        return response;
                    }
                    hit::conditioned(response, &request.head, || Made::plain(ResponseBody::none()))
                }));
            }
            Head::Unshared | Head::Unmodified | Head::Awaited => return keep(responses, asking, why, None),
            // That concerned the client which had begun it, and which is another.
            Head::Failed(Refusal::ClientGone | Refusal::ClientBusy) if !is_first => {}
            Head::Failed(refusal) => {
                if let Some(entry) = stale
                    .filter(|entry| reuse::may_after_error(&entry.terms, &asking.asked(&request.head), entry.since()))
                {
                    return Looked::Answered(Ok(answer(&responses, &entry, admitted)));
                }
                // Of those that waited one asks once more.
                if is_first || has_failed {
                    return Looked::Answered(Err(refusal));
                }
                has_failed = true;
            }
        }
    }
    let (since, why) = (responses.purges.now(), Forward::VaryMiss);
    Looked::Run(Keeping::Copy(Box::new(Candidate { responses, asking, since, why, detail: None, began })))
}

/// `is_old`: a purge has made it stale.
fn judge(admitted: &Admitted<'_>, asking: &Asking, entry: &Entry, is_old: bool) -> Reuse {
    let &Admitted { request, application, .. } = admitted;
    let decided =
        reuse::decide(application.cache_rules.into(), &entry.terms, &asking.asked(&request.head), entry.since());
    let decided = match decided {
        // So is what other code has made.
        Reuse::Fresh if is_old || entry.generation != application.generation => {
            if entry.terms.is_strict {
                Reuse::Validate
            } else {
                Reuse::Renew
            }
        }
        decided => decided,
    };
    // A request of nobody's has neither cookie nor password, and no address that a rule could know.
    let needs_visitor = || {
        entry.needs_visitor.load(Ordering::Relaxed)
            || admitted.user.is_some()
            || names_visitor(&entry.terms.nominated)
            || !asking.is_whole
    };
    if decided == Reuse::Renew && needs_visitor() { Reuse::Validate } else { decided }
}

fn names_visitor(nominated: &[HeaderName]) -> bool {
    nominated.contains(&header::COOKIE) || nominated.contains(&header::AUTHORIZATION)
}

fn wants_stored(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CACHE_CONTROL) && cache::directives::Directives::of(headers).only_if_cached
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

/// Waits for the head of a response on its way, as long as for a worker.
async fn await_head(admitted: &Admitted<'_>, mut follower: Follower) -> Option<(Head, Follower)> {
    let limits = InForce::of(admitted.application, admitted.path, admitted.limits.as_deref()).limits;
    let patience = Duration::from_millis(limits.queue_ms.saturating_add(limits.hard_ms.max(1000)));
    let head = tokio::time::timeout(patience, poll_fn(|context| follower.poll_head(context))).await.ok()?;
    Some((head, follower))
}

/// Begins to fetch the response anew, if nobody does, for nobody in particular.
fn renew(admitted: &Admitted<'_>, responses: &Arc<Responses>, asking: &Asking, entry: &Arc<Entry>) {
    if !entry.may_be_tried() {
        return;
    }
    if let (_, Some(flight)) = responses.join(&entry.place, &admitted.request.head.headers) {
        let order = Order::of_nobody(admitted, asking, responses.clone(), flight, entry.clone());
        tokio::spawn(fetch::run(order, None));
    }
}

fn answer(responses: &Arc<Responses>, entry: &Arc<Entry>, admitted: &Admitted<'_>) -> Response<Made> {
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
