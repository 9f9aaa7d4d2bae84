//! What C knows and says of other nodes.

use super::{DataCacheProcess, process};
use crate::talk::Head;

/// Whether there is a store, and for how many milliseconds values are good without news of other nodes; 0: there are none.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_set_store(p: *mut DataCacheProcess, is_there: bool, staleness: u64) {
    // SAFETY: by contract.
    unsafe { process(p) }.view.set_store(is_there, staleness);
}

/// Whether somebody takes requests for the store.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_store_is_ready(p: *mut DataCacheProcess, now: u64) -> bool {
    // SAFETY: by contract.
    unsafe { process(p) }.view.is_store_ready(now)
}

/// Whether the process that talks to the store lives.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_talker_is_alive(p: *mut DataCacheProcess, now: u64) -> bool {
    // SAFETY: by contract.
    unsafe { process(p) }.view.is_talker_alive(now)
}

/// Something was changed of which nobody could tell other nodes.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_owe(p: *mut DataCacheProcess) {
    // SAFETY: by contract.
    unsafe { process(p) }.view.owe();
}

/// Counts what concerns many values.
///
/// # Safety
/// `p` is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_news(p: *mut DataCacheProcess) -> u64 {
    // SAFETY: by contract.
    unsafe { process(p) }.view.news()
}

/// Whether a head has sizes that it may have.
///
/// # Safety
/// `head` is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_talk_is_sound(head: *const Head) -> bool {
    // SAFETY: by contract.
    unsafe { &*head }.is_sound()
}
