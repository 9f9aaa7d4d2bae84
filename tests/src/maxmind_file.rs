//! Writes small files of MaxMind's format (https://maxmind.github.io/MaxMind-DB/): a tree of networks, 16 zeroes, records, metadata. Beside the black-box
//! tests, the unit tests of the crate `front` have it as a module.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Which addresses a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those of IPv4.
    V4,
    /// All.
    V6,
    /// All, and `::ffff:0:0/96` and 2002::/16 lead to those of IPv4, as in MaxMind's own files.
    V6WithAliases,
}

/// What a branch of a node leads to.
#[derive(Clone, Copy)]
enum Branch {
    Nothing,
    Node(usize),
    /// A record, by its place behind the 16 zeroes.
    Record(usize),
}

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

fn control(kind: u8, size: usize) -> Vec<u8> {
    let (head, extended) = if kind > 7 { (0, Some(kind - 7)) } else { (kind << 5, None) };
    let (low, more) = if size < 29 { (size as u8, None) } else { (29, Some((size - 29) as u8)) };
    std::iter::once(head | low).chain(extended).chain(more).collect()
}

fn text(text: &str) -> Vec<u8> {
    [control(2, text.len()), text.as_bytes().to_vec()].concat()
}

fn metadata(kind: Kind, record_size: u16, nodes: usize) -> Vec<u8> {
    let ip_version: u16 = if kind == Kind::V4 { 4 } else { 6 };
    let small = |value: u16| [control(5, 2), value.to_be_bytes().to_vec()].concat();
    [
        MARKER.to_vec(),
        control(7, 9),
        [text("binary_format_major_version"), small(2)].concat(),
        [text("binary_format_minor_version"), small(0)].concat(),
        [text("build_epoch"), control(9, 8), 1_700_000_000u64.to_be_bytes().to_vec()].concat(),
        [text("database_type"), text("Test-Country")].concat(),
        [text("description"), control(7, 1), text("en"), text("a test")].concat(),
        [text("ip_version"), small(ip_version)].concat(),
        [text("languages"), control(11, 1), text("en")].concat(),
        [text("node_count"), control(6, 4), (nodes as u32).to_be_bytes().to_vec()].concat(),
        [text("record_size"), small(record_size)].concat(),
    ]
    .concat()
}

fn tree(nodes: &[[Branch; 2]], record_size: u16) -> Vec<u8> {
    let number = |branch: Branch| match branch {
        Branch::Nothing => nodes.len() as u32,
        Branch::Node(node) => node as u32,
        Branch::Record(at) => (nodes.len() + 16 + at) as u32,
    };
    let node = |&[left, right]: &[Branch; 2]| {
        let (left, right) = (number(left), number(right));
        let (l, r) = (left.to_be_bytes(), right.to_be_bytes());
        match record_size {
            24 => [&l[1..], &r[1..]].concat(),
            28 => [&l[1..], &[(l[0] << 4) | r[0]], &r[1..]].concat(),
            _ => [l, r].concat(),
        }
    };
    nodes.iter().flat_map(node).collect()
}

/// The bits of a network's address in the tree, and how many of them count.
fn bits(kind: Kind, network: &str) -> (u128, usize) {
    let (address, length) = network.split_once('/').expect("ADDRESS/LENGTH");
    let length: usize = length.parse().expect("a length");
    match (address.parse().expect("an address"), kind) {
        (IpAddr::V4(address), Kind::V4) => (u128::from(u32::from(address)) << 96, length),
        (IpAddr::V4(address), _) => (u32::from(address).into(), 96 + length),
        (IpAddr::V6(address), _) => (address.into(), length),
    }
}

/// Leads a network to a branch, below what there is. A longer network that comes later lies in a shorter one.
fn lead(nodes: &mut Vec<[Branch; 2]>, (bits, length): (u128, usize), to: Branch) {
    let mut node = 0;
    for depth in 0..length {
        let bit = (bits >> (127 - depth) & 1) as usize;
        if depth + 1 == length {
            nodes[node][bit] = to;
            return;
        }
        node = match nodes[node][bit] {
            Branch::Node(next) => next,
            above => {
                nodes.push([above; 2]);
                nodes[node][bit] = Branch::Node(nodes.len() - 1);
                nodes.len() - 1
            }
        };
    }
}

/// A file with networks and their countries; one without a country has a record of something else. Shorter networks stand before those in them.
pub fn write(kind: Kind, record_size: u16, networks: &[(&str, &str)]) -> Vec<u8> {
    let (mut nodes, mut records, mut places) = (vec![[Branch::Nothing; 2]], Vec::new(), BTreeMap::new());
    // The name that all records share stands once, as in real files.
    records.extend(text("iso_code"));
    for (network, country) in networks {
        let place = *places.entry(*country).or_insert_with(|| {
            let place = records.len();
            let record = match *country {
                "" => [control(7, 1), text("asn"), text("AS64496")].concat(),
                country => [
                    [control(7, 2), text("continent"), control(7, 1), text("code"), text("XX")].concat(),
                    // A pointer to the name: type 1, of the shortest size, to byte 0.
                    [text("country"), control(7, 2), text("geoname_id"), control(6, 1), vec![1], vec![0x20, 0]]
                        .concat(),
                    text(country),
                ]
                .concat(),
            };
            records.extend(record);
            place
        });
        lead(&mut nodes, bits(kind, network), Branch::Record(place));
    }
    if kind == Kind::V6WithAliases {
        let mut start = Branch::Node(0);
        for _ in 0..96 {
            start = if let Branch::Node(node) = start { nodes[node][0] } else { start };
        }
        lead(&mut nodes, bits(kind, "::ffff:0:0/96"), start);
        lead(&mut nodes, bits(kind, "2002::/16"), start);
    }
    [tree(&nodes, record_size), vec![0; 16], records, metadata(kind, record_size, nodes.len())].concat()
}

/// How many nodes a file has, whose metadata says it.
#[allow(dead_code, reason = "not all who have this module need it")]
pub fn nodes(file: &[u8]) -> usize {
    let field = b"node_count\xc4";
    let at = file.windows(field.len()).rposition(|window| window == field).expect("the field") + field.len();
    u32::from_be_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize
}

/// A file with that many nodes, one below the other: both branches of each lead to the next.
#[allow(dead_code, reason = "not all who have this module need it")]
pub fn doubling(count: usize) -> Vec<u8> {
    let next = |node| if node + 1 == count { Branch::Nothing } else { Branch::Node(node + 1) };
    let nodes: Vec<[Branch; 2]> = (0..count).map(|node| [next(node); 2]).collect();
    [tree(&nodes, 24), vec![0; 16], text("x"), metadata(Kind::V6, 24, count)].concat()
}

/// A file of one network with that record.
#[allow(dead_code, reason = "not all who have this module need it")]
pub fn with_record(record: &[u8]) -> Vec<u8> {
    let nodes = [[Branch::Record(0), Branch::Nothing]];
    [tree(&nodes, 24), vec![0; 16], record.to_vec(), metadata(Kind::V4, 24, 1)].concat()
}
