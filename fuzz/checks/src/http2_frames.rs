//! Frames of HTTP/2: what is found does not depend on how bytes arrive.

use front::transport::http2::frames::Frames;

/// The first byte says how the others arrive.
pub fn check(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let (mut whole, mut parted) = (Frames::default(), Frames::default());
    let at_once = whole.follow(bytes);
    let in_parts = bytes.chunks(1 + usize::from(*size)).try_for_each(|part| parted.follow(part));
    assert_eq!(at_once, in_parts);
    // Whatever came, nothing of it was counted twice: a client that reads is given room.
    if at_once.is_ok() {
        whole.wrote(bytes.len());
        let _ = whole.follow(bytes);
    }
}
