//! libFuzzer's side of `fuzz_checks::nodes::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::nodes::check(bytes));
