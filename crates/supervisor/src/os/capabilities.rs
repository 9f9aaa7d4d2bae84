//! Capabilities of processes that need none.

use std::io;

use nix::errno::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Whether this process may empty bounding sets: those of its children, before they give up being root.
pub fn may_limit() -> bool {
    let own = rustix::thread::capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SETPCAP))
}

/// Empties the bounding set of this process: no program that it executes, set-user-ID or not, has a capability. Only
/// async-signal-safe calls.
pub fn empty_bounding_set() -> nix::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel has no capability of that number, nor of higher ones.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(Errno::from_raw(error.raw_os_error())),
        }
    }
    Ok(())
}

/// Gives up all capabilities of this process, the ambient ones together with the inheritable. Only async-signal-safe calls.
pub fn renounce() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
