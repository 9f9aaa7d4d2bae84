//! Who a process is, and whether it lives. A process id alone is given out again; with the time of its start it is not.

use core::sync::atomic::AtomicU32;

use ipc::sys::{Errno, syscall};

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const GETPID: usize = 39;
    pub const KILL: usize = 62;
    pub const GETPPID: usize = 110;
    pub const OPENAT: usize = 257;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const READ: usize = 63;
    pub const CLOSE: usize = 57;
    pub const GETPID: usize = 172;
    pub const KILL: usize = 129;
    pub const GETPPID: usize = 173;
    pub const OPENAT: usize = 56;
}

const AT_FDCWD: usize = -100isize as usize;
const O_CLOEXEC: usize = 0o2_000_000;
const ESRCH: Errno = Errno(3);
const ENOENT: Errno = Errno(2);

/// A process id in the upper 22 bits, the time of its start in clock ticks below. The kernel gives out no higher id (`PID_MAX_LIMIT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(pub u64);

const TICK_BITS: u32 = 42;

impl Who {
    /// A place that a process keeps for the child that it is about to fork.
    pub fn reserved(reader: u32) -> Who {
        Who(u64::from(reader + 1) << TICK_BITS)
    }

    /// The reader that keeps the place, if it is one that is kept.
    pub fn keeper(self) -> Option<u32> {
        (self.0 & ((1 << TICK_BITS) - 1) == 0).then(|| (self.0 >> TICK_BITS) as u32 - 1)
    }

    /// The process id.
    pub fn pid(self) -> u32 {
        (self.0 >> TICK_BITS) as u32
    }

    /// This process. None: `/proc` cannot be read.
    pub fn me() -> Option<Who> {
        // SAFETY: takes no pointer, and cannot fail.
        Who::of(unsafe { syscall(nr::GETPID, [0; 6]) }.ok()? as u32)
    }

    /// A process that lives. None: there is none, or `/proc` cannot be read.
    pub fn of(pid: u32) -> Option<Who> {
        match look(pid) {
            Look::Alive(ticks) => Some(Who(u64::from(pid) << TICK_BITS | ticks)),
            _ => None,
        }
    }

    /// Whether nobody will ever run as this process again. A process that cannot be looked at lives.
    pub fn is_dead(self) -> bool {
        match look(self.pid()) {
            Look::Alive(ticks) => self.0 & ((1 << TICK_BITS) - 1) != ticks,
            Look::Dead => true,
            Look::Unknown => false,
        }
    }

    /// Whether it has no mapping that begins at `address` any more: it has started another program. A process that cannot be looked at
    /// has not.
    pub fn has_left(self, address: u64) -> bool {
        let path = proc_file(Path::of(self.pid()).text(), b"maps");
        // SAFETY: a path with a zero byte, flags for reading.
        let opened = unsafe { syscall(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0]) };
        let Ok(file) = opened else { return false };
        let mut text = [0u8; 1024];
        // The number at the start of each line, which ends with a dash.
        let (mut number, mut has_ended, mut is_there, mut lines) = (0u64, false, false, 0u64);
        let is_whole = loop {
            // SAFETY: the descriptor opened above, and a buffer with its size.
            match unsafe { syscall(nr::READ, [file, text.as_mut_ptr() as usize, text.len(), 0, 0, 0]) } {
                Ok(0) => break true,
                Err(_) => break false,
                Ok(size) => {
                    for &byte in &text[..size] {
                        match byte {
                            b'\n' => {
                                (number, has_ended) = (0, false);
                                lines += 1;
                            }
                            b'-' if !has_ended => {
                                has_ended = true;
                                is_there |= number == address;
                            }
                            _ if has_ended => {}
                            _ => number = number << 4 | u64::from((byte as char).to_digit(16).unwrap_or(0)),
                        }
                    }
                }
            }
        };
        // SAFETY: the descriptor opened above.
        let _ = unsafe { syscall(nr::CLOSE, [file, 0, 0, 0, 0, 0]) };
        // A process that is ending has no mappings; whether it is dead is another question.
        is_whole && lines > 0 && !is_there
    }
}

/// The parent of this process.
pub fn parent() -> u32 {
    // SAFETY: takes no pointer, and cannot fail.
    unsafe { syscall(nr::GETPPID, [0; 6]) }.unwrap_or(0) as u32
}

enum Look {
    Alive(u64),
    Dead,
    Unknown,
}

/// A number in decimal.
struct Path {
    bytes: [u8; 12],
    from: usize,
}

impl Path {
    fn of(mut number: u32) -> Path {
        let mut path = Path { bytes: [0; 12], from: 12 };
        loop {
            path.from -= 1;
            path.bytes[path.from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return path;
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// `/proc/NAME/FILE`, with a zero byte.
fn proc_file(name: &[u8], file: &[u8]) -> [u8; 40] {
    let mut path = [0; 40];
    let mut at = 0;
    for part in [b"/proc/", name, b"/", file] {
        path[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    path
}

fn look(pid: u32) -> Look {
    let path = proc_file(Path::of(pid).text(), b"stat");
    let mut text = [0u8; 512];
    // SAFETY: a path with a zero byte, flags for reading; then the new descriptor and a buffer with its size.
    let read = unsafe {
        syscall(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0]).and_then(|file| {
            let read = syscall(nr::READ, [file, text.as_mut_ptr() as usize, text.len(), 0, 0, 0]);
            let _ = syscall(nr::CLOSE, [file, 0, 0, 0, 0, 0]);
            read
        })
    };
    match read.map(|size| start(&text[..size])) {
        Ok(Some((b'Z' | b'X', _))) => Look::Dead,
        Ok(Some((_, ticks))) => Look::Alive(ticks),
        Err(ESRCH | ENOENT) => {
            // SAFETY: signal 0 is sent to nobody.
            match unsafe { syscall(nr::KILL, [pid as usize, 0, 0, 0, 0, 0]) } {
                Err(ESRCH) => Look::Dead,
                _ => Look::Unknown,
            }
        }
        _ => Look::Unknown,
    }
}

/// State and time of start from `/proc/PID/stat`: the first and the twentieth word after the name, which may have any byte.
fn start(stat: &[u8]) -> Option<(u8, u64)> {
    let name_ends = stat.iter().rposition(|&byte| byte == b')')?;
    let mut words = stat.get(name_ends + 2..)?.split(|&byte| byte == b' ');
    let state = *words.next()?.first()?;
    let mut ticks = 0u64;
    for digit in words.nth(18)? {
        ticks = ticks.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?))?;
    }
    (ticks > 0 && ticks < 1 << TICK_BITS).then_some((state, ticks))
}

/// Sleeps on a word of a segment while it is `seen`, at most so long.
pub fn sleep_on(word: &AtomicU32, seen: u32, milliseconds: u32) {
    ipc::sys::futex_wait(word, seen, milliseconds);
}

/// Wakes everybody who sleeps on a word of a segment.
pub fn wake(word: &AtomicU32) {
    ipc::sys::futex_wake(word);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_mapping() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap()
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = Who::me().unwrap();
        assert_eq!(me.pid(), std::process::id());
        assert!(!me.is_dead() && !me.has_left(first_mapping()) && me.keeper().is_none());
        assert!(Who(me.0 + 1).is_dead(), "the same id, another start");
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let who = Who::of(child.id()).unwrap();
        assert!(!who.is_dead());
        let own = first_mapping();
        while !who.has_left(own) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        while !who.is_dead() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(who.is_dead());
        assert_eq!(Who::reserved(7).keeper(), Some(7));
    }

    #[test]
    fn names_of_processes_may_have_any_byte() {
        let line = b"12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(start(line), Some((b'S', 4242)));
        for broken in [&b"12 (a"[..], b"12 (a)", b"12 (a) ", b"12 (a) S 1 2", b""] {
            assert_eq!(start(broken), None);
        }
    }
}
