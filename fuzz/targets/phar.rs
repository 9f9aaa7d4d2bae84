//! libFuzzer's side of `fuzz_checks::phar::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::phar::check(bytes));
