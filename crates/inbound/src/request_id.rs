//! The id of a request, by which its line in the access log, what PHP logs and what a proxy in front has logged are found together.
//!
//! It is what a declared proxy says in X-Request-Id, if that is fit for a log; else 128 random bits. They are unique, and
//! not meant as a secret: PHP and both logs have them.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use http::HeaderMap;

/// Longest id that is taken from a proxy.
const MAX: usize = 128;

/// An id, fit for a log and a header: letters, digits and `-._:+/=@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Spelled);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Spelled {
    Made([u8; 32]),
    Given(Box<[u8]>),
}

thread_local! {
    /// A keyed hash of a count, whose key the kernel has given to this thread: no system call for a request.
    static MAKER: (RandomState, Cell<u64>) = (RandomState::new(), Cell::new(0));
}

impl RequestId {
    /// A new one.
    pub fn made() -> RequestId {
        let (high, low) = MAKER.with(|(key, count)| {
            let number = count.get();
            count.set(number.wrapping_add(1));
            (key.hash_one((number, 0u8)), key.hash_one((number, 1u8)))
        });
        let mut digits = [0; 32];
        let mut rest = u128::from(high) << 64 | u128::from(low);
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        RequestId(Spelled::Made(digits))
    }

    /// The one that a declared proxy has written, if there is one and it is fit.
    pub fn given(headers: &HeaderMap) -> Option<RequestId> {
        let mut values = headers.get_all("x-request-id").iter();
        let (id, None) = (values.next()?.as_bytes(), values.next()) else { return None };
        let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:+/=@".contains(byte);
        ((1..=MAX).contains(&id.len()) && id.iter().all(is_fit)).then(|| RequestId(Spelled::Given(id.into())))
    }

    /// Its text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Spelled::Made(digits) => digits,
            Spelled::Given(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_no_two_are_alike() {
        let of_a_thread = || (0..1000).map(|_| RequestId::made().as_bytes().to_vec()).collect::<Vec<_>>();
        let other = std::thread::spawn(of_a_thread).join().unwrap();
        let all: BTreeSet<Vec<u8>> = of_a_thread().into_iter().chain(other).collect();
        assert!(all.len() == 2000 && all.iter().flatten().all(u8::is_ascii_hexdigit));
        assert!(all.iter().all(|id| id.len() == 32));
    }

    #[test]
    fn a_proxy_may_say_what_is_fit_for_a_log() {
        let given = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append("x-request-id", value.parse().unwrap());
            });
            RequestId::given(&headers).map(|id| String::from_utf8(id.as_bytes().to_vec()).unwrap())
        };
        let longest = "x".repeat(MAX);
        for good in ["1", "f058ebd6-02f7-4d3f-942e-904344e8cde5", "Root=1-67891233-abcdef012345678912345678", &longest]
        {
            assert_eq!(given(&[good]).as_deref(), Some(good));
        }
        for bad in [&[][..], &[""], &["a", "b"], &["a b"], &["a\"b"], &["a\\b"], &["a,b"], &[&format!("{longest}x")]] {
            assert_eq!(given(bad), None, "{bad:?}");
        }
    }
}
