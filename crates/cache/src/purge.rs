//! What is to be purged: as PHP and the control socket say it, and as headers and methods of other caches do.

use http::HeaderMap;
use http::header::HeaderName;

use crate::{list, tags};

/// The field of a response that purges; no client sees it.
pub const OWN: HeaderName = HeaderName::from_static("reprise-cache-purge");
/// That of LiteSpeed.
pub const OF_LITESPEED: HeaderName = HeaderName::from_static("x-litespeed-purge");
/// Things that one purge may name.
pub const MOST: usize = 4096;

/// What goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A URL, as a path with its query, or with scheme and host before it.
    Url(String),
    /// All URLs that begin so.
    Prefix(String),
    /// All responses with this tag.
    Tag(String),
    /// Everything of the application.
    All,
}

/// A purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// What goes.
    pub whats: Vec<What>,
    /// It only becomes stale: it may be sent while it is renewed, or if it cannot be renewed.
    pub is_soft: bool,
}

impl Purge {
    /// Reads the text that PHP and the control socket send: a line `hard` or `soft`, then a line for each thing, whose first letter says what it is
    /// (`u`, `p`, `t`, `a`). `None`: it is no such text.
    pub fn parse(text: &[u8]) -> Option<Purge> {
        let mut lines = std::str::from_utf8(text).ok()?.split('\n').filter(|line| !line.is_empty());
        let is_soft = match lines.next()? {
            "hard" => false,
            "soft" => true,
            _ => return None,
        };
        let whats: Option<Vec<What>> = lines.take(MOST + 1).map(What::parse).collect();
        let whats = whats.filter(|whats| (1..=MOST).contains(&whats.len()))?;
        Some(Purge { whats, is_soft })
    }

    /// The text that [`Purge::parse`] reads.
    pub fn text(&self) -> String {
        let mut text = String::from(if self.is_soft { "soft" } else { "hard" });
        for what in &self.whats {
            let (letter, name) = match what {
                What::Url(url) => ('u', url.as_str()),
                What::Prefix(prefix) => ('p', prefix.as_str()),
                What::Tag(tag) => ('t', tag.as_str()),
                What::All => ('a', ""),
            };
            text.push('\n');
            text.push(letter);
            text.push_str(name);
        }
        text
    }

    /// What the headers of a response purge: `tag=NAME`, `/url`, `/prefix*` and `*` between commas; `stale` or `soft` before them makes it a soft
    /// one. Words of LiteSpeed that mean who has a copy (`public`, `private`) are passed over. `None`: nothing.
    pub fn of_response(headers: &HeaderMap) -> Option<Purge> {
        let mut purge = Purge::default();
        for name in [&OWN, &OF_LITESPEED] {
            for value in headers.get_all(name) {
                let Some(text) = list::text(value) else { continue };
                for member in text.split([',', ';']).map(str::trim).filter(|member| !member.is_empty()) {
                    purge.add(member);
                }
            }
        }
        (!purge.whats.is_empty()).then_some(purge)
    }

    fn add(&mut self, member: &str) {
        match member {
            "public" | "private" | "shared" => {}
            "stale" | "soft" => self.is_soft = true,
            // What is too much is everything.
            _ if self.whats.len() >= MOST => self.whats = vec![What::All],
            "*" => self.whats.push(What::All),
            _ => {
                let tag = member.strip_prefix("tag=").or_else(|| member.strip_prefix("tag:"));
                let url = member.strip_prefix("url=").unwrap_or(member);
                self.whats.push(match (tag, url.strip_suffix('*')) {
                    (Some(tag), _) => What::Tag(tag.to_owned()),
                    (None, Some(prefix)) => What::Prefix(prefix.to_owned()),
                    (None, None) => What::Url(url.to_owned()),
                });
            }
        }
    }

    /// What a request with a method of other caches purges: PURGE a URL or what `X-Purge-Method: regex` makes of it; PURGETAGS and PURGEKEYS tags; BAN what
    /// its headers say (FOSHttpCache, plugins of WordPress, Varnish's xkey). `target`: of the request. `None`: it is no such request.
    pub fn of_request(method: &str, target: &str, headers: &HeaderMap) -> Option<Purge> {
        let field = |name: &str| headers.get(name).and_then(list::text).map(str::trim).filter(|text| !text.is_empty());
        let mut purge = Purge::default();
        match method {
            "PURGE" => {
                let is_pattern = field("x-purge-method").is_some_and(|word| word.eq_ignore_ascii_case("regex"));
                let is_all = field("clear-cache").is_some_and(|word| word.eq_ignore_ascii_case("true"));
                purge.whats.push(match is_all {
                    true => What::All,
                    false if is_pattern => of_pattern(target),
                    false => What::Url(target.to_owned()),
                });
            }
            "PURGETAGS" | "PURGEKEYS" | "BAN" => {
                let soft = field("xkey-softpurge");
                purge.is_soft = soft.is_some();
                let named = soft.or_else(|| field("xkey-purge")).or_else(|| field("x-cache-tags"));
                match named {
                    Some(named) => purge.whats.extend(tags_of(named)),
                    None if method == "BAN" => purge.whats.push(field("x-url").map_or(What::All, of_pattern)),
                    None => {}
                }
            }
            _ => return None,
        }
        // A purge of nothing that was meant to be one purges everything: too much is right, too little is not.
        if purge.whats.is_empty() || purge.whats.len() > MOST {
            purge.whats = vec![What::All];
        }
        Some(purge)
    }
}

impl What {
    fn parse(line: &str) -> Option<What> {
        let name = line.get(1..)?.to_owned();
        if name.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        match line.as_bytes()[0] {
            b'u' if !name.is_empty() => Some(What::Url(name)),
            b'p' if !name.is_empty() => Some(What::Prefix(name)),
            b't' if !name.is_empty() && name.len() <= tags::MOST_BYTES => Some(What::Tag(name)),
            b'a' if name.is_empty() => Some(What::All),
            _ => None,
        }
    }
}

/// Tags as they are, or in the pattern by which FOSHttpCache bans them: `(^|,)(a|b)(,|$)`.
fn tags_of(named: &str) -> Vec<What> {
    let inner = named.strip_prefix("(^|,)(").and_then(|rest| rest.strip_suffix(")(,|$)"));
    let (named, is_pattern) = inner.map_or((named, false), |inner| (inner, true));
    let between: &[char] = if is_pattern { &['|'] } else { &[',', ' '] };
    let tags = named.split(between).map(|tag| tag.trim().replace('\\', "")).filter(|tag| !tag.is_empty());
    let tags: Vec<What> = tags.map(What::Tag).collect();
    let is_other_pattern = !is_pattern && named.contains(['^', '$', '(', '[', '+', '?']);
    if is_other_pattern { vec![What::All] } else { tags }
}

/// A pattern that is a beginning with `.*` behind it is a prefix. Of any other everything goes that could match: all.
fn of_pattern(pattern: &str) -> What {
    let inner = pattern.strip_prefix('^').unwrap_or(pattern);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    let prefix = inner.strip_suffix(".*").unwrap_or(inner);
    let plain = prefix.replace("\\.", ".").replace("\\-", "-").replace("\\/", "/");
    let is_plain = plain.starts_with('/') && !plain.contains(['*', '+', '?', '(', '[', '|', '\\', '^', '$', '{']);
    if is_plain { What::Prefix(plain) } else { What::All }
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

    fn tag(name: &str) -> What {
        What::Tag(name.to_owned())
    }

    fn prefix(name: &str) -> What {
        What::Prefix(name.to_owned())
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        for whats in [vec![What::All], vec![tag("a b"), What::Url("/x?y".to_owned()), prefix("https://a.example/b")]] {
            for is_soft in [false, true] {
                let purge = Purge { whats: whats.clone(), is_soft };
                assert_eq!(Purge::parse(purge.text().as_bytes()), Some(purge));
            }
        }
        for text in ["", "hard", "ta", "hard\nt", "hard\nx", "hard\nax", "firm\na", "hard\nta\rb", "hard\nt\u{e9}\0"] {
            assert_eq!(Purge::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Purge::parse(b"hard\nt\xff"), None);
        let many = format!("hard{}", "\nta".repeat(MOST + 1));
        assert_eq!(Purge::parse(many.as_bytes()), None);
    }

    #[test]
    fn a_response_says_what_goes() {
        let of = |name, text| Purge::of_response(&headers(&[(name, text)]));
        let hard = |whats| Some(Purge { whats, is_soft: false });
        assert_eq!(
            of("reprise-cache-purge", "tag=a, /x, /y/*"),
            hard(vec![tag("a"), What::Url("/x".into()), prefix("/y/")])
        );
        assert_eq!(of("x-litespeed-purge", "public, tag=a; private"), hard(vec![tag("a")]));
        assert_eq!(of("x-litespeed-purge", "*"), hard(vec![What::All]));
        let soft = of("x-litespeed-purge", "stale,tag=a").unwrap();
        assert!(soft.is_soft && soft.whats == [tag("a")]);
        assert_eq!(of("reprise-cache-purge", "soft"), None);
        assert_eq!(of("x-other", "*"), None);
    }

    #[test]
    fn methods_of_other_caches_say_what_goes() {
        let of = |method: &str, target: &str, fields: &[(&'static str, &str)]| {
            Purge::of_request(method, target, &headers(fields)).map(|purge| purge.whats)
        };
        assert_eq!(of("PURGE", "/x?y", &[]), Some(vec![What::Url("/x?y".into())]));
        assert_eq!(of("PURGE", "/x/.*", &[("x-purge-method", "regex")]), Some(vec![prefix("/x/")]));
        assert_eq!(of("PURGE", "/(a|b)", &[("x-purge-method", "regex")]), Some(vec![What::All]));
        assert_eq!(of("PURGE", "/", &[("clear-cache", "true")]), Some(vec![What::All]));
        assert_eq!(of("PURGETAGS", "/", &[("x-cache-tags", "a,b")]), Some(vec![tag("a"), tag("b")]));
        assert_eq!(of("PURGEKEYS", "/", &[("xkey-softpurge", "a b")]), Some(vec![tag("a"), tag("b")]));
        assert_eq!(of("BAN", "/", &[("x-cache-tags", "(^|,)(a\\-x|b)(,|$)")]), Some(vec![tag("a-x"), tag("b")]));
        assert_eq!(of("BAN", "/", &[("x-cache-tags", "a+")]), Some(vec![What::All]));
        assert_eq!(of("BAN", "/", &[("x-url", "^/blog/.*$")]), Some(vec![prefix("/blog/")]));
        assert_eq!(of("BAN", "/", &[]), Some(vec![What::All]));
        assert_eq!(of("GET", "/", &[("x-cache-tags", "a")]), None);
        assert!(Purge::of_request("PURGEKEYS", "/", &headers(&[("xkey-softpurge", "a")])).unwrap().is_soft);
    }
}
