//! Calls within a shared library, bound directly.
//!
//! libphp is a shared library, and all of its functions can be replaced by those of another library. So its code calls its own
//! functions through its procedure linkage table, and takes the addresses of its own variables from its global offset table:
//! two memory accesses more for each call, and one for each access of a global variable. In PHP-FPM, which is a program, the
//! linker has bound the same calls directly.
//!
//! After the loader has bound a library with `-z now`, nothing can replace a function any more, and both tables are read-only.
//! What the linker would have written can be written then: `sites` decodes the code, function by function, and finds the
//! instructions that go through one of the tables to the library itself; each keeps its length:
//!
//! | instruction | becomes |
//! |---|---|
//! | `call`, `jmp` to a stub of the procedure linkage table | the same to the function that the stub jumps to |
//! | `mov slot(%rip), %reg` of the global offset table | `lea object(%rip), %reg` |
//!
//! A slot that leads to another library or to the program, such as an interposed `malloc`, stays as it is: calls through it do, too.
//! Functions are found by the unwind tables, and instructions by a decoder, from the first of a function to its last: bytes that
//! only look like a call are not taken for one. A function whose code the decoder does not know is left as it is.

pub mod ffi;
#[cfg(target_arch = "x86_64")]
pub mod frames;
#[cfg(target_arch = "x86_64")]
pub mod sites;
#[cfg(target_arch = "x86_64")]
pub mod slots;
