//! libFuzzer's side of `fuzz_checks::control`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::control::check(bytes));
