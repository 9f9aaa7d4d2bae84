//! Files with the countries of addresses: whatever a file is, it is read or refused soon, and a table that was made of it reaches the front as it was.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use routing::countries::Countries;
use routing::countries::maxmind;

/// A file; its last bytes are addresses too. As a table it is read or refused as well.
pub fn check(bytes: &[u8]) {
    let own = Countries::from_bytes(bytes);
    let read = maxmind::read(bytes, Instant::now() + Duration::from_secs(5)).ok();
    for countries in own.into_iter().chain(read) {
        assert_eq!(Countries::from_bytes(&countries.to_bytes()).as_ref(), Some(&countries));
        for part in bytes.rchunks_exact(16).take(64) {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(part).expect("16 bytes"));
            let v4 = Ipv4Addr::from(<[u8; 4]>::try_from(&part[..4]).expect("four bytes"));
            let code = countries.of(IpAddr::V6(v6));
            assert!(code.is_none_or(|code| code.iter().all(u8::is_ascii_uppercase)));
            assert_eq!(countries.of(IpAddr::V4(v4)), countries.of(IpAddr::V6(v4.to_ipv6_mapped())));
        }
    }
}
