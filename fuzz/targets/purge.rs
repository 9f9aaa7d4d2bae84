//! libFuzzer's side of `fuzz_checks::purge::check`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_checks::purge::check(bytes));
