//! The phase "look up": a stored response answers; or one request fetches the response for all that wait for it ([`super::fetch`]); or the
//! request runs by itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::Rules;
use cache::key::Key;
use cache::reuse::{self, Reuse};
use cache::status::{self, Did, Forward, Why};
use cache::storing;
use cache::targeted::{self, Said};
use cache::variant::Nominated;
use cache::{invalidation, variant};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response};
use tokio::sync::oneshot;

use super::admit::Admitted;
use super::fetch::{self, Order};
use crate::head::MODE;
use crate::hit;
use crate::in_force::InForce;
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::request::{By, RequestBody};
use crate::response_body::ResponseBody;
use crate::stored::asking::{self, Asking, Site};
use crate::stored::copied::Copy;
use crate::stored::entry::{Entry, Since};
use crate::stored::flight::{Begun, Follower, Head};
use crate::stored::responses::{Found, Responses, chosen_by};
use crate::wrapped::Made;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
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

/// What becomes of the response of a request that runs by itself.
pub(super) enum Keeping {
    /// It is no business of the cache.
    Nothing,
    /// It may be stored.
    Copy(Box<Candidate>),
    /// It may change what is stored.
    Change { responses: Arc<Responses> },
}

/// A response that may be stored.
pub(super) struct Candidate {
    responses: Arc<Responses>,
    asking: Asking,
    since: Since,
    why: Forward,
    detail: Option<Why>,
    began: Instant,
}

/// Asks the cache. `outcome`: what the rules have led to.
pub(super) async fn look_up(admitted: &Admitted<'_>, outcome: Key, body: &RequestBody) -> Looked {
    let &Admitted { request, application, .. } = admitted;
    let is_verified = request.head.headers.contains_key(MODE) && request.is_local();
    let is_client = matches!(request.by, By::Client) && !is_verified;
    let Some(responses) = admitted.shared.stored.of(application).filter(|_| is_client) else {
        return Looked::Run(Keeping::Nothing);
    };
    // The future is large; a connection to an application without a cache does not hold room for it.
    Box::pin(look(admitted, responses, outcome, !matches!(body, RequestBody::None))).await
}

async fn look(admitted: &Admitted<'_>, responses: Arc<Responses>, outcome: Key, has_body: bool) -> Looked {
    let request = admitted.request;
    let site = Site { is_https: request.is_https(), host: admitted.host, outcome };
    let Some(asking) = Asking::new(request, site, has_body) else {
        let keeping = if request.head.method.is_safe() { Keeping::Nothing } else { Keeping::Change { responses } };
        return Looked::Run(keeping);
    };
    let began = Instant::now();
    let mut has_failed = false;
    for _ in 0..MOST_LOOKS {
        let since = responses.now();
        let keep = |responses, asking, why, detail| {
            Looked::Run(Keeping::Copy(Box::new(Candidate { responses, asking, since, why, detail, began })))
        };
        let (why, stale) = match responses.find(&asking, &request.head.headers) {
            Found::Entry(entry) => match judge(admitted, &asking, &entry) {
                Reuse::Fresh => return Looked::Answered(Ok(answer(&entry, admitted))),
                Reuse::Renew => {
                    renew(admitted, &responses, &asking, &entry);
                    return Looked::Answered(Ok(answer(&entry, admitted)));
                }
                Reuse::Bypass(why) => return keep(responses, asking, Forward::Bypass, Some(why)),
                Reuse::Unsatisfied => return Looked::Answered(Err(Refusal::OnlyIfCached)),
                Reuse::Validate => (Forward::Stale, Some(entry)),
            },
            _ if wants_stored(&request.head.headers) => return Looked::Answered(Err(Refusal::OnlyIfCached)),
            Found::Passed => return keep(responses, asking, Forward::UriMiss, None),
            Found::Nothing => (Forward::UriMiss, None),
            Found::NoVariant => (Forward::VaryMiss, None),
        };
        // What was public may be asked for with a cookie: if it no longer is, it goes to that visitor alone.
        let was_public = stale.as_ref().is_some_and(|entry| entry.terms.is_public);
        let may_share = asking.may_share || was_public && asking.is_heedless;
        if !may_share || !asking.is_whole || storing::may_ask(&asking.asked(&request.head)).is_err() {
            return keep(responses, asking, why, None);
        }
        let (flight, is_first) = responses.join(&asking, &request.head.headers);
        let (own, first) = oneshot::channel();
        let follower = flight.follow();
        if is_first {
            let order = Order::of_visitor(admitted, &asking, responses.clone(), flight.clone(), stale.clone());
            tokio::spawn(fetch::run(order, Some(own)));
        }
        let waited = await_head(admitted, follower).await;
        let Some((head, follower)) = waited else {
            // Nobody waits for another's response longer than for a worker.
            return keep(responses, asking, why, None);
        };
        match head {
            Head::Shared(begun)
                if is_for(&begun.nominated, &begun.asked, begun.is_public, &asking, &request.head.headers) =>
            {
                let did = Did::Forwarded { why, status: None, is_stored: true, is_collapsed: !is_first, detail: None };
                return Looked::Answered(Ok(shared(&begun, follower, admitted, &did)));
            }
            Head::Stored(entry)
                if is_for(
                    &entry.terms.nominated,
                    &entry.asked,
                    entry.terms.is_public,
                    &asking,
                    &request.head.headers,
                ) =>
            {
                return Looked::Answered(Ok(answer(&entry, admitted)));
            }
            Head::Shared(_) | Head::Stored(_) => {}
            Head::Unshared if is_first => {
                return Looked::Answered(first.await.unwrap_or(Err(Refusal::BadResponse)).map(|mut response| {
                    let detail = response.extensions_mut().remove::<Why>();
                    let did = Did::Forwarded { why, status: None, is_stored: false, is_collapsed: false, detail };
                    tell(response.headers_mut(), &did);
                    response
                }));
            }
            Head::Unshared | Head::Awaited => return keep(responses, asking, why, None),
            Head::Failed(refusal) => {
                if let Some(entry) = stale
                    .filter(|entry| reuse::may_after_error(&entry.terms, &asking.asked(&request.head), entry.since()))
                {
                    return Looked::Answered(Ok(answer(&entry, admitted)));
                }
                // Of those that waited one asks once more.
                if is_first || has_failed {
                    return Looked::Answered(Err(refusal));
                }
                has_failed = true;
            }
        }
    }
    let since = responses.now();
    Looked::Run(Keeping::Copy(Box::new(Candidate {
        responses,
        asking,
        since,
        why: Forward::VaryMiss,
        detail: None,
        began,
    })))
}

fn judge(admitted: &Admitted<'_>, asking: &Asking, entry: &Entry) -> Reuse {
    let &Admitted { request, application, .. } = admitted;
    let decided =
        reuse::decide(application.cache_rules.into(), &entry.terms, &asking.asked(&request.head), entry.since());
    // What other code has made is stale.
    match decided {
        Reuse::Fresh if entry.generation != application.generation => {
            if entry.terms.is_strict {
                Reuse::Validate
            } else {
                Reuse::Renew
            }
        }
        // A request of nobody's has neither cookie nor password.
        Reuse::Renew if !asking.is_whole || needs_visitor(&entry.terms.nominated) => Reuse::Validate,
        decided => decided,
    }
}

fn needs_visitor(nominated: &[HeaderName]) -> bool {
    nominated.contains(&header::COOKIE) || nominated.contains(&header::AUTHORIZATION)
}

fn wants_stored(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CACHE_CONTROL) && cache::directives::Directives::of(headers).only_if_cached
}

/// Whether a response that has just come is for this request too.
fn is_for(nominated: &Nominated, asked: &HeaderMap, is_public: bool, asking: &Asking, headers: &HeaderMap) -> bool {
    (is_public || asking.may_share) && variant::key(nominated, asked) == variant::key(nominated, headers)
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
    let (flight, is_first) = responses.join(asking, &admitted.request.head.headers);
    if is_first {
        let order = Order::of_nobody(admitted, asking, responses.clone(), flight, entry.clone());
        tokio::spawn(fetch::run(order, None));
    }
}

fn answer(entry: &Entry, admitted: &Admitted<'_>) -> Response<Made> {
    let mut response = hit::respond(entry, &admitted.request.head);
    let age = entry.terms.age.saturating_add(entry.since());
    let ttl = i64::try_from(entry.terms.lifetime).unwrap_or(i64::MAX) - i64::try_from(age).unwrap_or(i64::MAX);
    tell(response.headers_mut(), &Did::Hit(ttl));
    response.map(Made::plain)
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
    tell(response.headers_mut(), did);
    response.map(Made::plain)
}

/// Says what the cache did. A page that does not speak to shared caches, and for which there is nothing, stays as it is.
fn tell(headers: &mut HeaderMap, did: &Did) {
    let is_nothing = matches!(did, Did::Forwarded { why: Forward::UriMiss, is_stored: false, is_collapsed: false, .. });
    let is_silent = is_nothing && !Said::by(headers).is_for_shared_caches();
    // What it says to this cache is no client's business.
    headers.remove(targeted::OWN);
    if is_silent {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(status::text(did)) {
        headers.append(CACHE_STATUS, value);
    }
}

impl Keeping {
    /// The response of a request that ran by itself.
    pub(super) fn keep(self, admitted: &Admitted<'_>, response: Response<Made>) -> Response<Made> {
        match self {
            Keeping::Nothing => response,
            Keeping::Change { responses } => {
                change(admitted, &responses, &response);
                response
            }
            Keeping::Copy(candidate) => {
                let Candidate { responses, asking, since, why, detail, began } = *candidate;
                let (mut head, body) = response.into_parts();
                let asked = asking.asked(&admitted.request.head);
                let rules: Rules = admitted.application.cache_rules.into();
                let decided = match asking.is_whole && head.extensions.get::<crate::upstream::Switch>().is_none() {
                    true => storing::decide(rules, &asked, head.status, &head.headers, fetch::came(began)),
                    false => Err(Why::Method),
                };
                // What an untrusted header may have changed is for its sender alone.
                let detail = detail.or(decided.as_ref().err().copied());
                let terms = decided.ok().filter(|terms| asking.may_share || terms.is_public && asking.is_heedless);
                let did = Did::Forwarded { why, status: None, is_stored: terms.is_some(), is_collapsed: false, detail };
                let body = match terms {
                    Some(terms) => {
                        let entry = entry(&head, terms, admitted, &asking);
                        let most = admitted.application.cache_object as usize;
                        body.copied(Copy::new(responses, asking.url, since, entry, most))
                    }
                    None => body,
                };
                tell(&mut head.headers, &did);
                Response::from_parts(head, body)
            }
        }
    }
}

fn entry(head: &http::response::Parts, terms: storing::Terms, admitted: &Admitted<'_>, asking: &Asking) -> Entry {
    Entry {
        status: head.status,
        reason: head.extensions.get::<Reason>().cloned(),
        headers: fetch::stored_headers(&head.headers),
        body: bytes::Bytes::new(),
        asked: chosen_by(&terms.nominated, &admitted.request.head.headers),
        terms,
        came: Instant::now(),
        generation: admitted.application.generation,
        outcome: asking.outcome.clone(),
    }
}

/// After an unsafe method: its own URL and those that its response names have changed.
fn change(admitted: &Admitted<'_>, responses: &Responses, response: &Response<Made>) {
    let request = admitted.request;
    let target = String::from_utf8_lossy(&request.head.target.raw().concat()).into_owned();
    let (is_https, proxy) = (request.is_https(), request.connection.peer.is_proxy.then_some(&request.head.headers));
    for target in
        invalidation::targets(&request.head.method, &target, admitted.host, response.status(), response.headers())
    {
        responses.change(&asking::url(is_https, admitted.host, target.as_bytes(), proxy));
    }
}
