//! The same functions for C. Every one is a leaf: it returns, whatever happens, and no `longjmp` can cross it.

use core::net::IpAddr;

use crate::plan::{MOST_RESET, Plan, Protocol, Refusal};
use crate::reset::{self, NONCE, Verdict};
use crate::traffic::Traffic;
use crate::{networks, postgres, protocols};

/// Bytes C reserves for a connection's state.
pub const STATE_SIZE: usize = 2800;
/// Bytes of a user, a role and a database.
const MOST_VALUES: usize = 640;
/// Bytes of a reset, at most.
pub const MOST_TEXT: usize = 3072;

const _: () = assert!(MOST_TEXT >= MOST_RESET + 1024);
/// What [`db_session_judge`] returns: see [`Verdict`].
pub const INCOMPLETE: u32 = 0;
/// See [`Verdict::Right`].
pub const RIGHT: u32 = 1;
/// See [`Verdict::Languages`].
pub const LANGUAGES: u32 = 3;
/// See [`Verdict::Greeted`].
pub const GREETED: u32 = 4;
/// See [`Verdict::Ended`].
pub const ENDED: u32 = 5;
/// The refusal whose bytes are shown: see [`Refusal::Statement`].
pub const ABOUT_STATEMENT: u32 = 5;

const _: () = assert!(
    INCOMPLETE == Verdict::Incomplete as u32
        && RIGHT == Verdict::Right as u32
        && LANGUAGES == Verdict::Languages as u32
        && GREETED == Verdict::Greeted as u32
        && ENDED == Verdict::Ended as u32
        && ABOUT_STATEMENT == Refusal::Statement as u32
);

/// Bytes of a reason, at most.
pub const REASON_SIZE: usize = 192;

/// Room for what is known of a connection; its contents are this crate's.
#[repr(C, align(8))]
pub struct ConnectionState {
    /// Opaque.
    pub opaque: [u8; STATE_SIZE],
}

/// What is known of a connection.
struct State {
    plan: Plan,
    traffic: Traffic,
    nonce: [u8; NONCE],
    in_transaction: bool,
    /// What the first reset has shown.
    is_known: bool,
    values_size: u16,
    values: [u8; MOST_VALUES],
}

impl State {
    /// Whether a reset has shown what the first one has.
    fn is_as_before(&mut self, values: &[u8]) -> bool {
        let size = usize::from(self.values_size);
        if self.is_known {
            return self.values.get(..size) == Some(values);
        }
        let Some(room) = self.values.get_mut(..values.len()) else { return false };
        room.copy_from_slice(values);
        self.values_size = u16::try_from(values.len()).unwrap_or(u16::MAX);
        self.is_known = true;
        true
    }
}

const _: () = assert!(NONCE == 16);
const _: () = assert!(size_of::<State>() <= STATE_SIZE && align_of::<State>() <= 8);

/// # Safety
/// `s` was filled by [`db_session_plan`].
unsafe fn state<'a>(s: *mut ConnectionState) -> &'a mut State {
    // SAFETY: by contract; C has one thread, so there is one reference at a time.
    unsafe { &mut *s.cast::<State>() }
}

/// # Safety
/// `bytes` points to `size` readable bytes, or `size` is 0.
unsafe fn slice<'a>(bytes: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: by contract.
    if size == 0 { &[] } else { unsafe { core::slice::from_raw_parts(bytes, size) } }
}

/// Reads all that was sent on a connection. 0: `s` has what a reset says. Otherwise a [`Refusal`], and `about` has where the bytes
/// begin that it is about, and how many they are.
///
/// # Safety
/// `s` and `about` can be written; `sent` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_plan(
    s: *mut ConnectionState,
    sent: *const u8,
    size: usize,
    about: *mut [usize; 2],
) -> u32 {
    // SAFETY: by contract.
    match protocols::plan(unsafe { slice(sent, size) }) {
        Ok(plan) => {
            let made = State {
                plan,
                traffic: Traffic::default(),
                nonce: [0; NONCE],
                in_transaction: false,
                is_known: false,
                values_size: 0,
                values: [0; MOST_VALUES],
            };
            // SAFETY: by contract; the assertion above says that it fits.
            unsafe { s.cast::<State>().write(made) };
            0
        }
        Err(refused) => {
            // SAFETY: by contract.
            unsafe { *about = [refused.at, refused.size] };
            refused.why as u32
        }
    }
}

/// The words for a [`Refusal`], with a zero byte at their end.
///
/// # Safety
/// `words` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_refusal(refusal: u32, words: *mut [u8; REASON_SIZE]) {
    let text = Refusal::ALL.get((refusal as usize).wrapping_sub(1)).map_or("it cannot be reset", |why| why.text());
    let mut bytes = [0; REASON_SIZE];
    bytes.iter_mut().zip(text.bytes().take(REASON_SIZE - 1)).for_each(|(room, byte)| *room = byte);
    // SAFETY: by contract.
    unsafe { *words = bytes };
}

/// Follows what a request has sent.
///
/// # Safety
/// `s` was filled by [`db_session_plan`]; `bytes` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_sent(s: *mut ConnectionState, bytes: *const u8, size: usize) {
    // SAFETY: by contract.
    let (state, bytes) = unsafe { (state(s), slice(bytes, size)) };
    state.traffic.follow(state.plan.protocol, bytes);
}

/// A request has read something that the server has said.
///
/// # Safety
/// `s` was filled by [`db_session_plan`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_heard(s: *mut ConnectionState) {
    // SAFETY: by contract.
    unsafe { state(s) }.traffic.heard();
}

/// Whether the server owes a reply: see [`Traffic::awaits_reply`].
///
/// # Safety
/// `s` was filled by [`db_session_plan`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_awaits_reply(s: *mut ConnectionState) -> bool {
    // SAFETY: by contract.
    unsafe { state(s) }.traffic.awaits_reply()
}

/// Whether all that was sent are whole messages.
///
/// # Safety
/// `s` was filled by [`db_session_plan`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_is_at_end(s: *mut ConnectionState) -> bool {
    // SAFETY: by contract.
    unsafe { state(s) }.traffic.is_at_end()
}

/// Whether a request has sent something whose effect no reset puts back.
///
/// # Safety
/// `s` was filled by [`db_session_plan`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_has_lasting(s: *mut ConnectionState) -> bool {
    // SAFETY: by contract.
    unsafe { state(s) }.traffic.has_lasting()
}

/// Writes what a client says before it leaves to `text`, and returns its size.
///
/// # Safety
/// `s` was filled by [`db_session_plan`]; `text` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_goodbye(s: *mut ConnectionState, text: *mut [u8; 8]) -> usize {
    // SAFETY: by contract.
    let (state, text) = unsafe { (state(s), &mut *text) };
    let said = protocols::goodbye(state.plan.protocol);
    text.iter_mut().zip(said).for_each(|(room, byte)| *room = *byte);
    said.len().min(text.len())
}

/// Writes a reset to `text` and returns its size; 0: there is no room, which cannot be. `last`: the server's last six bytes.
///
/// # Safety
/// `s` was filled by [`db_session_plan`]; the others can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_reset(
    s: *mut ConnectionState,
    random: *const [u8; 8],
    last: *const [u8; 6],
    text: *mut [u8; MOST_TEXT],
) -> usize {
    // SAFETY: by contract.
    let (state, random, last, text) = unsafe { (state(s), *random, &*last, &mut *text) };
    state.nonce = reset::nonce(random);
    state.in_transaction = state.plan.protocol == Protocol::Postgres && postgres::is_in_transaction(last);
    let mut size = 0;
    let mut write = |bytes: &[u8]| match text.get_mut(size..size + bytes.len()) {
        Some(room) => {
            room.copy_from_slice(bytes);
            size += bytes.len();
            true
        }
        None => false,
    };
    if protocols::text(&state.plan, state.in_transaction, &state.nonce, &mut write) { size } else { 0 }
}

/// Judges all replies to a reset so far: a [`reset::Verdict`].
///
/// # Safety
/// `s` was filled by [`db_session_plan`]; `replies` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_judge(s: *mut ConnectionState, replies: *const u8, size: usize) -> u32 {
    // SAFETY: by contract.
    let (state, replies) = unsafe { (state(s), slice(replies, size)) };
    let (verdict, values) = protocols::judge(&state.plan, state.in_transaction, &state.nonce, replies);
    let verdict = match verdict {
        Verdict::Right if !state.is_as_before(values) => Verdict::Wrong,
        verdict => verdict,
    };
    verdict as u32
}

/// Whether a server's address is this machine's own, or lies in one of `networks`. `bytes`: 4 or 16 of the address.
///
/// # Safety
/// `networks` has `size` bytes, and `bytes` has `width`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_session_may_go_to(
    networks: *const u8,
    size: usize,
    bytes: *const u8,
    width: usize,
) -> bool {
    // SAFETY: by contract.
    let (networks, bytes) = unsafe { (slice(networks, size), slice(bytes, width)) };
    let address = match width {
        4 => <[u8; 4]>::try_from(bytes).map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).map(IpAddr::from),
    };
    address.is_ok_and(|address| networks::has(core::str::from_utf8(networks).unwrap_or_default(), address))
}
