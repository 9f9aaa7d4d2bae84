//! Tags: names that responses give themselves, so that all responses that show a thing can be purged at once.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use crate::list;

/// The field for this cache alone; no client sees it.
pub const OWN: HeaderName = HeaderName::from_static("reprise-cache-tag");
/// That of LiteSpeed, which no client sees there either.
pub const OF_LITESPEED: HeaderName = HeaderName::from_static("x-litespeed-tag");
/// Tags of one response, at most.
pub const MOST: usize = 1000;
/// Bytes of a tag, at most.
pub const MOST_BYTES: usize = 1024;

/// Fields with tags between commas: ours, of Cloudflare and Akamai, of FOSHttpCache, of LiteSpeed.
const BY_COMMAS: [HeaderName; 5] = [
    OWN,
    HeaderName::from_static("cache-tag"),
    HeaderName::from_static("cache-tags"),
    HeaderName::from_static("x-cache-tags"),
    OF_LITESPEED,
];
/// Fields with tags between spaces: of Fastly, of Varnish.
const BY_SPACES: [HeaderName; 2] = [HeaderName::from_static("surrogate-key"), HeaderName::from_static("xkey")];
/// RFC 9875: a list of strings.
const GROUPS: HeaderName = HeaderName::from_static("cache-groups");
/// RFC 9875: groups that a response to an unsafe method makes stale.
const INVALIDATED: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// The tags of a response. `None`: they are too many, or cannot be read.
pub fn of(headers: &HeaderMap) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for name in &BY_COMMAS {
        for value in headers.get_all(name) {
            add(value, &[','], &mut all)?;
        }
    }
    for name in &BY_SPACES {
        for value in headers.get_all(name) {
            add(value, &[' ', '\t', ','], &mut all)?;
        }
    }
    all.extend(groups(headers, &GROUPS).into_iter().flatten().map(|group| group_tag(&group)));
    all.sort_unstable();
    all.dedup();
    (all.len() <= MOST).then_some(all)
}

/// The tags that a response to an unsafe method purges by `Cache-Group-Invalidation`.
pub fn invalidated(headers: &HeaderMap) -> Vec<String> {
    groups(headers, &INVALIDATED).into_iter().flatten().take(MOST).map(|group| group_tag(&group)).collect()
}

/// Groups are tags of one origin: no tag of another field has a line feed.
fn group_tag(group: &str) -> String {
    format!("\n{group}")
}

fn add(value: &HeaderValue, between: &[char], all: &mut Vec<String>) -> Option<()> {
    for tag in list::text(value)?.split(between) {
        let tag = tag.trim_matches([' ', '\t']);
        if tag.len() > MOST_BYTES || all.len() > MOST {
            return None;
        }
        if !tag.is_empty() {
            all.push(tag.to_owned());
        }
    }
    Some(())
}

/// A field that is no list of strings counts as absent (RFC 9875 §2).
fn groups(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(list::text).collect();
    let lines = lines.filter(|lines| !lines.is_empty())?;
    let list: List = Parser::new(&lines.join(",")).parse().ok()?;
    list.iter()
        .map(|entry| match entry {
            ListEntry::Item(Item { bare_item: BareItem::String(text), .. }) => Some(text.as_str().to_owned()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn the_fields_of_all_caches_are_read() {
        let fields = [
            ("reprise-cache-tag", "a, b"),
            ("cache-tag", "c"),
            ("x-cache-tags", "d,,e"),
            ("surrogate-key", "f g"),
            ("xkey", "h, i"),
            ("x-litespeed-tag", "a"),
            ("cache-groups", "\"j\", \"k l\""),
        ];
        let meant = ["\nj", "\nk l", "a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(of(&headers(&fields)).unwrap(), meant);
        assert_eq!(invalidated(&headers(&[("cache-group-invalidation", "\"j\"")])), ["\nj"]);
        assert!(invalidated(&headers(&[("cache-group-invalidation", "j")])).is_empty());
    }

    #[test]
    fn what_is_too_much_or_cannot_be_read_has_no_tags() {
        let many = (0..=MOST).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(of(&headers(&[("surrogate-key", &many)])), None);
        assert_eq!(of(&headers(&[("xkey", &"x".repeat(MOST_BYTES + 1))])), None);
        let mut unreadable = HeaderMap::new();
        unreadable.insert("xkey", HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(of(&unreadable), None);
    }
}
