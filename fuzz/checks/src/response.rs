//! The head of a response, as a worker may have written it.

use ipc::response::{self, MAX_SIZE, Record};

/// Checks what holds for these bytes.
pub fn check(bytes: &[u8]) {
    let Ok(Some(size)) = response::complete(bytes) else { return };
    assert!(size <= bytes.len() && size <= MAX_SIZE + MAX_SIZE + 65536 + 8);
    // What is complete reads back record by record, to exactly its end.
    let mut at = 0;
    loop {
        let (record, step) = response::read(&bytes[at..size]).expect("checked").expect("complete");
        at += step;
        if record == Record::End {
            break;
        }
    }
    assert_eq!(at, size);
}
