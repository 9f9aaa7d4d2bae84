//! Ping and status, as monitoring of PHP-FPM expects them: `ping_path` answers while there are workers, `status_path` with
//! what they do. Names and order of the values are PHP-FPM's; lanes of snapshots are added up with classic.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Map, Value, json};
use wire::layout::Activity;

use crate::body::AnswerBody;
use crate::connection::Peer;
use crate::forwarded::Client;
use crate::lane::{Count, Lane, Running};
use crate::refusal::Refusal;
use crate::settings::Application;

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

const ROWS: [Row; 10] = [
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
];

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
    let counts: Vec<Count> = lanes.iter().map(|lane| lane.count()).collect();
    if is_ping {
        let is_alive = counts.iter().any(|count| !count.workers.is_empty());
        let (status, text) =
            if is_alive { (StatusCode::OK, "pong") } else { (StatusCode::SERVICE_UNAVAILABLE, "no workers") };
        return Some(Ok(reply(status, "text/plain; charset=utf-8", text.to_owned())));
    }
    if !is_local(from, &parts.headers) {
        return Some(Err(Refusal::Forbidden));
    }
    let query: Vec<&str> = parts.uri.query().unwrap_or("").split('&').collect();
    let is_full = query.contains(&"full");
    let running = if is_full { lanes.iter().map(|lane| lane.running()).collect() } else { Vec::new() };
    let status = Status { application, since, counts, running, is_full };
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

impl Status<'_> {
    /// In the order of [`ROWS`].
    fn values(&self) -> [u64; ROWS.len()] {
        let sum = |of: fn(&Count) -> u64| self.counts.iter().map(of).sum();
        let workers = || self.counts.iter().flat_map(|count| &count.workers);
        let idle = workers().filter(|(_, activity, _)| *activity == Activity::Idle as u32).count() as u64;
        let total = workers().count() as u64;
        let uptime = self.since.elapsed().unwrap_or_default();
        [
            uptime.as_secs(),
            sum(|count| count.accepted),
            sum(|count| count.waiting as u64),
            sum(|count| count.most_waiting as u64),
            self.application.limits.places.saturating_sub(self.application.workers) as u64,
            idle,
            total - idle,
            total,
            sum(|count| count.most_active as u64)
                .min(self.application.max_workers.map_or(u64::MAX, |most| most as u64)),
            sum(|count| count.saturated),
        ]
    }

    /// Each worker: lane, process, state, requests, and what it runs.
    fn processes(&self) -> impl Iterator<Item = (&str, u32, &'static str, u64, Option<&Running>)> {
        self.counts.iter().zip(&self.running).flat_map(|(count, running)| {
            let lane = if count.key.is_empty() { "classic" } else { &count.key };
            let each = count.workers.iter();
            each.map(move |&(pid, activity, requests)| (lane, pid, state(activity), requests, running.get(&pid)))
        })
    }

    /// As PHP-FPM calls it.
    fn manager(&self) -> &'static str {
        if self.application.is_elastic() { "dynamic" } else { "static" }
    }

    fn text(&self) -> String {
        let started = httpdate::fmt_http_date(self.since);
        let mut text =
            format!("{:<22}{}\n{:<22}{}\n", "pool:", self.application.name, "process manager:", self.manager());
        // Writing to memory cannot fail.
        let _ = writeln!(
            text,
            "{:<22}{}/{}/{}:{} +0000",
            "start time:",
            &started[5..7],
            &started[8..11],
            &started[12..16],
            &started[17..25]
        );
        for (row, value) in ROWS.iter().zip(self.values()) {
            let _ = writeln!(text, "{:<22}{value}", format!("{}:", row.name));
        }
        if self.is_full {
            for (lane, pid, state, requests, running) in self.processes() {
                let _ = write!(
                    text,
                    "\n************************\n{:<22}{pid}\n{:<22}{state}\n{:<22}{requests}\n{:<22}{lane}\n",
                    "pid:", "state:", "requests:", "lane:"
                );
                for (name, value) in facts(running) {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
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
        let started = self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        all.insert("start time".to_owned(), json!(started.as_secs()));
        for (row, value) in ROWS.iter().zip(self.values()) {
            all.insert(row.name.to_owned(), json!(value));
        }
        if self.is_full {
            let each = self.processes().map(|(lane, pid, state, requests, running)| {
                let mut one = json!({"pid": pid, "state": state, "requests": requests, "lane": lane});
                facts(running).into_iter().for_each(|(name, value)| one[name] = value);
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
        for (row, value) in ROWS.iter().zip(self.values()) {
            let (kind, suffix) = if row.grows { ("counter", "_total") } else { ("gauge", "") };
            let name = format!("phpfpm_{}", row.metric);
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", row.text);
            let _ = writeln!(text, "{name}{suffix}{{pool=\"{pool}\"}} {value}");
        }
        text.push_str("# EOF\n");
        text
    }
}

/// What is known of a request that runs, in PHP-FPM's order and by its names; of a worker that has none, as PHP-FPM of one that
/// has had none.
fn facts(running: Option<&Running>) -> [(&'static str, Value); 5] {
    let text = |of: fn(&Running) -> &str| json!(running.map_or("-", of));
    [
        ("request duration", json!(running.map_or(0, |one| one.duration.as_micros() as u64))),
        ("request method", text(|one| &one.method)),
        ("request uri", text(|one| &one.target)),
        ("content length", json!(running.map_or(0, |one| one.content_length))),
        ("script", text(|one| &one.script)),
    ]
}

/// As PHP-FPM spells them.
fn state(activity: u32) -> &'static str {
    match activity {
        _ if activity == Activity::Idle as u32 => "Idle",
        _ if activity == Activity::Running as u32 => "Running",
        _ if activity == Activity::Finishing as u32 => "Finishing",
        _ => "Starting",
    }
}
