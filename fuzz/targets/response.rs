//! libFuzzer's side of `fuzz_checks::response`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::response::check(bytes));
