//! Countries by address: ranges of addresses, each with a country. A child of the supervisor makes the table of a MaxMind file ([`maxmind`]) and the
//! front gets it in a sealed memory file, so no process that serves reads the format of others, and each look-up is a binary search.

pub mod maxmind;

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Ranges of a table at most.
pub const MAX_RANGES: usize = 4 << 20;
/// Bytes of a table at most: all ranges, of IPv6, and the number of those of IPv4.
const MAX_SIZE: u64 = 4 + (MAX_RANGES * 18) as u64;

/// A country's code of ISO 3166, in upper case.
pub type Code = [u8; 2];

/// The code of addresses without a country.
const NOWHERE: Code = [0; 2];

/// The code that a text is, in upper case.
fn code(text: &str) -> Option<Code> {
    let code: Code = text.as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_alphabetic).then(|| code.map(|byte| byte.to_ascii_uppercase()))
}

/// An address of IPv4 also if it comes as one of IPv6: mapped, or of 6to4 (RFC 3056 §2).
fn plain(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => match address.octets() {
            [0x20, 0x02, a, b, c, d, ..] => IpAddr::from([a, b, c, d]),
            _ => IpAddr::V6(address),
        },
        address => address,
    }
}

/// Ranges: each goes to the next one's first address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges<A> {
    first: Vec<A>,
    codes: Vec<Code>,
}

impl<A: Copy + Ord> Ranges<A> {
    const fn new() -> Ranges<A> {
        Ranges { first: Vec::new(), codes: Vec::new() }
    }

    /// Adds a range behind all others.
    fn push(&mut self, first: A, code: Code) {
        if self.codes.last() != Some(&code) {
            self.first.push(first);
            self.codes.push(code);
        }
    }

    fn of(&self, address: A) -> Code {
        let next = self.first.partition_point(|first| *first <= address);
        next.checked_sub(1).and_then(|number| self.codes.get(number)).copied().unwrap_or(NOWHERE)
    }

    fn are_ordered(&self) -> bool {
        let is_code = |code: &Code| *code == NOWHERE || code.iter().all(u8::is_ascii_uppercase);
        self.first.is_sorted_by(|one, next| one < next) && self.codes.iter().all(is_code)
    }
}

/// The countries of all addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countries {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

impl Countries {
    /// The country of an address.
    pub fn of(&self, address: IpAddr) -> Option<Code> {
        let code = match plain(address) {
            // A table of IPv6 alone has the addresses of IPv4 at its beginning.
            IpAddr::V4(address) if self.v4.first.is_empty() => self.v6.of(u32::from(address).into()),
            IpAddr::V4(address) => self.v4.of(address.into()),
            IpAddr::V6(address) => self.v6.of(address.into()),
        };
        (code != NOWHERE).then_some(code)
    }

    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.v4.first.len() + self.v6.first.len()
    }

    /// Whether no address has a country.
    fn are_none(&self) -> bool {
        self.v4.codes.iter().chain(&self.v6.codes).all(|code| *code == NOWHERE)
    }

    /// The table as bytes: how many ranges of IPv4 there are, those, and those of IPv6; each as first address and code.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + self.v4.first.len() * 6 + self.v6.first.len() * 18);
        bytes.extend((self.v4.first.len() as u32).to_le_bytes());
        for (first, code) in self.v4.first.iter().zip(&self.v4.codes) {
            bytes.extend(first.to_le_bytes().iter().chain(code));
        }
        for (first, code) in self.v6.first.iter().zip(&self.v6.codes) {
            bytes.extend(first.to_le_bytes().iter().chain(code));
        }
        bytes
    }

    /// The table of such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Countries> {
        let (count, rest) = bytes.split_first_chunk()?;
        let (v4, v6) = rest.split_at_checked((u32::from_le_bytes(*count) as usize).checked_mul(6)?)?;
        let (v4, v6) = (v4.chunks_exact(6), v6.chunks_exact(18));
        if !v6.remainder().is_empty() || v4.len() + v6.len() > MAX_RANGES {
            return None;
        }
        let mut countries = Countries { v4: Ranges::new(), v6: Ranges::new() };
        for (first, code) in v4.filter_map(|range| range.split_first_chunk()) {
            countries.v4.first.push(u32::from_le_bytes(*first));
            countries.v4.codes.push(code.try_into().ok()?);
        }
        for (first, code) in v6.filter_map(|range| range.split_first_chunk()) {
            countries.v6.first.push(u128::from_le_bytes(*first));
            countries.v6.codes.push(code.try_into().ok()?);
        }
        (countries.v4.are_ordered() && countries.v6.are_ordered()).then_some(countries)
    }

    /// Reads the table of a memory file.
    pub fn from_file(file: &OwnedFd) -> io::Result<Countries> {
        let file = File::from(file.try_clone()?);
        let size = file.metadata()?.len();
        if size > MAX_SIZE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Countries::from_bytes(&bytes).ok_or_else(|| io::Error::other("a table of countries that is broken"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Countries {
        let mut countries = Countries { v4: Ranges::new(), v6: Ranges::new() };
        for (first, code) in
            [("0.0.0.0", NOWHERE), ("192.0.2.0", *b"DE"), ("192.0.3.0", *b"AT"), ("192.0.4.0", NOWHERE)]
        {
            countries.v4.push(first.parse::<std::net::Ipv4Addr>().unwrap().into(), code);
        }
        for (first, code) in [("2001:db8::", *b"FR"), ("2001:db9::", NOWHERE)] {
            countries.v6.push(first.parse::<std::net::Ipv6Addr>().unwrap().into(), code);
        }
        countries
    }

    #[test]
    fn an_address_is_in_one_range() {
        let countries = table();
        for (address, country) in [
            ("0.0.0.0", None),
            ("192.0.1.255", None),
            ("192.0.2.0", Some(b"DE")),
            ("192.0.2.255", Some(b"DE")),
            ("::ffff:192.0.2.1", Some(b"DE")),
            ("192.0.3.0", Some(b"AT")),
            ("192.0.4.0", None),
            ("255.255.255.255", None),
            ("::", None),
            ("::192.0.2.1", None),
            ("2001:db8::", Some(b"FR")),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some(b"FR")),
            ("2001:db9::", None),
        ] {
            assert_eq!(countries.of(address.parse().unwrap()).as_ref(), country, "{address}");
        }
    }

    #[test]
    fn a_table_survives_its_way_and_a_broken_one_is_refused() {
        let bytes = table().to_bytes();
        assert_eq!(Countries::from_bytes(&bytes), Some(table()));
        for cut in 0..bytes.len() {
            // Without the ranges of IPv6 at its end it is a table too.
            let is_whole = cut >= 28 && (cut - 28) % 18 == 0;
            assert_eq!(Countries::from_bytes(&bytes[..cut]).is_some(), is_whole, "{cut}");
        }
        let mut order = bytes.clone();
        order[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut letters = bytes.clone();
        letters[8] = b'd';
        let mut count = bytes;
        count[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        for broken in [order, letters, count] {
            assert_eq!(Countries::from_bytes(&broken), None);
        }
    }
}
