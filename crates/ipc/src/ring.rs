//! A ring of bytes with one writer and one reader in different processes.
//!
//! Positions count bytes since the request began and never wrap. Each side keeps its own position in private memory and
//! publishes it in one store. Each side reads the other side's position and checks it: a position that is not between the own
//! one and the own one plus the ring's size cannot come from working code. It is reported as [`Corrupt`] and never used.

use crate::atomics::{AtomicU64, Ordering};

/// The other side published an impossible position.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Corrupt;

/// The bytes of a ring. The slab's memory in production, the model checker's cells in tests.
pub trait Memory {
    /// Copies `source` to offset `at`; the caller never passes a range beyond the end.
    fn store(&self, at: usize, source: &[u8]);
    /// Copies from offset `at`; the caller never passes a range beyond the end.
    fn load(&self, at: usize, target: &mut [u8]);
    /// Size in bytes, a power of two.
    fn size(&self) -> usize;
}

/// How many bytes may be read at private position `head`.
pub fn readable(head: u64, tail: &AtomicU64, size: usize) -> Result<usize, Corrupt> {
    let available = tail.load(Ordering::Acquire).wrapping_sub(head);
    if available > size as u64 { Err(Corrupt) } else { Ok(available as usize) }
}

/// How many bytes may be written at private position `tail`.
pub fn writable(tail: u64, head: &AtomicU64, size: usize) -> Result<usize, Corrupt> {
    let used = tail.wrapping_sub(head.load(Ordering::Acquire));
    if used > size as u64 { Err(Corrupt) } else { Ok(size - used as usize) }
}

/// Writes at private position `at` without publishing. `source` must fit into what [`writable`] allowed.
pub fn put(memory: &impl Memory, at: u64, source: &[u8]) {
    let offset = (at & (memory.size() as u64 - 1)) as usize;
    let first = source.len().min(memory.size() - offset);
    memory.store(offset, &source[..first]);
    if first < source.len() {
        memory.store(0, &source[first..]);
    }
}

/// Reads at private position `at` without publishing. `target` must fit into what [`readable`] allowed.
pub fn get(memory: &impl Memory, at: u64, target: &mut [u8]) {
    let offset = (at & (memory.size() as u64 - 1)) as usize;
    let first = target.len().min(memory.size() - offset);
    let (before, after) = target.split_at_mut(first);
    memory.load(offset, before);
    if !after.is_empty() {
        memory.load(0, after);
    }
}
