//! Which of several stored responses of a URL answers a request (RFC 9111 §4.1).

use std::ops::Deref;

use http::HeaderMap;
use http::header::{self, HeaderName};

use crate::Rules;
use crate::key::Key;

/// Headers of a request that choose a response, sorted; at most [`MOST`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nominated {
    names: Vec<HeaderName>,
    /// Whether `DE` is the same language as `de`. An application may compare letters: then who asks for `DE` would make what others get for
    /// `de`. So it is so by the letter of RFC 9110 §12.5.4 alone.
    is_caseless: bool,
}

impl Nominated {
    /// No header chooses the response.
    pub const NONE: Nominated = Nominated { names: Vec::new(), is_caseless: false };

    /// Adds a header to those that choose the response.
    pub fn add(&mut self, name: HeaderName) {
        if let Err(at) = self.names.binary_search_by(|known| known.as_str().cmp(name.as_str())) {
            self.names.insert(at, name);
        }
    }

    /// Takes one away.
    pub fn remove(&mut self, name: &HeaderName) {
        self.names.retain(|known| known != name);
    }
}

impl Deref for Nominated {
    type Target = [HeaderName];

    fn deref(&self) -> &[HeaderName] {
        &self.names
    }
}

/// As many headers may choose a response.
pub const MOST: usize = 16;
/// Content codings that a response can have here, the best first.
pub const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// The headers that Vary names. `None`: no request chooses this response again.
pub fn nominated(rules: Rules, headers: &HeaderMap) -> Option<Nominated> {
    let mut names = Vec::new();
    for member in crate::list::members(headers, header::VARY)? {
        // `*` is a token like others, and the name of no header.
        names.push(member.parse::<HeaderName>().ok().filter(|_| member != "*")?);
    }
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    (names.len() <= MOST).then_some(Nominated { names, is_caseless: rules == Rules::Rfc9111 })
}

/// Whether a response has one of [`CODINGS`], and one that its request accepts. Requests are told apart by these codings alone.
pub fn is_accepted_coding(response: &HeaderMap, request: &HeaderMap) -> bool {
    let Some(codings) = crate::list::members(response, header::CONTENT_ENCODING) else { return false };
    let accepted = accepted(request);
    codings.iter().all(|coding| {
        let coding = coding.to_ascii_lowercase();
        coding == "identity" || accepted.contains(&if coding == "x-gzip" { "gzip" } else { coding.as_str() })
    })
}

/// Headers of which PHP and many other servers read the first line alone: two lines are not what one line with a comma is.
const ONE_VALUE: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::FROM,
    header::HOST,
    header::ORIGIN,
    header::REFERER,
    header::USER_AGENT,
];

/// What a request says in the nominated headers, in a form that equal requests share: two keys are equal if and only if each header is absent in
/// both or says the same in both.
pub fn key(nominated: &Nominated, headers: &HeaderMap) -> Key {
    let mut key = Key::new();
    for name in nominated.iter() {
        let mut values = headers.get_all(name).iter().peekable();
        if values.peek().is_none() {
            key.absent();
            continue;
        }
        if *name == header::ACCEPT_ENCODING {
            key.add(accepted(headers).join(",").as_bytes());
            continue;
        }
        if ONE_VALUE.contains(name) {
            let mut lines = Key::new();
            for value in values {
                lines.add(value.as_bytes());
            }
            key.add(lines.as_bytes());
            continue;
        }
        let mut whole = Vec::new();
        for value in values {
            if !whole.is_empty() {
                whole.push(b',');
            }
            normalize(value.as_bytes(), &mut whole);
        }
        if nominated.is_caseless && *name == header::ACCEPT_LANGUAGE {
            whole.make_ascii_lowercase();
        }
        key.add(&whole);
    }
    key
}

/// Spaces around commas mean nothing in any header that is a list, and such a header alone may stand on two lines.
fn normalize(value: &[u8], whole: &mut Vec<u8>) {
    let start = whole.len();
    for &byte in value {
        match byte {
            b' ' | b'\t' if whole.len() == start || whole.last() == Some(&b',') => {}
            b',' => {
                while whole.len() > start && matches!(whole.last(), Some(b' ' | b'\t')) {
                    whole.pop();
                }
                whole.push(b',');
            }
            _ => whole.push(byte),
        }
    }
    while whole.len() > start && matches!(whole.last(), Some(b' ' | b'\t')) {
        whole.pop();
    }
}

/// Those of [`CODINGS`] that a client accepts. Other words of Accept-Encoding make no variant: there is no such response.
pub fn accepted(headers: &HeaderMap) -> Vec<&'static str> {
    let Some(members) = crate::list::members(headers, header::ACCEPT_ENCODING) else { return Vec::new() };
    let quality = |wanted: &str| {
        members.iter().find_map(|member| {
            let mut parts = member.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
            let is_it = coding == wanted || (wanted == "gzip" && coding == "x-gzip");
            is_it.then(|| parts.all(|part| !is_refusal(part)))
        })
    };
    let others = quality("*").unwrap_or(false);
    CODINGS.into_iter().filter(|coding| quality(coding).unwrap_or(others)).collect()
}

/// `q=0`, with as many zeroes as a weight may have.
fn is_refusal(parameter: &str) -> bool {
    let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
    weight.is_some_and(|weight| {
        weight.starts_with('0') && weight.bytes().skip(1).all(|byte| byte == b'0' || byte == b'.')
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn vary_names_headers() {
        let nominated = |fields: &[(&'static str, &str)]| nominated(Rules::Safe, &headers(fields));
        let names = nominated(&[("vary", "X-B, accept-encoding"), ("vary", "x-a, X-A")]).unwrap();
        assert_eq!(names[..], ["accept-encoding", "x-a", "x-b"]);
        for text in ["*", "x-a, *", "x a", "\"x-a"] {
            assert_eq!(nominated(&[("vary", text)]), None, "{text}");
        }
        let many: Vec<String> = (0..=MOST).map(|number| format!("x-{number}")).collect();
        assert_eq!(nominated(&[("vary", &many.join(","))]), None);
    }

    #[test]
    fn equal_requests_have_equal_keys() {
        let names = nominated(Rules::Safe, &headers(&[("vary", "x-a, x-b")])).unwrap();
        let of = |fields: &[(&'static str, &str)]| key(&names, &headers(fields));
        assert_eq!(of(&[("x-a", "1 , 2"), ("x-b", "3")]), of(&[("x-a", "1"), ("x-a", " 2 "), ("x-b", "3")]));
        assert_ne!(of(&[("x-a", "1")]), of(&[("x-b", "1")]));
        assert_ne!(of(&[("x-a", "")]), of(&[]));
        assert_ne!(of(&[("x-a", "1 2")]), of(&[("x-a", "12")]));
        assert_ne!(of(&[("x-a", "a"), ("x-b", "b")]), of(&[("x-a", "a\u{0}b".replace('\u{0}', " ").as_str())]));
    }

    #[test]
    fn languages_are_the_same_in_capitals_by_the_letter_alone() {
        let is_same = |rules, name: &'static str| {
            let names = nominated(rules, &headers(&[("vary", name)])).unwrap();
            key(&names, &headers(&[(name, "de, en")])) == key(&names, &headers(&[(name, "DE, en")]))
        };
        assert!(is_same(Rules::Rfc9111, "accept-language") && !is_same(Rules::Safe, "accept-language"));
        assert!(!is_same(Rules::Rfc9111, "x-a"));
    }

    #[test]
    fn codings_that_are_not_served_make_no_variant() {
        let of = |text: &str| accepted(&headers(&[("accept-encoding", text)]));
        assert_eq!(of("gzip, deflate, br"), ["br", "gzip"]);
        assert_eq!(of("x-gzip;q=0.5, zstd;q=0.000, *"), ["br", "gzip"]);
        assert_eq!(of("identity, *;q=0"), [""; 0]);
        assert_eq!(of("GZIP; q=1"), ["gzip"]);
        assert_eq!(of("\"gzip"), [""; 0]);
    }
}
