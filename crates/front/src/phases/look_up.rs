//! The phase "look up": a stored response answers; or one request fetches the response for all that wait for it ([`super::fetch`]); or the
//! request runs by itself, and its response may be kept ([`super::keep`]).
//!
//! A request waits for another one's response only if the page is known to be shared: its last response was, or one is stored. Of any other
//! page nobody knows whether waiting pays, so it is run as without the cache ([`super::beside`]).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use cache::key::Key;
use cache::reuse::{self, Reuse};
use cache::status::{Did, Forward, Why};
use cache::{Rules, storing};
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Response};
use tokio::sync::oneshot;

use super::admit::Admitted;
use super::beside::{Beside, PATIENCE};
use super::fetch;
use super::keep::{Candidate, Change, Keeping, say_waited, tell};
use super::order::Order;
use super::ready::{answer, is_for, take};
use crate::hit;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use cache_store::stored::asking::{self, Asking, Asks};
use cache_store::stored::entry::Entry;
use cache_store::stored::flight::Head;
use cache_store::stored::responses::{Found, Responses};
use inbound::request::{By, RequestBody};
use routing::refusal::Refusal;

/// How often a request looks again because the response that it has waited for is not for it.
const MOST_LOOKS: usize = 3;

/// What the cache says of a request.
#[expect(clippy::large_enum_variant, reason = "it is made once for a request, and moved once")]
pub(super) enum Looked {
    /// It has answered, or refused.
    Answered(Result<Response<Made>, Refusal>),
    /// The request runs by itself; its response may be kept.
    Run(Keeping),
    /// The request runs beside another one, whose response may come first.
    Beside(Beside),
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
    let url = asking::with_url(request, &application.derive, host, |url| {
        match responses.known.why_not(url).filter(|_| is_plain) {
            Some(why) => Err(why),
            None => Ok(url.clone()),
        }
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

async fn look(admitted: &Admitted<'_>, responses: Arc<Responses>, mut asking: Asking) -> Looked {
    let request = admitted.request;
    let began = Instant::now();
    let mut has_failed = false;
    for _ in 0..MOST_LOOKS {
        let since = responses.purges.now();
        let candidate =
            |responses, asking, why, detail| Box::new(Candidate { responses, asking, since, why, detail, began });
        let keep =
            |responses, asking, why, detail| Looked::Run(Keeping::Copy(candidate(responses, asking, why, detail)));
        let found = responses.find(&asking.place, &request.head.headers, true);
        let is_old = matches!(found, Found::Old(_));
        // A response of which nobody knows whether it may be shared is the application's and its client's business.
        let is_unknown = matches!(found, Found::Nothing);
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
        let (mut follower, flight) = responses.join(&asking.place, &request.head.headers);
        let (own, first) = oneshot::channel();
        let is_first = flight.is_some();
        if let Some(flight) = flight {
            let (responses, stale) = (responses.clone(), stale.clone());
            let order = Order::of_visitor(admitted, &asking, responses, flight, stale, is_unknown);
            let mut task = fetch::run(order, Some(own));
            // It is posted now: who comes later does not stand before it.
            if poll_fn(|context| Poll::Ready(task.as_mut().poll(context))).await.is_pending() {
                tokio::spawn(task);
            }
        } else if is_unknown {
            return Looked::Beside(Beside { candidate: candidate(responses, asking, why, None), follower });
        }
        let head = poll_fn(|context| follower.poll_head(context));
        let head = if is_first {
            head.await
        } else {
            let _waiting = admitted.waits();
            let before = Instant::now();
            let head = tokio::time::timeout(PATIENCE.saturating_sub(asking.waited), head).await;
            asking.waited += before.elapsed();
            match head {
                Ok(head) => head,
                Err(_) => {
                    let candidate = candidate(responses, asking, why, None);
                    return Looked::Beside(Beside { candidate, follower });
                }
            }
        };
        match head {
            head @ (Head::Shared(_) | Head::Stored(_)) => {
                if is_for(&head, &asking, admitted) {
                    let mut taken = take(head, follower, admitted, &responses, (why, is_first));
                    taken.iter_mut().for_each(|response| say_waited(admitted, response, asking.waited));
                    return Looked::Answered(taken);
                }
            }
            Head::Unmodified if !is_first => {}
            Head::Unshared | Head::Unmodified if is_first => {
                return Looked::Answered(first.await.unwrap_or(Err(Refusal::BadResponse)).map(|mut response| {
                    let detail = response.extensions_mut().remove::<Why>();
                    let did = Did::Forwarded { why, status: None, is_stored: false, is_collapsed: false, detail };
                    tell(admitted, &mut response, &did);
                    if is_unknown {
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
