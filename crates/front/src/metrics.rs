//! What machines ask: `/healthz`, `/readyz`, and `/metrics` as OpenMetrics text, on listeners of their own.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use wire::layout::{Activity, Recycle};

use crate::body::AnswerBody;
use crate::lane::Count;
use crate::lanes::View;
use crate::refusal::Refusal;

/// Upper bounds of the histogram, in milliseconds.
const BOUNDS_MS: [u64; 12] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000];
/// States of workers, as their slots say.
const STATES: [Activity; 7] = [
    Activity::Booting,
    Activity::Idle,
    Activity::Starting,
    Activity::Running,
    Activity::Finishing,
    Activity::Reading,
    Activity::Rewinding,
];

/// How long requests took.
#[derive(Default)]
pub struct Durations {
    /// As many as took no longer than the bound and longer than the one before; at last those that took longer than all.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    /// Counts one.
    pub fn note(&self, time: Duration) {
        let us = time.as_micros() as u64;
        let bucket = BOUNDS_MS.iter().position(|bound| us <= bound * 1000).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How many took no longer than each bound, and all; and the sum in seconds.
    fn read(&self) -> ([u64; BOUNDS_MS.len() + 1], f64) {
        let mut sum = 0;
        let each = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        (each, self.sum_us.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

static REFUSALS: [AtomicU64; Refusal::ALL.len()] = [const { AtomicU64::new(0) }; Refusal::ALL.len()];

/// Counts a refusal.
pub fn refused(refusal: Refusal) {
    if let Some(number) = Refusal::ALL.iter().position(|one| *one == refusal) {
        REFUSALS[number].fetch_add(1, Ordering::Relaxed);
    }
}

/// Answers a request on an admin listener.
pub fn answer(view: &View, connections: usize, is_stopping: bool, method: &Method, path: &str) -> Response<AnswerBody> {
    if method != Method::GET && method != Method::HEAD {
        return Refusal::FileMethod.response();
    }
    let plain = "text/plain; charset=utf-8";
    match path {
        "/healthz" => reply(StatusCode::OK, plain, "ok\n".to_owned()),
        "/readyz" => {
            let without = without_workers(view);
            match (is_stopping, without.is_empty()) {
                (true, _) => reply(StatusCode::SERVICE_UNAVAILABLE, plain, "stopping\n".to_owned()),
                (false, true) => reply(StatusCode::OK, plain, "ready\n".to_owned()),
                (false, false) => {
                    reply(StatusCode::SERVICE_UNAVAILABLE, plain, format!("no workers: {}\n", without.join(", ")))
                }
            }
        }
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            reply(StatusCode::OK, kind, metrics(view, connections))
        }
        _ => Refusal::NotFound.response(),
    }
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::full(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Applications whose requests nobody takes.
fn without_workers(view: &View) -> Vec<String> {
    let applications = view.settings.applications.iter().enumerate();
    // A lane's only worker may just be replaced.
    let is_without = |number: usize| view.of_application(number).iter().all(|lane| lane.count().workers.is_empty());
    applications.filter(|(number, _)| is_without(*number)).map(|(_, application)| application.name.clone()).collect()
}

/// A metric's name, kind and help, and its lines.
struct Family {
    name: &'static str,
    lines: String,
}

impl Family {
    fn new(name: &'static str, kind: &str, help: &str) -> Family {
        Family { name, lines: format!("# TYPE {name} {kind}\n# HELP {name} {help}\n") }
    }

    fn add(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // Writing to memory cannot fail.
        let _ = writeln!(self.lines, "{}{suffix}{labels} {value}", self.name);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn metrics(view: &View, connections: usize) -> String {
    let mut open = Family::new("reprise_connections", "gauge", "Client connections.");
    let mut requests = Family::new("reprise_requests", "counter", "Requests given to PHP.");
    let mut waiting = Family::new("reprise_requests_waiting", "gauge", "Requests that no worker has taken.");
    let mut workers = Family::new("reprise_workers", "gauge", "Workers by state.");
    let mut recycles = Family::new("reprise_recycles", "counter", "Workers that gave their place to a fresh one.");
    let mut rewinds = Family::new("reprise_rewinds", "counter", "Rewinds of living workers.");
    let mut refusals = Family::new("reprise_refusals", "counter", "Answers of the front's own.");
    let mut seconds = Family::new("reprise_request_seconds", "histogram", "From a request's head to its answer's end.");
    open.add("", &[], connections);
    let mut closed = Family::new(
        "reprise_connections_refused",
        "counter",
        "Connections closed because their address has as many as client_connections says.",
    );
    closed.add("_total", &[], crate::addresses::refused());
    for (refusal, count) in Refusal::ALL.iter().zip(&REFUSALS) {
        refusals.add("_total", &[("reason", refusal.describe().1)], count.load(Ordering::Relaxed));
    }
    for (number, application) in view.settings.applications.iter().enumerate() {
        let mut durations = ([0; BOUNDS_MS.len() + 1], 0.0);
        for lane in view.of_application(number) {
            let count: Count = lane.count();
            let name = if count.key.is_empty() { "classic" } else { &count.key };
            let labels = [("application", application.name.as_str()), ("lane", name)];
            requests.add("_total", &labels, count.accepted);
            waiting.add("", &labels, count.waiting);
            let with = |name, value| [labels[0], labels[1], (name, value)];
            for state in STATES {
                let of_state = count.workers.iter().filter(|worker| worker.activity == state as u32).count();
                workers.add("", &with("state", Activity::word(state as u32)), of_state);
            }
            for (why, count) in Recycle::ALL.iter().zip(count.recycles) {
                recycles.add("_total", &with("reason", why.word()), count);
            }
            for (kind, count) in ["fast", "scanned"].iter().zip(count.rewinds) {
                rewinds.add("_total", &with("kind", kind), count);
            }
            let (each, sum) = lane.durations.read();
            durations.0.iter_mut().zip(each).for_each(|(all, one)| *all += one);
            durations.1 += sum;
        }
        let bounds = BOUNDS_MS.iter().map(|bound| (*bound as f64 / 1000.0).to_string());
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(durations.0) {
            seconds.add("_bucket", &[("application", &application.name), ("le", &bound)], count);
        }
        seconds.add("_count", &[("application", &application.name)], durations.0[BOUNDS_MS.len()]);
        seconds.add("_sum", &[("application", &application.name)], durations.1);
    }
    let all = [open, closed, requests, waiting, workers, recycles, rewinds, refusals, seconds];
    let mut text: String = all.into_iter().map(|family| family.lines).collect();
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_their_bound() {
        let durations = Durations::default();
        for ms in [0, 1, 2, 50, 400_000] {
            durations.note(Duration::from_millis(ms));
        }
        let (each, sum) = durations.read();
        assert_eq!(each, [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5]);
        assert!((sum - 400.053).abs() < 1e-9);
    }

    #[test]
    fn labels_are_escaped() {
        let mut family = Family::new("x", "gauge", "y");
        family.add("", &[("a", "b\"c\\d\ne")], 1);
        assert!(family.lines.ends_with("x{a=\"b\\\"c\\\\d\\ne\"} 1\n"), "{}", family.lines);
    }
}
