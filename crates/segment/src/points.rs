//! Places at which a test lets a process die.

#[cfg(feature = "points")]
mod counted {
    use core::sync::atomic::{AtomicI64, Ordering};

    static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

    /// The process kills itself at the point with this number, counted from now.
    pub fn die_at(number: i64) {
        LEFT.store(number, Ordering::Relaxed);
    }

    pub(crate) fn point() {
        if LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
            // SAFETY: getpid takes no pointer; SIGKILL to this process.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                let (getpid, kill) = (39, 62);
                #[cfg(target_arch = "aarch64")]
                let (getpid, kill) = (172, 129);
                if let Ok(me) = wire::sys::syscall(getpid, [0; 6]) {
                    let _ = wire::sys::syscall(kill, [me, 9, 0, 0, 0, 0]);
                }
            }
        }
    }
}

#[cfg(feature = "points")]
pub use counted::die_at;
#[cfg(feature = "points")]
pub(crate) use counted::point;

/// Nothing, in a build without the feature `points`.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub(crate) fn point() {}
