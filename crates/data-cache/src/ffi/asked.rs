//! Answers to what people ask, for C, which knows how values look.

use super::{DataCacheProcess, Value, process, slice, value};
use crate::questions;
use crate::text::Text;

/// The text of an answer.
pub struct AnswerText(*mut Text);

/// Answers the question in a file to another one. `show` writes a value as PHP code.
///
/// # Safety
/// `p` is attached; `show` uses the value and the text only while it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_answer(
    p: *mut DataCacheProcess,
    question: i32,
    answer: i32,
    now: u64,
    show: extern "C" fn(value: *const Value, text: *mut AnswerText),
) {
    // SAFETY: by contract.
    let process = unsafe { process(p) };
    questions::answer(process, question, answer, now, &mut |process, found, text| {
        let value = value(process, found);
        let mut text = AnswerText(text);
        show(&raw const value, &raw mut text);
    });
}

/// Adds bytes to a text. False: it has no room for more.
///
/// # Safety
/// `text` is one that `show` was given; `bytes` has its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_add(text: *mut AnswerText, bytes: *const u8, size: usize) -> bool {
    // SAFETY: by contract; the text outlives the call of `show`, and nobody else uses it meanwhile.
    unsafe {
        let text = &mut *(*text).0;
        text.raw(slice(bytes, size));
        !text.is_cut
    }
}

/// Adds a string as PHP code.
///
/// # Safety
/// As [`data_cache_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn data_cache_add_string(text: *mut AnswerText, bytes: *const u8, size: usize) -> bool {
    // SAFETY: by contract; the text outlives the call of `show`, and nobody else uses it meanwhile.
    unsafe {
        let text = &mut *(*text).0;
        text.string(slice(bytes, size));
        !text.is_cut
    }
}
