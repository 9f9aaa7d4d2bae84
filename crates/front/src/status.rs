//! Ping and status, as monitoring of PHP-FPM expects them: `ping_path` answers while there are workers, `status_path` with
//! what they do. Names and order of the values are PHP-FPM's; lanes of snapshots are added up with classic.

mod process;
mod report;

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use wire::layout::Activity;

use crate::body::AnswerBody;
use crate::connection::Peer;
use crate::forwarded::Client;
use crate::lane::{Count, Lane, Running};
use crate::refusal::Refusal;
use crate::settings::Application;

use process::Process;
pub use report::report;

/// A value: PHP-FPM's name for it, the metric's, and whether that only grows.
struct Row {
    name: &'static str,
    metric: &'static str,
    grows: bool,
    text: &'static str,
}

const fn row(name: &'static str, metric: &'static str, grows: bool, text: &'static str) -> Row {
    Row { name, metric, grows, text }
}

const ROWS: [Row; 11] = [
    row("start since", "start_since_seconds", false, "Seconds since the front began."),
    row("accepted conn", "accepted_connections", true, "Requests given to PHP."),
    row("listen queue", "listen_queue", false, "Requests that wait for a worker."),
    row("max listen queue", "max_listen_queue", false, "The most that waited at once."),
    row("listen queue len", "listen_queue_length", false, "Requests that may wait."),
    row("idle processes", "idle_processes", false, "Workers that wait for a request."),
    row("active processes", "active_processes", false, "Workers that have one."),
    row("total processes", "total_processes", false, "Workers."),
    row("max active processes", "max_active_processes", false, "The most workers at once that had a request."),
    row("max children reached", "max_children_reached", true, "How often there came to be more requests than workers."),
    row("slow requests", "slow_requests", true, "Requests that took longer than slow_timeout."),
];

/// What [`ROWS`] name.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Values {
    start_since: u64,
    accepted_conn: u64,
    listen_queue: u64,
    max_listen_queue: u64,
    listen_queue_len: u64,
    idle_processes: u64,
    active_processes: u64,
    total_processes: u64,
    max_active_processes: u64,
    max_children_reached: u64,
    slow_requests: u64,
}

/// The answer, if the path is one of the two.
pub fn answer(
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
        return Some(Ok(reply(status, "text/plain; charset=utf-8", text.to_owned())));
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
        ("text/plain; charset=utf-8", status.text())
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

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::full(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // As PHP-FPM: nobody shall keep them.
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, must-revalidate, max-age=0"));
    response.headers_mut().insert(header::EXPIRES, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
    response
}

struct Status<'a> {
    application: &'a Application,
    since: SystemTime,
    counts: Vec<Count>,
    /// What the workers of each lane run, by process; only for the full status.
    running: Vec<HashMap<u32, Running>>,
    is_full: bool,
}

impl<'a> Status<'a> {
    fn new(since: SystemTime, lanes: &[Arc<Lane>], application: &'a Application, is_full: bool) -> Status<'a> {
        let counts = lanes.iter().map(|lane| lane.count()).collect();
        let running = if is_full { lanes.iter().map(|lane| lane.running()).collect() } else { Vec::new() };
        Status { application, since, counts, running, is_full }
    }
}

impl Status<'_> {
    /// In the order of [`ROWS`].
    fn rows(&self) -> impl Iterator<Item = (&'static Row, u64)> {
        let of = self.values();
        ROWS.iter().zip([
            of.start_since,
            of.accepted_conn,
            of.listen_queue,
            of.max_listen_queue,
            of.listen_queue_len,
            of.idle_processes,
            of.active_processes,
            of.total_processes,
            of.max_active_processes,
            of.max_children_reached,
            of.slow_requests,
        ])
    }

    fn values(&self) -> Values {
        let sum = |of: fn(&Count) -> u64| self.counts.iter().map(of).sum();
        let workers = || self.counts.iter().flat_map(|count| &count.workers);
        let idle = workers().filter(|worker| worker.activity == Activity::Idle as u32).count() as u64;
        let total = workers().count() as u64;
        let most_active: u64 = sum(|count| count.most_active as u64);
        Values {
            start_since: self.since.elapsed().unwrap_or_default().as_secs(),
            accepted_conn: sum(|count| count.accepted),
            listen_queue: sum(|count| count.waiting as u64),
            max_listen_queue: sum(|count| count.most_waiting as u64),
            listen_queue_len: self.application.limits.places.saturating_sub(self.application.workers) as u64,
            idle_processes: idle,
            active_processes: total - idle,
            total_processes: total,
            max_active_processes: most_active.min(self.application.max_workers.map_or(u64::MAX, |most| most as u64)),
            max_children_reached: sum(|count| count.saturated),
            slow_requests: sum(|count| count.slow),
        }
    }

    fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        self.counts.iter().zip(&self.running).flat_map(|(count, running)| {
            let lane = if count.key.is_empty() { "classic" } else { &count.key };
            let each = count.workers.iter();
            each.map(move |worker| Process { lane, worker, running: running.get(&worker.pid) })
        })
    }

    /// As PHP-FPM calls it.
    fn manager(&self) -> &'static str {
        if self.application.is_elastic() { "dynamic" } else { "static" }
    }

    fn text(&self) -> String {
        let mut text =
            format!("{:<22}{}\n{:<22}{}\n", "pool:", self.application.name, "process manager:", self.manager());
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{:<22}{}", "start time:", clock(self.since));
        for (row, value) in self.rows() {
            let _ = writeln!(text, "{:<22}{value}", format!("{}:", row.name));
        }
        if self.is_full {
            for process in self.processes() {
                let _ = write!(
                    text,
                    "\n************************\n{:<22}{}\n{:<22}{}\n",
                    "pid:",
                    process.worker.pid,
                    "state:",
                    process.state()
                );
                for (name, value) in process.facts() {
                    let value = match &value {
                        Value::String(text) => text.clone(),
                        _ if name == "start time" => clock(UNIX_EPOCH + Duration::from_secs(process.began().0)),
                        Value::Number(number) if number.is_f64() => format!("{:.2}", process.processor()),
                        _ => value.to_string(),
                    };
                    let _ = writeln!(text, "{:<22}{value}", format!("{name}:").replace("uri", "URI"));
                }
            }
        }
        text
    }

    fn json(&self) -> String {
        let mut all = Map::new();
        all.insert("pool".to_owned(), json!(self.application.name));
        all.insert("process manager".to_owned(), json!(self.manager()));
        all.insert("start time".to_owned(), json!(process::seconds(self.since)));
        for (row, value) in self.rows() {
            all.insert(row.name.to_owned(), json!(value));
        }
        if self.is_full {
            let each = self.processes().map(|process| {
                let mut one = json!({"pid": process.worker.pid, "state": process.state()});
                process.facts().into_iter().for_each(|(name, value)| one[name] = value);
                one
            });
            all.insert("processes".to_owned(), Value::Array(each.collect()));
        }
        Value::Object(all).to_string()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        let pool = self.application.name.replace(['\\', '"', '\n'], "_");
        // Writing to memory cannot fail.
        for (row, value) in self.rows() {
            let (kind, suffix) = if row.grows { ("counter", "_total") } else { ("gauge", "") };
            let name = format!("phpfpm_{}", row.metric);
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", row.text);
            let _ = writeln!(text, "{name}{suffix}{{pool=\"{pool}\"}} {value}");
        }
        text.push_str("# EOF\n");
        text
    }
}

/// As PHP-FPM writes times: `05/Nov/2026:10:20:30 +0000`.
fn clock(time: SystemTime) -> String {
    let text = httpdate::fmt_http_date(time);
    format!("{}/{}/{}:{} +0000", &text[5..7], &text[8..11], &text[12..16], &text[17..25])
}
