//! A segment belongs to the build of PHP that made it.

mod support;

use data_cache::view::{Unusable, View};
use support::{fork, reap};

#[test]
fn a_segment_that_another_build_has_found_is_nobodys() {
    let size = 1 << 20;
    let file = ipc::sys::memory_file(size as usize).unwrap();
    let attach = |identity: &'static [u8]| {
        reap(fork(|| match View::attach(file, 0x33_0000_0000, size, identity) {
            Ok(_) => 0,
            Err(Unusable::Foreign) => 1,
            Err(_) => 2,
        })) >> 8
    };
    assert_eq!([attach(b"one"), attach(b"one"), attach(b"two")], [0, 0, 1]);
    // It has missed what the other build has removed.
    assert_eq!([attach(b"one"), attach(b"two")], [1, 1]);
}
