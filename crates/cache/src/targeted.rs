//! Which field speaks to this cache (RFC 9213): the first of [`TARGETS`] that a response has, else Cache-Control. By the rules of RFC 9111
//! Surrogate-Control comes before Cache-Control (W3C, Edge Architecture Specification 1.0).

use http::HeaderMap;
use http::header::HeaderName;
use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};

use crate::Rules;
use crate::directives::{Directives, MOST, Reach, number};
use crate::list;

/// The field for this cache alone; no client sees it.
pub const OWN: HeaderName = HeaderName::from_static("reprise-cache-control");
/// LiteSpeed's, which its plugins for many applications send. No client sees it.
pub const OF_LITESPEED: HeaderName = HeaderName::from_static("x-litespeed-cache-control");
/// Fields that count in the place of Cache-Control and Expires, the first first.
pub const TARGETS: [HeaderName; 3] = [OWN, OF_LITESPEED, HeaderName::from_static("cdn-cache-control")];

/// What this cache says of itself to who may send Surrogate-Control.
pub const CAPABILITY: (HeaderName, &str) =
    (HeaderName::from_static("surrogate-capability"), "reprise=\"Surrogate/1.0\"");
const SURROGATE: HeaderName = HeaderName::from_static("surrogate-control");
/// The name of this cache in [`CAPABILITY`].
const DEVICE: &str = "reprise";

/// What a response says to this cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The directives that count.
    pub directives: Directives,
    /// Whether they come from a targeted field.
    pub is_targeted: bool,
    /// Whether they are for visitors with cookies too. LiteSpeed's field does not say so: there the server tells visitors apart by cookies.
    pub is_open: bool,
}

impl Said {
    /// Whether a response speaks to shared caches at all.
    pub const fn is_for_shared_caches(&self) -> bool {
        self.is_targeted || self.directives.public || self.directives.s_maxage.is_some()
    }

    /// What a response says. A targeted field that is no dictionary, or an empty one, counts as absent (RFC 9213 §2.2).
    pub fn by(headers: &HeaderMap) -> Said {
        for name in &TARGETS {
            if let Some(directives) = dictionary(headers, name).as_ref().and_then(directives) {
                return Said { directives, is_targeted: true, is_open: *name != OF_LITESPEED };
            }
        }
        let directives = Directives::of(headers);
        Said { is_open: directives.public, directives, is_targeted: false }
    }

    /// What a response says by these rules.
    pub fn under(rules: Rules, headers: &HeaderMap) -> Said {
        let said = Said::by(headers);
        match surrogate(headers).filter(|_| rules == Rules::Rfc9111 && !said.is_targeted) {
            Some(directives) => Said { directives, is_targeted: true, is_open: true },
            None => said,
        }
    }
}

/// Surrogate-Control, if it says anything of storing. What is for another device counts as absent.
fn surrogate(headers: &HeaderMap) -> Option<Directives> {
    let (mut said, mut speaks) = (Directives::default(), false);
    for member in list::members(headers, SURROGATE)? {
        let (directive, device) = member.split_once(';').unwrap_or((member, DEVICE));
        if device.trim() != DEVICE {
            continue;
        }
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.to_ascii_lowercase().as_str() {
            "no-store" => said.no_store = true,
            "max-age" => {
                // After a sign comes how long it may be used when it is stale; by the origin's word it may be less.
                let seconds = number(value.split('+').next().unwrap_or_default()).unwrap_or(0);
                said.max_age = Some(said.max_age.map_or(seconds, |least| least.min(seconds)));
            }
            _ => continue,
        }
        speaks = true;
    }
    speaks.then_some(said)
}

/// All fields of a name as one dictionary.
fn dictionary(headers: &HeaderMap, name: &HeaderName) -> Option<Dictionary> {
    let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(crate::list::text).collect();
    let lines = lines.filter(|lines| !lines.is_empty())?;
    Parser::new(&lines.join(",")).parse().ok()
}

fn directives(dictionary: &Dictionary) -> Option<Directives> {
    if dictionary.is_empty() {
        return None;
    }
    let mut said = Directives::default();
    for (name, entry) in dictionary {
        let ListEntry::Item(Item { bare_item: value, .. }) = entry else {
            // A list is no value of any directive. What forbids forbids all the same.
            match name.as_str() {
                "private" => said.private = Reach::Whole,
                "no-cache" => said.no_cache = Reach::Whole,
                "no-store" => said.no_store = true,
                _ => {}
            }
            continue;
        };
        let is_set = *value != BareItem::Boolean(false);
        match name.as_str() {
            "max-age" => said.max_age = seconds(value),
            "s-maxage" => said.s_maxage = seconds(value),
            "stale-while-revalidate" => said.stale_while_revalidate = seconds(value),
            "stale-if-error" => said.stale_if_error = seconds(value),
            "public" => said.public = is_set,
            "private" => said.private = reach(value),
            "no-cache" => said.no_cache = reach(value),
            "no-store" => said.no_store = is_set,
            "must-revalidate" => said.must_revalidate = is_set,
            "proxy-revalidate" => said.proxy_revalidate = is_set,
            "must-understand" => said.must_understand = is_set,
            "immutable" => said.immutable = is_set,
            _ => {}
        }
    }
    Some(said)
}

/// A number of seconds; a value of another type counts as absent.
fn seconds(value: &BareItem) -> Option<u64> {
    match value {
        BareItem::Integer(number) => Some(u64::try_from(i64::from(*number)).unwrap_or(0).min(MOST)),
        _ => None,
    }
}

/// Whatever does not name fields concerns the whole response.
fn reach(value: &BareItem) -> Reach {
    match value {
        BareItem::Boolean(false) => Reach::Nothing,
        BareItem::String(names) => {
            let names: Result<_, _> = names.as_str().split(',').map(|name| name.trim().parse()).collect();
            names.map_or(Reach::Whole, Reach::Fields)
        }
        _ => Reach::Whole,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn said(fields: &[(&'static str, &str)]) -> Said {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Said::by(&headers)
    }

    #[test]
    fn litespeed_s_field_is_for_visitors_without_cookies() {
        let read = said(&[("x-litespeed-cache-control", "public,max-age=60"), ("cache-control", "no-cache")]);
        assert!(read.is_targeted && !read.is_open && read.directives.max_age == Some(60));
        let read = said(&[("x-litespeed-cache-control", "private,max-age=60")]);
        assert_eq!(read.directives.private, Reach::Whole);
    }

    #[test]
    fn the_nearest_target_counts_alone() {
        let both = [("cdn-cache-control", "max-age=10"), ("cache-control", "private, max-age=60")];
        let read = said(&both);
        assert!(read.is_targeted && read.directives.private == Reach::Nothing && read.directives.max_age == Some(10));
        let own = said(&[both[0], both[1], ("reprise-cache-control", "no-store")]);
        assert!(own.directives.no_store && own.directives.max_age.is_none());
    }

    #[test]
    fn what_is_no_dictionary_counts_as_absent() {
        for text in ["max-age=10, &", "max-age=10 public", "", "MAX-AGE=10", "\"max-age\""] {
            let read = said(&[("cdn-cache-control", text), ("cache-control", "max-age=60")]);
            assert!(!read.is_targeted && read.directives.max_age == Some(60), "{text}");
        }
    }

    #[test]
    fn a_surrogate_hears_what_is_for_it() {
        let of = |text: &str, rules| {
            let mut headers = HeaderMap::new();
            headers.insert(SURROGATE, HeaderValue::from_str(text).unwrap());
            headers.insert("cache-control", HeaderValue::from_static("max-age=9"));
            let said = Said::under(rules, &headers);
            (said.is_targeted, said.directives.max_age, said.directives.no_store)
        };
        for (text, meant) in [
            ("MaX-aGe=60", (true, Some(60), false)),
            ("content=\"ESI/1.0\", max-age=60+30;reprise", (true, Some(60), false)),
            ("max-age=60, max-age=5", (true, Some(5), false)),
            ("max-age=x", (true, Some(0), false)),
            ("no-store", (true, None, true)),
            ("max-age=60;other", (false, Some(9), false)),
            ("content=\"ESI/1.0\"", (false, Some(9), false)),
            ("max-age=60, \"", (false, Some(9), false)),
        ] {
            assert_eq!(of(text, Rules::Rfc9111), meant, "{text}");
            assert_eq!(of(text, Rules::Safe), (false, Some(9), false), "{text}");
        }
        let mut both = HeaderMap::new();
        both.insert(SURROGATE, HeaderValue::from_static("max-age=60"));
        both.insert(OWN, HeaderValue::from_static("no-store"));
        assert!(Said::under(Rules::Rfc9111, &both).directives.no_store);
    }

    #[test]
    fn a_list_forbids_too() {
        let read = said(&[("cdn-cache-control", "max-age=(1), private=(x), no-cache=(), no-store=(a b)")]).directives;
        let meant =
            Directives { private: Reach::Whole, no_cache: Reach::Whole, no_store: true, ..Directives::default() };
        assert_eq!(read, meant);
    }

    #[test]
    fn values_have_their_types() {
        let read = said(&[("cdn-cache-control", "max-age=\"10\", s-maxage=1.5, private=\"x-a, x-b\", no-store=?0")]);
        let names = vec![HeaderName::from_static("x-a"), HeaderName::from_static("x-b")];
        let meant = Directives { private: Reach::Fields(names), ..Directives::default() };
        assert_eq!(read, Said { directives: meant, is_targeted: true, is_open: true });
        assert_eq!(said(&[("cdn-cache-control", "max-age=-5")]).directives.max_age, Some(0));
        assert_eq!(
            said(&[("cdn-cache-control", "private=(a b), max-age=1, private=3")]).directives.private,
            Reach::Whole
        );
        assert_eq!(
            said(&[("cdn-cache-control", "max-age=1"), ("cdn-cache-control", "max-age=5")]).directives.max_age,
            Some(5)
        );
    }
}
