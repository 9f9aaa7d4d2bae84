//! Responses to monitoring: ping and status of an application, at the paths that it configures; health and metrics, on the
//! metrics listeners.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::metrics;
use crate::page;
use crate::response_body::ResponseBody;
use crate::shared::Shared;
use inbound::request::{Head, Request};
use mailbox::lane::Lane;
use mailbox::status::Status;
use routing::refusal::Refusal;
use routing::settings::Application;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The response of an application's `ping_path`.
pub fn ping(lanes: &[Arc<Lane>], request: &Request) -> Result<Response<ResponseBody>, Refusal> {
    check_method(request)?;
    let is_alive = lanes.iter().any(|lane| !lane.count().workers.is_empty());
    let (status, text) =
        if is_alive { (StatusCode::OK, "pong") } else { (StatusCode::SERVICE_UNAVAILABLE, "no workers") };
    Ok(uncached(status, PLAIN, text.to_owned()))
}

/// The response of an application's `status_path`.
pub fn status(
    since: SystemTime,
    lanes: &[Arc<Lane>],
    application: &Application,
    request: &Request,
) -> Result<Response<ResponseBody>, Refusal> {
    check_method(request)?;
    if !request.is_local() {
        return Err(Refusal::Forbidden);
    }
    let query: Vec<&str> = request.head.target.query().unwrap_or("").split('&').collect();
    let status = Status::new(since, lanes, application, query.contains(&"full"));
    let (kind, text) = if query.contains(&"json") {
        ("application/json", status.json())
    } else if query.contains(&"openmetrics") {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", status.metrics())
    } else {
        (PLAIN, status.text())
    };
    Ok(uncached(StatusCode::OK, kind, text))
}

fn check_method(request: &Request) -> Result<(), Refusal> {
    let is_read = request.head.method == Method::GET || request.head.method == Method::HEAD;
    is_read.then_some(()).ok_or(Refusal::FileMethod)
}

/// No cache may keep these responses, as with PHP-FPM.
fn uncached(status: StatusCode, kind: &'static str, text: String) -> Response<ResponseBody> {
    let mut response = page::text(status, kind, "no-cache, no-store, must-revalidate, max-age=0", text);
    response.headers_mut().insert(header::EXPIRES, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
    response
}

/// Why new requests should go to another server, for /readyz and `reprise status --ready`: lines. Whether this one stops is not known here.
pub fn unready(shared: &Shared) -> Option<String> {
    let without = metrics::without_workers(&shared.lanes.view());
    if !without.is_empty() {
        return Some(format!("no workers: {}\n", without.join(", ")));
    }
    let unfit = shared.fitness.reasons();
    (!unfit.is_empty()).then(|| format!("not to get requests:\n{unfit}"))
}

/// The response to a request on a metrics listener.
pub fn of_listener(shared: &Shared, is_stopping: bool, head: &Head) -> Response<ResponseBody> {
    let view = &shared.lanes.view();
    if head.method != Method::GET && head.method != Method::HEAD {
        return page::refusal(Refusal::FileMethod);
    }
    let plain = |status, text| page::text(status, PLAIN, "no-store", text);
    match head.target.path() {
        "/healthz" => plain(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if is_stopping => plain(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
        "/readyz" => match unready(shared) {
            None => plain(StatusCode::OK, "ready\n".to_owned()),
            Some(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
        },
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            page::text(
                StatusCode::OK,
                kind,
                "no-store",
                metrics::metrics(
                    view,
                    (shared.connections.load(Ordering::Relaxed), shared.lingering.load(Ordering::Relaxed)),
                    shared.spool.numbers(),
                    &shared.tls,
                    shared.upstreams.numbers(),
                    &shared.stored,
                    &shared.data_counts,
                ),
            )
        }
        _ => page::refusal(Refusal::NotFound),
    }
}
