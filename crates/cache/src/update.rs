//! What a 304 changes in a stored response (RFC 9111 §3.2, §4.3.4).

use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::Rules;
use crate::condition::Validators;
use crate::status::Why;
use crate::targeted::Said;
use crate::{list, storing};

/// Headers that say what the stored body is: a response without that body does not change them.
const OF_BODY: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-md5"),
    // The stored one chooses variants already.
    header::VARY,
];

/// Whether a 304 speaks of this stored response: its ETag is the stored one, or it has none.
pub fn is_of(stored: &HeaderMap, not_modified: &HeaderMap) -> bool {
    match Validators::of(not_modified) {
        Validators { etag: Some(etag), .. } => Validators::of(stored).etag == Some(etag),
        Validators { modified: Some(modified), .. } => Validators::of(stored).modified == Some(modified),
        _ => true,
    }
}

/// Why others may not have the stored response any more, if the 304 says so: it is for its client alone, or sets a cookie. Nothing that the
/// stored response said makes up for that.
pub fn withdraws(not_modified: &HeaderMap) -> Option<Why> {
    storing::is_of_one_client(&Said::by(not_modified).directives, not_modified)
}

/// The stored headers, renewed. All values of a header that the 304 has replace the stored ones. A Content-Type does so by RFC 9111 alone, and
/// only by other parameters of the same type: a script that says 304 before it says its type sends PHP's default.
pub fn renewed(rules: Rules, stored: &HeaderMap, not_modified: &HeaderMap) -> HeaderMap {
    let (mut headers, mut news) = (stored.clone(), not_modified.clone());
    storing::strip(&mut news);
    let is_same = rules == Rules::Rfc9111 && media_type(stored).is_some_and(|one| media_type(&news) == Some(one));
    for name in OF_BODY.iter().filter(|name| !(is_same && **name == header::CONTENT_TYPE)) {
        news.remove(name);
    }
    for name in news.keys() {
        headers.remove(name);
    }
    for (name, value) in &news {
        headers.append(name, value.clone());
    }
    headers
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = list::text(headers.get(header::CONTENT_TYPE)?)?;
    text.split(';').next().map(|name| name.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn news_replace_what_was_said() {
        let stored =
            headers(&[("x-a", "1"), ("x-a", "2"), ("x-b", "3"), ("content-type", "text/html"), ("vary", "x-c")]);
        let news = [
            ("x-a", "4"),
            ("content-type", "text/plain"),
            ("content-length", "0"),
            ("connection", "x-d"),
            ("x-d", "5"),
            ("vary", "x"),
        ];
        let meant = headers(&[("x-a", "4"), ("x-b", "3"), ("content-type", "text/html"), ("vary", "x-c")]);
        for rules in [Rules::Safe, Rules::Rfc9111] {
            assert_eq!(renewed(rules, &stored, &headers(&news)), meant);
        }
    }

    #[test]
    fn the_type_of_the_body_stays() {
        let stored = headers(&[("content-type", "text/html"), ("content-md5", "a")]);
        let news = headers(&[("content-type", "Text/HTML; charset=UTF-8"), ("content-md5", "b")]);
        assert_eq!(renewed(Rules::Safe, &stored, &news), stored);
        let renewed = renewed(Rules::Rfc9111, &stored, &news);
        assert_eq!(
            (&renewed["content-type"], &renewed["content-md5"]),
            (&news["content-type"], &stored["content-md5"])
        );
    }

    #[test]
    fn what_is_for_one_client_is_withdrawn_from_others() {
        for (field, why) in [
            (("set-cookie", "a=b"), Some(Why::SetCookie)),
            (("cache-control", "private, max-age=60"), Some(Why::Private)),
            (("cache-control", "no-store"), Some(Why::NoStore)),
            (("reprise-cache-control", "private"), Some(Why::Private)),
            (("cache-control", "public, max-age=60, no-cache"), None),
            (("etag", "\"a\""), None),
        ] {
            assert_eq!(withdraws(&headers(&[field])), why, "{field:?}");
        }
        assert_eq!(
            renewed(Rules::Safe, &headers(&[("x-a", "1")]), &headers(&[("set-cookie", "a=b")])),
            headers(&[("x-a", "1")])
        );
    }

    #[test]
    fn it_speaks_of_what_has_its_validator() {
        let stored = headers(&[("etag", "\"a\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert!(is_of(&stored, &headers(&[("etag", "\"a\"")])) && is_of(&stored, &headers(&[])));
        assert!(!is_of(&stored, &headers(&[("etag", "\"b\"")])) && !is_of(&stored, &headers(&[("etag", "W/\"a\"")])));
        assert!(!is_of(&stored, &headers(&[("last-modified", "Sun, 06 Nov 1994 08:49:38 GMT")])));
    }
}
