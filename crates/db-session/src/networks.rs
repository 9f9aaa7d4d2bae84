//! Where servers may be to which connections are kept.

use core::net::IpAddr;

/// Whether `address` lies in one of `networks`: addresses, or networks like `10.0.0.0/8`, between commas.
pub fn has(networks: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || networks.split(',').any(|one| is_in(one.trim(), address))
}

fn is_in(network: &str, address: IpAddr) -> bool {
    let (base, bits) = network.split_once('/').map_or((network, None), |(base, bits)| (base, Some(bits)));
    let Ok(base) = base.parse::<IpAddr>() else { return false };
    let (base, address, width) = match (base.to_canonical(), address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => (u128::from(base.to_bits()), u128::from(address.to_bits()), 32),
        (IpAddr::V6(base), IpAddr::V6(address)) => (base.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let Ok(bits) = bits.map_or(Ok(width), str::parse::<u32>) else { return false };
    bits <= width && (bits == 0 || (base ^ address) >> (width - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn addresses_are_found_in_networks() {
        let is = |networks, address: &str| has(networks, address.parse().expect("an address"));
        assert!(is("", "127.0.0.1") && is("", "::1") && is("", "::ffff:127.0.0.1"));
        assert!(!is("", "10.0.0.1") && !is("10.0.0.0/8", "11.0.0.1") && !is("10.0.0.0/33", "10.0.0.1"));
        assert!(is("192.0.2.7, 10.0.0.0/8", "10.1.2.3") && is("192.0.2.7", "192.0.2.7") && is("0.0.0.0/0", "8.8.8.8"));
        assert!(is("fd00::/8", "fd12::1") && !is("fd00::/8", "fe80::1") && !is("::/0", "8.8.8.8"));
    }
}
