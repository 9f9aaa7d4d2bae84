//! The phases "admit" and "route": what may still be wrong with a request, who asks, and what is to respond.

use std::time::Instant;

use http::Method;
use wire::key::Origin;

use crate::forwarded;
use crate::host;
use crate::lanes::View;
use crate::refusal::Refusal;
use crate::request::{Head, Request};
use crate::route::{self, Route};
use crate::settings::Application;
use crate::shared::Shared;

/// A request that is for an application of ours.
pub struct Admitted<'a> {
    /// All of the front.
    pub shared: &'a Shared,
    /// The settings and lanes that it is served by.
    pub view: &'a View,
    /// The request itself.
    pub request: &'a Request,
    /// When it came.
    pub began: Instant,
    /// The number of its application there.
    pub number: usize,
    /// Its application.
    pub application: &'a Application,
    /// Its host, as it was sent: with port, if it has one.
    pub host: &'a str,
    /// Its host, as applications are looked up.
    pub name: String,
    /// Its path, cleaned.
    pub path: &'a [u8],
}

/// Finds out for whom and for which application a request is. Refuses what its transport has found wrong, then what it could not know.
pub fn admit<'a>(
    shared: &'a Shared,
    view: &'a View,
    request: &'a mut Request,
    began: Instant,
) -> Result<Admitted<'a>, Refusal> {
    if request.connection.peer.is_proxy {
        let settings = &view.settings;
        request.behind = forwarded::client(&request.head.headers, &settings.proxies, settings.proxy_headers);
    }
    if let Some(why) = request.refusal {
        return Err(why);
    }
    let request = &*request;
    let host = check(&request.head)?;
    let name = host::name(host);
    let applications = &view.settings.applications;
    let (number, application) = match request.warms {
        Some(number) => applications.get(number).map(|application| (number, application)),
        None => route::application(applications, &name),
    }
    .ok_or(Refusal::UnknownHost)?;
    let path = request.head.target.clean()?;
    Ok(Admitted { shared, view, request, began, number, application, host, name, path })
}

impl<'a> Admitted<'a> {
    /// What is to respond.
    pub fn route(&self) -> Route {
        route::route(self.application, self.path, self.began)
    }

    /// The scheme and host that it asks.
    pub fn origin(&self) -> Origin<'a> {
        Origin { is_https: self.request.is_https(), host: self.host }
    }
}

/// What a request may still have wrong, whatever it came by. Returns its host, with port if it has one.
fn check(head: &Head) -> Result<&str, Refusal> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Refusal::BadMethod);
    }
    let target = &head.target;
    let is_star = head.method == Method::OPTIONS && target.path() == "*";
    let scheme_is_fine = match target.scheme() {
        Some(scheme) => scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"),
        None => target.host().is_none() && (target.path().starts_with('/') || is_star),
    };
    if !scheme_is_fine {
        return Err(Refusal::BadScheme);
    }
    if is_star {
        return Err(Refusal::BadTarget);
    }
    host::check_repeated(&head.headers)?;
    host::named(head)
}
