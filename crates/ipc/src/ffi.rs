//! The same functions for C. Every one is a leaf: it returns, whatever happens, and no `longjmp` can cross it.
//!
//! A `ipc_worker` lives in memory that C provides, so that C decides what of it survives a rewind.

use core::mem::MaybeUninit;

use crate::control::{FromForker, MAX_PACKET, Message, ToForker};
use crate::layout::{Activity, Geometry, MAX_DOORS, OPCACHES, RECYCLES, Recycle, Usage};
use crate::worker::{Gone, Next, Worker};

/// Bytes C reserves for a worker's state.
pub const WORKER_SIZE: usize = 256;
/// The client or the front is gone.
pub const GONE_ABORTED: i64 = -1;
/// There is no request.
pub const GONE_NO_REQUEST: i64 = -2;

/// Room for a worker's state; its contents are this crate's.
#[repr(C, align(16))]
pub struct IpcWorker {
    /// Opaque.
    pub opaque: [u8; WORKER_SIZE],
}

const _: () = assert!(size_of::<Worker>() <= WORKER_SIZE && align_of::<Worker>() <= 16);

/// # Safety
/// `worker` was filled by [`ipc_attach`].
unsafe fn worker<'a>(worker: *mut IpcWorker) -> &'a mut Worker {
    // SAFETY: by contract; C has one thread, so there is one reference at a time.
    unsafe { &mut *worker.cast::<Worker>() }
}

/// # Safety
/// `bytes` points to `size` readable bytes, or `size` is 0.
unsafe fn slice<'a>(bytes: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: by contract.
    if size == 0 { &[] } else { unsafe { core::slice::from_raw_parts(bytes, size) } }
}

fn code(result: Result<usize, Gone>) -> i64 {
    match result {
        Ok(count) => count as i64,
        Err(Gone::Aborted) => GONE_ABORTED,
        Err(Gone::NoRequest) => GONE_NO_REQUEST,
    }
}

/// Maps the slab behind descriptor `slab` and takes `slot`. Returns 0 or an errno.
///
/// # Safety
/// `target` has room for a worker; `eventfds` points to `MAX_DOORS` descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_attach(
    target: *mut IpcWorker,
    slab: i32,
    geometry: *const Geometry,
    slot: u32,
    pid: u32,
    eventfds: *const [i32; MAX_DOORS],
) -> i32 {
    let Ok(slot) = u16::try_from(slot) else { return 22 };
    // SAFETY: by contract; the memory is written, not read.
    unsafe {
        match Worker::attach(slab, *geometry, slot, pid, *eventfds) {
            Ok(worker) => {
                (*target.cast::<MaybeUninit<Worker>>()).write(worker);
                0
            }
            Err(errno) => errno.0,
        }
    }
}

/// Claims the next request: 1 claimed, 0 nothing within a second, -1 the lane is ending.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_next(w: *mut IpcWorker) -> i32 {
    // SAFETY: by contract.
    let next: Next = unsafe { worker(w) }.claim_next();
    next as i32
}

/// Copies the request head to `target` and returns its size, 0 if there is none that fits.
///
/// # Safety
/// `w` is attached; `target` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_head(w: *mut IpcWorker, target: *mut u8, size: usize) -> usize {
    // SAFETY: by contract.
    unsafe { worker(w).head(core::slice::from_raw_parts_mut(target, size)) }
}

/// Marks the request as entered. False if it is no longer this worker's.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_enter(w: *mut IpcWorker) -> bool {
    // SAFETY: by contract.
    unsafe { worker(w) }.enter()
}

/// Reads at most `size` bytes of the body; waits for some. 0 at its end, else negative.
///
/// # Safety
/// `w` is attached; `target` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_read(w: *mut IpcWorker, target: *mut u8, size: usize) -> i64 {
    if size == 0 {
        return 0;
    }
    // SAFETY: by contract.
    code(unsafe { worker(w).read(core::slice::from_raw_parts_mut(target, size)) })
}

/// Writes `size` bytes of the response; waits while the ring is full. 0 or negative.
///
/// # Safety
/// `w` is attached; `bytes` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_write(w: *mut IpcWorker, bytes: *const u8, size: usize) -> i64 {
    // SAFETY: by contract.
    code(unsafe { worker(w).write(slice(bytes, size)) }.map(|()| 0))
}

/// Begins the response's head.
///
/// # Safety
/// `w` is attached; `reason` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_response_status(w: *mut IpcWorker, status: u16, reason: *const u8, size: usize) -> i64 {
    // SAFETY: by contract.
    code(unsafe { worker(w).response_status(status, slice(reason, size)) }.map(|()| 0))
}

/// Adds a header line to the response's head. Names are at most 65535 bytes.
///
/// # Safety
/// `w` is attached; `name` and `value` have their sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_response_header(
    w: *mut IpcWorker,
    name: *const u8,
    name_size: u16,
    value: *const u8,
    value_size: usize,
) -> i64 {
    // SAFETY: by contract.
    code(unsafe { worker(w).response_header(slice(name, name_size.into()), slice(value, value_size)) }.map(|()| 0))
}

/// Ends the response's head.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_response_end(w: *mut IpcWorker) -> i64 {
    // SAFETY: by contract.
    code(unsafe { worker(w) }.response_end().map(|()| 0))
}

/// Publishes what was written.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_flush(w: *mut IpcWorker) {
    // SAFETY: by contract.
    unsafe { worker(w) }.flush();
}

/// Completes the response; the request is gone for this worker.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_finish(w: *mut IpcWorker) {
    // SAFETY: by contract.
    unsafe { worker(w) }.finish();
}

/// Whether nobody takes the response any more.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_is_unread(w: *mut IpcWorker) -> bool {
    // SAFETY: by contract.
    unsafe { worker(w) }.is_unread()
}

/// Shows a `ipc_Activity` on the scoreboard.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_show(w: *mut IpcWorker, activity: u32) {
    // SAFETY: by contract.
    Activity::of(activity).into_iter().for_each(|activity| unsafe { worker(w) }.show(activity));
}

/// Reads a packet of the supervisor. False: it is none that a forker takes, and `message` is left as it was.
///
/// # Safety
/// `bytes` has `size` bytes, `message` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_read_message(bytes: *const u8, size: usize, message: *mut ToForker) -> bool {
    // SAFETY: by contract.
    let Ok(read) = ToForker::decode(unsafe { core::slice::from_raw_parts(bytes, size) }) else { return false };
    // SAFETY: by contract.
    unsafe { message.write(read) };
    true
}

/// Writes a packet for the supervisor. Returns its size.
///
/// # Safety
/// `message` is one, its enumerations have values of theirs; `packet` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_write_message(message: *const FromForker, packet: *mut [u8; MAX_PACKET]) -> usize {
    // SAFETY: by contract.
    let encoded = unsafe { (*message).encode() };
    let bytes = encoded.as_bytes();
    // SAFETY: by contract.
    unsafe { (&mut *packet)[..bytes.len()].copy_from_slice(bytes) };
    bytes.len()
}

/// Leaves a note for the front: `ipc_NOTE_SNAPSHOT`, perhaps with `ipc_NOTE_HOST`, or `ipc_NOTE_WORKER_MODE`.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_note(w: *mut IpcWorker, note: u32) {
    // SAFETY: by contract.
    unsafe { worker(w) }.note(note);
}

/// Asks for code to be loaded anew, by a new generation; `why` is one of `RENEW_`.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_renew(w: *mut IpcWorker, why: u32) {
    // SAFETY: by contract.
    unsafe { worker(w) }.renew(why);
}

/// Says what it has seen of opcache: numbers by `ipc_Opcache`.
///
/// # Safety
/// `w` is attached; `numbers` has all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_saw_opcache(w: *mut IpcWorker, numbers: *const [u64; OPCACHES]) {
    // SAFETY: by contract.
    unsafe { worker(w).saw_opcache(&*numbers) }
}

/// Says what the current request has used: microseconds of processor time, KiB of memory.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_used(w: *mut IpcWorker, processor_us: u32, peak_kib: u32) {
    // SAFETY: by contract.
    unsafe { worker(w) }.used(Usage { processor_us, peak_kib });
}

/// Copies the front's report about the application to `target`. Returns its size; nothing is copied if that is more than
/// `size`. 0: there is none.
///
/// # Safety
/// `w` is attached; `target` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_report(w: *mut IpcWorker, target: *mut u8, size: usize) -> usize {
    // SAFETY: by contract.
    unsafe { worker(w).report(core::slice::from_raw_parts_mut(target, size)) }
}

/// Has the front purge from the cache of responses what a text says, and waits until it has: two seconds at most. False: it has not, or the text is
/// longer than `ipc_PURGE_SIZE`.
///
/// # Safety
/// `w` is attached; `text` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_purge(w: *mut IpcWorker, text: *const u8, size: usize) -> bool {
    // SAFETY: by contract.
    unsafe { worker(w).purge(core::slice::from_raw_parts(text, size)) }
}

/// Says how many connections to other servers the worker keeps open.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_keeps(w: *mut IpcWorker, connections: u32) {
    // SAFETY: by contract.
    unsafe { worker(w) }.keeps(connections);
}

/// Counts a rewind: whether it was fast, and the pages it copied.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_rewound(w: *mut IpcWorker, is_fast: bool, pages: u64) {
    // SAFETY: by contract.
    unsafe { worker(w) }.rewound(is_fast, pages);
}

/// Counts a worker's end, by a `ipc_Recycle`.
///
/// # Safety
/// `w` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_recycled(w: *mut IpcWorker, why: u32) {
    // SAFETY: by contract.
    Recycle::of(why).into_iter().for_each(|why| unsafe { worker(w) }.recycled(why));
}

/// Ends of the lane's workers so far, by reason.
///
/// # Safety
/// `w` is attached; `counts` has room for all reasons.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_recycles(w: *mut IpcWorker, counts: *mut [u64; RECYCLES]) {
    // SAFETY: by contract.
    unsafe { *counts = Recycle::ALL.map(|why| worker(w).recycles(why)) }
}

/// The word of a reason, with a zero at its end: at most 15 bytes.
///
/// # Safety
/// `target` has 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_recycle_word(why: u32, target: *mut [u8; 16]) {
    let word = Recycle::of(why).map_or("unknown", Recycle::word);
    let mut text = [0; 16];
    for (to, from) in text.iter_mut().zip(word.bytes().take(15)) {
        *to = from;
    }
    // SAFETY: by contract.
    unsafe { *target = text }
}

/// Fast rewinds, scanned rewinds and pages of this worker so far.
///
/// # Safety
/// `w` is attached; `counts` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_rewinds(w: *mut IpcWorker, counts: *mut [u64; 3]) {
    // SAFETY: by contract.
    unsafe { *counts = worker(w).rewinds() }
}

/// `2026-01-31T23:59:59Z` of seconds since 1970, without a zero at its end.
///
/// # Safety
/// `target` has 20 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_timestamp(seconds: u64, target: *mut [u8; 20]) {
    // SAFETY: by contract.
    unsafe { *target = crate::date::timestamp(seconds) }
}

/// Where the slab is mapped: first byte, number of bytes.
///
/// # Safety
/// `w` is attached; `extent` has room for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipc_extent(w: *mut IpcWorker, extent: *mut [usize; 2]) {
    // SAFETY: by contract.
    let (start, size) = unsafe { worker(w) }.extent();
    // SAFETY: by contract.
    unsafe { *extent = [start, size] }
}
