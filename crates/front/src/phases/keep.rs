//! What becomes of the response of a request that runs by itself: it may be stored, it may change what is stored, and it says what it purges.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::key::Key;
use cache::purge::Purge;
use cache::status::{self, Did, Forward, Why};
use cache::storing::Asked;
use cache::targeted::Said;
use cache::{Rules, invalidation, storing, tags};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::admit::Admitted;
use super::compress::Dynamic;
use super::order::{self, Ran};
use crate::access;
use crate::response::WrongLength;
use crate::response_body::ResponseBody;
use crate::shared::Shared;
use crate::wrapped::Made;
use cache_store::stored::Cached;
use cache_store::stored::asking::{self, Asking};
use cache_store::stored::copied::Copy;
use cache_store::stored::entry::{Entry, Since};
use cache_store::stored::responses::Responses;
use routing::refusal::Refusal;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// What becomes of the response of a request that runs by itself.
pub(super) enum Keeping {
    /// It is no business of the cache.
    Nothing,
    /// It is for the cache, which has asked for it: what responded, which [`super::fetch`] compares.
    Fetched(Box<Ran>),
    /// It may say what it purges.
    Purging { responses: Arc<Responses> },
    /// The last response to its URL could not be shared, for this reason, so probably this one cannot either.
    Passed { since: Since, why: Why },
    /// It may be stored.
    Copy(Box<Candidate>),
    /// It may change what is stored.
    Change(Box<Change>),
}

/// A response that may be stored.
pub(super) struct Candidate {
    pub(super) responses: Arc<Responses>,
    pub(super) asking: Asking,
    pub(super) since: Since,
    pub(super) why: Forward,
    pub(super) detail: Option<Why>,
    pub(super) began: Instant,
}

/// A request with an unsafe method. If nobody learns how it ends, because its client has left, it counts as one that has changed its own URL.
pub(super) struct Change {
    shared: Arc<Shared>,
    application: String,
    host: String,
    target: String,
    /// Nobody knows yet how it ends.
    is_open: bool,
}

impl Keeping {
    /// How long the request has waited for another one's response.
    pub(super) fn waited(&self) -> Duration {
        match self {
            Keeping::Copy(candidate) => candidate.asking.waited,
            _ => Duration::ZERO,
        }
    }

    /// What a request that ran by itself has led to. `outcome`: what has responded.
    pub(super) fn of_result(
        self,
        admitted: &Admitted<'_>,
        mut result: Result<Response<Made>, Refusal>,
        outcome: impl FnOnce() -> Key,
    ) -> Result<Response<Made>, Refusal> {
        match &mut result {
            Ok(response) => self.keep(admitted, response, outcome),
            Err(refusal) => self.failed(*refusal),
        }
        result
    }

    fn keep(self, admitted: &Admitted<'_>, response: &mut Response<Made>, outcome: impl FnOnce() -> Key) {
        match self {
            Keeping::Nothing => {
                for name in &storing::OF_REPRISE {
                    response.headers_mut().remove(name);
                }
            }
            Keeping::Fetched(ran) => drop(response.extensions_mut().insert(*ran)),
            Keeping::Purging { responses } => {
                purge(&responses, response.headers());
                strip(response.headers_mut());
            }
            Keeping::Change(change) => {
                (*change).apply(admitted, response);
                strip(response.headers_mut());
            }
            Keeping::Passed { since, why } => pass(admitted, response, (since, why), outcome),
            Keeping::Copy(candidate) => candidate.keep(admitted, response),
        }
    }

    /// There is no response.
    fn failed(self, refusal: Refusal) {
        if let Keeping::Change(mut change) = self {
            // The script may have come as far as to change something.
            change.is_open = refusal == Refusal::ClientGone || refusal.describe().0.is_server_error();
        }
    }
}

/// A response to a URL whose last one could not be shared: if it says nothing to shared caches either, it stays as it is.
fn pass(
    admitted: &Admitted<'_>,
    response: &mut Response<Made>,
    (since, known): (Since, Why),
    outcome: impl FnOnce() -> Key,
) {
    let &Admitted { request, application, began, .. } = admitted;
    let Some(Cached { responses, .. }) = admitted.cached() else { return };
    let (method, headers) = (&request.head.method, &request.head.headers);
    let asked = Asked { method, headers, has_cookie: asking::has_cookie(request, application), has_body: false };
    let url = || asking::with_url(request, &application.derive, admitted.host, Key::clone);
    if let Some(detail) = storing::glance(&asked, response.status(), response.headers()) {
        if detail != known {
            responses.known.pass(url(), detail);
        }
        let (why, detail) = (Forward::UriMiss, Some(detail));
        let did = Did::Forwarded { why, status: None, is_stored: false, is_collapsed: false, detail };
        return note(admitted, response, &did);
    }
    match Asking::new(request, application, admitted.host, url(), admitted.led.clone(), false) {
        Some(asking) => {
            let (responses, why, detail) = (responses.clone(), Forward::UriMiss, None);
            let asking = asking.leads_to(outcome());
            Candidate { responses, asking, since, why, detail, began }.keep(admitted, response);
        }
        None => Keeping::Purging { responses: responses.clone() }.keep(admitted, response, Key::new),
    }
}

impl Candidate {
    fn keep(self, admitted: &Admitted<'_>, response: &mut Response<Made>) {
        let Candidate { responses, asking, since, why, detail, began } = self;
        let waited = asking.waited;
        purge(&responses, response.headers());
        let request = &admitted.request.head.headers;
        let asked = asking.asked(&admitted.request.head);
        let rules: Rules = admitted.application.cache_rules.into();
        let decided = match asking.is_whole && response.extensions().get::<crate::upstream::Switch>().is_none() {
            true if response.extensions().get::<WrongLength>().is_some() => Err(Why::Length),
            true => storing::decide(rules, &asked, response.status(), response.headers(), order::came(began)),
            false => Err(Why::Method),
        };
        // What an untrusted header may have changed is for its sender alone.
        let detail = detail.or(decided.as_ref().err().copied());
        let terms = decided.ok().filter(|terms| asking.may_share || terms.is_public && asking.is_heedless);
        let detail = detail.or((terms.is_none() && !asking.is_heedless).then_some(Why::RequestHeader));
        let did = Did::Forwarded { why, status: None, is_stored: terms.is_some(), is_collapsed: false, detail };
        let known = &responses.known;
        // What a 304 says of caching it says of the whole response (RFC 9110 §15.4.5).
        let is_unmodified = response.status() == StatusCode::NOT_MODIFIED && asking::has_condition(request);
        let confirms = is_unmodified && asking.may_share && {
            let came = order::came(began);
            storing::decide(rules, &asked, StatusCode::OK, response.headers(), came).is_ok()
        };
        if confirms {
            known.share(&asking.place.url);
        }
        // What a visitor gets for himself, or a HEAD, says nothing of a page that others share.
        let teaches = asking.may_share && asking.is_whole || !known.is_shared(&asking.place.url);
        let is_news =
            |why: &Why| terms.is_none() && teaches && !confirms && known.why_not(&asking.place.url) != Some(*why);
        if let Some(why) = detail.filter(is_news) {
            responses.pass(&asking.place, request, why);
        }
        if let Some(terms) = terms {
            if let Some(dynamic) = response.extensions_mut().get_mut::<Dynamic>() {
                dynamic.is_shared = true;
            }
            responses.known.share(&asking.place.url);
            let names = responses.purges.names(&asking.place, &terms.tags);
            let (head, body) =
                std::mem::replace(response, Response::new(Made::plain(ResponseBody::none()))).into_parts();
            let mut entry = Entry::new(asking.place, since, names, &head, terms, request);
            entry.generation = admitted.application.generation;
            let most = admitted.application.cache_object as usize;
            *response = Response::from_parts(head, body.copied(Copy::new(responses, entry, most)));
        }
        tell(admitted, response, &did);
        say_waited(admitted, response, waited);
    }
}

impl Change {
    pub(super) fn of(admitted: &Admitted<'_>) -> Change {
        let target = admitted.request.head.target.raw().concat();
        Change {
            shared: admitted.shared.clone(),
            application: admitted.application.name.clone(),
            host: admitted.host.to_owned(),
            target: String::from_utf8_lossy(&target).into_owned(),
            is_open: true,
        }
    }

    pub(super) fn keeping(self) -> Keeping {
        Keeping::Change(Box::new(self))
    }

    /// Its own URL and those that its response names have changed.
    fn apply(mut self, admitted: &Admitted<'_>, response: &Response<Made>) {
        self.is_open = false;
        let Some(Cached { responses, .. }) = self.shared.stored.named(&self.application) else { return };
        purge(&responses, response.headers());
        let (method, status) = (&admitted.request.head.method, response.status());
        let targets = invalidation::targets(method, &self.target, &self.host, status, response.headers());
        if !targets.is_empty() {
            let groups = tags::invalidated(response.headers()).into_iter().map(cache::purge::What::Tag);
            let groups = Purge { whats: groups.collect(), is_soft: false };
            if !groups.whats.is_empty() {
                responses.purge(&groups);
            }
        }
        for target in targets {
            responses.change(&self.host, &target);
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if self.is_open {
            if let Some(Cached { responses, .. }) = self.shared.stored.named(&self.application) {
                responses.change(&self.host, &self.target);
            }
        }
    }
}

/// Purges what a response says, before its client gets it.
pub(super) fn purge(responses: &Responses, headers: &HeaderMap) {
    if let Some(purge) = Purge::of_response(headers) {
        responses.purge(&purge);
    }
}

/// What a response says to this cache is no client's business.
fn strip(headers: &mut HeaderMap) {
    for name in &storing::OWN_FIELDS {
        headers.remove(name);
    }
}

/// Counts what the cache did, and notes it for the access log.
fn note(admitted: &Admitted<'_>, response: &mut Response<Made>, did: &Did) {
    if let Some(cached) = admitted.cached() {
        cached.responses.count(did);
        cached.by_rule.count(admitted.rule, did);
    }
    if access::is_on() {
        response.extensions_mut().insert(*did);
    }
}

/// Says what the cache did. A page that does not speak to shared caches, and for which there is nothing, stays as it is.
pub(super) fn tell(admitted: &Admitted<'_>, response: &mut Response<Made>, did: &Did) {
    note(admitted, response, did);
    let headers = response.headers_mut();
    if let Did::Hit(_) = did {
        // What is stored has none of what is for the cache alone.
        if let Ok(value) = HeaderValue::try_from(status::text(did)) {
            headers.append(CACHE_STATUS, value);
        }
        return;
    }
    let is_nothing = matches!(did, Did::Forwarded { why: Forward::UriMiss, is_stored: false, is_collapsed: false, .. });
    let is_silent = is_nothing && !Said::by(headers).is_for_shared_caches();
    strip(headers);
    if !is_silent {
        if let Ok(value) = HeaderValue::try_from(status::text(did)) {
            headers.append(CACHE_STATUS, value);
        }
    }
}

/// Says how long the request has waited for another one's response, if responses say such things.
pub(super) fn say_waited(admitted: &Admitted<'_>, response: &mut Response<Made>, waited: Duration) {
    if admitted.application.server_timing && !waited.is_zero() {
        if let Ok(value) = HeaderValue::try_from(format!("cache;dur={:.3}", waited.as_secs_f64() * 1000.0)) {
            response.headers_mut().append(SERVER_TIMING, value);
        }
    }
}
