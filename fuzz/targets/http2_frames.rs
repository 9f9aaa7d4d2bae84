//! libFuzzer's side of `fuzz_checks::http2_frames::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::http2_frames::check(bytes));
