//! Code made by hand: what goes through a table to its own library is bound, and nothing else.
#![cfg(target_arch = "x86_64")]
#![allow(missing_docs)]

use core::ops::Range;

use direct_calls::frames::{Bytes, functions};
use direct_calls::sites::sites;
use direct_calls::slots::Slots;

/// Where the code begins, where its stubs are, a function of it, the slots, and the end of the library.
const CODE: u64 = 0x1000;
const STUBS: u64 = 0x1100;
const OWN: u64 = 0x1080;
const SLOTS: u64 = 0x3000;
const END: u64 = 0x4000;

/// An instruction whose last four bytes are a distance from its end.
fn with_distance(opcode: &[u8], at: u64, to: u64) -> Vec<u8> {
    let end = at + opcode.len() as u64 + 4;
    let distance = i32::try_from(to as i64 - end as i64).unwrap();
    [opcode, &distance.to_le_bytes()].concat()
}

/// Two slots: of a function of the library, and of one elsewhere. Two stubs, the first as where branches are tracked.
fn library(instructions: &[&dyn Fn(u64) -> Vec<u8>]) -> Vec<u8> {
    let mut code = Vec::new();
    for instruction in instructions {
        code.extend(instruction(CODE + code.len() as u64));
    }
    code.push(0xc3);
    assert!(code.len() < 0x80);
    code.resize(0x100, 0xcc);
    code.extend([0xf3, 0x0f, 0x1e, 0xfa]);
    code.extend(with_distance(&[0xff, 0x25], STUBS + 4, SLOTS));
    code.resize(0x120, 0xcc);
    code.extend(with_distance(&[0xff, 0x25], STUBS + 0x20, SLOTS + 8));
    code.resize(0x140, 0xcc);
    code
}

/// The code after all of its sites were bound; functions are its first `size` bytes.
fn bound(code: &[u8], size: u64) -> Vec<u8> {
    let slots = Slots::new([(SLOTS, OWN), (SLOTS + 8, 0x7fff_0000_0000)].into_iter(), &(CODE..END));
    let found = sites(Bytes { address: CODE, bytes: code }, &[Range { start: CODE, end: CODE + size }], &slots);
    let mut after = code.to_vec();
    found.iter().for_each(|site| site.bind(&mut after));
    after
}

fn call(to: u64) -> impl Fn(u64) -> Vec<u8> {
    move |at| with_distance(&[0xe8], at, to)
}

fn jump(to: u64) -> impl Fn(u64) -> Vec<u8> {
    move |at| with_distance(&[0xe9], at, to)
}

/// Of r9, which needs another prefix.
fn load(opcode: u8, slot: u64) -> impl Fn(u64) -> Vec<u8> {
    move |at| with_distance(&[0x4c, opcode, 0x0d], at, slot)
}

#[test]
fn calls_jumps_and_addresses_are_bound() {
    let before = library(&[&call(STUBS), &load(0x8b, SLOTS), &jump(STUBS)]);
    let expected = library(&[&call(OWN), &load(0x8d, OWN), &jump(OWN)]);
    assert_eq!(bound(&before, 18), expected);
}

#[test]
fn what_leads_elsewhere_stays() {
    let other = |at| with_distance(&[0x48, 0x3b, 0x05], at, SLOTS);
    let short = |at| with_distance(&[0x8b, 0x05], at, SLOTS);
    let code = library(&[
        &call(STUBS + 0x20),
        &load(0x8b, SLOTS + 8),
        &jump(STUBS + 0x20),
        &call(OWN),
        &other,
        &short,
        &load(0x8b, SLOTS + 4),
    ]);
    assert_eq!(bound(&code, 0x40), code, "another library, a direct call, a comparison, half a slot, no slot");
}

#[test]
fn bytes_that_look_like_a_call_are_none() {
    // A constant of eight bytes with a call in it, then a real one.
    let constant = |at| [vec![0x48, 0xb8, 0x90], with_distance(&[0xe8], at + 3, STUBS), vec![0x90, 0x90]].concat();
    let before = library(&[&constant, &call(STUBS)]);
    assert_eq!(bound(&before, 15), library(&[&constant, &call(OWN)]));
}

#[test]
fn a_function_that_is_not_understood_stays_as_it_is() {
    // 0x06 is no instruction in 64 bits.
    let code = library(&[&call(STUBS), &|_| vec![0x06], &call(STUBS)]);
    assert_eq!(bound(&code, 11), code);
    let cut = library(&[&call(STUBS), &call(STUBS)]);
    assert_eq!(bound(&cut, 8), cut, "its end is within an instruction");
    assert_eq!(bound(&cut, 0x1000), cut, "its end is beyond the code");
}

/// `.eh_frame_hdr` of one function at 0x5000, and its description at 0x5020.
fn tables(header: [u8; 4], said: u64) -> Vec<u8> {
    let mut bytes = header.to_vec();
    let word =
        |bytes: &mut Vec<u8>, value: u64| bytes.extend(u32::try_from(value & 0xffff_ffff).unwrap().to_le_bytes());
    [0, 1, CODE.wrapping_sub(0x5000), 0x20, 0, 0, 0].into_iter().for_each(|value| word(&mut bytes, value));
    [20, 0, said.wrapping_sub(0x5028), 0x80].into_iter().for_each(|value| word(&mut bytes, value));
    bytes
}

#[test]
fn functions_are_found_by_the_unwind_tables() {
    let found = |bytes: &[u8]| functions(Bytes { address: 0x5000, bytes }, 0x5000);
    let known = [1, 0x1b, 3, 0x3b];
    let whole = tables(known, CODE);
    assert_eq!(found(&whole), vec![Range { start: CODE, end: CODE + 0x80 }]);
    assert_eq!(found(&tables(known, CODE + 1)), [], "a description of another function");
    assert_eq!(found(&tables([1, 0x1b, 3, 0x3c], CODE)), [], "a table of another kind");
    for size in 0..whole.len() {
        assert_eq!(found(&whole[..size]), [], "cut after {size} bytes");
    }
}
