//! Parses the values of each type.

use std::collections::BTreeMap;
use std::time::Duration;

use ipc::control::Isolation;
use routing::settings::{CacheRules, Coding, Codings, Links, LogFormat, ProxyHeaders, Warmup};
use toml::de::DeValue;

use super::reader::{Given, Item};
use super::{Capabilities, Challenge, ClientCertificate, Kind, Mode, WarmupFailure, parse_size, parse_time};
use crate::exit::Failure;

/// A type that an option may have.
pub(super) trait Value: Sized {
    /// The value, if what is written has this type and fits the row.
    fn read(given: &Given<'_, '_>) -> Result<Self, Failure>;
}

/// A type whose values are words.
pub(super) trait Word: Copy + 'static {
    /// All values.
    const WORDS: &'static [(&'static str, Self)];
}

impl Word for Mode {
    const WORDS: &'static [(&'static str, Mode)] =
        &[("auto", Mode::Auto), ("classic", Mode::Classic), ("snapshot", Mode::Snapshot), ("worker", Mode::Worker)];
}

impl Word for Isolation {
    const WORDS: &'static [(&'static str, Isolation)] = &[
        (Isolation::Auto.word(), Isolation::Auto),
        (Isolation::Rewind.word(), Isolation::Rewind),
        (Isolation::Userfaultfd.word(), Isolation::Userfaultfd),
        (Isolation::SoftDirty.word(), Isolation::SoftDirty),
        (Isolation::Fork.word(), Isolation::Fork),
    ];
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, LogFormat)] = &[("combined", LogFormat::Combined), ("json", LogFormat::Json)];
}

impl Word for Links {
    const WORDS: &'static [(&'static str, Links)] = &[("owner", Links::Owner), ("inside", Links::Inside)];
}

impl Word for CacheRules {
    const WORDS: &'static [(&'static str, CacheRules)] =
        &[("safe", CacheRules::Safe), ("rfc9111", CacheRules::Rfc9111)];
}

impl Word for ProxyHeaders {
    const WORDS: &'static [(&'static str, ProxyHeaders)] =
        &[("x-forwarded", ProxyHeaders::XForwarded), ("forwarded", ProxyHeaders::Forwarded)];
}

impl Word for WarmupFailure {
    const WORDS: &'static [(&'static str, WarmupFailure)] =
        &[("refuse", WarmupFailure::Refuse), ("log", WarmupFailure::Log)];
}

impl Word for Capabilities {
    const WORDS: &'static [(&'static str, Capabilities)] =
        &[("keep", Capabilities::Keep), ("none", Capabilities::None)];
}

impl Word for ClientCertificate {
    const WORDS: &'static [(&'static str, ClientCertificate)] =
        &[("require", ClientCertificate::Require), ("request", ClientCertificate::Request)];
}

impl Word for Challenge {
    const WORDS: &'static [(&'static str, Challenge)] =
        &[(Challenge::Http01.word(), Challenge::Http01), (Challenge::TlsAlpn01.word(), Challenge::TlsAlpn01)];
}

impl Value for Vec<Challenge> {
    fn read(given: &Given<'_, '_>) -> Result<Vec<Challenge>, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        let all: Vec<Challenge> =
            items.iter().map(|item| Challenge::read(&given.part(given.name, item))).collect::<Result<_, _>>()?;
        if all.is_empty() { Err(given.fail(format!("'{}' is empty", given.name))) } else { Ok(all) }
    }
}

impl Word for Coding {
    const WORDS: &'static [(&'static str, Coding)] =
        &[(Coding::Zstd.word(), Coding::Zstd), (Coding::Br.word(), Coding::Br), (Coding::Gzip.word(), Coding::Gzip)];
}

impl Value for Codings {
    fn read(given: &Given<'_, '_>) -> Result<Codings, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        let mut codings = Codings::NONE;
        for item in items.iter() {
            let coding = Coding::read(&given.part(given.name, item))?;
            if !codings.add(coding) {
                return Err(given.fail(format!("'{}' names \"{}\" twice", given.name, coding.word())));
            }
        }
        Ok(codings)
    }
}

impl<T: Word> Value for T {
    fn read(given: &Given<'_, '_>) -> Result<T, Failure> {
        let text = String::read(given)?;
        let found = T::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let choices: Vec<String> = T::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            given.fail(format!("'{}' takes {}, not \"{text}\"", given.name, choices.join(" or ")))
        })
    }
}

impl<T: Value> Value for Option<T> {
    fn read(given: &Given<'_, '_>) -> Result<Option<T>, Failure> {
        T::read(given).map(Some)
    }
}

impl Value for String {
    fn read(given: &Given<'_, '_>) -> Result<String, Failure> {
        match given.item.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(given.wrong_for(Kind::Text)),
        }
    }
}

impl Value for Vec<String> {
    fn read(given: &Given<'_, '_>) -> Result<Vec<String>, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        items.iter().map(|item| String::read(&given.part(given.name, item))).collect()
    }
}

impl Value for bool {
    fn read(given: &Given<'_, '_>) -> Result<bool, Failure> {
        match given.item.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(given.wrong()),
        }
    }
}

/// A whole number within the bounds of the row.
fn whole(given: &Given<'_, '_>) -> Result<i128, Failure> {
    let (low, high) = given.kind.bounds();
    let number = match given.item.get_ref() {
        DeValue::Integer(digits) => i128::from_str_radix(digits.as_str(), digits.radix()).ok(),
        _ => None,
    };
    number.filter(|number| (low..=high).contains(number)).ok_or_else(|| given.wrong())
}

/// A string, or a number without a unit, as a string.
fn with_unit<'i>(item: &'i Item<'_>) -> Option<&'i str> {
    match item.get_ref() {
        DeValue::String(text) => Some(text),
        DeValue::Integer(digits) => Some(digits.as_str()),
        _ => None,
    }
}

impl Value for u64 {
    fn read(given: &Given<'_, '_>) -> Result<u64, Failure> {
        match given.kind {
            Kind::Size => with_unit(given.item).and_then(parse_size).ok_or_else(|| given.wrong()),
            _ => u64::try_from(whole(given)?).map_err(|_| given.wrong()),
        }
    }
}

impl Value for usize {
    fn read(given: &Given<'_, '_>) -> Result<usize, Failure> {
        usize::try_from(whole(given)?).map_err(|_| given.wrong())
    }
}

impl Value for i32 {
    fn read(given: &Given<'_, '_>) -> Result<i32, Failure> {
        i32::try_from(whole(given)?).map_err(|_| given.wrong())
    }
}

impl Value for Duration {
    fn read(given: &Given<'_, '_>) -> Result<Duration, Failure> {
        let (low, high) = given.kind.bounds();
        // A fraction of a second is a valid time where zero is not.
        let within = |time: &Duration| time.as_nanos() <= high as u128 * 1_000_000_000 && (low == 0 || !time.is_zero());
        with_unit(given.item).and_then(parse_time).filter(within).ok_or_else(|| given.wrong())
    }
}

impl Value for BTreeMap<String, String> {
    /// Values as PHP and the environment spell them: true is 1, false is 0.
    fn read(given: &Given<'_, '_>) -> Result<BTreeMap<String, String>, Failure> {
        let mut pairs = BTreeMap::new();
        for (key, value) in given.table()?.iter() {
            let key = key.get_ref();
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(digits) => digits.as_str().to_owned(),
                DeValue::Float(digits) => digits.as_str().to_owned(),
                DeValue::Boolean(value) => if *value { "1" } else { "0" }.to_owned(),
                DeValue::Table(_) => {
                    let why = format!("'{key}' holds a table; quote names with dots: \"{key}.…\" = …");
                    return Err(given.file.fail(value.span().start, why));
                }
                _ => return Err(given.file.fail(value.span().start, format!("'{key}' takes one value"))),
            };
            pairs.insert(key.to_string(), text);
        }
        Ok(pairs)
    }
}

impl Value for Vec<Warmup> {
    /// Requests as paths, or as tables.
    fn read(given: &Given<'_, '_>) -> Result<Vec<Warmup>, Failure> {
        let DeValue::Array(items) = given.item.get_ref() else { return Err(given.wrong()) };
        items.iter().map(|item| request(&given.part(given.name, item))).collect()
    }
}

fn request(given: &Given<'_, '_>) -> Result<Warmup, Failure> {
    let name = given.name;
    let mut request = Warmup::page("");
    match given.item.get_ref() {
        DeValue::String(path) => request.path = path.to_string(),
        DeValue::Table(table) => {
            for (key, value) in table.iter() {
                match key.get_ref().as_ref() {
                    "method" => request.method = String::read(&given.part("method", value))?.to_ascii_uppercase(),
                    "path" => request.path = String::read(&given.part("path", value))?,
                    "headers" => {
                        request.headers = BTreeMap::read(&Given { kind: Kind::Table, ..given.part("headers", value) })?;
                    }
                    other => {
                        let failure =
                            given.file.fail(key.span().start, format!("a request of '{name}' has no '{other}'"));
                        return Err(failure.hint("method, path and headers"));
                    }
                }
            }
        }
        _ => return Err(given.wrong()),
    }
    if !request.path.starts_with('/') {
        let why = format!("the path of a request of '{name}' begins with /, not \"{}\"", request.path);
        return Err(given.fail(why));
    }
    Ok(request)
}
