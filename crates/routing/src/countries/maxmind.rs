//! Reads a file of MaxMind's format, as MaxMind, DB-IP and IPinfo publish them. Whoever has made the file decides what is in it: time and memory are
//! limited, and a file that leads in circles is refused.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use maxminddb::{LookupResult, MaxMindDbError, PathElement, Reader, WithinOptions};

use super::{Code, Countries, MAX_RANGES, NOWHERE, Ranges, code};

/// Bytes of a file at most.
pub const MAX_SIZE: u64 = 128 << 20;
/// Where records have their country: MaxMind's and DB-IP's, IPinfo's.
const PATHS: [&[PathElement<'_>]; 2] =
    [&[PathElement::Key("country"), PathElement::Key("iso_code")], &[PathElement::Key("country_code")]];

/// The countries of a file; an error says what is wrong with it.
pub fn read(bytes: &[u8], until: Instant) -> Result<Countries, String> {
    let broken = |error: MaxMindDbError| format!("is damaged, or no file of MaxMind's format: {error}");
    let reader = Reader::from_source(bytes).map_err(broken)?;
    // Without aliases the library would not return from a tree in which everything is one: it only looks for the next network that is none.
    let options = WithinOptions::default().include_networks_without_data().include_aliased_networks();
    // A tree has one network more than nodes, and MaxMind's have those of IPv4 in four places. One that has more has no end.
    let most = (reader.metadata().node_count as usize).saturating_mul(4).saturating_add(4);
    let mut known = HashMap::new();
    let (mut v4, mut v6) = (Growing::new(), Growing::new());
    for (number, found) in reader.networks(options).map_err(broken)?.enumerate() {
        let found = found.map_err(broken)?;
        if number >= most {
            return Err("is damaged: its tree of networks has no end".to_owned());
        }
        if Instant::now() >= until {
            return Err("takes too long to read: it is damaged, or larger than any file of countries".to_owned());
        }
        let country = match found.offset() {
            None => NOWHERE,
            Some(offset) => match known.get(&offset) {
                Some(country) => *country,
                None => *known.entry(offset).or_insert(country(&found).map_err(broken)?),
            },
        };
        match found.network().map_err(broken)? {
            network if network.is_ipv4() => match (network.network(), network.broadcast()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.add(first.into(), last.into(), country)?,
                _ => continue,
            },
            network => match (network.network(), network.broadcast()) {
                (IpAddr::V6(first), IpAddr::V6(last)) if !is_alias(first, network.prefix()) => {
                    v6.add(first.into(), last.into(), country)?;
                }
                _ => continue,
            },
        }
    }
    let countries = Countries { v4: v4.done(), v6: v6.done() };
    if countries.are_none() {
        return Err("has no countries: no record has country.iso_code or country_code".to_owned());
    }
    if countries.ranges() > MAX_RANGES {
        return Err(TOO_MANY.to_owned());
    }
    Ok(countries)
}

/// Whether a network has addresses of IPv4 in another form: mapped, of 6to4 or of Teredo. [`Countries::of`] knows the first two, and the third
/// would name the country of a server.
fn is_alias(first: Ipv6Addr, prefix: u8) -> bool {
    match first.segments() {
        [0x2002, ..] => prefix >= 16,
        [0x2001, 0, ..] => prefix >= 32,
        [0, 0, 0, 0, 0, 0xffff, ..] => prefix >= 96,
        _ => false,
    }
}

const TOO_MANY: &str = "has more than 4194304 ranges of addresses";

/// The country of a record. One without a country, or with something else in its place, has none.
fn country(found: &LookupResult<'_, &[u8]>) -> Result<Code, MaxMindDbError> {
    for path in PATHS {
        match found.decode_path::<&str>(path) {
            Ok(Some(text)) => return Ok(code(text).unwrap_or(NOWHERE)),
            Ok(None) | Err(MaxMindDbError::Decoding { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(NOWHERE)
}

/// Ranges that networks are added to, in the order of their addresses.
struct Growing<A> {
    ranges: Ranges<A>,
    /// The first address behind the last network; `None`: there is none.
    next: Option<A>,
}

/// An address as a number.
trait Address: Copy + Ord {
    fn next(self) -> Option<Self>;
}

impl Address for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Address for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

impl<A: Address + Default> Growing<A> {
    fn new() -> Growing<A> {
        Growing { ranges: Ranges::new(), next: Some(A::default()) }
    }

    fn add(&mut self, first: A, last: A, country: Code) -> Result<(), String> {
        let Some(next) = self.next.filter(|next| *next <= first) else {
            return Err("is damaged: its networks overlap".to_owned());
        };
        // What lies between two networks belongs to neither.
        if next < first {
            self.ranges.push(next, NOWHERE);
        }
        self.ranges.push(first, country);
        self.next = last.next();
        if self.ranges.first.len() > MAX_RANGES { Err(TOO_MANY.to_owned()) } else { Ok(()) }
    }

    /// A family of which there was no network has no ranges.
    fn done(mut self) -> Ranges<A> {
        match self.next {
            Some(next) if next > A::default() => self.ranges.push(next, NOWHERE),
            _ => {}
        }
        self.ranges
    }
}

#[cfg(test)]
#[path = "../../../../tests/src/maxmind_file.rs"]
mod maxmind_file;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::maxmind_file::{Kind, write};
    use super::*;

    const NETWORKS: [(&str, &str); 6] = [
        ("10.0.0.0/8", "AT"),
        ("192.0.2.0/24", "DE"),
        ("192.0.2.128/25", "FR"),
        ("198.51.100.7/32", "us"),
        ("203.0.113.0/24", "nowhere"),
        ("2001:db8::/32", "CH"),
    ];
    const EXPECTED: [(&str, Option<&[u8; 2]>); 14] = [
        ("9.255.255.255", None),
        ("10.0.0.0", Some(b"AT")),
        ("10.255.255.255", Some(b"AT")),
        ("11.0.0.0", None),
        ("192.0.2.127", Some(b"DE")),
        ("192.0.2.128", Some(b"FR")),
        ("192.0.3.0", None),
        ("198.51.100.7", Some(b"US")),
        ("203.0.113.1", None),
        ("::ffff:10.1.2.3", Some(b"AT")),
        ("2001:db8:1::1", Some(b"CH")),
        ("2002:0a01:0203::1", Some(b"AT")),
        ("2002:0b01:0203::1", None),
        ("2001:db9::", None),
    ];

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn is_v4(network: &str) -> bool {
        !network.contains("::") || network.contains("ffff") || network.starts_with("2002")
    }

    #[test]
    fn addresses_have_the_countries_of_the_file() {
        for record_size in [24, 28, 32] {
            for kind in [Kind::V4, Kind::V6, Kind::V6WithAliases] {
                let networks: Vec<_> =
                    NETWORKS.into_iter().filter(|(network, _)| kind != Kind::V4 || is_v4(network)).collect();
                let countries = read(&write(kind, record_size, &networks), soon()).unwrap();
                for (address, country) in EXPECTED {
                    let country = country.filter(|_| kind != Kind::V4 || is_v4(address));
                    assert_eq!(
                        countries.of(address.parse().unwrap()).as_ref(),
                        country,
                        "{record_size} {kind:?} {address}"
                    );
                }
                assert_eq!(Countries::from_bytes(&countries.to_bytes()), Some(countries));
            }
        }
    }

    #[test]
    fn a_tree_without_a_part_for_ipv4_hides_nothing() {
        // The way of zeroes ends at a record that others lead to as well.
        let countries = read(&write(Kind::V6, 24, &[("::/1", "DE"), ("c000::/2", "DE")]), soon()).unwrap();
        for (address, country) in
            [("192.0.2.1", Some(b"DE")), ("::1", Some(b"DE")), ("8000::", None), ("d000::", Some(b"DE"))]
        {
            assert_eq!(countries.of(address.parse().unwrap()).as_ref(), country, "{address}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        let file = write(Kind::V6, 28, &NETWORKS);
        for cut in 0..file.len() {
            assert!(read(&file[..cut], soon()).is_err(), "{cut} of {}", file.len());
        }
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        for (what, file, why) in [
            ("nothing", Vec::new(), "no file of MaxMind's format"),
            ("text", b"<html>Too many downloads</html>".to_vec(), "no file of MaxMind's format"),
            ("other records", write(Kind::V4, 24, &[("10.0.0.0/8", "")]), "has no countries"),
        ] {
            let said = read(&file, soon()).unwrap_err();
            assert!(said.contains(why), "{what}: {said}");
        }
    }

    #[test]
    fn metadata_that_lies_is_refused() {
        let file = write(Kind::V4, 24, &NETWORKS[..4]);
        // A control byte is the type, or 0 and the type in the next byte, and the size.
        for (key, value, lie) in [
            ("node_count", &b"\xc4"[..], &b"\xc4\xff\xff\xff\xff"[..]),
            ("node_count", b"\xc4", b"\xc4\x00\x00\x00\x00"),
            ("record_size", b"\xa2", b"\xa2\x00\x19"),
            ("record_size", b"\xa2", b"\xa2\x00\x00"),
            ("ip_version", b"\xa2", b"\xa2\x00\x05"),
            ("binary_format_major_version", b"\xa2", b"\xa2\x00\x03"),
        ] {
            let found = [key.as_bytes(), value].concat();
            let at = file.windows(found.len()).rposition(|window| window == found).expect("the field") + key.len();
            let mut lying = file.clone();
            lying[at..at + lie.len()].copy_from_slice(lie);
            assert!(read(&lying, soon()).is_err(), "{key} {lie:?}");
        }
    }

    #[test]
    fn circles_and_enormous_counts_are_refused_soon() {
        let began = Instant::now();
        let file = write(Kind::V6, 32, &NETWORKS);
        // Each node leads to itself, or all to one another: 2¹²⁸ networks.
        for target in [0u32, 1, 5] {
            let mut circle = file.clone();
            let nodes = maxmind_file::nodes(&file);
            for node in 0..nodes {
                let both = if target == 5 { (node as u32 + 1) % nodes as u32 } else { target };
                circle[node * 8..][..8].copy_from_slice(&[both.to_be_bytes(), both.to_be_bytes()].concat());
            }
            let said = read(&circle, soon()).unwrap_err();
            assert!(said.contains("damaged"), "{target}: {said}");
        }
        // 128 nodes one below the other, both branches of each lead to the next: as many networks, and none is too deep.
        let said = read(&maxmind_file::doubling(128), soon()).unwrap_err();
        assert!(said.contains("has no end"), "{said}");
        // The record: a pointer to itself, a map of 16 million entries, maps one in the other.
        for record in
            [&b"\x20\x00"[..], b"\xff\xff\xff\xff", &[0xe1, 0x41, b'a'].repeat(100_000), &[0x01, 0x04].repeat(100_000)]
        {
            let said = read(&maxmind_file::with_record(record), soon()).unwrap_err();
            assert!(said.contains("damaged") || said.contains("no countries"), "{said}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn time_is_limited() {
        let said = read(&write(Kind::V4, 24, &NETWORKS[..2]), Instant::now()).unwrap_err();
        assert!(said.contains("too long"), "{said}");
    }

    #[test]
    fn whatever_changes_a_file_is_read_or_refused() {
        let random = &mut fastrand::Rng::with_seed(22);
        for kind in [Kind::V4, Kind::V6, Kind::V6WithAliases] {
            for record_size in [24, 28, 32] {
                let networks: Vec<_> = NETWORKS.into_iter().filter(|(one, _)| kind != Kind::V4 || is_v4(one)).collect();
                let file = write(kind, record_size, &networks);
                for _ in 0..300 {
                    let mut changed = file.clone();
                    for _ in 0..random.usize(1..8) {
                        let at = random.usize(..changed.len());
                        changed[at] = if random.bool() { random.u8(..) } else { changed[at] ^ (1 << random.u8(..8)) };
                    }
                    let Ok(countries) = read(&changed, soon()) else { continue };
                    assert_eq!(Countries::from_bytes(&countries.to_bytes()), Some(countries));
                }
            }
        }
    }

    #[test]
    fn what_is_replaced_while_it_is_read_is_read_or_refused() {
        let old = write(Kind::V6, 28, &NETWORKS);
        let new = write(Kind::V6, 28, &[("10.0.0.0/9", "SE"), ("2001:db8::/33", "NO"), ("172.16.0.0/12", "FI")]);
        for cut in 0..old.len().min(new.len()) {
            for mixed in [[&old[..cut], &new[cut..]].concat(), [&new[..cut], &old[cut..]].concat()] {
                drop(read(&mixed, soon()));
            }
        }
    }
}
