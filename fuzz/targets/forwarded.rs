//! libFuzzer's side of `fuzz_checks::forwarded`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::forwarded::check(bytes));
