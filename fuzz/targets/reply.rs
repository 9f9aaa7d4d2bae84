//! libFuzzer's side of `fuzz_checks::reply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::reply::check(bytes));
