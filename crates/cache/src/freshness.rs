//! How old a response is, and how long it is fresh (RFC 9111 §4.2).

use std::time::UNIX_EPOCH;

use http::header::{self, HeaderMap, HeaderName};

use crate::Rules;
use crate::directives::{MOST, number};
use crate::list;
use crate::targeted::Said;

/// Seconds of a response that does not say how long it is fresh, at most.
const MOST_HEURISTIC: u64 = 24 * 3600;
/// Statuses whose responses may be fresh without saying so (RFC 9110 §15.1), but for 206.
const HEURISTIC: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// How long a response is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It says so: seconds.
    Explicit(u64),
    /// It does not say so; this may be assumed.
    Heuristic(u64),
    /// It does not say so, and nothing may be assumed.
    Unknown,
}

impl Lifetime {
    /// Seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            Lifetime::Explicit(seconds) | Lifetime::Heuristic(seconds) => seconds,
            Lifetime::Unknown => 0,
        }
    }
}

/// How long a response with this head is fresh, from when it was made. `now`: the wall clock when it came, in seconds since 1970.
pub fn lifetime(rules: Rules, status: u16, headers: &HeaderMap, said: &Said, now: u64) -> Lifetime {
    let directives = &said.directives;
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Lifetime::Explicit(seconds);
    }
    let made = date(headers, &header::DATE).unwrap_or(now);
    // A targeted field stands in the place of Expires too (RFC 9213 §2.2).
    if !said.is_targeted && headers.contains_key(header::EXPIRES) {
        // What is no date lies in the past (RFC 9111 §5.3); so does what is said twice in two ways.
        return Lifetime::Explicit(date(headers, &header::EXPIRES).map_or(0, |end| end.saturating_sub(made)).min(MOST));
    }
    let may_assume = rules == Rules::Rfc9111 && (is_heuristic(status) || directives.public);
    match date(headers, &header::LAST_MODIFIED).filter(|_| may_assume) {
        Some(modified) => Lifetime::Heuristic((made.saturating_sub(modified) / 10).min(MOST_HEURISTIC)),
        None => Lifetime::Unknown,
    }
}

/// How old a response was when it came, in seconds. `waited`: seconds from the request to its response. The age counts as the larger of what
/// caches before this one have counted and what the dates say (RFC 9111 §4.2.3).
pub fn age(headers: &HeaderMap, now: u64, waited: u64) -> u64 {
    let apparent = date(headers, &header::DATE).map_or(0, |made| now.saturating_sub(made));
    apparent.max(said_age(headers).saturating_add(waited)).min(MOST)
}

/// What Age says. If that is unclear, the response counts as too old for any use: RFC 9111 §5.1 would ignore what is no number, and a
/// response of unknown age could be used for too long.
fn said_age(headers: &HeaderMap) -> u64 {
    let mut all = headers.get_all(header::AGE).iter();
    let Some(value) = all.next() else { return 0 };
    let Some(text) = list::text(value).filter(|_| all.next().is_none()) else { return MOST };
    let numbers: Option<Vec<u64>> = text.split(',').map(number).collect();
    // Of several the first one counts.
    numbers.map_or(MOST, |numbers| numbers[0])
}

/// Whether a response with this status may be stored though nothing of it says so (RFC 9111 §3).
pub fn is_heuristic(status: u16) -> bool {
    HEURISTIC.contains(&status)
}

/// The one date of a header, in seconds since 1970.
pub fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut all = headers.get_all(name).iter();
    let (first, rest) = (all.next()?, all.next());
    if rest.is_some_and(|rest| rest != first) {
        return None;
    }
    let time = httpdate::parse_http_date(list::text(first)?).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn headers(fields: &[(&HeaderName, String)]) -> HeaderMap {
        let each = fields.iter().map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in each {
            headers.append(name, value);
        }
        headers
    }

    fn at(seconds: u64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn of(rules: Rules, fields: &[(&HeaderName, String)]) -> Lifetime {
        let headers = headers(fields);
        lifetime(rules, 200, &headers, &Said::by(&headers), NOW)
    }

    #[test]
    fn what_is_meant_for_shared_caches_comes_first() {
        let control = (&header::CACHE_CONTROL, "max-age=60, s-maxage=5".to_owned());
        let expires = (&header::EXPIRES, at(NOW + 900));
        assert_eq!(of(Rules::Safe, &[control, expires.clone()]), Lifetime::Explicit(5));
        assert_eq!(of(Rules::Safe, &[expires]), Lifetime::Explicit(900));
    }

    #[test]
    fn expires_counts_from_the_date() {
        let date = (&header::DATE, at(NOW - 100));
        assert_eq!(of(Rules::Safe, &[(&header::EXPIRES, at(NOW)), date.clone()]), Lifetime::Explicit(100));
        for text in ["0", "-1", "Thu, 99 Nov 2026", ""] {
            assert_eq!(of(Rules::Rfc9111, &[(&header::EXPIRES, text.to_owned()), date.clone()]), Lifetime::Explicit(0));
        }
        let twice = [(&header::EXPIRES, at(NOW)), (&header::EXPIRES, at(NOW + 9)), date];
        assert_eq!(of(Rules::Safe, &twice), Lifetime::Explicit(0));
    }

    #[test]
    fn nothing_is_assumed_but_by_the_letter_of_the_law() {
        let modified = [(&header::LAST_MODIFIED, at(NOW - 1000))];
        assert_eq!(of(Rules::Safe, &modified), Lifetime::Unknown);
        assert_eq!(of(Rules::Rfc9111, &modified), Lifetime::Heuristic(100));
        assert_eq!(of(Rules::Rfc9111, &[(&header::LAST_MODIFIED, at(0))]), Lifetime::Heuristic(MOST_HEURISTIC));
        let headers = headers(&modified);
        assert_eq!(lifetime(Rules::Rfc9111, 302, &headers, &Said::by(&headers), NOW), Lifetime::Unknown);
    }

    #[test]
    fn the_larger_age_counts() {
        let said = |age: &str| (&header::AGE, age.to_owned());
        let date = (&header::DATE, at(NOW - 30));
        assert_eq!(age(&headers(&[said("10"), date.clone()]), NOW, 2), 30);
        assert_eq!(age(&headers(&[said("40"), date.clone()]), NOW, 2), 42);
        assert_eq!(age(&headers(&[said("40,1"), date.clone()]), NOW, 2), 42);
        assert_eq!(age(&headers(&[said("99999999999999999999"), date]), NOW, 2), MOST);
        assert_eq!(age(&headers(&[(&header::DATE, at(NOW + 500))]), NOW, 2), 2);
    }

    #[test]
    fn what_is_of_unknown_age_is_too_old() {
        for text in ["abc", "-40", "4.0", "4;a=b", "0, 0", "", "4,", ",4", "+4"] {
            assert_eq!(age(&headers(&[(&header::AGE, text.to_owned())]), NOW, 0), MOST, "{text}");
        }
        let said = |age: &str| (&header::AGE, age.to_owned());
        assert_eq!(age(&headers(&[said("0"), said("0")]), NOW, 0), MOST);
    }
}
