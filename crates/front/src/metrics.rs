//! The metrics as OpenMetrics text, and which applications are not ready.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use cache::status::{Result as Results, Why};
use ipc::control::DataCounts;
use ipc::layout::{Activity, Recycle};

use crate::data_counts::{self, DataCaches};
use crate::lanes::View;
use crate::spool::Numbers;
use crate::upstream;
use cache_store::stored::{Cached, Stored};
use certificates::{Handshake, Tls};
use inbound::http2_limits;
use mailbox::durations::BOUNDS_MS;
use mailbox::lane::Count;
use routing::derived::by_country;
use routing::refusal::Refusal;
use routing::route::file_cache;

static REFUSALS: [AtomicU64; Refusal::ALL.len()] = [const { AtomicU64::new(0) }; Refusal::ALL.len()];

/// Counts a refusal.
pub fn refused(refusal: Refusal) {
    REFUSALS[refusal as usize].fetch_add(1, Ordering::Relaxed);
}

/// Applications without workers.
pub fn without_workers(view: &View) -> Vec<String> {
    let applications = view.settings.applications.iter().enumerate();
    // A lane whose only worker is being replaced counts as ready.
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

fn spool_families(numbers: Numbers) -> [Family; 4] {
    let mut bytes = Family::new("reprise_spool_bytes", "gauge", "Bytes of responses that are held for slow clients.");
    for (place, count) in [("memory", numbers.memory), ("disk", numbers.disk)] {
        bytes.add("", &[("place", place)], count);
    }
    let counter = |name, help, count| {
        let mut family = Family::new(name, "counter", help);
        family.add("_total", &[], count);
        family
    };
    [
        bytes,
        counter(
            "reprise_spool_responses",
            "Responses that PHP wrote faster than their clients took them.",
            numbers.responses,
        ),
        counter(
            "reprise_spool_full",
            "Responses whose worker waited for the client, because of a limit of the spool.",
            numbers.full,
        ),
        counter("reprise_spool_errors", "Failures to write the spool's file.", numbers.errors),
    ]
}

/// What the caches of files have done, and what they hold.
fn file_families(counts: file_cache::Counts) -> [Family; 4] {
    let mut looks =
        Family::new("reprise_file_cache", "counter", "Files looked for in the cache of files, by what was found.");
    for (result, count) in [("hit", counts.hits), ("miss", counts.misses), ("changed", counts.changed)] {
        looks.add("_total", &[("result", result)], count);
    }
    let mut evictions =
        Family::new("reprise_file_cache_evictions", "counter", "Files that made room for others before their time.");
    evictions.add("_total", &[], counts.evictions);
    let mut files = Family::new("reprise_file_cache_files", "gauge", "Files that are held open.");
    files.add("", &[], counts.files);
    let mut bytes = Family::new("reprise_file_cache_bytes", "gauge", "Memory that is held for files.");
    bytes.add("", &[], counts.bytes);
    [looks, evictions, files, bytes]
}

/// What became of handshakes, and when certificates expire.
fn tls_families(tls: &Tls) -> [Family; 2] {
    let mut handshakes = Family::new("reprise_tls_handshakes", "counter", "TLS handshakes by what became of them.");
    for what in Handshake::ALL {
        handshakes.add("_total", &[("result", what.word())], what.counted());
    }
    let mut expiry =
        Family::new("reprise_certificate_expiry_seconds", "gauge", "When a certificate expires, since 1970.");
    for (number, (host, until)) in tls.ends().iter().enumerate() {
        expiry.add("", &[("certificate", &(number + 1).to_string()), ("host", host)], until);
    }
    [handshakes, expiry]
}

/// All metrics as OpenMetrics text. `connections`: all, and those that linger.
pub fn metrics(
    view: &View,
    connections: (usize, usize),
    spool: Numbers,
    tls: &Tls,
    upstreams: upstream::Numbers,
    stored: &Stored,
    data: &DataCaches,
) -> String {
    let mut open = Family::new("reprise_connections", "gauge", "Client connections.");
    let mut requests = Family::new("reprise_requests", "counter", "Requests given to PHP.");
    let mut waiting = Family::new("reprise_requests_waiting", "gauge", "Requests that no worker has taken.");
    let mut workers = Family::new("reprise_workers", "gauge", "Workers by state.");
    let mut recycles = Family::new("reprise_recycles", "counter", "Workers that gave their place to a fresh one.");
    let mut rewinds = Family::new("reprise_rewinds", "counter", "Rewinds of living workers.");
    let mut kept =
        Family::new("reprise_kept_connections", "gauge", "Connections to other servers that workers keep open.");
    let mut refusals = Family::new("reprise_refusals", "counter", "Requests that the front refused.");
    let mut seconds =
        Family::new("reprise_request_seconds", "histogram", "From a request's head to the end of its response.");
    let (connections, read_from) = connections;
    open.add("", &[], connections);
    let mut lingering = Family::new(
        "reprise_connections_lingering",
        "gauge",
        "Client connections that have their last response and are read from for a while.",
    );
    lingering.add("", &[], read_from);
    let mut closed = Family::new(
        "reprise_connections_refused",
        "counter",
        "Connections closed because their address has as many as client_connections says.",
    );
    closed.add("_total", &[], routing::addresses::refused());
    let mut headers = Family::new(
        "reprise_proxy_headers_refused",
        "counter",
        "Connections closed because of their PROXY header, or for the lack of one.",
    );
    for (why, count) in inbound::proxy_header::refused() {
        headers.add("_total", &[("reason", why)], count);
    }
    let held = spool_families(spool);
    let mut delayed =
        Family::new("reprise_requests_delayed", "counter", "Requests that waited for their turn by rate_limits.");
    delayed.add("_total", &[], routing::rate::delayed());
    let [handshakes, expiry] = tls_families(tls);
    for (refusal, count) in Refusal::ALL.iter().zip(&REFUSALS) {
        refusals.add("_total", &[("reason", refusal.word())], count.load(Ordering::Relaxed));
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
            for state in Activity::ALL.into_iter().skip(Activity::Booting as usize) {
                let of_state = count.workers.iter().filter(|worker| worker.activity == state as u32).count();
                workers.add("", &with("state", state.word()), of_state);
            }
            for (why, count) in Recycle::ALL.iter().zip(count.recycles) {
                recycles.add("_total", &with("reason", why.word()), count);
            }
            for (kind, count) in ["fast", "scanned"].iter().zip(count.rewinds) {
                rewinds.add("_total", &with("kind", kind), count);
            }
            kept.add("", &labels, count.kept_connections);
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
    let all = [
        open, lingering, closed, headers, delayed, handshakes, expiry, requests, waiting, workers, recycles, rewinds,
        kept, refusals, seconds,
    ];
    let mut text: String = all
        .into_iter()
        .chain(held)
        .chain(file_families(file_cache::counts()))
        .chain(http2())
        .chain(of_upstreams(upstreams))
        .chain(of_caches(stored))
        .chain([of_countries()])
        .chain(of_data_caches(view, data))
        .map(|family| family.lines)
        .collect();
    text.push_str("# EOF\n");
    text
}

/// What the data caches have done and hold, a few seconds ago.
fn of_data_caches(view: &View, data: &DataCaches) -> Vec<Family> {
    let names = view.settings.applications.iter().map(|application| application.name.as_str());
    let told: Vec<(&str, DataCounts)> = names.filter_map(|name| Some((name, data.of(name)?))).collect();
    let families = |metrics: &[data_counts::Metric], is_meant: fn(&DataCounts) -> bool| -> Vec<Family> {
        let families = metrics.iter().map(|(name, kind, help, value)| {
            let mut family = Family::new(name, kind, help);
            let suffix = if *kind == "counter" { "_total" } else { "" };
            for (application, counts) in told.iter().filter(|(_, counts)| is_meant(counts)) {
                family.add(suffix, &[("application", application)], value(counts));
            }
            family
        });
        families.collect()
    };
    let mut all = families(&data_counts::METRICS, |_| true);
    all.extend(families(&data_counts::OF_STORES, |counts| counts.has_store != 0));
    all
}

/// What there is of upstreams.
fn of_upstreams(numbers: upstream::Numbers) -> [Family; 5] {
    let one = |name, kind, help, count: u64| {
        let mut family = Family::new(name, kind, help);
        family.add(if kind == "counter" { "_total" } else { "" }, &[], count);
        family
    };
    [
        one("reprise_upstream_running", "gauge", "Requests and WebSockets that upstreams have.", numbers.running),
        one("reprise_upstream_websockets", "gauge", "WebSockets to upstreams.", numbers.websockets),
        one("reprise_upstream_requests", "counter", "Requests passed to upstreams.", numbers.requests),
        one("reprise_upstream_connections", "counter", "Connections made to upstreams.", numbers.connections),
        one("reprise_upstream_retries", "counter", "Requests sent to an upstream once more.", numbers.retries),
    ]
}

/// What the caches of responses have done, and what they hold.
fn of_caches(stored: &Stored) -> [Family; 7] {
    let mut requests = Family::new("reprise_cache_requests", "counter", "Requests that asked the cache, by result.");
    let mut by_rule =
        Family::new("reprise_cache_rule_requests", "counter", "Requests that asked the cache, by rule and result.");
    let mut reasons =
        Family::new("reprise_cache_not_stored", "counter", "Responses not stored, or stored ones not sent, by reason.");
    let mut bytes = Family::new("reprise_cache_bytes", "gauge", "Bytes of stored responses.");
    let mut purges = Family::new("reprise_cache_purges", "counter", "Purges.");
    let mut waiting =
        Family::new("reprise_cache_waiting", "gauge", "Requests that wait for a response which another has asked for.");
    let mut coded =
        Family::new("reprise_cache_compressed", "counter", "Bodies of stored responses that were compressed.");
    for (name, Cached { responses, by_rule: counted }) in stored.all() {
        let labels = [("application", name.as_str())];
        let counts = &responses.counts;
        for ((_, word, _), count) in Results::ALL.iter().zip(&counts.results) {
            requests.add("_total", &[labels[0], ("result", word)], count.load(Ordering::Relaxed));
        }
        let mut all_waiting = 0;
        for one in counted.asked() {
            for ((_, word, _), count) in Results::ALL.iter().zip(one.results) {
                by_rule.add("_total", &[labels[0], ("rule", one.rule), ("result", word)], count);
            }
            all_waiting += one.waiting;
        }
        waiting.add("", &labels, all_waiting);
        for ((_, word, _), count) in Why::ALL.iter().zip(&counts.whys) {
            reasons.add("_total", &[labels[0], ("reason", word)], count.load(Ordering::Relaxed));
        }
        bytes.add("", &labels, responses.bytes());
        purges.add("_total", &labels, counts.purges.load(Ordering::Relaxed));
        coded.add("_total", &labels, counts.coded.load(Ordering::Relaxed));
    }
    [requests, by_rule, waiting, reasons, bytes, purges, coded]
}

/// What the values of derived headers for countries were found by.
fn of_countries() -> Family {
    let mut countries = Family::new(
        "reprise_derived_countries",
        "counter",
        "Requests with a derived country, by what it was found by.",
    );
    for (by, count) in by_country::counted() {
        countries.add("_total", &[("by", by)], count);
    }
    countries
}

/// What there is of HTTP/2 alone.
fn http2() -> [Family; 4] {
    let counts = http2_limits::counts();
    let mut open = Family::new("reprise_http2_connections", "gauge", "Client connections that speak HTTP/2.");
    open.add("", &[], counts.connections);
    let mut requests = Family::new("reprise_http2_requests", "counter", "Requests over HTTP/2, refused ones too.");
    requests.add("_total", &[], counts.requests);
    let mut held = Family::new("reprise_http2_held_bytes", "gauge", "What HTTP/2 holds for clients, of http2_memory.");
    held.add("", &[], http2_limits::held());
    let mut limits = Family::new("reprise_http2_limits", "counter", "Streams and connections ended by a limit.");
    for (limit, count) in counts.limits {
        limits.add("_total", &[("reason", limit.word())], count);
    }
    [open, requests, held, limits]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut family = Family::new("x", "gauge", "y");
        family.add("", &[("a", "b\"c\\d\ne")], 1);
        assert!(family.lines.ends_with("x{a=\"b\\\"c\\\\d\\ne\"} 1\n"), "{}", family.lines);
    }
}
