//! What concerns processes: leases, requests that end, forks, deaths, and what all have counted.

use super::{COUNTED, DataCacheProcess, process, slice};
use crate::leases::Answer;
use crate::numbers::StoreNumbers;

/// What a lease is asked for, and what came of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Leased {
    /// Of the key.
    pub hash: u64,
    /// Number of the lease.
    pub number: u32,
    /// To wait with.
    pub word: u32,
    /// Process id of who has it.
    pub owner: u32,
}

/// What a segment holds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Statistics {
    /// Bytes of the segment.
    pub size: u64,
    /// Bytes of the largest value.
    pub largest: u64,
    /// Bytes of linked values.
    pub live: u64,
    /// Values.
    pub entries: u64,
    /// Values that made room for others.
    pub evicted: u64,
    /// Values that were not stored, because no memory may be used again yet.
    pub refused: u64,
    /// Processes that died and were swept.
    pub swept: u64,
    /// Times that the lock was taken from the dead.
    pub taken_over: u64,
    /// Bytes that may not be used again yet.
    pub retired: u64,
    /// Process that holds them longest; 0: none.
    pub holder: u32,
    /// For how long, in milliseconds.
    pub held_ms: u64,
    /// See [`COUNTED`].
    pub counted: [u64; COUNTED],
    /// Whether there is a store that is shared with other nodes; else what follows is 0.
    pub has_store: bool,
    /// Whether it can be asked.
    pub store_ready: bool,
    /// Changes of which other nodes were not told yet.
    pub store_untold: u64,
    /// Requests of workers.
    pub store_requests: u64,
    /// Of those, the ones to which the store had no reply.
    pub store_failures: u64,
    /// Values and messages whose signature was not right.
    pub store_forged: u64,
}

/// Asks for the lease of a name. `kind` tells apart what has the same names. 0 it is the asker's, 1 he has it already, 2 another has it,
/// 3 there is no room.
///
/// # Safety
/// `p` is attached; `name` has its size; `target` is for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_lease(
    p: *mut DataCacheProcess,
    name: *const u8,
    size: usize,
    kind: u32,
    now: u64,
    milliseconds: u64,
    target: *mut Leased,
) -> u32 {
    // SAFETY: by contract.
    unsafe {
        let process = process(p);
        let hash = (process.view.hash(slice(name, size)) ^ u64::from(kind).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1);
        let (number, word, owner, code) = match process.lease(hash, now, milliseconds) {
            Answer::Mine(number) => (number, 0, 0, 0),
            Answer::Own(number) => (number, 0, 0, 1),
            Answer::Held(number, word, owner) => (number, word, owner, 2),
            Answer::NoRoom => (0, 0, 0, 3),
        };
        target.write(Leased { hash, number, word, owner });
        code
    }
}

/// Gives a lease back. Whether it was still this process'.
///
/// # Safety
/// `p` is attached; `leased` was filled by [`data_cache_lease`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_release(p: *mut DataCacheProcess, leased: *const Leased) -> bool {
    // SAFETY: by contract.
    unsafe { process(p).release((*leased).number, (*leased).hash) }
}

/// Gives all leases of this process back.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_release_all(p: *mut DataCacheProcess) {
    // SAFETY: by contract.
    unsafe { process(p) }.release_all();
}

/// Sleeps until a lease may be free, at most so long.
///
/// # Safety
/// `p` is attached; `leased` was filled by [`data_cache_lease`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_wait(p: *mut DataCacheProcess, leased: *const Leased, milliseconds: u32) {
    // SAFETY: by contract.
    unsafe { process(p).wait((*leased).number, (*leased).word, milliseconds) }
}

/// The request has ended, and nothing in this process' memory points into the segment.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_end_request(p: *mut DataCacheProcess) {
    // SAFETY: by contract.
    unsafe { process(p) }.end_request();
}

/// This process holds no value: it has copied what it got.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_end_reading(p: *mut DataCacheProcess) {
    // SAFETY: by contract.
    unsafe { process(p) }.end_reading();
}

/// The process ends, and has ended its request.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_leave(p: *mut DataCacheProcess) {
    // SAFETY: by contract.
    unsafe { process(p) }.leave();
}

/// Before a fork: the place of the child, plus one; 0: it needs none.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_before_fork(p: *mut DataCacheProcess) -> u32 {
    // SAFETY: by contract.
    unsafe { process(p) }.before_fork().map_or(0, |place| place + 1)
}

/// In the parent; `child` is 0 if there is none.
///
/// # Safety
/// `p` is attached; `place` is from [`data_cache_before_fork`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_after_fork(p: *mut DataCacheProcess, place: u32, child: u32) {
    if place > 0 {
        // SAFETY: by contract.
        unsafe { process(p) }.after_fork(place - 1, child);
    }
}

/// In the child. False: it must end, because values that it holds may be gone.
///
/// # Safety
/// `p` is attached; `place` is from [`data_cache_before_fork`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_in_child(p: *mut DataCacheProcess, place: u32) -> bool {
    // SAFETY: by contract.
    unsafe { process(p) }.in_child(place.checked_sub(1))
}

/// Takes back what the dead have: of a process that was reaped, and of its children; 0: of all.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_sweep(p: *mut DataCacheProcess, reaped: u32) -> u32 {
    // SAFETY: by contract.
    unsafe { process(p) }.sweep((reaped != 0).then_some(reaped))
}

/// What the segment holds.
///
/// # Safety
/// `p` is attached; `target` is for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_statistics(p: *mut DataCacheProcess, now: u64, target: *mut Statistics) {
    // SAFETY: by contract.
    let process = unsafe { process(p) };
    let is = process.numbers(now);
    let store = process.view.store_numbers(now);
    let of_store = |number: fn(StoreNumbers) -> u64| store.map_or(0, number);
    let statistics = Statistics {
        size: is.memory,
        largest: is.largest,
        live: is.bytes,
        entries: is.entries,
        evicted: is.evicted,
        refused: is.refused,
        swept: is.swept,
        taken_over: is.taken_over,
        retired: is.held,
        holder: is.holder,
        held_ms: is.held_ms,
        counted: process.counted(),
        has_store: store.is_some(),
        store_ready: store.is_some_and(|store| store.is_ready),
        store_untold: of_store(|store| store.untold),
        store_requests: of_store(|store| store.requests),
        store_failures: of_store(|store| store.failures),
        store_forged: of_store(|store| store.forged),
    };
    // SAFETY: by contract.
    unsafe { target.write(statistics) };
}
