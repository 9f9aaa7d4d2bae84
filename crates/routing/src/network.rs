//! Addresses and networks of clients and proxies.

use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An address, a network, or all unix sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Connections through unix sockets.
    Unix,
    /// All addresses that share this many leading bits with this one.
    Ip(IpAddr, u8),
}

impl FromStr for Network {
    type Err = ();

    /// `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`, `unix:`.
    fn from_str(text: &str) -> Result<Network, ()> {
        if text == "unix:" {
            return Ok(Network::Unix);
        }
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| ()))?;
        if bits > most { Err(()) } else { Ok(Network::Ip(address, bits)) }
    }
}

impl Network {
    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Network::Ip(IpAddr::V4(network), bits), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                u32::from(*network) & mask == u32::from(address) & mask
            }
            (Network::Ip(IpAddr::V6(network), bits), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                u128::from(*network) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let holds =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("127.0.0.1", "127.0.0.1") && !holds("127.0.0.1", "127.0.0.2"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe80::1"));
        for bad in ["", "10.0.0.0/33", "x", "unix", "1.2.3.4/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
