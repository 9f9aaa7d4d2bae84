//! The client behind declared proxies, and the scheme and port that it used: by X-Forwarded-For, -Proto and -Port, or by
//! `Forwarded` (RFC 7239), whichever the proxies are declared to write. The other kind comes from the client, and is
//! dropped.
//!
//! Nothing that a client writes may make unreadable what a proxy appends. So lists are split at every comma, also at quoted
//! ones, unless all quotes in `Forwarded` are balanced; and bytes that are not text invalidate only their own element.
//!
//! Every proxy appends the address that it got the request from, so the chain is read from its end: the first address that
//! is not a declared proxy is the client. Anybody may have written what stands before it. The host is not taken from such a
//! header: a proxy passes on the host that it was asked for (proxy_set_header Host $host), and X-Forwarded-Host may come
//! from the client.

use std::net::{IpAddr, SocketAddr};

use http::header::{HeaderMap, HeaderName};

use routing::settings::{Network, ProxyHeaders};

/// Hops that are looked at.
const MAX_HOPS: usize = 32;

/// A client behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: String,
    /// Its port; empty: unknown.
    pub port: String,
    /// Whether it spoke HTTPS to the first proxy; `None`: unknown.
    pub is_https: Option<bool>,
    /// The port that it connected to; `None`: unknown.
    pub server_port: Option<u16>,
}

#[derive(Default)]
struct Hop {
    from: Option<(IpAddr, Option<u16>)>,
    is_https: Option<bool>,
}

/// The client of a request that a declared proxy has sent; `None` if its headers say nothing.
pub fn client(headers: &HeaderMap, proxies: &[Network], written: ProxyHeaders) -> Option<Client> {
    let (hops, port) = match written {
        ProxyHeaders::Forwarded => {
            let elements = values(headers, "forwarded", split_quoted);
            (elements.iter().map(|element| hop(element)).collect(), None)
        }
        ProxyHeaders::XForwarded => {
            let protocols = values(headers, "x-forwarded-proto", split);
            let ports = values(headers, "x-forwarded-port", split);
            let sources = values(headers, "x-forwarded-for", split);
            let mut hops: Vec<Hop> = sources.iter().map(|text| Hop { from: address(text), is_https: None }).collect();
            if hops.is_empty() && !(protocols.is_empty() && ports.is_empty()) {
                hops.push(Hop::default());
            }
            // The lists are matched from their ends. A single value is what the last proxy says about the whole chain.
            for (back, hop) in hops.iter_mut().rev().enumerate() {
                let one = protocols.len().checked_sub(back + 1).or(if protocols.is_empty() { None } else { Some(0) });
                hop.is_https = one.and_then(|one| protocol(&protocols[one]));
            }
            (hops, ports.last().and_then(|port| port.parse().ok()))
        }
    };
    let mut found: Option<&Hop> = None;
    for hop in hops.iter().rev().take(MAX_HOPS) {
        match hop.from {
            // "unknown" or an invented name: the proxy behind it is the last that is known.
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

/// All elements of all headers with that name.
fn values(headers: &HeaderMap, name: &'static str, split: fn(&str) -> Vec<&str>) -> Vec<String> {
    let mut elements = Vec::new();
    for value in headers.get_all(HeaderName::from_static(name)) {
        let text = String::from_utf8_lossy(value.as_bytes());
        elements.extend(split(&text).into_iter().filter(|element| !element.is_empty()).map(str::to_owned));
    }
    elements
}

/// Splits at every comma.
fn split(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).collect()
}

/// Splits at commas outside quoted strings; at every comma if a quote is not closed.
fn split_quoted(text: &str) -> Vec<&str> {
    split_outside_quotes(text, b',').unwrap_or_else(|| split(text))
}

fn split_outside_quotes(text: &str, separator: u8) -> Option<Vec<&str>> {
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
    (!quoted).then_some(parts)
}

/// An element of `Forwarded`: `for="[2001:db8::1]:4711";proto=https`.
fn hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split_outside_quotes(element, b';').unwrap_or_else(|| element.split(';').map(str::trim).collect()) {
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
        let written =
            if headers.contains_key("forwarded") { ProxyHeaders::Forwarded } else { ProxyHeaders::XForwarded };
        client(&headers, &proxies, written)
            .map(|client| (client.address, client.port, client.is_https, client.server_port))
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
        // The first address is one that the client itself has written.
        assert_eq!(found(&[("x-forwarded-for", "1.1.1.1, 192.0.2.1")]), is("192.0.2.1", "", None, None));
        assert_eq!(
            found(&[("x-forwarded-for", "1.1.1.1, 192.0.2.1, 10.0.0.2, 10.0.0.1")]),
            is("192.0.2.1", "", None, None)
        );
        assert_eq!(
            found(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.1")]),
            is("192.0.2.1", "", None, None)
        );
        // All addresses are proxies: the first counts.
        assert_eq!(found(&[("x-forwarded-for", "10.0.0.3, 10.0.0.2")]), is("10.0.0.3", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1, unknown, 10.0.0.2")]), is("10.0.0.2", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1:555")]), is("192.0.2.1", "555", None, None));
        assert_eq!(found(&[("x-forwarded-for", "::ffff:192.0.2.1")]), is("192.0.2.1", "", None, None));
        assert_eq!(found(&[("x-forwarded-for", "192.0.2.1, \"]}")]), is("", "", None, None));
    }

    #[test]
    fn no_letter_of_a_client_hides_what_a_proxy_appends() {
        for theirs in ["\"", "\"a", "\\\"", "\u{ff}", "for=\"", "x, \"y", "[", ""] {
            let mut headers = HeaderMap::new();
            let value = [theirs.as_bytes(), b", 203.0.113.9"].concat();
            headers.append("x-forwarded-for", http::header::HeaderValue::from_bytes(&value).unwrap());
            let proxies = ["10.0.0.0/8".parse().unwrap()];
            assert_eq!(
                client(&headers, &proxies, ProxyHeaders::XForwarded).unwrap().address,
                "203.0.113.9",
                "{theirs}"
            );
            let mut headers = HeaderMap::new();
            let value = [theirs.as_bytes(), b", for=203.0.113.9"].concat();
            headers.append("forwarded", http::header::HeaderValue::from_bytes(&value).unwrap());
            assert_eq!(client(&headers, &proxies, ProxyHeaders::Forwarded).unwrap().address, "203.0.113.9", "{theirs}");
        }
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
    fn each_family_is_read_by_itself() {
        let both = [("forwarded", "for=192.0.2.7;proto=https;by=10.0.0.1"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(found(&both), is("192.0.2.7", "", Some(true), None));
        let mut headers = HeaderMap::new();
        for (name, value) in both {
            headers.append(name, value.parse().unwrap());
        }
        let client = client(&headers, &[], ProxyHeaders::XForwarded).unwrap();
        assert_eq!((client.address.as_str(), client.is_https), ("192.0.2.1", None));
        let quoted = [("forwarded", "for=\"1.1.1.1\", For=\"[2001:db8::1]:4711\";Proto=http, for=\"[fd00::2]\"")];
        assert_eq!(found(&quoted), is("2001:db8::1", "4711", Some(false), None));
        assert_eq!(found(&[("forwarded", "for=_hidden, for=10.0.0.2")]), is("10.0.0.2", "", None, None));
        assert_eq!(found(&[("forwarded", "secret=\"a,b;for=1.2.3.4\"")]), is("", "", None, None));
    }
}
