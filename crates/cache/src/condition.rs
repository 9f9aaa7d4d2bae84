//! Conditions of a request (RFC 9110 §13): whether the client has the response already.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::list;

/// By what a response is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Its ETag, with quotes, and with `W/` if it is weak.
    pub etag: Option<&'a str>,
    /// When it was changed last.
    pub modified: Option<SystemTime>,
}

/// What becomes of a request with conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It gets the response.
    Holds,
    /// The client has the response: 304.
    NotModified,
    /// The response is not the one that the client knows: 412.
    Failed,
}

impl<'a> Validators<'a> {
    /// Those of a response with these headers.
    pub fn of(headers: &'a HeaderMap) -> Validators<'a> {
        Validators {
            etag: headers.get(header::ETAG).and_then(list::text),
            modified: date(headers, header::LAST_MODIFIED),
        }
    }

    /// All conditions, in the order of RFC 9110 §13.2.2. For who has the response itself: a cache checks what [`Self::is_known`] does alone.
    pub fn check(&self, headers: &HeaderMap) -> Condition {
        if headers.contains_key(header::IF_MATCH) {
            if !self.matches(headers, header::IF_MATCH, false) {
                return Condition::Failed;
            }
        } else if let (Some(since), Some(modified)) = (date(headers, header::IF_UNMODIFIED_SINCE), self.modified) {
            if modified > since {
                return Condition::Failed;
            }
        }
        if self.is_known(headers) { Condition::NotModified } else { Condition::Holds }
    }

    /// Whether the client has the response already.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(header::IF_NONE_MATCH) {
            return self.matches(headers, header::IF_NONE_MATCH, true);
        }
        let since = date(headers, header::IF_MODIFIED_SINCE);
        since.zip(self.modified).is_some_and(|(since, modified)| modified <= since)
    }

    fn matches(&self, headers: &HeaderMap, name: HeaderName, is_weak: bool) -> bool {
        let Some(tags) = list::members(headers, name) else { return false };
        tags.into_iter().any(|tag| tag == "*" || self.etag.is_some_and(|own| is_same(own, tag, is_weak)))
    }

    /// Whether a range of If-Range counts: only if the response is the one that the client knows, byte for byte.
    pub fn range_is_current(&self, headers: &HeaderMap) -> bool {
        match headers.get(header::IF_RANGE).map(|value| list::text(value).unwrap_or("")) {
            None => true,
            Some(tag) if tag.starts_with('"') || tag.starts_with("W/") => {
                self.etag.is_some_and(|own| is_same(own, tag, false))
            }
            Some(text) => {
                let date = httpdate::parse_http_date(text).ok();
                date.is_some() && date == self.modified
            }
        }
    }
}

/// Compares tags; strictly, no weak one is equal to any (RFC 9110 §8.8.3.2).
fn is_same(own: &str, tag: &str, is_weak: bool) -> bool {
    let bare = |tag: &'_ str| tag.strip_prefix("W/").map_or((tag.to_owned(), false), |tag| (tag.to_owned(), true));
    let ((own, own_is_weak), (tag, tag_is_weak)) = (bare(own), bare(tag));
    own == tag && (is_weak || !(own_is_weak || tag_is_weak))
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(list::text(headers.get(name)?)?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::HeaderValue;

    use super::*;

    const OWN: &str = "\"a,b\"";

    fn asked(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    fn own() -> Validators<'static> {
        Validators { etag: Some(OWN), modified: Some(UNIX_EPOCH + Duration::from_secs(1_000_000_000)) }
    }

    fn date(seconds: u64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn a_client_that_has_it_is_told_so() {
        for text in [OWN, "W/\"a,b\"", "\"x\", \"a,b\"", "*"] {
            assert_eq!(own().check(&asked("if-none-match", text)), Condition::NotModified, "{text}");
        }
        for text in ["\"a\"", "b\"", "", "a,b", "\"a,b"] {
            assert_eq!(own().check(&asked("if-none-match", text)), Condition::Holds, "{text}");
        }
        assert_eq!(own().check(&asked("if-modified-since", &date(1_000_000_000))), Condition::NotModified);
        assert_eq!(own().check(&asked("if-modified-since", &date(999_999_999))), Condition::Holds);
        assert_eq!(own().check(&asked("if-modified-since", "yesterday")), Condition::Holds);
        let mut both = asked("if-modified-since", &date(1_000_000_001));
        both.insert("if-none-match", HeaderValue::from_static("\"x\""));
        assert_eq!(own().check(&both), Condition::Holds);
    }

    #[test]
    fn a_client_that_knows_another_is_told_so() {
        assert_eq!(own().check(&asked("if-match", "W/\"a,b\"")), Condition::Failed);
        assert_eq!(own().check(&asked("if-match", OWN)), Condition::Holds);
        assert_eq!(own().check(&asked("if-unmodified-since", &date(999_999_999))), Condition::Failed);
        assert_eq!(Validators::default().check(&asked("if-unmodified-since", &date(1))), Condition::Holds);
        assert_eq!(Validators::default().check(&asked("if-match", "*")), Condition::Holds);
    }

    #[test]
    fn a_range_is_of_the_very_same_bytes() {
        assert!(own().range_is_current(&asked("if-range", OWN)));
        assert!(own().range_is_current(&asked("if-range", &date(1_000_000_000))));
        assert!(own().range_is_current(&HeaderMap::new()));
        for text in ["W/\"a,b\"", "\"x\"", "never", "", &date(1_000_000_001)] {
            assert!(!own().range_is_current(&asked("if-range", text)), "{text}");
        }
        let weak = Validators { etag: Some("W/\"a\""), modified: None };
        assert!(!weak.range_is_current(&asked("if-range", "W/\"a\"")));
        assert!(!weak.range_is_current(&asked("if-range", "never")));
    }
}
