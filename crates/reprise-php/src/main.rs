//! `reprise-php`: started by the supervisor, one per application. Everything is in csrc; `ipc`, `data-cache`, `db-session` and `direct-calls` are linked for it.
#![no_main] // Rust's own start would catch SIGSEGV, and a crash of PHP would not look like one.
use core::ffi::c_char;
use data_cache as _;
use db_session as _;
use direct_calls as _;
use ipc as _;
unsafe extern "C" {
    fn reprise_php_main(argc: i32, argv: *const *const c_char) -> i32;
}
#[unsafe(no_mangle)]
extern "C" fn main(argc: i32, argv: *const *const c_char) -> i32 {
    // SAFETY: passes on what the C runtime gave; no longjmp leaves it.
    unsafe { reprise_php_main(argc, argv) }
}
