//! The limits that are in force for one request: those of its application, of its path, and of the rules that fit.

use std::fmt::Display;

use serde::Serialize;

use crate::rate::RateLimit;
use crate::rules::limits::Together;
use crate::settings::{Application, RequestLimits};
use crate::target::is_at;

/// Limits of a request that PHP runs.
pub struct InForce<'a> {
    /// The limits.
    pub limits: RequestLimits,
    /// Whose requests `client_requests` counts together: a path, a rule, or (empty) all others of the application.
    pub account: &'a str,
}

impl<'a> InForce<'a> {
    /// Those of a path, with what the rules say of it.
    pub fn of(application: &'a Application, path: &[u8], rules: Option<&Together<'a>>) -> InForce<'a> {
        let (mut account, mut limits) = of_path(application, path);
        let Some(rules) = rules else { return InForce { limits, account } };
        let value = |known: u64, placed: Option<(u64, &str)>| placed.map_or(known, |(value, _)| value);
        if let Some((queue, _)) = rules.queue {
            limits.places = application.workers.saturating_add(queue);
        }
        limits.queue_ms = value(limits.queue_ms, rules.queue_ms);
        limits.soft_ms = value(limits.soft_ms, rules.soft_ms);
        limits.hard_ms = value(limits.hard_ms, rules.hard_ms);
        limits.memory_kib = value(limits.memory_kib, rules.memory_kib);
        if let Some((most, place)) = rules.client_requests {
            (limits.client_requests, account) = (most, place);
        }
        InForce { limits, account }
    }
}

/// Bytes of body; 0: any number; `None`: what PHP's post_max_size says.
pub fn max_body(application: &Application, rules: Option<&Together<'_>>) -> Option<u64> {
    rules.and_then(|rules| rules.max_body).map(|(most, _)| most).or(application.max_body)
}

/// The limits of the longest configured path that fits, with that path; else the application's limits.
fn of_path<'a>(application: &'a Application, path: &[u8]) -> (&'a str, RequestLimits) {
    let fitting = application.paths.iter().filter(|(prefix, _)| is_at(path, prefix));
    let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
    longest.map_or(("", application.limits), |(prefix, limits)| (prefix, *limits))
}

/// A limit in force, for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Its value, as the configuration may have it.
    pub value: String,
    /// Where it is written, or whose it is.
    pub from: String,
}

/// All limits of a request for people: of one to PHP, or of one to an upstream, which has times of its own.
pub fn tell(
    application: &Application,
    path: &[u8],
    method: &str,
    rules: Option<&Together<'_>>,
    is_php: bool,
) -> Vec<Told> {
    let (of, _) = of_path(application, path);
    let of_path = if of.is_empty() { "the application".to_owned() } else { format!("limits.\"{of}\"") };
    let in_force = InForce::of(application, path, rules).limits;
    let from = |place: Option<&str>| place.unwrap_or(&of_path).to_owned();
    let mut all = Vec::new();
    if is_php {
        let rules = rules.cloned().unwrap_or_default();
        let mut tell = |name, value, place| all.push(Told { name, value, from: from(place) });
        let queue = in_force.places.saturating_sub(application.workers);
        tell("queue", queue.to_string(), rules.queue.map(|one| one.1));
        tell("queue_timeout", time(in_force.queue_ms), rules.queue_ms.map(|one| one.1));
        tell("request_timeout", or_none(in_force.hard_ms, time), rules.hard_ms.map(|one| one.1));
        tell("soft_timeout", or_none(in_force.soft_ms, time), rules.soft_ms.map(|one| one.1));
        let memory = or_none(in_force.memory_kib, |kib| size(kib << 10));
        tell("request_memory", memory, rules.memory_kib.map(|one| one.1));
        let requests = or_none(in_force.client_requests as u64, |most| most.to_string());
        tell("client_requests", requests, rules.client_requests.map(|one| one.1));
    }
    let place = rules.and_then(|rules| rules.max_body).map(|(_, place)| place.to_owned());
    let (body, of_all) = match max_body(application, rules) {
        Some(most) => (or_none(most, size), "the application"),
        None if is_php => ("post_max_size".to_owned(), "php.ini"),
        None => ("none".to_owned(), "the application"),
    };
    all.push(Told { name: "max_body", value: body, from: place.unwrap_or_else(|| of_all.to_owned()) });
    let of_paths = application.rate_limits.iter().filter(|limit| limit.applies(method, path));
    all.extend(of_paths.map(|limit| told_rate(limit, format!("rate_limits, {}", limit.path))));
    all.extend(rules.iter().flat_map(|rules| &rules.rates).map(|(limit, place)| told_rate(limit, (*place).to_owned())));
    all
}

fn told_rate(limit: &RateLimit, from: String) -> Told {
    let excess = if limit.is_delayed { ", the others wait" } else { "" };
    let interval = std::time::Duration::from_nanos(limit.interval_ns);
    let value = format!("one in {interval:?}, {} at once{excess}", u64::from(limit.burst) + 1);
    Told { name: "rate", value, from }
}

fn or_none(value: u64, text: impl Fn(u64) -> String) -> String {
    if value == 0 { "none".to_owned() } else { text(value) }
}

fn time(ms: u64) -> String {
    with_unit(ms, &[(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")])
}

fn size(bytes: u64) -> String {
    with_unit(bytes, &[(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"), (1, "")])
}

/// A value in the largest unit of which it is a whole number.
fn with_unit(value: u64, units: &[(u64, impl Display)]) -> String {
    let unit = units.iter().find(|(size, _)| value % size == 0);
    unit.map_or_else(|| value.to_string(), |(size, name)| format!("{}{name}", value / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::limits::Limits;

    #[test]
    fn rules_go_over_paths_and_these_over_the_application() {
        let of = |queue_ms, places| RequestLimits { queue_ms, places, client_requests: 3, ..RequestLimits::default() };
        let application = Application {
            workers: 2,
            limits: of(1, 10),
            paths: vec![("/a".into(), of(2, 20)), ("/a/b".into(), of(3, 30))],
            ..Application::default()
        };
        let rule = Limits { place: "r:1".into(), queue: Some(5), client_requests: Some(0), ..Limits::default() };
        let together = Together::of(std::iter::once(&rule));
        for (path, queue_ms, places, account) in
            [("/", 1, 10, ""), ("/a/x", 2, 20, "/a"), ("/a/b", 3, 30, "/a/b"), ("/ab", 1, 10, "")]
        {
            let plain = InForce::of(&application, path.as_bytes(), None);
            assert_eq!((plain.limits.queue_ms, plain.limits.places, plain.account), (queue_ms, places, account));
            let ruled = InForce::of(&application, path.as_bytes(), together.as_deref());
            assert_eq!((ruled.limits.queue_ms, ruled.limits.places), (queue_ms, 7), "{path}");
            assert_eq!((ruled.limits.client_requests, ruled.account), (0, "r:1"), "{path}");
        }
        let body = Limits { max_body: Some(0), ..Limits::default() };
        assert_eq!(max_body(&application, Together::of(std::iter::once(&body)).as_deref()), Some(0));
        assert_eq!(max_body(&application, together.as_deref()), None);
    }

    #[test]
    fn values_are_told_as_they_are_written() {
        assert_eq!([time(90_000), time(120_000), time(1500), time(3_600_000)], ["90s", "2m", "1500ms", "1h"]);
        assert_eq!([size(8 << 20), size(1000), size(3 << 9)], ["8M", "1000", "1536"]);
        let path = ("/a".to_owned(), RequestLimits { hard_ms: 600_000, ..RequestLimits::default() });
        let application = Application { paths: vec![path], ..Application::default() };
        let rule = Limits { place: "r:1".into(), max_body: Some(1 << 10), ..Limits::default() };
        let together = Together::of(std::iter::once(&rule));
        let told = tell(&application, b"/a", "GET", together.as_deref(), true);
        let find = |name| told.iter().find(|one| one.name == name).map(|one| (one.value.as_str(), one.from.as_str()));
        assert_eq!(find("request_timeout"), Some(("10m", "limits.\"/a\"")));
        assert_eq!(find("max_body"), Some(("1K", "r:1")));
        assert_eq!(find("soft_timeout"), Some(("none", "limits.\"/a\"")));
    }
}
