//! What `fpm_get_status()` returns: PHP-FPM's array, as JSON that the worker decodes.

use std::sync::Arc;
use std::time::SystemTime;

use ipc::layout::REPORT_SIZE;
use serde::Serialize;

use super::process::{Process, seconds};
use super::{Status, Values};
use crate::lane::Lane;
use routing::settings::Application;

/// Bytes of a text at most.
const SHOWN: usize = 512;

/// In PHP-FPM's order.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report<'a> {
    pool: &'a str,
    process_manager: &'a str,
    start_time: u64,
    #[serde(flatten)]
    values: Values,
    procs: Vec<Row<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row<'a> {
    pid: u32,
    state: &'a str,
    start_time: u64,
    start_since: u64,
    requests: u64,
    request_duration: u64,
    request_method: &'a str,
    request_uri: &'a str,
    query_string: &'a str,
    request_length: u64,
    user: &'a str,
    script: &'a str,
    last_request_cpu: f64,
    last_request_memory: u64,
}

/// The report about an application's workers. If it became too long, some workers are left out.
pub fn report(since: SystemTime, lanes: &[Arc<Lane>], application: &Application) -> Vec<u8> {
    let status = Status::new(since, lanes, application, true);
    let mut report = Report {
        pool: &application.name,
        process_manager: status.manager(),
        start_time: seconds(since),
        values: status.values(),
        procs: status.processes().map(|process| row(&process)).collect(),
    };
    loop {
        // Fields of these types cannot fail.
        let text = serde_json::to_vec(&report).unwrap_or_default();
        if text.len() <= REPORT_SIZE || report.procs.is_empty() {
            return text;
        }
        report.procs.truncate(report.procs.len() / 2);
    }
}

fn row<'a>(process: &Process<'a>) -> Row<'a> {
    let running = process.running;
    let (start_time, start_since) = process.began();
    let or_none = |text: Option<&'a str>| text.filter(|text| !text.is_empty()).map_or("-", shorten);
    let target = running.map_or("", |one| &one.target);
    let (uri, query) = target.split_once('?').unwrap_or((target, ""));
    Row {
        pid: process.worker.pid,
        state: process.state(),
        start_time,
        start_since,
        requests: process.worker.requests,
        request_duration: process.duration(),
        request_method: or_none(running.map(|one| one.method.as_str())),
        request_uri: shorten(uri),
        query_string: shorten(query),
        request_length: running.map_or(0, |one| one.content_length),
        user: or_none(running.map(|one| one.user.as_str())),
        script: or_none(running.map(|one| one.script.as_str())),
        last_request_cpu: process.processor(),
        last_request_memory: process.memory(),
    }
}

fn shorten(text: &str) -> &str {
    let end = (0..=SHOWN.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
