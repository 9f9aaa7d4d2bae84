//! The same functions for C. Every one is a leaf: it returns, whatever happens, and no `longjmp` can cross it.

mod asked;
mod lives;
mod others;

use core::mem::MaybeUninit;

use crate::entries::{Condition, Found, Terms};
use crate::layout::{COUNTERS, Counter, LONGEST_KEY, MOST_TAGS, Tag};
use crate::process::Process;
use crate::view::View;

/// Bytes C reserves for a process' state.
pub const PROCESS_SIZE: usize = 2560;

/// Room for a process' state; its contents are this crate's.
#[repr(C, align(16))]
pub struct DataCacheProcess {
    /// Opaque.
    pub opaque: [u8; PROCESS_SIZE],
}

const _: () = assert!(size_of::<Process>() <= PROCESS_SIZE && align_of::<Process>() <= 16);

/// The longest key, in bytes.
pub const MOST_KEY: usize = 1024;
/// Most tags of a value.
pub const MOST_VALUE_TAGS: usize = 64;
/// Numbers that are counted: hits, misses, stale, stores, waits, computed.
pub const COUNTED: usize = 6;

const _: () = assert!(MOST_KEY == LONGEST_KEY && MOST_VALUE_TAGS == MOST_TAGS && COUNTED == COUNTERS);

/// A tag, and what its counter stands at.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ValueTag {
    /// See [`Tag::counter`].
    pub counter: u64,
    /// See [`Tag::generation`].
    pub generation: u64,
}

const _: () = assert!(size_of::<ValueTag>() == size_of::<Tag>());

/// A value that was found. Times are milliseconds of the monotonic clock.
#[repr(C)]
pub struct Value {
    /// PHP's zval, for reading.
    pub zval: *const u8,
    /// No two values have the same.
    pub version: u64,
    /// When it was stored.
    pub stored: u64,
    /// From when on it is to be renewed; 0: never.
    pub soft: u64,
    /// From when on it is gone; 0: never.
    pub hard: u64,
    /// Where it is in the list of all.
    pub slot: u64,
    /// Its key.
    pub key: *const u8,
    /// Bytes of the key.
    pub key_size: u32,
    /// Bytes in the segment.
    pub size: u32,
    /// Microseconds that it took to compute.
    pub cost: u32,
    /// How it was put down.
    pub kind: u32,
}

/// A value that is to be stored.
#[repr(C)]
pub struct Storing {
    /// 1 to `MOST_KEY` bytes.
    pub key: *const u8,
    /// How many.
    pub key_size: usize,
    /// At most `MOST_VALUE_TAGS`.
    pub tags: *const ValueTag,
    /// How many.
    pub tag_count: usize,
    /// Flushes at which the computation began.
    pub flush: u64,
    /// Now.
    pub now: u64,
    /// See [`Value::soft`].
    pub soft: u64,
    /// See [`Value::hard`].
    pub hard: u64,
    /// See [`Value::cost`].
    pub cost: u32,
    /// See [`Value::kind`].
    pub kind: u32,
    /// A result of a pure function: nothing else leaves for it.
    pub is_memo: bool,
}

/// Room for a value.
#[repr(C)]
pub struct Room {
    /// The zval, for writing.
    pub zval: *mut u8,
    /// What it points to, for writing.
    pub data: *mut u8,
    /// What has to be added to such an address to get the one for reading.
    pub to_read: isize,
    /// Its name for `data_cache_publish`.
    pub offset: u64,
}

/// # Safety
/// `p` was filled by [`data_cache_attach`].
unsafe fn process<'a>(p: *mut DataCacheProcess) -> &'a mut Process {
    // SAFETY: by contract; C has one thread, so there is one reference at a time.
    unsafe { &mut *p.cast::<Process>() }
}

/// # Safety
/// `bytes` points to `size` readable bytes, or `size` is 0.
unsafe fn slice<'a>(bytes: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: by contract.
    if size == 0 { &[] } else { unsafe { core::slice::from_raw_parts(bytes, size) } }
}

fn value(process: &Process, found: &Found) -> Value {
    let (view, entry) = (process.view, found.entry);
    Value {
        zval: view.reading(found.offset),
        version: entry.version,
        stored: entry.stored,
        soft: entry.soft,
        hard: entry.hard,
        slot: found.slot,
        key: view.key_of(found.offset, entry).as_ptr(),
        key_size: entry.key_size,
        size: entry.size,
        cost: entry.cost,
        kind: entry.kind,
    }
}

/// Maps the segment behind a descriptor. 0, or why not: 1 its size, 2 its address is taken, 3 another build made it, 4 a system call failed.
///
/// # Safety
/// `target` has room for a process' state, `identity` has its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_attach(
    target: *mut DataCacheProcess,
    descriptor: i32,
    address: u64,
    size: u64,
    identity: *const u8,
    identity_size: usize,
    relocate: Option<extern "C" fn(entry: *mut u8, shift: isize, alias: isize)>,
) -> i32 {
    // SAFETY: by contract; the memory is written, not read.
    unsafe {
        match View::attach(descriptor, address, size, slice(identity, identity_size)) {
            Ok(view) => {
                (*target.cast::<MaybeUninit<Process>>()).write(Process::new(view, relocate));
                0
            }
            Err(why) => why as i32,
        }
    }
}

/// In a process that was forked and whose memory is a worker's. `populate`: if its faults are counted.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_begin(
    p: *mut DataCacheProcess,
    populate: Option<extern "C" fn(at: usize, size: usize, writes: bool)>,
) {
    // SAFETY: by contract.
    unsafe { process(p) }.begin(populate);
}

/// Finds a value, stale ones too.
///
/// # Safety
/// `p` is attached; `key` has its size; `target` is for a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_find(
    p: *mut DataCacheProcess,
    key: *const u8,
    size: usize,
    now: u64,
    target: *mut Value,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let process = process(p);
        let found = process.find(slice(key, size), now);
        if let Some(found) = &found {
            target.write(value(process, found));
        }
        found.is_some()
    }
}

/// Counts one: hits 0, misses 1, stale 2, stores 3, waits 4, computed 5.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_count(p: *mut DataCacheProcess, what: u32) {
    let all = [Counter::Hits, Counter::Misses, Counter::Stale, Counter::Stores, Counter::Waits, Counter::Computed];
    if let Some(&what) = all.get(what as usize) {
        // SAFETY: by contract.
        unsafe { process(p) }.count(what);
    }
}

/// Room for a value with `size` bytes behind its zval. 0, or -1 too large, -2 no memory yet, -3 no place for this process.
///
/// # Safety
/// `p` is attached; `storing` is filled, `target` is for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_reserve(
    p: *mut DataCacheProcess,
    storing: *const Storing,
    size: usize,
    target: *mut Room,
) -> i32 {
    // SAFETY: by contract.
    unsafe {
        let (process, storing) = (process(p), &*storing);
        let tags = if storing.tag_count == 0 {
            &[]
        } else {
            core::slice::from_raw_parts(storing.tags.cast::<Tag>(), storing.tag_count)
        };
        let terms = Terms {
            key: slice(storing.key, storing.key_size),
            tags,
            flush: storing.flush,
            now: storing.now,
            soft: storing.soft,
            hard: storing.hard,
            cost: storing.cost,
            kind: storing.kind,
            is_memo: storing.is_memo,
        };
        match process.reserve(&terms, size as u64) {
            Ok(offset) => {
                let view = process.view;
                let zval = view.writing(offset);
                let at = view.entry(offset).value_at;
                target.write(Room {
                    zval,
                    data: zval.add(at as usize),
                    to_read: view.reading(0) as isize - view.writing(0) as isize,
                    offset,
                });
                0
            }
            Err(why) => why as i32,
        }
    }
}

/// Links a value: 0 in any case, 1 if there is none, 2 if nothing was done to the key since its counter was `number`, 3 in the place of version
/// `number`.
///
/// # Safety
/// `p` is attached; `offset` was reserved by it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_publish(
    p: *mut DataCacheProcess,
    offset: u64,
    condition: u32,
    number: u64,
    now: u64,
) -> bool {
    let condition = match condition {
        0 => Condition::Any,
        1 => Condition::Absent,
        2 => Condition::Untouched(number as u32),
        _ => Condition::Version(number),
    };
    // SAFETY: by contract.
    unsafe { process(p) }.publish(offset, condition, now)
}

/// Removes a value; `version` 0: whichever it is.
///
/// # Safety
/// `p` is attached; `key` has its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_delete(
    p: *mut DataCacheProcess,
    key: *const u8,
    size: usize,
    version: u64,
    now: u64,
) -> bool {
    // SAFETY: by contract.
    unsafe { process(p).delete(slice(key, size), (version != 0).then_some(version), now) }
}

/// Adds to a stored number. False: there is none.
///
/// # Safety
/// `p` is attached; `key` has its size; `result` is for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_increment(
    p: *mut DataCacheProcess,
    key: *const u8,
    size: usize,
    by: i64,
    now: u64,
    result: *mut i64,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let sum = process(p).increment(slice(key, size), by, now);
        if let Some(sum) = sum {
            result.write(sum);
        }
        sum.is_some()
    }
}

/// A tag as it stands.
///
/// # Safety
/// `p` is attached; `name` has its size; `target` is for a tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_tag(
    p: *mut DataCacheProcess,
    name: *const u8,
    size: usize,
    target: *mut ValueTag,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let tag = process(p).tag(slice(name, size));
        if let Some(tag) = tag {
            target.write(ValueTag { counter: tag.counter, generation: tag.generation });
        }
        tag.is_some()
    }
}

/// How often everything was flushed.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_flushes(p: *mut DataCacheProcess) -> u64 {
    // SAFETY: by contract.
    unsafe { process(p) }.flushes()
}

/// The counter of what is done to a key.
///
/// # Safety
/// `p` is attached; `key` has its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_touches(p: *mut DataCacheProcess, key: *const u8, size: usize) -> u32 {
    // SAFETY: by contract.
    unsafe { process(p).touches(slice(key, size)) }
}

/// All values with a tag are gone. False: this process has no place.
///
/// # Safety
/// `p` is attached; `name` has its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_invalidate(p: *mut DataCacheProcess, name: *const u8, size: usize) -> bool {
    // SAFETY: by contract.
    unsafe { process(p).invalidate(slice(name, size)) }
}

/// All values are gone.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_flush(p: *mut DataCacheProcess) -> bool {
    // SAFETY: by contract.
    unsafe { process(p) }.flush()
}
