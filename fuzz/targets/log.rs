//! libFuzzer's side of `fuzz_checks::log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::log::check(bytes));
