//! What an application's workers do, in the form that monitoring of PHP-FPM expects. Names and order of the values are
//! PHP-FPM's. The numbers of all lanes are added up.

mod fpm_status;
mod process;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipc::layout::Activity;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::lane::{Count, Lane, Running};
use routing::settings::Application;

pub use fpm_status::report;
use process::Process;

/// A value: PHP-FPM's name for it, the name of the metric, and whether it only grows.
struct Row {
    name: &'static str,
    metric: &'static str,
    grows: bool,
    text: &'static str,
}

const fn row(name: &'static str, metric: &'static str, grows: bool, text: &'static str) -> Row {
    Row { name, metric, grows, text }
}

const ROWS: [Row; 12] = [
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
    row(
        "memory peak",
        "memory_peak",
        false,
        "The most memory that PHP had for a request, in bytes; PHP-FPM has it from 8.4 on.",
    ),
];

/// The values that [`ROWS`] name.
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
    memory_peak: u64,
}

/// The state of an application's workers.
pub struct Status<'a> {
    application: &'a Application,
    since: SystemTime,
    counts: Vec<Count>,
    /// What the workers of each lane run, by process; only for the full status.
    running: Vec<HashMap<u32, Running>>,
    is_full: bool,
}

impl<'a> Status<'a> {
    /// The current state; `is_full`: with what each worker runs.
    pub fn new(since: SystemTime, lanes: &[Arc<Lane>], application: &'a Application, is_full: bool) -> Status<'a> {
        let counts = lanes.iter().map(|lane| lane.count()).collect();
        let running = if is_full { lanes.iter().map(|lane| lane.running()).collect() } else { Vec::new() };
        Status { application, since, counts, running, is_full }
    }
}

impl Status<'_> {
    /// The values in the order of [`ROWS`].
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
            of.memory_peak,
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
            memory_peak: self.counts.iter().map(|count| u64::from(count.peak_kib) * 1024).max().unwrap_or(0),
        }
    }

    fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        self.counts.iter().zip(&self.running).flat_map(|(count, running)| {
            let lane = if count.key.is_empty() { "classic" } else { &count.key };
            let each = count.workers.iter();
            each.map(move |worker| Process { lane, worker, running: running.get(&worker.pid) })
        })
    }

    /// The name that PHP-FPM has for it.
    fn manager(&self) -> &'static str {
        if self.application.is_elastic() { "dynamic" } else { "static" }
    }

    /// As text.
    pub fn text(&self) -> String {
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

    /// As JSON.
    pub fn json(&self) -> String {
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

    /// As OpenMetrics text.
    pub fn metrics(&self) -> String {
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
