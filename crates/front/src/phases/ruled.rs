//! The phase "route" of an application with rules, and what rules add to its responses.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use cache::key::Key;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use super::admit::Admitted;
use super::look_up::{self, Early};
use super::{https, keep_rate, passed, run};
use crate::files::{self, OwnCacheControl};
use crate::metrics;
use crate::page;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use cache_store::stored::asking::Asks;
use inbound::request::{By, RequestBody};
use routing::lead::{Lead, lead, settle};
use routing::refusal::Refusal;
use routing::route::{self, Route, Terms};
use routing::rules::rule::Expires;
use routing::rules::table::{Asked, Ending, Verdict};

/// Statuses that `expires` concerns.
const KEPT: [u16; 9] = [200, 201, 206, 301, 302, 303, 304, 307, 308];

/// Makes the response as the rules say.
pub async fn respond(mut admitted: Admitted<'_>, body: RequestBody) -> Result<Response<Made>, Refusal> {
    let application = admitted.application;
    let is = |path: &Option<String>| path.as_ref().is_some_and(|path| path.as_bytes() == admitted.path);
    if is(&application.ping_path) || is(&application.status_path) {
        let route = admitted.route();
        return run::run(&admitted, route, Asks::Nothing, body).await;
    }
    let request = admitted.request;
    let asked = Asked {
        path: admitted.path,
        query: request.head.target.query().unwrap_or("").as_bytes(),
        host: &admitted.name,
        method: request.head.method.as_str(),
        headers: &request.head.headers,
        address: admitted.address().parse().ok(),
    };
    let mut verdict = settle(application, &asked, &mut |_| {});
    admitted.query = verdict.query.take();
    admitted.limits = verdict.limits();
    admitted.rule = verdict.counted;
    let rates = admitted.limits.iter().flat_map(|limits| &limits.rates).map(|(rate, _)| *rate);
    // Passwords come after that, so that a rate bounds how often one may be guessed.
    let late = match admitted.limits.as_ref().is_some_and(|limits| !limits.rates.is_empty()) {
        true => keep_rate(&admitted, rates, Instant::now()).await.err(),
        false => None,
    };
    let result = match late {
        None => answer(&mut admitted, &verdict, body).await,
        Some(_) => Err(Refusal::RateLimit),
    };
    // What rules add to a response is added for each visitor.
    if request.by == By::Fetch {
        return result;
    }
    let mut response = dress(&admitted, &verdict, result);
    if let Some(seconds) = late {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    https::add_hsts(&admitted, &mut response);
    Ok(response)
}

async fn answer(
    admitted: &mut Admitted<'_>,
    verdict: &Verdict<'_>,
    body: RequestBody,
) -> Result<Response<Made>, Refusal> {
    for users in verdict.also.iter().filter_map(|also| also.users.as_ref()) {
        let user = admitted.shared.passwords.check(users, &admitted.request.head.headers).await?;
        admitted.user = Some(user);
    }
    if admitted.application.cache_memory > 0 {
        admitted.led = led(verdict, admitted.query.as_deref());
    }
    let asks = match look_up::look_early(admitted, &body) {
        Early::Answered(response) => return Ok(response),
        Early::Asks(asks) => asks,
    };
    let path = verdict.path.as_deref().unwrap_or(admitted.path);
    match lead(admitted.application, verdict, path, || admitted.route())? {
        Lead::Route(route) => run::run(admitted, route, asks, body).await,
        // The future is large; a connection without such requests does not hold room for it.
        Lead::Upstream(upstream, target) => {
            Box::pin(passed::pass(admitted, verdict, upstream, target, asks, body)).await
        }
        Lead::Redirect(status, location) => {
            let mut response = Response::new(Made::plain(ResponseBody::none()));
            *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Refusal::RuleFailed)?;
            let location = HeaderValue::from_bytes(&location).map_err(|_| Refusal::RuleFailed)?;
            response.headers_mut().insert(header::LOCATION, location);
            Ok(response)
        }
    }
}

/// What the rules have said, as part of the keys of the cache. A refusal has none: it is never stored.
fn led(verdict: &Verdict<'_>, query: Option<&[u8]>) -> Key {
    let mut led = Key::new();
    led.add(&[u8::from(verdict.is_php_off), u8::from(verdict.is_allowed)]);
    for part in [verdict.path.as_deref(), query] {
        match part {
            Some(part) => led.add(part),
            None => led.absent(),
        };
    }
    match &verdict.ending {
        Ending::Serve => led.add(b"serve"),
        Ending::FrontController(name) => led.add(b"front controller").add(name.as_bytes()),
        Ending::Mount(directory, prefix) => {
            led.add(b"mount").add(directory.as_os_str().as_bytes()).add(&prefix.to_le_bytes())
        }
        other => led.add(format!("{other:?}").as_bytes()),
    };
    led
}

/// Adds to a response what the rules say; makes the page of a refusal.
fn dress(admitted: &Admitted<'_>, verdict: &Verdict<'_>, result: Result<Response<Made>, Refusal>) -> Response<Made> {
    let mut response = result.unwrap_or_else(|refusal| refused(admitted, verdict, refusal));
    let status = response.status().as_u16();
    let is_own = response.extensions_mut().remove::<OwnCacheControl>().is_some();
    let headers = response.headers_mut();
    let expires = verdict.also.iter().rev().find_map(|also| also.expires).filter(|_| KEPT.contains(&status));
    // A page that says itself how long it may be kept knows better.
    if let Some(expires) = expires.filter(|_| is_own || !headers.contains_key(header::CACHE_CONTROL)) {
        expire(headers, expires);
    }
    for (name, value) in &verdict.headers {
        match value {
            Some(value) => drop(headers.insert(name, value.clone())),
            None => drop(headers.remove(name)),
        }
    }
    response
}

fn expire(headers: &mut HeaderMap, expires: Expires) {
    let value = match expires {
        Expires::Immutable => HeaderValue::from_static("max-age=31536000, immutable"),
        Expires::Never => HeaderValue::from_static("no-cache"),
        Expires::Seconds(seconds) => match HeaderValue::try_from(format!("max-age={seconds}")) {
            Ok(value) => value,
            Err(_) => return,
        },
    };
    headers.insert(header::CACHE_CONTROL, value);
}

fn refused(admitted: &Admitted<'_>, verdict: &Verdict<'_>, refusal: Refusal) -> Response<Made> {
    metrics::refused(refusal);
    let mut response = page::refusal(refusal);
    let status = response.status().as_u16();
    if refusal == Refusal::Unauthorized {
        // All realms were asked in turn; the client gets that of the first which its password does not open.
        let realm = verdict.also.iter().filter_map(|also| also.users.as_ref()).next_back();
        let text = realm.map(|users| format!("Basic realm=\"{}\", charset=\"UTF-8\"", users.realm));
        if let Some(Ok(value)) = text.map(HeaderValue::try_from) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }
    let named = match (&verdict.ending, refusal) {
        (Ending::Maintenance(page), Refusal::Maintenance) => Some(*page),
        _ => verdict.also.iter().rev().find_map(|also| also.error_pages.get(&status)).map(String::as_str),
    };
    if let Some(name) = named {
        let terms =
            Terms { front_controller: None, has_denials: false, is_php_off: true, ..Terms::of(admitted.application) };
        // A page that is missing is no reason to say less than without it.
        if let Route::File(found) = route::decide(&terms, name.as_bytes()) {
            files::replace_body(&mut response, &found, admitted.request);
        }
    }
    response.map(Made::plain)
}
