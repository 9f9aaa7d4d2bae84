//! libFuzzer's side of `fuzz_checks::target`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::target::check(bytes));
