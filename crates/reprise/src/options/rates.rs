//! The limits of `rate_limits`.

use front::settings::RateLimit;
use front::target::is_clean;
use toml::de::DeValue;

use super::Kind;
use super::reader::Given;
use super::value::Value;
use crate::exit::Failure;

/// The longest time that a request may have to wait for its turn.
const LONGEST_WAIT_S: u64 = 60;
const NAMES: &str = "path, rate, burst, excess, methods";

impl Value for Vec<RateLimit> {
    fn read(given: &Given<'_, '_>) -> Result<Vec<RateLimit>, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        items.iter().map(|item| limit(&given.part(given.name, item))).collect()
    }
}

fn limit(given: &Given<'_, '_>) -> Result<RateLimit, Failure> {
    let DeValue::Table(table) = given.item.get_ref() else { return Err(given.wrong()) };
    let mut limit = RateLimit { path: "/".to_owned(), ..RateLimit::default() };
    let (mut count, mut burst) = (0, None);
    for (key, value) in table.iter() {
        let part = |name, kind| Given { kind, ..given.part(name, value) };
        match key.get_ref().as_ref() {
            "path" => limit.path = path(&part("path", Kind::Text))?,
            "rate" => (count, limit.interval_ns) = rate(&part("rate", Kind::Text))?,
            "burst" => burst = Some(usize::read(&part("burst", Kind::Number(0, 1_000_000)))? as u32),
            "excess" => limit.is_delayed = excess(&part("excess", Kind::Text))?,
            "methods" => {
                let methods = Vec::<String>::read(&part("methods", Kind::Texts))?;
                limit.methods = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
            }
            other => {
                let failure =
                    given.file.fail(key.span().start, format!("a limit of '{}' has no '{other}'", given.name));
                return Err(failure.hint(NAMES));
            }
        }
    }
    if count == 0 {
        return Err(given.fail(format!("a limit of '{}' has no rate", given.name)).hint("rate = \"10/m\""));
    }
    limit.burst = burst.unwrap_or(count - 1);
    let longest_s = limit.interval_ns.saturating_mul(limit.burst.into()) / 1_000_000_000;
    if limit.is_delayed && longest_s > LONGEST_WAIT_S {
        let why = format!(
            "with this rate and burst a request may wait for {longest_s} s, and at most {LONGEST_WAIT_S} s are allowed"
        );
        return Err(given.fail(why).hint("a lower burst, or excess = \"refuse\""));
    }
    Ok(limit)
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
