//! Headers that the front derives from a request: a few values each, so that pages which depend on them can be shared. PHP and rules see them; a client's
//! headers of the same names are dropped.

pub mod by_country;

use std::sync::Arc;

use cache::cookies;
use cache::directives::Directives;
use cache::list;
use cache::targeted::TARGETS;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::countries::Countries;
use by_country::ByCountry;

/// Values that one header may have.
pub const MOST: usize = 64;

/// A header that is derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derived {
    /// Its name, in lower case.
    pub name: String,
    /// What its value is.
    pub from: From,
}

/// What a value is derived from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum From {
    /// `mobile`, `tablet` or `desktop`, by Sec-CH-UA-Mobile and User-Agent.
    Device,
    /// One of these languages, by Accept-Language; else the first.
    Language(Vec<String>),
    /// 1 if the client has a cookie whose name one of these patterns fits, else 0.
    HasCookie(Vec<String>),
    /// The value of a cookie, if it is one of these; else `other`.
    Cookie(String, Vec<String>),
    /// A number below this one, the same for all requests of an address.
    Bucket(u64),
    /// A country or a group of countries.
    Country(ByCountry),
}

/// Whom a request comes from.
pub struct Client<'a> {
    /// The client's address.
    pub address: &'a str,
    /// The tables of countries by address, in the order of the settings.
    pub countries: &'a [Arc<Countries>],
}

impl From {
    /// Reads `device`, `language: de, en`, `has cookie: session, cart_*`, `cookie country: de, at` or `bucket: 4`.
    pub fn parse(text: &str) -> Option<From> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let words: Vec<String> =
            rest.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let is_fine =
            words.len() <= MOST && words.iter().all(|word| HeaderValue::from_str(word).is_ok() && word.is_ascii());
        let has_words = is_fine && !words.is_empty();
        match kind.split_whitespace().collect::<Vec<_>>()[..] {
            ["device"] if rest.is_empty() => Some(From::Device),
            ["language"] if has_words && words.iter().all(|word| is_language(word)) => Some(From::Language(words)),
            ["has", "cookie"] if has_words => Some(From::HasCookie(words)),
            ["cookie", name] if has_words => Some(From::Cookie(name.to_owned(), words)),
            ["bucket"] if words.len() == 1 => {
                words[0].parse().ok().filter(|count| (2..=MOST as u64).contains(count)).map(From::Bucket)
            }
            _ => None,
        }
    }

    /// The name of the cookie that is wholly expressed by the header.
    fn cookie(&self) -> Option<&String> {
        match self {
            From::Cookie(name, _) => Some(name),
            From::Country(by) => by.cookie.as_ref(),
            _ => None,
        }
    }

    fn value(&self, headers: &HeaderMap, client: &Client<'_>) -> String {
        match self {
            From::Device => device(headers).to_owned(),
            From::Language(languages) => language(headers, languages).to_owned(),
            From::HasCookie(names) => if cookies::has_any(headers, names) { "1" } else { "0" }.to_owned(),
            From::Cookie(name, values) => {
                let value = cookies::value(headers, name).filter(|value| values.contains(value));
                value.unwrap_or_else(|| "other".to_owned())
            }
            From::Bucket(count) => (hash(client.address) % count).to_string(),
            From::Country(by) => by.value(headers, client).to_owned(),
        }
    }
}

fn is_language(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Adds the headers, in the place of the client's.
pub fn add(all: &[Derived], headers: &mut HeaderMap, client: &Client<'_>) {
    let values: Vec<(HeaderName, HeaderValue)> = all
        .iter()
        .filter_map(|one| Some((one.name.parse().ok()?, HeaderValue::try_from(one.from.value(headers, client)).ok()?)))
        .collect();
    for (name, value) in values {
        headers.insert(name, value);
    }
}

/// Whether a request has a cookie beside those that derived headers express.
pub fn has_other_cookie(all: &[Derived], headers: &HeaderMap) -> bool {
    let expressed: Vec<String> = all.iter().filter_map(|one| one.from.cookie().cloned()).collect();
    cookies::has_others(headers, &expressed)
}

/// What other caches learn of a response: nobody but this server can tell its variants apart, so it is for one client.
pub fn hide(all: &[Derived], headers: &mut HeaderMap) {
    let Some(members) = list::members(headers, header::VARY) else { return };
    let is_derived = |member: &str| all.iter().any(|one| one.name.eq_ignore_ascii_case(member));
    let (hidden, kept): (Vec<String>, Vec<String>) =
        members.into_iter().map(str::to_owned).partition(|one| is_derived(one));
    if hidden.is_empty() {
        return;
    }
    headers.remove(header::VARY);
    if let Some(Ok(value)) = (!kept.is_empty()).then(|| HeaderValue::try_from(kept.join(", "))) {
        headers.insert(header::VARY, value);
    }
    let said = Directives::of(headers);
    let text = match said.max_age.filter(|_| !said.no_store && said.no_cache == cache::directives::Reach::Nothing) {
        Some(seconds) => format!("private, max-age={seconds}"),
        None if said.no_store => "private, no-store".to_owned(),
        None => "private, no-cache".to_owned(),
    };
    for name in &TARGETS {
        headers.remove(name);
    }
    headers.remove(header::EXPIRES);
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(header::CACHE_CONTROL, value);
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

fn device(headers: &HeaderMap) -> &'static str {
    let agent = text(headers, "user-agent");
    let is_tablet =
        agent.contains("iPad") || agent.contains("Tablet") || (agent.contains("Android") && !agent.contains("Mobi"));
    match text(headers, "sec-ch-ua-mobile").trim() {
        "?1" => "mobile",
        _ if is_tablet => "tablet",
        _ if agent.contains("Mobi") => "mobile",
        _ => "desktop",
    }
}

/// The declared language that the client likes best (RFC 4647 §3.4, by the first part of a language too).
fn language<'l>(headers: &HeaderMap, languages: &'l [String]) -> &'l str {
    let first = languages.first().map_or("", String::as_str);
    let Some(members) = list::members(headers, header::ACCEPT_LANGUAGE) else { return first };
    let mut best: Option<(f32, &str)> = None;
    for member in members {
        let mut parts = member.split(';').map(str::trim);
        let wanted = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |text| text.parse().ok());
        let Some(quality) = quality.filter(|quality: &f32| *quality > 0.0 && *quality <= 1.0) else { continue };
        let head = wanted.split('-').next().unwrap_or_default();
        let exact = languages.iter().find(|one| one.eq_ignore_ascii_case(&wanted));
        let found = exact.or_else(|| languages.iter().find(|one| one.eq_ignore_ascii_case(head)));
        if let Some(found) = found {
            if best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, found));
            }
        }
    }
    best.map_or(first, |(_, found)| found)
}

/// FNV-1a: the same for ever, so that an address stays in its bucket.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) >> 7
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Client<'_> = Client { address: "192.0.2.1", countries: &[] };

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn what_is_declared_is_read() {
        for text in
            ["device", "language: de, en-GB", "has cookie: session, cart_*", "cookie country: de, at", "bucket: 4"]
        {
            assert!(From::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "devices",
            "device: x",
            "language",
            "language: d e",
            "has cookie",
            "cookie: a",
            "cookie a b: c",
            "bucket: 1",
            "bucket: 65",
            "bucket: x",
        ] {
            assert_eq!(From::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_few() {
        let of =
            |from: &str, fields: &[(&'static str, &str)]| From::parse(from).unwrap().value(&headers(fields), &NOBODY);
        for (agent, meant) in [
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148", "mobile"),
            ("Mozilla/5.0 (iPad; CPU OS 17_0) Mobile/15E148", "tablet"),
            ("Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/130.0 Mobile Safari/537.36", "mobile"),
            ("Mozilla/5.0 (Linux; Android 14; SM-X910) Chrome/130.0 Safari/537.36", "tablet"),
            ("Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0", "desktop"),
            ("", "desktop"),
        ] {
            assert_eq!(of("device", &[("user-agent", agent)]), meant, "{agent}");
        }
        assert_eq!(of("device", &[("sec-ch-ua-mobile", "?1")]), "mobile");
        for (accepted, meant) in [
            ("de", "de"),
            ("de-AT, en;q=0.9", "de"),
            ("fr, en;q=0.5, de;q=0.8", "de"),
            ("en-gb;q=0.2, en-GB", "en-GB"),
            ("fr", "en"),
            ("de;q=0", "en"),
            ("de;q=x, \"", "en"),
            ("", "en"),
        ] {
            assert_eq!(of("language: en, de, en-GB", &[("accept-language", accepted)]), meant, "{accepted}");
        }
        assert_eq!(of("has cookie: session", &[("cookie", "a=1; session=2")]), "1");
        assert_eq!(of("has cookie: session", &[("cookie", "a=1")]), "0");
        assert_eq!(of("cookie country: de, at", &[("cookie", "a=1; country=at")]), "at");
        assert_eq!(of("cookie country: de, at", &[("cookie", "country=xx")]), "other");
        let bucket: u64 = of("bucket: 4", &[]).parse().unwrap();
        assert!(bucket < 4);
        let spread: std::collections::HashSet<u64> =
            (0..64).map(|number| hash(&format!("192.0.2.{number}")) % 4).collect();
        assert_eq!(spread.len(), 4);
    }

    #[test]
    fn a_country_is_that_of_the_cookie_or_of_the_address() {
        let mut table = 1u32.to_le_bytes().to_vec();
        for (first, code) in [([192, 0, 2, 0], b"DE"), ([192, 0, 3, 0], b"US")] {
            table.extend(u32::from_be_bytes(first).to_le_bytes());
            table.extend(code);
        }
        table[0] = 2;
        let countries = [Arc::new(Countries::from_bytes(&table).unwrap())];
        let by = ByCountry {
            cookie: Some("country".into()),
            file: Some("x.mmdb".into()),
            values: [("DE", "EU"), ("FR", "EU"), ("CH", "CH")].map(|(code, value)| (code.into(), value.into())).into(),
            default: "rest".into(),
            ..ByCountry::default()
        };
        let value = |by: &ByCountry, address: &str, cookie: &str| {
            let client = Client { address, countries: &countries };
            From::Country(by.clone()).value(&headers(&[("cookie", cookie)]), &client)
        };
        for (address, cookie, meant) in [
            ("192.0.2.1", "", "EU"),
            ("::ffff:192.0.2.1", "", "EU"),
            ("192.0.3.1", "", "rest"),
            ("192.0.1.1", "", "rest"),
            ("2001:db8::1", "", "rest"),
            ("unix:", "", "rest"),
            ("", "", "rest"),
            ("192.0.2.1", "country=CH", "CH"),
            ("192.0.3.1", "country=fr", "EU"),
            // What is no declared country does not count.
            ("192.0.2.1", "country=US", "EU"),
            ("192.0.2.1", "country=EU", "EU"),
            ("192.0.3.1", "country=EU", "rest"),
            ("192.0.3.1", "country=rest", "rest"),
            ("192.0.3.1", "country=", "rest"),
            ("192.0.3.1", "country=DE\u{e9}", "rest"),
            ("192.0.3.1", "country=\"DE\"", "rest"),
            ("192.0.3.1", "Country=DE", "rest"),
        ] {
            assert_eq!(value(&by, address, cookie), meant, "{address} {cookie}");
        }
        let without_file = ByCountry { file: None, ..by.clone() };
        assert_eq!(value(&without_file, "192.0.2.1", ""), "rest");
        let without_table = ByCountry { table: 7, ..by };
        assert_eq!(value(&without_table, "192.0.2.1", ""), "rest");
    }

    #[test]
    fn the_client_s_own_are_dropped_and_others_learn_nothing() {
        let all = [Derived { name: "x-device".into(), from: From::Device }];
        let mut request = headers(&[("x-device", "evil"), ("x-device", "more")]);
        add(&all, &mut request, &NOBODY);
        assert_eq!(request.get_all("x-device").iter().collect::<Vec<_>>(), ["desktop"]);
        for (said, meant) in [
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage=60", "private, no-cache"),
            ("public, max-age=60, no-cache", "private, no-cache"),
            ("no-store", "private, no-store"),
        ] {
            let mut response =
                headers(&[("vary", "X-Device, Accept"), ("cache-control", said), ("cdn-cache-control", "max-age=1")]);
            hide(&all, &mut response);
            assert_eq!(response, headers(&[("vary", "Accept"), ("cache-control", meant)]), "{said}");
        }
        let mut other = headers(&[("vary", "Accept"), ("cache-control", "public")]);
        hide(&all, &mut other);
        assert_eq!(other["cache-control"], "public");
    }
}
