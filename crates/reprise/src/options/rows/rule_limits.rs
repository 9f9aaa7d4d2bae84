//! The addition `limits` of a rule: limits of an application, for what the rule fits.

use std::time::Duration;

use routing::rules::limits::Limits;
use routing::rules::rule::Match;
use routing::settings::RateLimit;
use toml::de::DeTable;

use super::super::Kind::Size;
use super::super::option_table::Options;
use super::super::rates::{RATE, rate_of};
use super::super::reader::Given;
use super::super::value::Value;
use super::RequestLimits;
use crate::exit::Failure;

const HINT: &str = "limits = { request_timeout = \"10m\", max_body = \"1G\", rate = \"10/m\" }";

/// Reads them. `on`: what the rule fits, by which the counts of its rate are known.
pub(super) fn limits(given: &Given<'_, '_>, on: &Match) -> Result<Limits, Failure> {
    let table = given.table().map_err(|failure| failure.hint(HINT))?;
    let names: Vec<&str> = RequestLimits::ROWS.iter().map(|row| row.name).chain(["max_body"]).chain(RATE).collect();
    if let Some(key) = table.keys().find(|key| !names.iter().any(|name| name == key.get_ref())) {
        let why = format!("the limits of a rule have no '{}'", key.get_ref());
        return Err(given.file.fail(key.span().start, why).hint(names.join(", ")));
    }
    if table.is_empty() {
        return Err(given.fail("'limits' is empty").hint(HINT));
    }
    let rate = rate_of(given, table)?;
    if let Some((name, item)) = RATE.iter().find_map(|name| Some((name, table.get(*name)?))).filter(|_| rate.is_none())
    {
        let failure = given.file.fail(item.span().start, format!("'{name}' belongs to limits with rate"));
        return Err(failure.hint("rate = \"10/m\""));
    }
    let max_body = table.get("max_body").map(|item| u64::read(&Given { kind: Size, ..given.part("max_body", item) }));
    let mut read = RequestLimits::defaults();
    read.read(given.file, table)?;
    Ok(Limits {
        place: given.place(),
        max_body: max_body.transpose()?,
        rate: rate.map(|rate| RateLimit { path: identity(on), ..rate }),
        ..of_requests(&read, table)
    })
}

/// Those of these values that are written.
fn of_requests(read: &RequestLimits, table: &DeTable<'_>) -> Limits {
    let is_written = |name: &str| table.contains_key(name);
    let time = |name, time: Duration| is_written(name).then(|| time.as_millis().try_into().unwrap_or(u64::MAX));
    Limits {
        queue: is_written("queue").then_some(read.queue),
        queue_ms: time("queue_timeout", read.queue_timeout),
        soft_ms: time("soft_timeout", read.soft_timeout),
        hard_ms: time("request_timeout", read.request_timeout),
        memory_kib: is_written("request_memory").then(|| read.request_memory.div_ceil(1024)),
        client_requests: is_written("client_requests").then_some(read.client_requests),
        ..Limits::default()
    }
}

/// A text that is the same after a reload, wherever the rule stands then. No path begins like that.
fn identity(on: &Match) -> String {
    format!("rule {on:?}")
}
