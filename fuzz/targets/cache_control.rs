//! libFuzzer's side of `fuzz_checks::cache_control::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::cache_control::check(bytes));
