//! The host that a request names, and the headers that it may have only once.

use http::Version;
use http::header::{self, HeaderMap, HeaderName};
use ipc::key::split_port;

use crate::request::Head;
use routing::refusal::Refusal;

/// Longest host, its port included. No name of the DNS is longer (RFC 1035 §2.3.4).
const MAX_HOST: usize = 255;

/// Headers with one value: a second line could only contradict the first. `If-Match` and `If-None-Match` are lists. Of the
/// other headers with one value PHP gets the first line, as with nginx ([`crate::head`]). A transport refuses two different
/// Content-Length.
const ONCE: [HeaderName; 4] =
    [header::AUTHORIZATION, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE, header::IF_RANGE];

/// Refuses a second line of a header that a head may have only once.
pub fn check_repeated(headers: &HeaderMap) -> Result<(), Refusal> {
    // Nearly no head has a name twice.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let is_repeated = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    if is_repeated(&header::HOST) {
        return Err(Refusal::BadHost);
    }
    if ONCE.iter().any(is_repeated) { Err(Refusal::RepeatedHeader) } else { Ok(()) }
}

/// The host that a request names, as it was sent: with its port and a dot at its end, if it has them.
pub fn named(head: &Head) -> Result<&str, Refusal> {
    let header = head.headers.get(header::HOST);
    // RFC 9112 §3.2.2: an absolute target's host wins, but the header has to be there all the same.
    let named = match (head.target.host(), header) {
        (_, None) if head.protocol == Version::HTTP_11 => return Err(Refusal::BadHost),
        (Some(host), _) => host,
        (None, Some(value)) => value.to_str().map_err(|_| Refusal::BadHost)?,
        (None, None) => "",
    };
    if !is_host(named) {
        return Err(Refusal::BadHost);
    }
    if named.len() > MAX_HOST { Err(Refusal::HeadTooLarge) } else { Ok(named) }
}

/// The name by which the application is looked up, and PHP's SERVER_NAME: lower-case, without port, and without the dot that
/// says that a name is complete (RFC 1034 §3.1).
pub fn name(host: &str) -> String {
    let (name, _) = split_port(host);
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// A name, an IPv4 address or an IPv6 address in brackets, perhaps with a port. Or empty, if the request names no host.
fn is_host(text: &str) -> bool {
    let (name, port) = split_port(text);
    let port_is_fine = port.is_none_or(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()));
    let name_is_fine = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => {
            !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
        }
        None => name.is_empty() || name.strip_suffix('.').unwrap_or(name).split('.').all(is_label),
    };
    name_is_fine && port_is_fine && (!name.is_empty() || text.is_empty())
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked() {
        for good in ["a.example", "a.example.", "a.:80", "a:80", "a:", "127.0.0.1:8080", "[::1]:80", "[::1]", "a_b", ""]
        {
            assert!(is_host(good), "{good}");
        }
        for bad in ["a b", "a/b", "a:b", "[::1", "::1", "a@b", "a:123456", ":80", "[x]"] {
            assert!(!is_host(bad), "{bad}");
        }
        for empty_label in [".", "..", ".a", "a..", "a..b", "127.0.0..1", ".:80", "a..:80", "[::1]."] {
            assert!(!is_host(empty_label), "{empty_label}");
        }
    }

    #[test]
    fn names_are_without_port_and_last_dot() {
        for (host, expected) in [
            ("a.example", "a.example"),
            ("A.Example.", "a.example"),
            ("a.example.:80", "a.example"),
            ("[::1]:80", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(name(host), expected, "{host}");
        }
    }
}
