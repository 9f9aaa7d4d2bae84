//! Places at which a test lets a process die. Builds without debug assertions have none.

#[cfg(debug_assertions)]
mod counted {
    use core::sync::atomic::{AtomicI64, Ordering};

    /// 0: no death is wanted. A process that wants none only reads this, and a rewind finds nothing written.
    static LEFT: AtomicI64 = AtomicI64::new(0);

    #[cfg(target_arch = "x86_64")]
    const GETPID_KILL: [usize; 2] = [39, 62];
    #[cfg(target_arch = "aarch64")]
    const GETPID_KILL: [usize; 2] = [172, 129];

    /// The process kills itself at the point with this number, counted from now; the first is 1.
    pub fn die_at(number: i64) {
        LEFT.store(number, Ordering::Relaxed);
    }

    pub(crate) fn point() {
        let left = LEFT.load(Ordering::Relaxed);
        if left == 0 {
            return;
        }
        LEFT.store(left - 1, Ordering::Relaxed);
        if left == 1 {
            let [getpid, kill] = GETPID_KILL;
            // SAFETY: getpid takes no pointer; then SIGKILL to this process.
            unsafe {
                if let Ok(me) = ipc::sys::syscall(getpid, [0; 6]) {
                    let _ = ipc::sys::syscall(kill, [me, 9, 0, 0, 0, 0]);
                }
            }
        }
    }
}

#[cfg(debug_assertions)]
pub use counted::die_at;
#[cfg(debug_assertions)]
pub(crate) use counted::point;

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn point() {}
