//! libFuzzer's side of `fuzz_checks::proxy_header`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::proxy_header::check(bytes));
