//! Pages with holes (ESI Language Specification 1.0, as far as Symfony and its peers write it): `<esi:include src alt onerror/>`, `<esi:remove>` and
//! `<esi:comment/>`. Everything else is text.

use http::HeaderMap;
use http::header::HeaderName;

/// The field in which a response says that it has holes.
pub const CONTROL: HeaderName = HeaderName::from_static("surrogate-control");
/// What a request says to a server that may make pages with holes.
pub const CAPABILITY: &str = "reprise=\"ESI/1.0\"";

/// Whether a response says that it has holes.
pub fn is_said(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTROL)
        .iter()
        .filter_map(crate::list::text)
        .any(|text| text.replace(' ', "").contains("content=\"ESI/1.0\""))
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes of the page.
    Text(std::ops::Range<usize>),
    /// A response is to stand here.
    Include(Include),
}

/// A response that is to stand in a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// Its URL.
    pub src: String,
    /// Another URL, if the first one fails.
    pub alt: Option<String>,
    /// If both fail, nothing stands there.
    pub may_fail: bool,
}

/// Why a page cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A tag or an element does not end.
    Open,
    /// An include has no src.
    NoSource,
    /// More includes than [`MOST`].
    TooMany,
}

/// Includes of one page, at most.
pub const MOST: usize = 64;

/// Takes a page apart.
pub fn parts(page: &[u8]) -> Result<Vec<Part>, Fault> {
    let (mut parts, mut from, mut includes) = (Vec::new(), 0, 0);
    let mut at = 0;
    while let Some(tag) = find(page, b"<esi:", at) {
        let name_at = tag + 5;
        let name_end = page[name_at..].iter().position(|byte| !byte.is_ascii_alphabetic()).map(|count| name_at + count);
        let name = name_end.map_or(&page[name_at..], |end| &page[name_at..end]);
        if ![&b"include"[..], b"remove", b"comment"].contains(&name) {
            at = name_at;
            continue;
        }
        if from < tag {
            parts.push(Part::Text(from..tag));
        }
        let end = tag_end(page, name_at).ok_or(Fault::Open)?;
        let is_empty = page[..end].ends_with(b"/>");
        let inner = &page[name_at + name.len()..end - if is_empty { 2 } else { 1 }];
        from = end;
        match name {
            b"include" => {
                includes += 1;
                if includes > MOST {
                    return Err(Fault::TooMany);
                }
                parts.push(Part::Include(include(inner).ok_or(Fault::NoSource)?));
                // <esi:include …></esi:include> is the same.
                if !is_empty && page[from..].starts_with(b"</esi:include>") {
                    from += b"</esi:include>".len();
                }
            }
            b"remove" if !is_empty => {
                let closing = find(page, b"</esi:remove>", end).ok_or(Fault::Open)?;
                from = closing + b"</esi:remove>".len();
            }
            _ => {}
        }
        at = from;
    }
    if from < page.len() {
        parts.push(Part::Text(from..page.len()));
    }
    Ok(parts)
}

fn find(page: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let first = *wanted.first()?;
    let mut at = from;
    loop {
        at += page.get(at..)?.iter().position(|byte| *byte == first)?;
        if page[at..].starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
}

/// Behind the `>` of a tag. One between quotes is none.
fn tag_end(page: &[u8], from: usize) -> Option<usize> {
    let mut quote = None;
    for (count, &byte) in page[from..].iter().enumerate() {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            (b'>', None) => return Some(from + count + 1),
            _ => {}
        }
    }
    None
}

fn include(inner: &[u8]) -> Option<Include> {
    let text = std::str::from_utf8(inner).ok()?;
    let mut include = Include::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
        let (value, behind) = behind[1..].split_once(quote)?;
        match name.trim() {
            "src" => include.src = unescaped(value),
            "alt" => include.alt = Some(unescaped(value)),
            "onerror" => include.may_fail = value == "continue",
            _ => {}
        }
        rest = behind.trim_start();
    }
    (!include.src.is_empty()).then_some(include)
}

/// URLs stand in pages as attributes do.
fn unescaped(value: &str) -> String {
    value.replace("&quot;", "\"").replace("&#039;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Path and query of a URL in a page, if it is of the page's host. `host`: with its port, if it has one.
pub fn target(url: &str, host: &str) -> Option<String> {
    let target = match url.split_once("://") {
        Some((scheme, rest)) if ["http", "https"].contains(&scheme) => {
            let (named, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            named.eq_ignore_ascii_case(host).then_some(target)?
        }
        Some(_) => return None,
        None if url.starts_with('/') && !url.starts_with("//") => url,
        None => return None,
    };
    let target = if target.is_empty() { "/" } else { target };
    let is_fine = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    is_fine.then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: &str) -> Result<Vec<String>, Fault> {
        let show = |part: Part| match part {
            Part::Text(range) => page[range].to_owned(),
            Part::Include(Include { src, alt, may_fail }) => {
                format!(
                    "[{src}{}{}]",
                    alt.map_or(String::new(), |alt| format!("|{alt}")),
                    if may_fail { "?" } else { "" }
                )
            }
        };
        Ok(parts(page.as_bytes())?.into_iter().map(show).collect())
    }

    #[test]
    fn holes_are_found() {
        for (page, meant) in [
            ("plain", &["plain"][..]),
            ("", &[]),
            ("a<esi:include src=\"/x?a=1&amp;b=2\"/>b", &["a", "[/x?a=1&b=2]", "b"]),
            ("<esi:include src='/x' alt=\"/y\" onerror=\"continue\" />", &["[/x|/y?]"]),
            ("<esi:include src=\"/a>b\"></esi:include>c", &["[/a>b]", "c"]),
            ("a<esi:remove>gone<esi:include src=\"/x\"/></esi:remove>b", &["a", "b"]),
            ("a<esi:comment text=\"x > y\"/>b", &["a", "b"]),
            ("a<esi:vars>b</esi:vars><!--esi x-->", &["a<esi:vars>b</esi:vars><!--esi x-->"]),
            ("<esi:include src=\"/x\"/><esi:include src=\"/y\"/>", &["[/x]", "[/y]"]),
        ] {
            assert_eq!(shown(page).unwrap(), meant, "{page}");
        }
    }

    #[test]
    fn what_is_broken_is_a_fault() {
        for (page, fault) in [
            ("<esi:include src=\"/x\"", Fault::Open),
            ("<esi:remove>x", Fault::Open),
            ("<esi:include/>", Fault::NoSource),
            ("<esi:include src=x/>", Fault::NoSource),
            ("<esi:include alt=\"/x\"/>", Fault::NoSource),
        ] {
            assert_eq!(shown(page), Err(fault), "{page}");
        }
        assert_eq!(shown(&"<esi:include src=\"/x\"/>".repeat(MOST + 1)), Err(Fault::TooMany));
        assert!(shown(&"<esi:include src=\"/x\"/>".repeat(MOST)).is_ok());
    }

    #[test]
    fn only_the_page_s_own_host_is_asked() {
        for (url, meant) in [
            ("/x?y", Some("/x?y")),
            ("http://a.example/x", Some("/x")),
            ("https://A.example", Some("/")),
            ("http://b.example/x", None),
            ("//b.example/x", None),
            ("x", None),
            ("file:///etc/passwd", None),
            ("/x y", None),
            ("/x\r\nHost: b", None),
        ] {
            assert_eq!(target(url, "a.example").as_deref(), meant, "{url}");
        }
    }

    /// No page makes it fail otherwise than by a fault, and what is text stays as it is.
    #[test]
    fn any_page_can_be_taken_apart() {
        let mut random = fastrand::Rng::with_seed(3);
        let pieces = [
            "<esi:",
            "include",
            " src=\"/x\"",
            "/>",
            ">",
            "<",
            "</esi:remove>",
            "remove",
            "comment",
            "\"",
            "text",
            "é",
        ];
        for _ in 0..20_000 {
            let page: String = (0..random.usize(..12)).map(|_| *random.choice(&pieces).unwrap()).collect();
            if let Ok(parts) = parts(page.as_bytes()) {
                let mut at = 0;
                for part in parts {
                    if let Part::Text(range) = part {
                        assert!(range.start >= at && range.end > range.start && range.end <= page.len(), "{page}");
                        at = range.end;
                    }
                }
            }
        }
    }
}
