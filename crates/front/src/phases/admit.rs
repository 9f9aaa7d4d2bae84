//! The phases "admit" and "route": a request is checked, its client and its application are found, and then what responds
//! to it.

use std::sync::Arc;
use std::time::Instant;

use cache::key::Key;
use http::Method;
use ipc::key::Origin;

use crate::lanes::View;
use crate::shared::Shared;
use cache_store::stored::Cached;
use cache_store::stored::by_rule::Waiting;
use inbound::forwarded;
use inbound::host;
use inbound::request::{By, Head, Request};
use inbound::request_id::RequestId;
use routing::derived;
use routing::refusal::Refusal;
use routing::route::{self, Route};
use routing::rules::limits::Together;
use routing::settings::{Application, Settings};

/// A request that is for one of the configured applications.
pub struct Admitted<'a> {
    /// What all threads of the front share.
    pub shared: &'a Arc<Shared>,
    /// The settings and lanes that serve it.
    pub view: &'a Arc<View>,
    /// The request itself.
    pub request: &'a Request,
    /// When the request came.
    pub began: Instant,
    /// The number of its application in these settings.
    pub number: usize,
    /// Its application.
    pub application: &'a Application,
    /// Its host, as it was sent: with port, if it has one.
    pub host: &'a str,
    /// Its host in the form by which applications are looked up.
    pub name: String,
    /// Its path, cleaned.
    pub path: &'a [u8],
    /// Its query, if a rule has rewritten it.
    pub query: Option<Vec<u8>>,
    /// The user whose password a rule asked for.
    pub user: Option<String>,
    /// The limits that rules set.
    pub limits: Option<Box<Together<'a>>>,
    /// The number of the rule for which it is counted.
    pub rule: Option<usize>,
    /// What rules have said of it, as part of the keys of the cache.
    pub led: Key,
}

/// Finds the client and the application of a request. Refuses what the transport has found wrong, then what no transport
/// can know.
pub fn admit<'a>(
    shared: &'a Arc<Shared>,
    view: &'a Arc<View>,
    request: &'a mut Request,
    began: Instant,
) -> Result<Admitted<'a>, Refusal> {
    if request.connection.peer.is_proxy && request.by != By::Fetch {
        let settings = &view.settings;
        request.behind = forwarded::client(&request.head.headers, &settings.proxies, settings.proxy_headers);
        if let Some(id) = RequestId::given(&request.head.headers) {
            request.head.id = id;
        }
    }
    if let Some(why) = request.refusal {
        return Err(why);
    }
    derive(&view.settings, request)?;
    let request = &*request;
    let host = check(&request.head)?;
    let name = host::name(host);
    let applications = &view.settings.applications;
    let (number, application) = match request.by {
        By::WarmUp(number) => applications.get(number).map(|application| (number, application)),
        By::Client | By::Fetch | By::Fragment => route::application(applications, &name),
    }
    .ok_or(Refusal::UnknownHost)?;
    let path = request.head.target.clean()?;
    Ok(Admitted {
        shared,
        view,
        request,
        began,
        number,
        application,
        host,
        name,
        path,
        query: None,
        user: None,
        limits: None,
        rule: None,
        led: Key::new(),
    })
}

impl<'a> Admitted<'a> {
    /// The cache of its application, if it has one.
    pub fn cached(&self) -> Option<&'a Cached> {
        self.view.stored(self.number, &self.shared.stored)
    }

    /// Counts the request as one that waits for a response which another one has asked for.
    pub fn waits(&self) -> Option<Waiting> {
        self.cached()?.by_rule.wait(self.rule)
    }

    /// Whether its connection may ask for its host. By TLS, the host has to be one of the connection's certificate, and the certificate
    /// that serves this host now must let the same clients in. In clear, a host that is only for clients with a certificate gets no
    /// request. Between a declared proxy and the front names may differ, and the proxy is believed about its clients.
    pub fn may_come(&self) -> Result<(), Refusal> {
        let (peer, tls, name) = (&self.request.connection.peer, &self.shared.tls, &self.name);
        let may_come = match &peer.tls {
            _ if self.request.is_warm_up() => true,
            None => peer.is_proxy || !tls.is_closed(name),
            Some(secure) => {
                let is_own = name.is_empty() || peer.is_proxy || secure.is_for(name);
                is_own && tls.lets_in_as(name, &secure.served)
            }
        };
        if may_come { Ok(()) } else { Err(Refusal::Misdirected) }
    }

    /// The address of its client.
    pub fn address(&self) -> &'a str {
        let request = self.request;
        request.behind.as_ref().map_or(&request.connection.peer.address, |client| &client.address)
    }

    /// What responds to the request.
    pub fn route(&self) -> Route {
        route::route(self.application, self.path, self.began)
    }

    /// The scheme and host that the request is made to.
    pub fn origin(&self) -> Origin<'a> {
        Origin { is_https: self.request.is_https(), host: self.host }
    }
}

/// Adds the headers that the request's application derives. What the cache or a page asks for has those of its visitor.
fn derive(settings: &Settings, request: &mut Request) -> Result<(), Refusal> {
    let applications = &settings.applications;
    let is_new = matches!(request.by, By::Client | By::WarmUp(_));
    if !is_new || applications.iter().all(|application| application.derive.is_empty()) {
        return Ok(());
    }
    let name = host::name(host::named(&request.head)?);
    let application = match request.by {
        By::WarmUp(number) => applications.get(number),
        _ => route::application(applications, &name).map(|(_, application)| application),
    };
    if let Some(application) = application {
        let address = request.behind.as_ref().map_or(&request.connection.peer.address, |client| &client.address);
        let client = derived::Client { address, countries: &settings.countries };
        derived::add(&application.derive, &mut request.head.headers, &client);
    }
    Ok(())
}

/// Checks that hold for any transport. Returns the request's host, with its port if it names one.
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
