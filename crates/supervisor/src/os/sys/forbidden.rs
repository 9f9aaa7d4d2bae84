//! System calls that [`crate::os::confine`] forbids: the kernel sends SIGSYS instead, the log names the call, and the call fails with EPERM.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;

/// How many lines one process logs: an attacker must not fill the log.
const REPORTED: u32 = 32;
pub(super) static COUNT: AtomicU32 = AtomicU32::new(0);

/// Has forbidden calls reported from now on.
pub fn report() -> io::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    let action = SigAction::new(SigHandler::SigAction(answer), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler calls only async-signal-safe functions.
    unsafe { sigaction(Signal::SIGSYS, &action) }?;
    Ok(())
}

/// Runs where the call was made, whatever that thread was doing.
extern "C" fn answer(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives the context of the thread, which it takes back when the handler returns.
    let call = unsafe { refuse(context.cast::<libc::ucontext_t>()) };
    if COUNT.fetch_add(1, Ordering::Relaxed) >= REPORTED {
        return;
    }
    let mut line = [0; 96];
    let length = describe(call, &mut line);
    // SAFETY: writes initialised bytes of this frame. A log that cannot be written has nowhere to be reported.
    unsafe { libc::write(2, line.as_ptr().cast(), length) };
}

/// Which call it was; it returns EPERM.
///
/// # Safety
/// `context` is what the kernel gave to the handler of SIGSYS.
#[cfg(target_arch = "x86_64")]
unsafe fn refuse(context: *mut libc::ucontext_t) -> i64 {
    // SAFETY: the caller's context; the kernel has put the call's number back to where it was.
    let result = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RAX as usize] };
    std::mem::replace(result, -i64::from(libc::EPERM))
}

/// Which call it was; it returns EPERM.
///
/// # Safety
/// `context` is what the kernel gave to the handler of SIGSYS.
#[cfg(target_arch = "aarch64")]
unsafe fn refuse(context: *mut libc::ucontext_t) -> i64 {
    // SAFETY: the caller's context; x8 has the call's number, x0 its result.
    let registers = unsafe { &mut (*context).uc_mcontext.regs };
    registers[0] = -i64::from(libc::EPERM) as u64;
    registers[8] as i64
}

/// Without allocation. Its length.
fn describe(call: i64, line: &mut [u8; 96]) -> usize {
    let mut digits = [0; 20];
    let (mut from, mut rest) = (digits.len(), call.unsigned_abs());
    while from > 0 {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut length = 0;
    for part in [&b"system call "[..], &digits[from..], b" is forbidden, and failed with EPERM\n"] {
        for (place, byte) in line[length..].iter_mut().zip(part) {
            *place = *byte;
            length += 1;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_call() {
        for (call, digits) in [(0, "0"), (59, "59"), (i64::MIN, "9223372036854775808")] {
            let mut line = [0; 96];
            let length = describe(call, &mut line);
            let text = format!("system call {digits} is forbidden, and failed with EPERM\n");
            assert_eq!(std::str::from_utf8(&line[..length]), Ok(text.as_str()));
        }
    }
}
