//! Basic authentication: what is read of a header is exactly what it encodes, and lets in whom the file names alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use front::credentials;
use http::header::{self, HeaderMap, HeaderValue};
use routing::rules::users;

fn read(value: HeaderValue) -> Option<(String, Vec<u8>)> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, value);
    credentials(&headers)
}

/// The header as it is sent; after a line's end an htpasswd file.
pub fn check(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == b'\n');
    let Ok(value) = HeaderValue::from_bytes(parts.next().unwrap_or_default()) else { return };
    let file = parts.next().and_then(|file| std::str::from_utf8(file).ok()).unwrap_or_default();
    let Some((name, password)) = read(value.clone()) else { return };
    assert!(!name.contains(':'), "the first colon ends the name (RFC 7617 §2)");
    let pair = [name.as_bytes(), b":", &password].concat();
    let text = value.to_str().expect("ASCII");
    assert!(text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic ")));
    assert_eq!(text[6..].trim(), STANDARD.encode(&pair), "one pair has one form");
    for scheme in ["Basic", "bAsIC"] {
        let again = HeaderValue::try_from(format!("{scheme} {}", STANDARD.encode(&pair))).expect("a header");
        assert_eq!(read(again), Some((name.clone(), password.clone())));
    }
    let Ok(users) = users::parse(file) else { return };
    // bcrypt is slow by intention.
    if users.values().any(|hash| hash.starts_with("$2")) {
        return;
    }
    let compared = users::Compared::of(&users, &name).expect("there are users");
    if compared.is_right(&password) {
        assert!(users.contains_key(&name));
        assert!(!compared.is_right(&[&password[..], b"x"].concat()), "another password");
        let other = format!("{name}:");
        assert!(!users::Compared::of(&users, &other).expect("there are users").is_right(&password), "nobody");
    }
}
