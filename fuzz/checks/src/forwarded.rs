//! Whatever a proxy passes on, the client is an address that could be one, and no declared proxy unless all hops are.

use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderValue};
use inbound::forwarded::client;
use routing::settings::{Network, ProxyHeaders};

const NAMES: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"];

/// Checks what holds for these bytes.
pub fn check(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|&byte| byte == b'\n').take(40) {
        let [which, value @ ..] = line else { continue };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(NAMES[usize::from(*which) % NAMES.len()], value);
        }
    }
    let proxies: [Network; 2] = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
    let written = if bytes.len() % 2 == 0 { ProxyHeaders::XForwarded } else { ProxyHeaders::Forwarded };
    let Some(found) = client(&headers, &proxies, written) else { return };
    assert!(found.port.is_empty() || found.port.parse::<u16>().is_ok());
    if found.address.is_empty() {
        return;
    }
    let address: IpAddr = found.address.parse().expect("an address");
    // Nobody that a trusted hop has not named: with an untrusted last hop, that one is the client.
    let last =
        headers.get_all("x-forwarded-for").iter().next_back().map(|value| String::from_utf8_lossy(value.as_bytes()));
    if let (ProxyHeaders::XForwarded, Some(last)) = (written, last) {
        let last = last.rsplit(',').map(str::trim).find(|part| !part.is_empty()).unwrap_or("");
        if let Ok(last) = last.parse::<IpAddr>() {
            let last = last.to_canonical();
            assert!(proxies.iter().any(|network| network.contains(last)) || last == address, "{last} {address}");
        }
    }
}
