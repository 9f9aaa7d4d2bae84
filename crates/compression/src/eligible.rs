//! Whether a response may be compressed.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Bytes of a body below which compression costs more than it saves.
pub const LEAST: u64 = 1024;

/// Types that are text in effect, beside `text/…`, `…+json` and `…+xml`. Others are compressed already, or gain little.
const TYPES: [&str; 27] = [
    "application/dash",
    "application/ecmascript",
    "application/eot",
    "application/geo+json",
    "application/javascript",
    "application/json",
    "application/json5",
    "application/manifest+json",
    "application/ndjson",
    "application/rtf",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-font-opentype",
    "application/x-font-ttf",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/x-json",
    "application/x-ndjson",
    "application/x-sh",
    "application/xml",
    "application/xml-dtd",
    "font/collection",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

/// Headers that say something of the bytes as they are, which compressed ones are not (RFC 9530).
const OF_BYTES: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// Whether a response could be compressed for a client that wants it. `length`: of its body, if it is known. `is_forced`: its client takes nothing
/// uncompressed, so type and length do not count.
pub fn could_be(status: StatusCode, headers: &HeaderMap, length: Option<u64>, is_forced: bool) -> bool {
    let has_body = !status.is_informational()
        && ![
            StatusCode::NO_CONTENT,
            StatusCode::RESET_CONTENT,
            StatusCode::PARTIAL_CONTENT,
            StatusCode::NOT_MODIFIED,
            StatusCode::RANGE_NOT_SATISFIABLE,
        ]
        .contains(&status);
    has_body
        && length != Some(0)
        && !OF_BYTES.iter().any(|name| headers.contains_key(name))
        && !may_not_be_transformed(headers)
        && !is_event_stream(headers)
        && (is_forced
            || length.is_none_or(|length| length >= LEAST) && headers.get(header::CONTENT_TYPE).is_some_and(is_text))
}

/// Type and subtype, without parameters.
fn kind(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()?.split(';').next().map(str::trim)
}

/// Events have to arrive one by one, and some clients read them from the socket.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(kind);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// Whether what has this content type is text in effect.
pub fn is_text(value: &HeaderValue) -> bool {
    let Some(kind) = kind(value).map(str::to_ascii_lowercase) else { return false };
    kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml") || TYPES.contains(&kind.as_str())
}

/// RFC 9111 §5.2.2.6. A header that cannot be read may say it.
fn may_not_be_transformed(headers: &HeaderMap) -> bool {
    cache::list::members(headers, header::CACHE_CONTROL)
        .is_none_or(|members| members.iter().any(|member| member.eq_ignore_ascii_case("no-transform")))
}

/// Whether a request goes on with a response that it knows by its date: compressed and as it is, that has the same date.
pub fn resumes_by_date(request: &HeaderMap) -> bool {
    request.get(header::IF_RANGE).is_some_and(|value| !value.as_bytes().ends_with(b"\""))
}

/// Whether a response says that everybody may have it.
pub fn is_public(headers: &HeaderMap) -> bool {
    cache::list::members(headers, header::CACHE_CONTROL)
        .is_some_and(|members| members.iter().any(|member| member.eq_ignore_ascii_case("public")))
}

/// Whether the length of a compressed response could tell another site what is in it (BREACH). For that the other site has to make a visitor's browser
/// ask, with what that sends by itself: a cookie, a password, a certificate. Browsers say which site asks. `is_certified`: the client may have a
/// certificate.
pub fn could_be_probed(request: &HeaderMap, is_certified: bool) -> bool {
    let is_from_here = request
        .get("sec-fetch-site")
        .is_some_and(|site| [&b"same-origin"[..], b"same-site", b"none"].iter().any(|word| site.as_bytes() == *word));
    !is_from_here && (is_certified || request.contains_key(header::COOKIE) || has_password(request))
}

/// Whether a request has a password that browsers send by themselves. Tokens (Bearer) they do not.
fn has_password(request: &HeaderMap) -> bool {
    request.get_all(header::AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        !scheme.eq_ignore_ascii_case(b"bearer")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn types_are_known() {
        for kind in [
            "text/html",
            "Text/HTML; charset=UTF-8",
            "text/css",
            "application/json",
            "application/ld+json",
            "application/problem+json;x=y",
            "application/rss+xml",
            "image/svg+xml",
            "application/wasm",
            "font/ttf",
        ] {
            assert!(is_text(&HeaderValue::from_static(kind)), "{kind}");
        }
        for kind in ["image/png", "application/pdf", "application/zip", "font/woff2", "video/mp4", "", "textual/x"] {
            assert!(!is_text(&HeaderValue::from_static(kind)), "{kind}");
        }
        assert!(TYPES.is_sorted());
    }

    #[test]
    fn what_may_be_compressed() {
        let html = ("content-type", "text/html");
        let may = |status: u16, fields: &[(&'static str, &str)], length| {
            could_be(StatusCode::from_u16(status).unwrap(), &headers(fields), length, false)
        };
        for status in [200, 201, 203, 301, 400, 404, 500, 503] {
            assert!(may(status, &[html], None) && may(status, &[html], Some(LEAST)), "{status}");
        }
        for status in [101, 103, 204, 205, 206, 304, 416] {
            assert!(!may(status, &[html], None), "{status}");
        }
        assert!(!may(200, &[html], Some(LEAST - 1)) && !may(200, &[html], Some(0)) && !may(200, &[], None));
        for field in [
            ("content-encoding", "gzip"),
            ("content-encoding", "identity"),
            ("content-range", "bytes 0-1/2"),
            ("cache-control", "public, No-Transform"),
            ("cache-control", "x=\"y"),
            ("content-digest", "sha-256=:x:"),
            ("repr-digest", "sha-256=:x:"),
            ("content-md5", "x"),
        ] {
            assert!(!may(200, &[html, field], None), "{field:?}");
            assert!(!could_be(StatusCode::OK, &headers(&[html, field]), None, true), "{field:?}");
        }
        for kind in ["text/event-stream", "Text/Event-Stream; charset=utf-8"] {
            assert!(!may(200, &[("content-type", kind)], None), "{kind}");
        }
        assert!(may(200, &[html, ("cache-control", "no-store")], None));
        assert!(could_be(StatusCode::OK, &headers(&[("content-type", "image/png")]), Some(5), true));
        assert!(!could_be(StatusCode::NO_CONTENT, &headers(&[]), None, true));
    }

    #[test]
    fn visitors_are_guarded_against_other_sites() {
        for (fields, could) in [
            (&[][..], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("cookie", "a=b")], true),
            (&[("cookie", "a=b"), ("sec-fetch-site", "cross-site")], true),
            (&[("cookie", "a=b"), ("sec-fetch-site", "new-word")], true),
            (&[("cookie", "a=b"), ("sec-fetch-site", "same-origin")], false),
            (&[("cookie", "a=b"), ("sec-fetch-site", "same-site")], false),
            (&[("cookie", "a=b"), ("sec-fetch-site", "none")], false),
            (&[("authorization", "Basic YTpi")], true),
            (&[("authorization", "Bearer x")], false),
            (&[("authorization", "Basic YTpi"), ("sec-fetch-site", "none")], false),
        ] {
            assert_eq!(could_be_probed(&headers(fields), false), could, "{fields:?}");
        }
        assert!(could_be_probed(&headers(&[]), true));
    }
}
