//! Compressed bodies of stored responses. Each is made once, when somebody first wants it, and lies beside its response in the store, where its bytes
//! count like others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::entry::Entry;
use super::responses::Responses;
use compression::Coding;
use compression::encoder::{Effort, whole};
use compression::squeeze::STEP;

/// Bodies that are compressed by the runtime's pool at once. Its threads read files too.
const MOST: usize = 2;

static MAKING: AtomicUsize = AtomicUsize::new(0);

const fn bit(coding: Coding) -> u8 {
    1 << coding as u8
}

/// A body that is being made, until this is dropped.
struct Making {
    entry: Arc<Entry>,
    coding: Coding,
    is_pooled: bool,
}

impl Making {
    fn begin(entry: &Arc<Entry>, coding: Coding, is_pooled: bool) -> Option<Making> {
        if entry.making.fetch_or(bit(coding), Ordering::AcqRel) & bit(coding) != 0 {
            return None;
        }
        let making = Making { entry: entry.clone(), coding, is_pooled };
        if is_pooled && MAKING.fetch_add(1, Ordering::Relaxed) >= MOST {
            return None;
        }
        Some(making)
    }

    fn make(&self, responses: &Responses) -> Option<Bytes> {
        let Making { entry, coding, .. } = self;
        let bytes = whole(*coding, &entry.body, Effort::Kept).ok().filter(|bytes| bytes.len() < entry.body.len());
        if !bytes.as_ref().is_some_and(|bytes| responses.store_coded(entry, *coding, bytes.clone())) {
            entry.useless.fetch_or(bit(*coding), Ordering::Relaxed);
        }
        bytes
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.entry.making.fetch_and(!bit(self.coding), Ordering::AcqRel);
        if self.is_pooled {
            MAKING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The body of a stored response in this coding. If it has to be made and is not short, a thread of the pool makes it, for those who ask later.
pub fn body(responses: &Arc<Responses>, entry: &Arc<Entry>, coding: Coding) -> Option<Bytes> {
    if let Some(bytes) = responses.coded(entry, coding) {
        return Some(bytes);
    }
    if entry.useless.load(Ordering::Relaxed) & bit(coding) != 0 {
        return None;
    }
    let is_pooled = entry.body.len() > STEP;
    let making = Making::begin(entry, coding, is_pooled)?;
    // Who has just made it has stored it before that was over.
    if let Some(bytes) = responses.coded(entry, coding) {
        return Some(bytes);
    }
    if !is_pooled {
        return making.make(responses);
    }
    let responses = responses.clone();
    tokio::task::spawn_blocking(move || making.make(&responses));
    None
}
