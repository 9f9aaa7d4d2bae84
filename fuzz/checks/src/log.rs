//! Whatever a client sends, its line of the access log is one line, and in JSON an object with all fields.

use std::time::Duration;

use front::access::{Facts, MAX_FIELD, format};
use hyper::Request;
use inbound::request::Head;
use ipc::layout::Usage;
use routing::settings::LogFormat;

/// Checks what holds for these bytes.
pub fn check(bytes: &[u8]) {
    let mut fields = bytes.split(|&byte| byte == 0);
    let mut next = || fields.next().unwrap_or(b"");
    let mut request = Request::builder().method(next()).uri(next());
    for name in ["host", "referer", "user-agent"] {
        request = request.header(name, next());
    }
    let Ok(request) = request.body(()) else { return };
    let (parts, ()) = request.into_parts();
    let head = Head::new(parts.method, parts.uri, parts.version, parts.headers, None);
    let facts = Facts {
        client: "192.0.2.1",
        status: 200,
        sent: bytes.len() as u64,
        took: Duration::from_micros(bytes.len() as u64 * 999_983),
        usage: Usage { processor_us: 7, peak_kib: u32::from(bytes.len() % 2 == 0) },
        refused: None,
        reason: std::str::from_utf8(next()).ok(),
        upstream: None,
        cache: None,
    };
    let combined = format(LogFormat::Combined, &head, &facts);
    assert!(combined.is_ascii() && combined.ends_with(b"\n"));
    assert_eq!(combined.iter().filter(|&&byte| byte == b'\n').count(), 1);
    assert_eq!(combined.iter().filter(|&&byte| byte == b'"').count(), 6);
    let json = format(LogFormat::Json, &head, &facts);
    assert_eq!(json.iter().filter(|&&byte| byte == b'\n').count(), 1);
    let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let method = head.method.as_str();
    assert_eq!(value["method"], method[..method.len().min(MAX_FIELD)]);
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(19));
}
