//! A segment in a memory file, values that check themselves, and forked processes.
#![allow(dead_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use data_cache::entries::{Condition, Refused, Terms};
use data_cache::process::Process;
use data_cache::view::View;
use ipc::sys::syscall;

/// Numbers that look random, from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A value has no pointers here; the words behind the zval all say `seed`.
extern "C" fn relocate(_: *mut u8, _: isize, _: isize) {}

/// A new segment.
pub fn segment(size: u64) -> Process {
    static PLACES: AtomicU64 = AtomicU64::new(0);
    let file = ipc::sys::memory_file(size as usize).unwrap();
    let address = 0x30_0000_0000 + PLACES.fetch_add(1, Ordering::Relaxed) * (256 << 20);
    Process::new(View::attach(file, address, size, b"test").unwrap(), Some(relocate))
}

/// Stores words that all are `seed`, with the seed in the zval.
pub fn store(
    process: &mut Process,
    key: &[u8],
    seed: u64,
    words: u64,
    tags: &[&[u8]],
    hard: u64,
    condition: Condition,
) -> Result<bool, Refused> {
    let tags: Vec<_> = tags.iter().filter_map(|tag| process.tag(tag)).collect();
    let flush = process.flushes();
    let terms = Terms { key, tags: &tags, flush, now: 1, soft: 0, hard, cost: 0, kind: 0, is_memo: false };
    put(process, &terms, seed, words, condition)
}

/// The same for a result of a pure function.
pub fn store_memo(process: &mut Process, key: &[u8], seed: u64, words: u64) -> Result<bool, Refused> {
    let flush = process.flushes();
    let terms = Terms { key, tags: &[], flush, now: 1, soft: 0, hard: 0, cost: 0, kind: 0, is_memo: true };
    put(process, &terms, seed, words, Condition::Absent)
}

fn put(process: &mut Process, terms: &Terms, seed: u64, words: u64, condition: Condition) -> Result<bool, Refused> {
    let offset = process.reserve(terms, words * 8)?;
    let at = process.view.entry(offset).value_at;
    // SAFETY: what was reserved.
    unsafe {
        let zval = process.view.writing(offset).cast::<u64>();
        zval.write(seed);
        zval.add(1).write(words);
        let data = process.view.writing(offset + u64::from(at)).cast::<u64>();
        (0..words as usize).for_each(|number| data.add(number).write(seed));
    }
    Ok(process.publish(offset, condition, 1))
}

/// The seed of a value, all of whose words are right.
pub fn fetch(process: &mut Process, key: &[u8], now: u64) -> Option<u64> {
    let found = process.find(key, now)?;
    let entry = found.entry;
    let (seed, words) = (entry.value[0].load(Ordering::Relaxed), entry.value[1].load(Ordering::Relaxed));
    let data = process.view.reading(found.offset + u64::from(entry.value_at)).cast::<u64>();
    for number in 0..words as usize {
        // SAFETY: the value was linked with so many words, and stays until the request ends.
        let word = unsafe { data.add(number).read() };
        assert_eq!(word, seed, "{} word {number} of {words}", String::from_utf8_lossy(key));
    }
    Some(seed)
}

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const CLONE: usize = 56;
    pub const EXIT_GROUP: usize = 231;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const CLONE: usize = 220;
    pub const EXIT_GROUP: usize = 94;
    pub const WAIT4: usize = 260;
    pub const KILL: usize = 129;
}

/// Forks a child that does `work` and ends. The child must not allocate: threads of the test may hold the allocator's lock.
pub fn fork(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: SIGCHLD alone: a fork. The child leaves by exit_group, and runs no destructor of the parent.
    unsafe {
        let pid = syscall(nr::CLONE, [17, 0, 0, 0, 0, 0]).unwrap();
        if pid == 0 {
            let code = work();
            loop {
                let _ = syscall(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
            }
        }
        pid as i32
    }
}

/// Waits for a child; its status as `waitpid` has it.
pub fn reap(pid: i32) -> i32 {
    let mut status = 0i32;
    // SAFETY: a local is written.
    while unsafe { syscall(nr::WAIT4, [pid as usize, &raw mut status as usize, 0, 0, 0, 0]) }.is_err() {}
    status
}

/// Kills a child.
pub fn kill(pid: i32) {
    // SAFETY: a signal to a child that was not reaped.
    let _ = unsafe { syscall(nr::KILL, [pid as usize, 9, 0, 0, 0, 0]) };
}

/// How much of a long test runs: REPRISE_FULL takes all.
pub fn amount(short: u64, full: u64) -> u64 {
    if std::env::var_os("REPRISE_FULL").is_some() { full } else { short }
}
