//! Which cookies tell visitors apart. By default every cookie does; configuration and responses may name those that do.

use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::list;

/// The field in which a response names them; no client sees it.
pub const OWN: HeaderName = HeaderName::from_static("reprise-cache-cookies");

/// Whether a request has a cookie whose name one of the patterns fits. A `*` at the end of a pattern stands for anything. A field that cannot be
/// read has every cookie.
pub fn has_any(headers: &HeaderMap, patterns: &[String]) -> bool {
    headers.get_all(header::COOKIE).iter().any(|value| match list::text(value) {
        Some(text) => names(text).any(|name| patterns.iter().any(|pattern| fits(name, pattern))),
        None => !patterns.is_empty(),
    })
}

/// Whether a request has a cookie beside these. A field that cannot be read has.
pub fn has_others(headers: &HeaderMap, known: &[String]) -> bool {
    headers.get_all(header::COOKIE).iter().any(|value| match list::text(value) {
        Some(text) => names(text).any(|name| !name.is_empty() && !known.iter().any(|one| fits(name, one))),
        None => true,
    })
}

/// The value of the first cookie of this name, as it was sent.
pub fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(list::text).flat_map(|text| text.split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (found, value) = pair.split_once('=')?;
        (found.trim_matches([' ', '\t']) == name).then(|| value.trim_matches([' ', '\t']).to_owned())
    });
    values.next()
}

/// The names of the cookies of a field. PHP takes what is before the first `=`, without spaces before it.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(|pair| pair.split('=').next().unwrap_or_default().trim_matches([' ', '\t']))
}

/// Names are compared as PHP would see them: with `_` for a dot, a space and `[`, so that no other spelling hides a cookie from this look.
fn fits(name: &str, pattern: &str) -> bool {
    let as_php = |byte: u8| if matches!(byte, b'.' | b' ' | b'[' | b'+') { b'_' } else { byte };
    let name = decoded(name);
    let same = |one: &[u8], other: &[u8]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| as_php(*one) == as_php(*other))
    };
    match pattern.strip_suffix('*') {
        Some(prefix) => name.len() >= prefix.len() && same(&name[..prefix.len()], prefix.as_bytes()),
        None => same(&name, pattern.as_bytes()),
    }
}

/// PHP decodes the names of cookies as it does those of a query.
fn decoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match digits.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

/// The cookies that a response names. `None`: it names none, or the field cannot be read, and then every cookie counts.
pub fn of_response(headers: &HeaderMap) -> Option<Vec<String>> {
    headers.contains_key(OWN).then_some(())?;
    Some(list::members(headers, OWN)?.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn cookie(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_bytes(text.as_bytes()).unwrap());
        headers
    }

    #[test]
    fn names_are_found_as_php_would_find_them() {
        let patterns = ["wordpress_logged_in_*".to_owned(), "cart".to_owned()];
        for text in [
            "wordpress_logged_in_abc=1",
            "_ga=1; cart=2",
            "_ga=1;cart",
            "%77ordpress_logged_in_x=1",
            "wordpress.logged.in_x=1",
            "a=1;  cart=3",
            "\u{e9}=1",
        ] {
            assert!(has_any(&cookie(text), &patterns), "{text}");
        }
        for text in ["_ga=1", "xcart=1; carts=2", "x=cart", ""] {
            assert!(!has_any(&cookie(text), &patterns), "{text}");
        }
        assert!(!has_any(&HeaderMap::new(), &patterns) && !has_any(&cookie("a=1"), &[]));
        assert!(has_any(&cookie("a=1"), &["*".to_owned()]));
    }

    #[test]
    fn values_and_others_are_found() {
        let headers = cookie("a=1; country=de ;country=at");
        assert_eq!(value(&headers, "country").as_deref(), Some("de"));
        assert_eq!(value(&headers, "b"), None);
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(has_others(&headers, &known(&["country"])) && !has_others(&headers, &known(&["country", "a"])));
        assert!(!has_others(&HeaderMap::new(), &[]) && has_others(&cookie("\u{e9}=1"), &known(&["*"])));
    }

    #[test]
    fn a_response_names_its_cookies() {
        let mut headers = HeaderMap::new();
        assert_eq!(of_response(&headers), None);
        headers.insert(OWN, HeaderValue::from_static("a*, b"));
        assert_eq!(of_response(&headers), Some(vec!["a*".to_owned(), "b".to_owned()]));
        headers.insert(OWN, HeaderValue::from_static("\"a"));
        assert_eq!(of_response(&headers), None);
    }
}
