//! libFuzzer's side of `fuzz_checks::slab`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::slab::check(bytes));
