//! What monitoring asks: ping and status of an application, by its paths, and health and metrics, on listeners of their own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use crate::body::AnswerBody;
use crate::connection::Peer;
use crate::forwarded::Client;
use crate::lane::Lane;
use crate::lanes::View;
use crate::metrics;
use crate::page;
use crate::refusal::Refusal;
use crate::settings::Application;
use crate::status::Status;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The response of an application's `ping_path` or `status_path`, if the path is one of the two.
pub fn of_application(
    since: SystemTime,
    lanes: &[Arc<Lane>],
    application: &Application,
    path: &[u8],
    parts: &Parts,
    from: (&Peer, Option<&Client>),
) -> Option<Result<Response<AnswerBody>, Refusal>> {
    let is = |configured: &Option<String>| configured.as_ref().is_some_and(|known| *known.as_bytes() == *path);
    let (is_ping, is_status) = (is(&application.ping_path), is(&application.status_path));
    if !is_ping && !is_status {
        return None;
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Some(Err(Refusal::FileMethod));
    }
    if is_ping {
        let is_alive = lanes.iter().any(|lane| !lane.count().workers.is_empty());
        let (status, text) =
            if is_alive { (StatusCode::OK, "pong") } else { (StatusCode::SERVICE_UNAVAILABLE, "no workers") };
        return Some(Ok(reply(status, PLAIN, text.to_owned())));
    }
    if !is_local(from, &parts.headers) {
        return Some(Err(Refusal::Forbidden));
    }
    let query: Vec<&str> = parts.uri.query().unwrap_or("").split('&').collect();
    let status = Status::new(since, lanes, application, query.contains(&"full"));
    let (kind, text) = if query.contains(&"json") {
        ("application/json", status.json())
    } else if query.contains(&"openmetrics") {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", status.metrics())
    } else {
        (PLAIN, status.text())
    };
    Some(Ok(reply(StatusCode::OK, kind, text)))
}

/// From this machine, and not through a proxy on it for somebody else: neither a declared one nor one that nobody has
/// declared, if it says so.
pub fn is_local((peer, client): (&Peer, Option<&Client>), headers: &HeaderMap) -> bool {
    let is_here =
        |address: &str| address == "unix:" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let passes_on = ["forwarded", "x-forwarded-for", "x-real-ip", "via"].iter().any(|name| headers.contains_key(*name));
    (peer.is_proxy || !passes_on) && is_here(&peer.address) && client.is_none_or(|client| is_here(&client.address))
}

/// As PHP-FPM: nobody shall keep them.
fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    let mut response = page::text(status, kind, "no-cache, no-store, must-revalidate, max-age=0", text);
    response.headers_mut().insert(header::EXPIRES, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
    response
}

/// Answers a request on an admin listener.
pub fn of_listener(
    view: &View,
    connections: usize,
    is_stopping: bool,
    method: &Method,
    path: &str,
) -> Response<AnswerBody> {
    if method != Method::GET && method != Method::HEAD {
        return page::refusal(Refusal::FileMethod);
    }
    let plain = |status, text| page::text(status, PLAIN, "no-store", text);
    match path {
        "/healthz" => plain(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => {
            let without = metrics::without_workers(view);
            match (is_stopping, without.is_empty()) {
                (true, _) => plain(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
                (false, true) => plain(StatusCode::OK, "ready\n".to_owned()),
                (false, false) => {
                    plain(StatusCode::SERVICE_UNAVAILABLE, format!("no workers: {}\n", without.join(", ")))
                }
            }
        }
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            page::text(StatusCode::OK, kind, "no-store", metrics::metrics(view, connections))
        }
        _ => page::refusal(Refusal::NotFound),
    }
}
