//! The handful of system calls both sides need, made without libc: `ipc` is `no_std`, and a worker may call it where
//! libc's state must not be touched. Errors are returned, never kept in errno.

use core::arch::asm;

use crate::atomics::AtomicU32;
use crate::bell::Futex;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const WRITE: usize = 1;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const SCHED_YIELD: usize = 24;
    pub const MADVISE: usize = 28;
    pub const FCNTL: usize = 72;
    pub const FUTEX: usize = 202;
    pub const CLOCK_GETTIME: usize = 228;
    pub const FTRUNCATE: usize = 77;
    pub const MEMFD_CREATE: usize = 319;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const WRITE: usize = 64;
    pub const MMAP: usize = 222;
    pub const MUNMAP: usize = 215;
    pub const SCHED_YIELD: usize = 124;
    pub const MADVISE: usize = 233;
    pub const FCNTL: usize = 25;
    pub const FUTEX: usize = 98;
    pub const CLOCK_GETTIME: usize = 113;
    pub const FTRUNCATE: usize = 46;
    pub const MEMFD_CREATE: usize = 279;
}

/// An errno value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// A raw system call. `number` is the architecture's.
///
/// # Safety
/// As the call: pointers must be valid for what the kernel does with them.
///
/// # Errors
/// The kernel's errno.
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the arguments; the kernel clobbers rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller vouches for the arguments; the kernel keeps all other registers.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] as isize => result, in("x1") a[1], in("x2") a[2],
             in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// The kernel's futex, shared between processes.
pub struct Kernel;

impl Futex for Kernel {
    fn wait(&self, word: &AtomicU32, expected: u32, timeout_ms: u32) {
        wait_at(core::ptr::from_ref(word) as usize, expected, timeout_ms);
    }

    fn wake(&self, word: &AtomicU32) {
        wake_at(core::ptr::from_ref(word) as usize);
    }
}

/// `at` is the address of a word that is mapped as long as this sleeps.
fn wait_at(at: usize, expected: u32, timeout_ms: u32) {
    let timeout = [timeout_ms as u64 / 1000, timeout_ms as u64 % 1000 * 1_000_000];
    // SAFETY: FUTEX_WAIT (0) reads the word and the timeout, both alive here. Any error means: look again.
    let _ = unsafe { syscall(nr::FUTEX, [at, 0, expected as usize, timeout.as_ptr() as usize, 0, 0]) };
}

fn wake_at(at: usize) {
    // SAFETY: FUTEX_WAKE (1) only uses the address. It cannot fail for a mapped, aligned word.
    let _ = unsafe { syscall(nr::FUTEX, [at, 1, i32::MAX as usize, 0, 0, 0]) };
}

/// A clock that costs next to nothing to read: it runs evenly, at a rate that has to be found out by who reads it, and is the same in all processes.
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register that is open to user space.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

/// Sleeps while `*word == expected`, at most `timeout_ms`. `word` lies in memory that processes share.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, timeout_ms: u32) {
    wait_at(core::ptr::from_ref(word) as usize, expected, timeout_ms);
}

/// Wakes all processes that sleep on `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    wake_at(core::ptr::from_ref(word) as usize);
}

/// Seconds since 1970.
pub fn seconds() -> u64 {
    let mut now = [0i64; 2];
    // SAFETY: CLOCK_REALTIME (0) is written to a local of a timespec's size. It cannot fail.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, [0, now.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    now[0].max(0) as u64
}

/// Lets others run first.
pub fn let_others_run() {
    // SAFETY: takes no pointers and cannot fail.
    let _ = unsafe { syscall(nr::SCHED_YIELD, [0; 6]) };
}

/// Adds one to a non-blocking eventfd. A full counter is as good as a wake-up.
pub fn signal(eventfd: i32) {
    let one = 1u64;
    // SAFETY: writes eight bytes from a local. EAGAIN means that the reader has not been there yet: it will wake.
    let _ = unsafe { syscall(nr::WRITE, [eventfd as usize, core::ptr::from_ref(&one) as usize, 8, 0, 0, 0]) };
}

const F_ADD_SEALS: usize = 1033;
const F_GET_SEALS: usize = 1034;
const SEAL_SIZE: usize = 0x1 | 0x2 | 0x4; // SEAL, SHRINK, GROW

/// Makes a memory file of `size` zero bytes whose size is sealed. Returns its descriptor (close-on-exec).
pub fn memory_file(size: usize) -> Result<i32, Errno> {
    let name = c"reprise-slab";
    // SAFETY: a constant C string; flags MFD_CLOEXEC | MFD_ALLOW_SEALING; then calls on the new descriptor alone.
    unsafe {
        let descriptor = syscall(nr::MEMFD_CREATE, [name.as_ptr() as usize, 0x3, 0, 0, 0, 0])?;
        syscall(nr::FTRUNCATE, [descriptor, size, 0, 0, 0, 0])?;
        syscall(nr::FCNTL, [descriptor, F_ADD_SEALS, SEAL_SIZE, 0, 0, 0])?;
        Ok(descriptor as i32)
    }
}

/// Maps `size` bytes of a memory file, shared and kept from children. Refuses a file that could shrink under us (SIGBUS).
pub fn map(descriptor: i32, size: usize) -> Result<*mut u8, Errno> {
    const EINVAL: Errno = Errno(22);
    // SAFETY: a new mapping at an address of the kernel's choice; MADV_DONTFORK (10) on that mapping alone.
    unsafe {
        if syscall(nr::FCNTL, [descriptor as usize, F_GET_SEALS, 0, 0, 0, 0])? & SEAL_SIZE != SEAL_SIZE {
            return Err(EINVAL);
        }
        let base = syscall(nr::MMAP, [0, size, 0x3, 0x1, descriptor as usize, 0])?;
        syscall(nr::MADVISE, [base, size, 10, 0, 0, 0])?;
        Ok(base as *mut u8)
    }
}

/// Removes a mapping made by [`map`].
///
/// # Safety
/// Nothing may use the mapping afterwards.
pub unsafe fn unmap(base: *mut u8, size: usize) {
    // SAFETY: the caller gives up the mapping. Failure would mean it was no mapping of ours.
    let _ = unsafe { syscall(nr::MUNMAP, [base as usize, size, 0, 0, 0, 0]) };
}
