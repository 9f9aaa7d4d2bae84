//! libFuzzer's side of `fuzz_checks::country_file::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::country_file::check(bytes));
