//! libFuzzer's side of `fuzz_checks::upstream_response::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::upstream_response::check(bytes));
