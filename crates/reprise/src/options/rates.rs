//! The limits of `rate_limits`.

use routing::settings::RateLimit;
use routing::target::is_clean;
use toml::de::{DeTable, DeValue};

use super::Kind;
use super::reader::Given;
use super::value::Value;
use crate::exit::Failure;

/// The longest time that a request may have to wait for its turn.
const LONGEST_WAIT_S: u64 = 60;
const NAMES: &str = "path, rate, burst, excess, methods";
/// What says how often.
pub(super) const RATE: [&str; 3] = ["rate", "burst", "excess"];

impl Value for Vec<RateLimit> {
    fn read(given: &Given<'_, '_>) -> Result<Vec<RateLimit>, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        items.iter().map(|item| limit(&given.part(given.name, item))).collect()
    }
}

fn limit(given: &Given<'_, '_>) -> Result<RateLimit, Failure> {
    let DeValue::Table(table) = given.item.get_ref() else { return Err(given.wrong()) };
    if let Some(key) =
        table.keys().find(|key| !["path", "methods"].iter().chain(&RATE).any(|name| name == key.get_ref()))
    {
        let failure =
            given.file.fail(key.span().start, format!("a limit of '{}' has no '{}'", given.name, key.get_ref()));
        return Err(failure.hint(NAMES));
    }
    let Some(mut limit) = rate_of(given, table)? else {
        return Err(given.fail(format!("a limit of '{}' has no rate", given.name)).hint("rate = \"10/m\""));
    };
    limit.path = match table.get("path") {
        Some(value) => path(&Given { kind: Kind::Text, ..given.part("path", value) })?,
        None => "/".to_owned(),
    };
    if let Some(value) = table.get("methods") {
        let methods = Vec::<String>::read(&Given { kind: Kind::Texts, ..given.part("methods", value) })?;
        limit.methods = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
    }
    Ok(limit)
}

/// Rate, burst and excess of a table, without a path; `None`: there is no rate.
pub(super) fn rate_of(given: &Given<'_, '_>, table: &DeTable<'_>) -> Result<Option<RateLimit>, Failure> {
    let part = |name, kind| table.get(name).map(|value| Given { kind, ..given.part(name, value) });
    let Some(written) = part("rate", Kind::Text) else { return Ok(None) };
    let (count, interval_ns) = rate(&written)?;
    let burst = part("burst", Kind::Number(0, 1_000_000)).map(|part| usize::read(&part)).transpose()?;
    let is_delayed = part("excess", Kind::Text).map(|part| excess(&part)).transpose()?.unwrap_or(false);
    let burst = burst.map_or(count - 1, |burst| burst as u32);
    let longest_s = interval_ns.saturating_mul(burst.into()) / 1_000_000_000;
    if is_delayed && longest_s > LONGEST_WAIT_S {
        let why = format!(
            "with this rate and burst a request may wait for {longest_s} s, and at most {LONGEST_WAIT_S} s are allowed"
        );
        return Err(given.fail(why).hint("a lower burst, or excess = \"refuse\""));
    }
    Ok(Some(RateLimit { interval_ns, burst, is_delayed, ..RateLimit::default() }))
}

fn path(given: &Given<'_, '_>) -> Result<String, Failure> {
    let path = String::read(given)?;
    match is_clean(&path) {
        true => Ok(path),
        false => Err(given.fail(format!("'{path}' is no path: \"/login\", without query or %"))),
    }
}

/// The number of requests, and the time between two of them in nanoseconds.
fn rate(given: &Given<'_, '_>) -> Result<(u32, u64), Failure> {
    let text = String::read(given)?;
    let parsed = text.split_once('/').and_then(|(count, unit)| {
        let seconds: u64 = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return None,
        };
        let count: u32 = count.parse().ok().filter(|count| (1..=1_000_000).contains(count))?;
        Some((count, seconds * 1_000_000_000 / u64::from(count)))
    });
    parsed.ok_or_else(|| {
        let why = format!("'rate' takes requests by time such as \"10/s\", \"30/m\" or \"100/h\", not \"{text}\"");
        given.fail(why)
    })
}

fn excess(given: &Given<'_, '_>) -> Result<bool, Failure> {
    match String::read(given)?.as_str() {
        "refuse" => Ok(false),
        "delay" => Ok(true),
        other => Err(given.fail(format!("'excess' takes \"refuse\" or \"delay\", not \"{other}\""))),
    }
}
