//! libFuzzer's side of `fuzz_checks::rules::check_users`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::rules::check_users(bytes));
