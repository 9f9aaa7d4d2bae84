//! libFuzzer's side of `fuzz_checks::sent_file::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::sent_file::check(bytes));
