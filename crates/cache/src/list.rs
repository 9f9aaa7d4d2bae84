//! Headers that are lists: members between commas, of which those in quotes are part of their member (RFC 9110 §5.6.1).

use http::HeaderMap;
use http::header::{AsHeaderName, HeaderValue};

/// All members of all fields of this name, without empty ones. `None` if a field is not ASCII or a quote does not end.
pub fn members(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Vec<&str>> {
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        split(text(value)?, &mut all)?;
    }
    Some(all)
}

/// A value as text, if it is printable ASCII.
pub fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn split<'t>(text: &'t str, all: &mut Vec<&'t str>) -> Option<()> {
    let (mut from, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                push(&text[from..at], all);
                from = at + 1;
            }
            _ => {}
        }
    }
    push(&text[from..], all);
    (!is_quoted).then_some(())
}

fn push<'t>(member: &'t str, all: &mut Vec<&'t str>) {
    let member = member.trim_matches([' ', '\t']);
    if !member.is_empty() {
        all.push(member);
    }
}

/// Whether a text is a token (RFC 9110 §5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The text between quotes, without escapes. `None` if that is not what it is.
pub fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"').filter(|_| text.len() > 1)?;
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => plain.push(rest.next()?),
            '"' => return None,
            _ => plain.push(character),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_members_together() {
        let mut headers = HeaderMap::new();
        headers.append("x", HeaderValue::from_static(r#" a , b="1, \"2" ,, c"#));
        headers.append("x", HeaderValue::from_static("d"));
        assert_eq!(members(&headers, "x"), Some(vec!["a", r#"b="1, \"2""#, "c", "d"]));
        headers.append("x", HeaderValue::from_static(r#"e="f, g"#));
        assert_eq!(members(&headers, "x"), None);
        assert_eq!(members(&headers, "y"), Some(vec![]));
    }

    #[test]
    fn quoted_texts_lose_their_quotes() {
        assert_eq!(unquoted(r#""a \"b\" \\""#).as_deref(), Some(r#"a "b" \"#));
        assert_eq!(unquoted(r#""""#).as_deref(), Some(""));
        for text in ["a", "\"", "\"a", "a\"", r#""a"b""#, r#""a\""#] {
            assert_eq!(unquoted(text), None, "{text}");
        }
    }
}
