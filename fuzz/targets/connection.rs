//! libFuzzer's side of `fuzz_checks::connection::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::connection::check(bytes));
