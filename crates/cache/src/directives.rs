//! Cache-Control (RFC 9111 §5.2): what it says in a request, and what it says in a response.

use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::list;

/// Seconds; a larger number counts as this one (RFC 9111 §1.2.2).
pub const MOST: u64 = 1 << 31;

/// What a directive with optional field names says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: the directive is absent.
    #[default]
    Nothing,
    /// It concerns these fields of the response.
    Fields(Vec<HeaderName>),
    /// It concerns the whole response.
    Whole,
}

/// The directives of a response, or of a request, that mean something to this cache. All times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// How long it is fresh. In a request: how old a response may be.
    pub max_age: Option<u64>,
    /// How long it is fresh in a shared cache.
    pub s_maxage: Option<u64>,
    /// It may be stored by shared caches.
    pub public: bool,
    /// It is for one client.
    pub private: Reach,
    /// It must be validated before each use.
    pub no_cache: Reach,
    /// It must not be stored.
    pub no_store: bool,
    /// It must not be used when it is stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// It may be stored if its status is understood, whatever else is said.
    pub must_understand: bool,
    /// It does not change while it is fresh.
    pub immutable: bool,
    /// How long it may be used while it is being renewed.
    pub stale_while_revalidate: Option<u64>,
    /// How long it may be used if it cannot be renewed.
    pub stale_if_error: Option<u64>,
    /// Of a request: how stale a response may be; `u64::MAX`: by any time.
    pub max_stale: Option<u64>,
    /// Of a request: how long the response must still be fresh.
    pub min_fresh: Option<u64>,
    /// Of a request: a response from here or none.
    pub only_if_cached: bool,
    /// Something in it could not be understood.
    pub is_malformed: bool,
}

/// What is written for a directive: nothing, or its argument.
enum Argument<'a> {
    None,
    Text(&'a str),
}

impl Directives {
    /// Those of Cache-Control. What is repeated counts in its most restrictive form; a number that is none counts as zero, so that the response
    /// is stale (RFC 9111 §4.2.1).
    pub fn of(headers: &HeaderMap) -> Directives {
        let mut directives = Directives::default();
        let Some(members) = list::members(headers, header::CACHE_CONTROL) else {
            // Whatever stands behind an open quote may forbid everything.
            return Directives { no_store: true, is_malformed: true, ..directives };
        };
        for member in members {
            let (name, argument) = match member.split_once('=') {
                Some((name, text)) => (name, Argument::Text(text)),
                None => (member, Argument::None),
            };
            // A space beside the sign is not allowed, but what is meant is clear.
            let (name, is_clean) = (name.trim_end(), list::is_token(name));
            directives.is_malformed |= !is_clean;
            if list::is_token(name) {
                directives.add(&name.to_ascii_lowercase(), &argument);
            }
        }
        directives
    }

    fn add(&mut self, name: &str, argument: &Argument<'_>) {
        match name {
            "max-age" => self.shorten(argument, |all| &mut all.max_age),
            "s-maxage" => self.shorten(argument, |all| &mut all.s_maxage),
            "stale-while-revalidate" => self.shorten(argument, |all| &mut all.stale_while_revalidate),
            "stale-if-error" => self.shorten(argument, |all| &mut all.stale_if_error),
            "max-stale" if matches!(argument, Argument::None) => self.max_stale = self.max_stale.or(Some(u64::MAX)),
            "max-stale" => self.shorten(argument, |all| &mut all.max_stale),
            "min-fresh" => {
                let asked = self.seconds(argument);
                self.min_fresh = Some(self.min_fresh.map_or(asked, |most| most.max(asked)));
            }
            "public" => self.public = true,
            "private" => {
                let more = self.reach(argument);
                widen(&mut self.private, more);
            }
            "no-cache" => {
                let more = self.reach(argument);
                widen(&mut self.no_cache, more);
            }
            "no-store" => self.no_store = true,
            "must-revalidate" => self.must_revalidate = true,
            "proxy-revalidate" => self.proxy_revalidate = true,
            "must-understand" => self.must_understand = true,
            "immutable" => self.immutable = true,
            "only-if-cached" => self.only_if_cached = true,
            _ => {}
        }
    }

    fn shorten(&mut self, argument: &Argument<'_>, field: fn(&mut Directives) -> &mut Option<u64>) {
        let seconds = self.seconds(argument);
        let field = field(self);
        *field = Some(field.map_or(seconds, |least| least.min(seconds)));
    }

    fn seconds(&mut self, argument: &Argument<'_>) -> u64 {
        let number = match argument {
            Argument::None => None,
            // The form in quotes is not to be sent, and is to be understood (RFC 9111 §5.2).
            Argument::Text(text) => number(list::unquoted(text).as_deref().unwrap_or(text)),
        };
        self.is_malformed |= number.is_none();
        number.unwrap_or(0)
    }

    fn reach(&mut self, argument: &Argument<'_>) -> Reach {
        let text = match argument {
            Argument::None => return Reach::Whole,
            Argument::Text(text) => list::unquoted(text).unwrap_or_else(|| (*text).to_owned()),
        };
        let names: Result<Vec<HeaderName>, _> = text.split(',').map(|name| name.trim().parse()).collect();
        match names {
            Ok(names) => Reach::Fields(names),
            Err(_) => {
                self.is_malformed = true;
                Reach::Whole
            }
        }
    }

    /// Whether a header of the response may be stored, though not sent to another client without validation.
    pub fn withholds(&self, name: &HeaderName) -> bool {
        [&self.private, &self.no_cache]
            .iter()
            .any(|reach| matches!(reach, Reach::Fields(names) if names.contains(name)))
    }
}

/// Digits alone.
pub fn number(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Digits that are too many for u64 are a number nevertheless.
    are_digits.then(|| text.parse::<u64>().unwrap_or(MOST).min(MOST))
}

fn widen(reach: &mut Reach, more: Reach) {
    match (&mut *reach, more) {
        (Reach::Whole, _) => {}
        (Reach::Fields(names), Reach::Fields(more)) => names.extend(more),
        (_, more) => *reach = more,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(text: &str) -> Directives {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_str(text).unwrap());
        Directives::of(&headers)
    }

    #[test]
    fn directives_are_read() {
        let read =
            of("PUBLIC, Max-Age=\"60\",s-maxage=30 , stale-while-revalidate=5, stale-if-error=7, immutable, other=1");
        let meant = Directives {
            public: true,
            max_age: Some(60),
            s_maxage: Some(30),
            stale_while_revalidate: Some(5),
            stale_if_error: Some(7),
            immutable: true,
            ..Directives::default()
        };
        assert_eq!(read, meant);
        assert_eq!(of("max-stale").max_stale, Some(u64::MAX));
        assert_eq!(of("max-stale=3, min-fresh=4, min-fresh=9").min_fresh, Some(9));
    }

    #[test]
    fn what_is_repeated_counts_in_its_most_restrictive_form() {
        assert_eq!(of("max-age=60, max-age=5, max-age=90").max_age, Some(5));
        assert_eq!(of("private=\"x-a\", private").private, Reach::Whole);
        assert_eq!(of("private, private=\"x-a\"").private, Reach::Whole);
        let names = vec![HeaderName::from_static("x-a"), HeaderName::from_static("x-b")];
        assert_eq!(of("no-cache=\"X-A\", no-cache=x-b").no_cache, Reach::Fields(names));
    }

    #[test]
    fn numbers_that_are_none_are_stale_at_once() {
        for text in [
            "max-age=",
            "max-age",
            "max-age=-1",
            "max-age=1.5",
            "max-age='60'",
            "max-age=6 0",
            "max-age=\"6",
            "max-age=+1",
        ] {
            let read = of(text);
            assert!(read.is_malformed && (read.no_store || read.max_age == Some(0)), "{text}: {read:?}");
        }
        assert_eq!(of("max-age=99999999999999999999999").max_age, Some(MOST));
        let spaced = of("max-age =60");
        assert!(spaced.is_malformed && spaced.max_age == Some(60));
        assert_eq!(of("no-cache=\"a b\"").no_cache, Reach::Whole);
    }

    #[test]
    fn a_quote_that_does_not_end_forbids_everything() {
        assert!(of("public, max-age=60, private=\"x-a, max-age=90").no_store);
    }

    #[test]
    fn any_text_is_read() {
        let pieces =
            ["max-age", "=", "60", "\"", "\\", ",", " ", "no-cache", "private", "x-a", "s-maxage", "é", "-", "public"];
        for seed in 0..2000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let text: String = (0..random.usize(..12)).map(|_| *random.choice(&pieces).unwrap()).collect();
            if let Ok(value) = HeaderValue::from_str(&text) {
                let mut headers = HeaderMap::new();
                headers.insert(header::CACHE_CONTROL, value);
                let read = Directives::of(&headers);
                // What comes on top takes nothing back.
                headers.append(header::CACHE_CONTROL, HeaderValue::from_static("max-age=7, private"));
                let more = Directives::of(&headers);
                assert!(more.no_store >= read.no_store && more.max_age.unwrap_or(0) <= 7, "{seed}: {text}");
                assert!(more.no_store || more.private == Reach::Whole, "{seed}: {text}");
            }
        }
    }
}
