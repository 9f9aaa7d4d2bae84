//! The texts by which workers and the control socket purge, the headers by which responses and requests do, and pages with holes.

use cache::esi::{self, Part};
use cache::purge::Purge;
use cache::{cookies, tags};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The whole is a text of a worker and a page; its lines are headers.
pub fn check(bytes: &[u8]) {
    if let Some(purge) = Purge::parse(bytes) {
        assert!(!purge.whats.is_empty() && purge.whats.len() <= cache::purge::MOST);
        assert_eq!(Purge::parse(purge.text().as_bytes()), Some(purge));
    }
    let mut headers = HeaderMap::new();
    let names = [
        tags::OWN,
        HeaderName::from_static("surrogate-key"),
        HeaderName::from_static("cache-groups"),
        cache::purge::OWN,
        cookies::OWN,
        header::COOKIE,
        HeaderName::from_static("x-cache-tags"),
        HeaderName::from_static("x-url"),
        esi::CONTROL,
    ];
    for (line, name) in bytes.split(|byte| *byte == b'\n').zip(names.iter().cycle()) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(name, value);
        }
    }
    if let Some(all) = tags::of(&headers) {
        assert!(all.len() <= tags::MOST && all.is_sorted() && all.iter().all(|tag| !tag.is_empty()));
    }
    if let Some(purge) = Purge::of_response(&headers) {
        assert!(!purge.whats.is_empty() && purge.whats.len() <= cache::purge::MOST);
    }
    for method in ["PURGE", "BAN", "PURGETAGS", "PURGEKEYS", "GET"] {
        let purge = Purge::of_request(method, "/a.*", &headers);
        // Too much may be purged, but never nothing.
        assert!(purge.is_none() == (method == "GET") && purge.is_none_or(|purge| !purge.whats.is_empty()));
    }
    if let Some(names) = cookies::of_response(&headers) {
        let has = cookies::has_any(&headers, &names);
        assert!(!has || headers.contains_key(header::COOKIE));
        assert!(!names.iter().any(|name| name == "*") || has == headers.contains_key(header::COOKIE));
    }
    if let Ok(parts) = esi::parts(bytes) {
        let mut at = 0;
        for part in parts {
            match part {
                Part::Text(range) => {
                    assert!(range.start >= at && range.end > range.start && range.end <= bytes.len());
                    at = range.end;
                }
                Part::Include(include) => {
                    assert!(!include.src.is_empty());
                    if let Some(target) = esi::target(&include.src, "a.example") {
                        assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()));
                    }
                }
            }
        }
    }
}
