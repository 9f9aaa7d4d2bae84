//! `reprise-php`: started by the supervisor, one per application. Everything is in csrc; `wire` is linked for it.
use wire as _;
unsafe extern "C" {
    fn reprise_php_main(argc: i32, argv: *const *const core::ffi::c_char) -> i32;
}
fn main() {
    let arguments: Vec<_> = std::env::args_os().map(|word| std::os::unix::ffi::OsStringExt::into_vec(word)).collect();
    let owned: Vec<_> = arguments.into_iter().filter_map(|word| std::ffi::CString::new(word).ok()).collect();
    let pointers: Vec<_> = owned.iter().map(|word| word.as_ptr()).chain([core::ptr::null()]).collect();
    // SAFETY: C gets a count and as many strings, alive until it returns; it never lets a longjmp out.
    std::process::exit(unsafe { reprise_php_main(owned.len() as i32, pointers.as_ptr()) });
}
