//! What a worker says to the process that talks to the store, and what lies there.

use cluster::envelope::{Message, Sealer, Value};
use data_cache::talk::{self, HEAD, Head};

/// No bytes are read as something that would be written otherwise, and nothing unsigned is opened.
pub fn check(bytes: &[u8]) {
    let sealer = Sealer::new("shop", "a secret for fuzzing");
    assert_eq!((sealer.open_value(b"key", bytes), sealer.open_message(bytes)), (None, None));
    if let Some(value) = Value::read(bytes, 0) {
        let sealed = sealer.seal_value(b"key", &value);
        assert!(sealed.starts_with(bytes));
        let opened = sealer.open_value(b"key", &sealed).expect("it was sealed");
        assert_eq!(Value { version: 0, ..opened }, value);
    }
    if let Some(message) = Message::read(bytes) {
        assert_eq!(sealer.open_message(&sealer.seal_message(&message)), Some(message));
    }
    if let Some(head) = bytes.first_chunk::<HEAD>().and_then(Head::of) {
        assert!(head.is_sound() && head.third <= u64::from(head.value_size));
        assert_eq!(Head::of(&head.bytes()).map(|again| again.body_size()), Some(head.body_size()));
    }
    if let Some(tags) = talk::tags(bytes) {
        let sizes = tags.map(|tag| 2 + tag.len());
        assert_eq!(sizes.sum::<usize>(), bytes.len());
    }
}
