//! Range and If-Range: a part lies within the response and is the one that RFC 9110 §14 says; it is sent only to who knows the very same bytes.

use cache::condition::Validators;
use cache::range::{Range, asked};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

const OF_REQUEST: [HeaderName; 2] = [header::RANGE, header::IF_RANGE];
const OF_RESPONSE: [HeaderName; 2] = [header::ETAG, header::LAST_MODIFIED];

/// What a range means, by numbers that are large enough. `None`: it is no single range of bytes.
fn meant(text: &str, size: u64) -> Option<Range> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(first) || !is_number(last) || (first.is_empty() && last.is_empty()) {
        return None;
    }
    // No number with more digits than that is smaller.
    let number = |text: &str| text.parse::<u128>().unwrap_or(u128::MAX);
    let size = u128::from(size);
    let (first, last) = match (first.is_empty(), last.is_empty()) {
        (true, _) => (size - number(last).min(size), size.saturating_sub(1)),
        (false, true) => (number(first), size.saturating_sub(1)),
        (false, false) if number(last) < number(first) => return None,
        (false, false) => (number(first), number(last).min(size.saturating_sub(1))),
    };
    if first >= size {
        return Some(Range::Beyond);
    }
    Some(Range::Part(u64::try_from(first).ok()?, u64::try_from(last).ok()?))
}

/// Eight bytes: the size of the response. Then lines; the first byte of each says which header it is.
pub fn check(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first_chunk() else { return };
    let size = u64::from_le_bytes(*size);
    let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
    for line in bytes.split(|&byte| byte == b'\n').take(8) {
        let [which, value @ ..] = line else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        let which = usize::from(*which) % 4;
        // The front refuses a second If-Range.
        match which {
            0 => drop(request.append(&OF_REQUEST[0], value)),
            1 => drop(request.insert(&OF_REQUEST[1], value)),
            _ => drop(response.insert(&OF_RESPONSE[which - 2], value)),
        }
    }
    let range = asked(&request, size);
    if let Some(Range::Part(first, last)) = range {
        assert!(first <= last && last < size);
    }
    // The whole response is a response to any range.
    if range.is_some() {
        assert_eq!(request.get_all(header::RANGE).iter().count(), 1);
        assert_eq!(range, request[header::RANGE].to_str().ok().and_then(|text| meant(text, size)));
    }
    let validators = Validators::of(&response);
    let is_current = validators.range_is_current(&request);
    let Some(known) = request.get(header::IF_RANGE) else {
        assert!(is_current);
        return;
    };
    if is_current {
        let date = |value: &HeaderValue| value.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
        let is_tag = response.get(header::ETAG) == Some(known) && known.as_bytes().starts_with(b"\"");
        let modified = response.get(header::LAST_MODIFIED).and_then(date);
        assert!(is_tag || (modified.is_some() && modified == date(known)), "{known:?} of {response:?}");
        // Who knows the same bytes knows the response. In lists a backslash escapes, which no ETag should have (RFC 9110 §8.8.3).
        let end = known.as_bytes().iter().skip(1).position(|byte| b"\"\\".contains(byte));
        if is_tag && end.is_some_and(|at| at + 2 == known.len()) && known.as_bytes().ends_with(b"\"") {
            let mut own = HeaderMap::new();
            own.insert(header::IF_MATCH, known.clone());
            assert_ne!(validators.check(&own), cache::condition::Condition::Failed);
        }
    }
}
