//! libFuzzer's side of `fuzz_checks::framing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::framing::check(bytes));
