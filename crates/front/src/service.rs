//! One request, step by step: [`check`], [`crate::route::route`], then a file or [`run`].

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use wire::key::{Key, Origin, split_port};
use wire::layout::{BODY_RING, HEAD_SIZE, NOTE_HOST, NOTE_LOOP, NOTE_SNAPSHOT};

use crate::access::{self, Entry};
use crate::answer;
use crate::body::{self, AnswerBody, Prefix, Remainder};
use crate::connection::{Client, Peer};
use crate::doors;
use crate::files;
use crate::forwarded;
use crate::head::{self, Facts, MODE, is_withdrawable};
use crate::host;
use crate::lane::Order;
use crate::lanes::View;
use crate::metrics;
use crate::monitoring;
use crate::page;
use crate::refusal::Refusal;
use crate::route::{self, Route, Script};
use crate::settings::{Application, RequestLimits};
use crate::shared::Shared;
use crate::target;
use crate::transport::Framed;

thread_local! {
    /// Where heads are put together before they are copied to the slab.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; HEAD_SIZE]);
}

/// What a connection brings to each of its requests.
#[derive(Clone)]
pub struct Connection {
    /// All of the front.
    pub shared: Arc<Shared>,
    /// Both ends.
    pub peer: Arc<Peer>,
    /// Who may leave before the answer.
    pub client: Arc<dyn Client>,
    /// The application that its requests are for, whatever host they name: those of a warm-up.
    pub warms: Option<usize>,
}

/// Answers a request. Never fails: a refusal is an answer too.
pub async fn serve(
    connection: Connection,
    request: Request<Incoming>,
    framed: Framed,
) -> Result<Response<AnswerBody>, std::convert::Infallible> {
    let began = Instant::now();
    doors::collect();
    let (mut parts, body) = request.into_parts();
    if let Some(line) = framed.line {
        parts.extensions.insert(line);
    }
    let peer = &connection.peer;
    // Held to the answer's head: by what it was routed it is run.
    let view = connection.shared.lanes.view();
    let client = match peer.is_proxy {
        true => forwarded::client(&parts.headers, &view.settings.proxies, view.settings.proxy_headers),
        false => None,
    };
    let body = Some(body).filter(|body| !body.is_end_stream());
    let answered = match framed.refusal {
        Some(why) => Err(why),
        None => respond(&connection, &view, client.as_ref(), &parts, body, began).await,
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(refusal) => {
            metrics::refused(refusal);
            page::refusal(refusal)
        }
    };
    response.headers_mut().entry(header::SERVER).or_insert(HeaderValue::from_static("reprise"));
    response.body_mut().read_by(connection.client.clone());
    if access::is_on() {
        let entry = Entry::new(parts, connection.peer, client, &response, began);
        response.body_mut().log(entry);
    }
    Ok(response)
}

/// Answers by these settings and lanes. Without a body there is none, or it is empty.
pub async fn respond(
    connection: &Connection,
    view: &View,
    client: Option<&forwarded::Client>,
    parts: &Parts,
    body: Option<Incoming>,
    began: Instant,
) -> Result<Response<AnswerBody>, Refusal> {
    let host = check(parts)?;
    let name = host::name(host);
    let (number, application) = match connection.warms {
        Some(number) => Some((number, &view.settings.applications[number])),
        None => route::application(&view.settings.applications, &name),
    }
    .ok_or(Refusal::UnknownHost)?;
    let path = target::clean(parts.uri.path()).map_err(|_| Refusal::BadTarget)?;
    let from = (&*connection.peer, client);
    let (since, lanes) = (connection.shared.began, view.of_application(number));
    if let Some(answer) = monitoring::of_application(since, lanes, application, &path, parts, from) {
        return answer;
    }
    match route::route(application, &path, began) {
        Route::File(found) => files::answer(found, parts),
        Route::Script(script) => {
            let is_classic = is_below(&path, &application.classic_paths);
            let (limited, limits) = request_limits(application, &path);
            let origin = Origin { is_https: client.is_some_and(forwarded::Client::is_by_https), host };
            let script = &script;
            let site =
                Site { view, number, application, script, is_classic, limited, limits, host: &name, origin, client };
            run(connection, &site, parts, body, began).await
        }
        Route::Directory => Ok(add_slash(&path, parts)),
        Route::Nobody => Err(Refusal::NotFound),
        Route::Closed => Err(Refusal::Forbidden),
    }
}

/// What a parsed request may still have wrong; [`crate::transport::framing`] has looked at its framing. Returns its host,
/// with port if it has one.
fn check(parts: &Parts) -> Result<&str, Refusal> {
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(Refusal::BadMethod);
    }
    let scheme_is_fine = match parts.uri.scheme_str() {
        Some(scheme) => scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"),
        None => {
            let is_star = parts.method == Method::OPTIONS && parts.uri.path() == "*";
            parts.uri.authority().is_none() && (parts.uri.path().starts_with('/') || is_star)
        }
    };
    if !scheme_is_fine {
        return Err(Refusal::BadScheme);
    }
    if parts.method == Method::OPTIONS && parts.uri.path() == "*" {
        return Err(Refusal::BadTarget);
    }
    host::check_repeated(&parts.headers)?;
    host::named(parts)
}

/// Whether requests may have a lane of their host's own: one that the configuration names, spelled as there, and with no port
/// but that of the listener, so that the hosts a client can make up do not count.
fn may_have_lane(application: &Application, host: &str, connection: &Connection) -> bool {
    let (name, port) = split_port(host);
    let is_own = |port| connection.warms.is_some() || port == connection.peer.server_port;
    // A unix socket has none, and neither has `Host: name:`.
    let is_fine = |port| !["", "80", "443"].contains(&port) && is_own(port);
    port.is_none_or(is_fine) && application.hosts.iter().any(|known| known == name)
}

/// Whether a path is another or below it.
fn is_at(path: &[u8], prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix.trim_end_matches('/').as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Whether a path is one of these or below it.
fn is_below(path: &[u8], prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| is_at(path, prefix))
}

/// The longest path that fits, and what it says; else what the application does.
fn request_limits<'a>(application: &'a Application, path: &[u8]) -> (&'a str, RequestLimits) {
    let fitting = application.paths.iter().filter(|(prefix, _)| is_at(path, prefix));
    let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
    longest.map_or(("", application.limits), |(prefix, limits)| (prefix, *limits))
}

fn add_slash(path: &[u8], parts: &Parts) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::none());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let mut location = String::new();
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            location.push(char::from(byte));
        } else {
            location.push_str(&format!("%{byte:02X}"));
        }
    }
    location.push('/');
    if let Some(query) = parts.uri.query() {
        location.push('?');
        location.push_str(query);
    }
    if let Ok(value) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    response
}

/// Where a request goes.
struct Site<'a> {
    view: &'a View,
    number: usize,
    application: &'a Application,
    script: &'a Script,
    /// Its path is one of those that run in classic mode.
    is_classic: bool,
    /// The path that its limits are those of; empty: the application's.
    limited: &'a str,
    limits: RequestLimits,
    host: &'a str,
    origin: Origin<'a>,
    client: Option<&'a forwarded::Client>,
}

/// Posts the request to the script's lane and waits for PHP.
async fn run(
    connection: &Connection,
    site: &Site<'_>,
    parts: &Parts,
    body: Option<Incoming>,
    began: Instant,
) -> Result<Response<AnswerBody>, Refusal> {
    let view = site.view;
    let address = site.client.map_or(&connection.peer.address, |client| &client.address);
    // Whoever else is at that address, a warm-up is no client.
    let limit = if connection.warms.is_some() { 0 } else { site.limits.client_requests };
    let place = connection.shared.clients.enter([&site.application.name, site.limited, address], limit)?;
    // `reprise verify` compares what a script does in its own mode with what it does in this one.
    let wish =
        parts.headers.get(MODE).filter(|_| monitoring::is_local((&connection.peer, site.client), &parts.headers));
    let is_classic = site.is_classic || wish.is_some_and(|mode| mode == "classic");
    let lane_now = || {
        let own = site.script.text().filter(|_| !is_classic);
        let lane = match own {
            Some(script) => view.find(site.number, script, site.origin),
            None => view.classic(site.number),
        };
        lane.ok_or(Refusal::QueueFull)
    };
    let mut lane = lane_now()?;
    let has_body = body.is_some();
    let content_length = match &body {
        Some(body) => body.size_hint().exact(),
        None => parts.headers.contains_key(header::CONTENT_LENGTH).then_some(0),
    };
    let limit = match site.application.max_body {
        Some(limit) => limit,
        None if has_body => lane.bodies.limit(&site.application.root, &site.script.name, content_length),
        None => 0,
    };
    if limit > 0 && content_length.is_some_and(|length| length > limit) {
        return Err(Refusal::BodyTooLarge);
    }
    let patience = Duration::from_millis(view.settings.limits.body_timeout_ms);
    let Prefix { mut bytes, rest } = match body {
        Some(body) => body::read_prefix(body, limit, patience).await?,
        None => Prefix { bytes: Vec::new(), rest: None },
    };
    if has_body {
        // Meanwhile another may have come, or this one may be down.
        lane = lane_now()?;
    }
    let read = bytes.len() as u64;
    // A whole body has a length, also if the client did not say it.
    let content_length = content_length.or_else(|| (has_body && rest.is_none()).then_some(read));
    let Site { application, script, host, client, .. } = *site;
    let facts = Facts {
        parts,
        peer: &connection.peer,
        written: view.settings.proxy_headers,
        client,
        application,
        script,
        host,
        content_length,
        has_body,
    };
    // hyper may have given more at once than the ring takes.
    let surplus = bytes.split_off(bytes.len().min(BODY_RING));
    let has_more = rest.is_some() || !surplus.is_empty();
    let ticket = SCRATCH.with_borrow_mut(|buffer| {
        let size = head::write(&facts, buffer).map_err(|_| Refusal::HeadTooLarge)?;
        let withdrawable = is_withdrawable(&parts.method);
        let order = Order { since: began, prefix: &bytes, has_more, limits: site.limits, withdrawable };
        lane.post(doors::door(), &buffer[..size], order).ok_or(Refusal::QueueFull)
    })?;
    if has_more {
        let remainder = Remainder { surplus, rest, read, limit };
        tokio::spawn(body::pump(remainder, ticket.body_slip(), patience));
    }
    let (mut response, notes) = answer::receive(ticket, parts, application.server_timing, &*connection.client).await?;
    place.into_iter().for_each(|place| response.body_mut().hold(place));
    response.body_mut().time(began, lane.clone());
    if wish.is_some() {
        let mode = HeaderValue::from_static(if lane.is_classic() { "classic" } else { "own" });
        response.headers_mut().insert(MODE, mode);
    }
    if notes & (NOTE_SNAPSHOT | NOTE_LOOP) != 0 && lane.is_classic() && !is_classic {
        let origin = (notes & NOTE_HOST != 0).then_some(site.origin);
        let may_be = origin.is_none_or(|origin| may_have_lane(application, origin.host, connection));
        if let Some(script) = script.text().filter(|_| may_be) {
            let key = Key { script, origin };
            connection.shared.lanes.report_entry(application.generation, key, notes & NOTE_LOOP != 0);
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_others_are_found() {
        let prefixes = ["/cart".to_owned(), "/shop/".to_owned()];
        for path in ["/cart", "/cart/", "/cart/1", "/shop", "/shop/a/b"] {
            assert!(is_below(path.as_bytes(), &prefixes), "{path}");
        }
        for path in ["/", "/carts", "/a/cart", "/Cart"] {
            assert!(!is_below(path.as_bytes(), &prefixes), "{path}");
        }
        assert!(is_below(b"/x", &["/".to_owned()]));
    }
}
