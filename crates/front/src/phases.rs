//! The phases of a request, the same for every transport:
//!
//! | phase | what | where |
//! |---|---|---|
//! | admit | who asks, and for which application; what is malformed is refused | [`admit`] |
//! | limit | who has asked too often is refused, or waits; by `rate_limits` here, by rules in [`ruled`] | [`keep_rate`] |
//! | route | what is to respond: a script, a file, monitoring, a redirect | [`admit::Admitted::route`] |
//! | route, with rules | what the rules of the application say: who may come in, which path, which headers | [`ruled`] |
//! | look up | a stored response answers without a worker, or many requests wait for one response | [`look_up`], [`fetch`], [`beside`], [`order`], [`keep`], [`ready`] |
//! | fill | the holes of a page are filled, each by a request of its own | [`esi`] |
//! | run | a script by PHP, everything else by the front | [`run`] |
//! | deliver | the response is compressed, gets its last header, and its line of the access log | [`deliver`], [`compress`] |
//!
//! After a refusal only "deliver" follows.

mod admit;
mod beside;
mod compress;
mod dressed;
mod esi;
mod fetch;
mod https;
mod keep;
mod look_up;
mod order;
mod passed;
mod purged;
mod ready;
mod ruled;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use http::header::{self, HeaderValue};

use admit::Admitted;
use look_up::Early;

use crate::access::{self, Entry};
use crate::dev::Dev;
use crate::doors;
use crate::lanes::View;
use crate::metrics;
use crate::page;
use crate::shared::Shared;
use crate::wrapped::{Delivered, Logged, Made};
use inbound::host;
use inbound::request::{By, Request};
use routing::derived;
use routing::rate::Verdict;
use routing::refusal::Refusal;
use routing::route;
use routing::settings::RateLimit;

/// Serves a request of a client. There is always a response: a refusal is one too.
pub async fn serve(shared: &Arc<Shared>, mut request: Request) -> Response<Delivered> {
    let began = Instant::now();
    doors::collect();
    let mut change = 0;
    if let Some(dev) = &shared.dev {
        if let Some(response) = dressed::own(dev, &request) {
            return response.map(|body| Logged::new(body, None));
        }
        dressed::prepare(&mut request.head);
        match dev.fence.pass(|| oldest(&shared.lanes.view())).await {
            Ok(number) => change = number,
            Err(why) => return complete(dev, request, Ok(dressed::refused(&why)), change, began),
        }
    }
    // The view is held until the response has its head, so the settings that route the request also run it.
    let view = shared.lanes.view();
    let mut result = respond(shared, &view, &mut request, began).await;
    if let Ok(response) = result {
        result = esi::fill(shared, &view, &request, response).await;
    }
    if let Ok(response) = &mut result {
        hide_derived(&view, &request, response);
    }
    match &shared.dev {
        Some(dev) => complete(dev, request, result, change, began),
        None => deliver(request, result, began),
    }
}

/// Completes a response under development: the page of a refusal listens too.
fn complete(
    dev: &Dev,
    request: Request,
    result: Result<Response<Made>, Refusal>,
    change: u64,
    began: Instant,
) -> Response<Delivered> {
    let mut response = or_refusal(result);
    dressed::dress(dev, &request, &mut response, change);
    deliver(request, Ok(response), began)
}

/// The oldest generation that serves.
fn oldest(view: &View) -> Option<u32> {
    view.settings.applications.iter().map(|application| application.generation).min()
}

/// The response, or what says why there is none.
pub fn or_refusal(result: Result<Response<Made>, Refusal>) -> Response<Made> {
    result.unwrap_or_else(|refusal| {
        metrics::refused(refusal);
        page::refusal(refusal).map(Made::plain)
    })
}

/// Other caches cannot tell variants apart that derived headers choose.
fn hide_derived(view: &View, request: &Request, response: &mut Response<Made>) {
    let applications = &view.settings.applications;
    if !response.headers().contains_key(header::VARY) || applications.iter().all(|one| one.derive.is_empty()) {
        return;
    }
    let Ok(host) = host::named(&request.head) else { return };
    if let Some((_, application)) = route::application(applications, &host::name(host)) {
        derived::hide(&application.derive, response.headers_mut());
    }
}

/// All phases but "deliver", with these settings and lanes.
pub async fn respond(
    shared: &Arc<Shared>,
    view: &Arc<View>,
    request: &mut Request,
    began: Instant,
) -> Result<Response<Made>, Refusal> {
    let body = std::mem::take(&mut request.body);
    let admitted = admit::admit(shared, view, request, began)?;
    if let Some(response) = https::challenge(&admitted) {
        return Ok(response);
    }
    // Programs of this machine purge in clear, and follow no redirect.
    if let Some(redirect) = https::redirect(&admitted).filter(|_| !purged::is_purge(&admitted)) {
        return Ok(redirect);
    }
    admitted.may_come()?;
    if let Some(purged) = purged::purge(&admitted) {
        return purged;
    }
    let Admitted { application, path, .. } = admitted;
    if !application.rate_limits.is_empty() {
        let method = admitted.request.head.method.as_str();
        let limits = application.rate_limits.iter().filter(|limit| limit.applies(method, path));
        if let Err(seconds) = keep_rate(&admitted, limits, began).await {
            metrics::refused(Refusal::RateLimit);
            let mut refused = page::refusal(Refusal::RateLimit);
            refused.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            return Ok(refused.map(Made::plain));
        }
    }
    if !application.table.is_empty() {
        return ruled::respond(admitted, body).await;
    }
    let mut response = match look_up::look_early(&admitted, &body) {
        Early::Answered(response) => response,
        Early::Asks(asks) => run::run(&admitted, admitted.route(), asks, body).await?,
    };
    https::add_hsts(&admitted, &mut response);
    Ok(response)
}

/// Waits until these limits let the request go on. If they refuse it: the seconds after which they would not.
async fn keep_rate<'l>(
    admitted: &Admitted<'_>,
    limits: impl Iterator<Item = &'l RateLimit> + Clone,
    now: Instant,
) -> Result<(), u64> {
    let Admitted { request, application, .. } = *admitted;
    // A warm-up is not a client, and what the cache fetches was asked for by one that has been counted.
    if request.by != By::Client {
        return Ok(());
    }
    match admitted.shared.rates.ask(&application.name, limits, admitted.address(), now) {
        Verdict::After(Duration::ZERO) => Ok(()),
        Verdict::After(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Verdict::Refused(time) => Err(time.as_secs() + u64::from(time.subsec_nanos() > 0)),
    }
}

/// Completes a response or a refusal.
fn deliver(request: Request, result: Result<Response<Made>, Refusal>, began: Instant) -> Response<Delivered> {
    let mut response = or_refusal(result);
    compress::compress(&request, &mut response);
    response.headers_mut().entry(header::SERVER).or_insert(HeaderValue::from_static("reprise"));
    let entry = access::is_on().then(|| Entry::new(request, &response, began));
    response.map(|body| Logged::new(body, entry))
}
