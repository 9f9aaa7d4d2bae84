//! Who a client behind declared proxies is and what it asked them for: `Forwarded` (RFC 7239), else X-Forwarded-For, -Proto
//! and -Port.
//!
//! Every proxy appends whom it got the request from, so the chain is read from its end: the first address that is no
//! declared proxy is the client. What stands before it anybody may have written. The host is not taken from a header: a
//! proxy passes on the one it was asked for (proxy_set_header Host $host), or lets the client's X-Forwarded-Host through.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HeaderMap, HeaderName};

use crate::settings::Network;

/// Hops looked at.
const MAX_HOPS: usize = 32;

/// A client behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: String,
    /// Its port, or empty if nobody said it.
    pub port: String,
    /// Whether it spoke HTTPS to the first proxy; `None`: nobody said.
    pub is_https: Option<bool>,
    /// The port it asked; `None`: nobody said.
    pub server_port: Option<u16>,
}

#[derive(Default)]
struct Hop {
    from: Option<(IpAddr, Option<u16>)>,
    is_https: Option<bool>,
}

/// The client of a request that a declared proxy has sent; `None` if its headers say nothing.
pub fn client(headers: &HeaderMap, proxies: &[Network]) -> Option<Client> {
    let forwarded = values(headers, "forwarded");
    let (hops, port) = if forwarded.is_empty() {
        let protocols = values(headers, "x-forwarded-proto");
        let ports = values(headers, "x-forwarded-port");
        let sources = values(headers, "x-forwarded-for");
        let mut hops: Vec<Hop> = sources.iter().map(|text| Hop { from: address(text), is_https: None }).collect();
        if hops.is_empty() && !(protocols.is_empty() && ports.is_empty()) {
            hops.push(Hop::default());
        }
        // Lists of the same length belong together from their ends; a single value is the last proxy's about them all.
        for (back, hop) in hops.iter_mut().rev().enumerate() {
            let one = protocols.len().checked_sub(back + 1).or(if protocols.is_empty() { None } else { Some(0) });
            hop.is_https = one.and_then(|one| protocol(protocols[one]));
        }
        (hops, ports.last().and_then(|port| port.parse().ok()))
    } else {
        (forwarded.iter().map(|element| hop(element)).collect(), None)
    };
    let mut found: Option<&Hop> = None;
    for hop in hops.iter().rev().take(MAX_HOPS) {
        match hop.from {
            // "unknown" or a made-up name: who handed it on is the last that is known.
            None => {
                found = found.or(Some(hop));
                break;
            }
            Some((address, _)) => {
                found = Some(hop);
                if !proxies.iter().any(|network| network.contains(address)) {
                    break;
                }
            }
        }
    }
    let hop = found?;
    Some(Client {
        address: hop.from.map(|(address, _)| address.to_string()).unwrap_or_default(),
        port: hop.from.and_then(|(_, port)| port).map(|port| port.to_string()).unwrap_or_default(),
        is_https: hop.is_https,
        server_port: port,
    })
}

/// All elements of all headers of that name.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> Vec<&'a str> {
    let texts = headers.get_all(HeaderName::from_static(name)).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| split(text, b',')).filter(|element| !element.is_empty()).collect()
}

/// Split at a separator that stands in no quoted string.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

/// An element of `Forwarded`: `for="[2001:db8::1]:4711";proto=https`.
fn hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split(element, b';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim_matches('"');
        if name.eq_ignore_ascii_case("for") {
            hop.from = address(value);
        } else if name.eq_ignore_ascii_case("proto") {
            hop.is_https = protocol(value);
        }
    }
    hop
}

fn protocol(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("https") => Some(true),
        _ if text.eq_ignore_ascii_case("http") => Some(false),
        _ => None,
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_canonical(), Some(address.port())));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<IpAddr>().ok().map(|address| (address.to_canonical(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&'static str, &'static str)]) -> Option<(String, String, Option<bool>, Option<u16>)> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let proxies = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap(), Network::Unix];
        client(&headers, &proxies).map(|client| (client.address, client.port, client.is_https, client.server_port))
    }

    fn is(
        address: &str,
        port: &str,
        is_https: Option<bool>,
        asked: Option<u16>,
    ) -> Option<(String, String, Option<bool>, Option<u16>)> {
        Some((address.to_owned(), port.to_owned(), is_https, asked))
    }

    #[test]
    fn the_chain_is_read_from_its_end() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1")]), is("192.0.2.1", "", None, None));
        // What the client itself has written comes first.
        assert_eq!(found(&[("x-forwarded-for", "1.1.1.1, 192.0.2.1")]), is("192.0.2.1", "", None, None));
        assert_eq!(
            found(&[("x-forwarded-for", "1.1.1.1, 192.0.2.1, 10.0.0.2, 10.0.0.1")]),
            is("192.0.2.1", "", None, None)
        );
        assert_eq!(
            found(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.1")]),
            is("192.0.2.1", "", None, None)
        );
        // Nobody but proxies: the first of them.
        assert_eq!(found(&[("x-forwarded-for", "10.0.0.3, 10.0.0.2")]), is("10.0.0.3", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1, unknown, 10.0.0.2")]), is("10.0.0.2", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1:555")]), is("192.0.2.1", "555", None, None));
        assert_eq!(found(&[("x-forwarded-for", "::ffff:192.0.2.1")]), is("192.0.2.1", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1, \"]}")]), is("", "", None, None));
    }

    #[test]
    fn protocol_and_port_belong_to_the_client() {
        let https = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("x-forwarded-port", "8443")];
        assert_eq!(found(&https), is("192.0.2.1", "", Some(true), Some(8443)));
        assert_eq!(found(&[("x-forwarded-proto", "HTTPS")]), is("", "", Some(true), None));
        assert_eq!(found(&[("x-forwarded-proto", "gopher")]), is("", "", None, None));
        let lists = [("x-forwarded-for", "192.0.2.1, 10.0.0.2"), ("x-forwarded-proto", "https, http")];
        assert_eq!(found(&lists), is("192.0.2.1", "", Some(true), None));
        let one = [("x-forwarded-for", "192.0.2.1, 10.0.0.2"), ("x-forwarded-proto", "https")];
        assert_eq!(found(&one), is("192.0.2.1", "", Some(true), None));
    }

    #[test]
    fn forwarded_goes_before_the_others() {
        let both = [("forwarded", "for=192.0.2.7;proto=https;by=10.0.0.1"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(found(&both), is("192.0.2.7", "", Some(true), None));
        let quoted = [("forwarded", "for=\"1.1.1.1\", For=\"[2001:db8::1]:4711\";Proto=http, for=\"[fd00::2]\"")];
        assert_eq!(found(&quoted), is("2001:db8::1", "4711", Some(false), None));
        assert_eq!(found(&[("forwarded", "for=_hidden, for=10.0.0.2")]), is("10.0.0.2", "", None, None));
        assert_eq!(found(&[("forwarded", "secret=\"a,b;for=1.2.3.4\"")]), is("", "", None, None));
    }
}
