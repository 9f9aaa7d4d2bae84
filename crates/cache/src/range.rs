//! The part of a response that a client asks for (RFC 9110 §14).

use http::HeaderMap;
use http::header;

use crate::list;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// First and last byte.
    Part(u64, u64),
    /// The range has no byte of the response.
    Beyond,
}

/// The range that was asked for, if it is a single one. Several ranges, other units and malformed ranges get the whole response, as RFC 9110
/// allows. `size`: bytes of the whole response.
pub fn asked(headers: &HeaderMap, size: u64) -> Option<Range> {
    let mut all = headers.get_all(header::RANGE).iter();
    let text = all.next().filter(|_| all.next().is_none()).and_then(list::text)?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    if first.is_empty() {
        let count = number(last)?;
        return Some(if count == 0 || size == 0 {
            Range::Beyond
        } else {
            Range::Part(size - count.min(size), size - 1)
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(if first >= size { Range::Beyond } else { Range::Part(first, last.min(size - 1)) })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(text: &str, size: u64) -> Option<Range> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_str(text).unwrap());
        asked(&headers, size)
    }

    #[test]
    fn ranges_are_understood() {
        assert_eq!(of("bytes=0-0", 10), Some(Range::Part(0, 0)));
        assert_eq!(of("bytes=5-", 10), Some(Range::Part(5, 9)));
        assert_eq!(of("bytes=-3", 10), Some(Range::Part(7, 9)));
        assert_eq!(of("bytes=-30", 10), Some(Range::Part(0, 9)));
        assert_eq!(of("bytes=2-99", 10), Some(Range::Part(2, 9)));
        assert_eq!(of("bytes=10-", 10), Some(Range::Beyond));
        assert_eq!(of("bytes=-0", 10), Some(Range::Beyond));
        for nonsense in ["bytes=5-2", "bytes=a-b", "items=0-1", "bytes=0-1,3-4", "bytes=+1-2", "bytes=1"] {
            assert_eq!(of(nonsense, 10), None, "{nonsense}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::RANGE, HeaderValue::from_static("bytes=0-1"));
        twice.append(header::RANGE, HeaderValue::from_static("bytes=0-1"));
        assert_eq!(asked(&twice, 10), None);
    }

    #[test]
    fn no_range_leaves_the_response() {
        let pieces = ["bytes=", "-", "0", "1", "9", "18446744073709551615", "18446744073709551616", ",", " "];
        for seed in 0..5000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let text: String = (0..random.usize(..6)).map(|_| *random.choice(&pieces).unwrap()).collect();
            let size = *random.choice(&[0, 1, 10, u64::MAX]).unwrap();
            if let Some(Range::Part(first, last)) = of(&text, size) {
                assert!(first <= last && last < size, "{text} of {size}: {first}-{last}");
            }
        }
    }
}
