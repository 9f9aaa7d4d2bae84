//! A packet of a control channel, read as a message of each direction.

use ipc::control::{
    FromAcme, FromErrand, FromFollower, FromForker, FromFront, FromWatcher, Message, ToAcme, ToFollower, ToForker,
    ToFront, ToWatcher,
};

/// What is read is written as the same bytes.
fn read<M: Message>(bytes: &[u8]) -> usize {
    let Ok(message) = M::decode(bytes) else { return 0 };
    assert_eq!(message.encode().as_bytes(), bytes);
    1
}

/// Checks what holds for these bytes: they are a message of one direction at most.
pub fn check(bytes: &[u8]) {
    let directions = [
        read::<ToFront>(bytes),
        read::<FromFront>(bytes),
        read::<ToForker>(bytes),
        read::<FromForker>(bytes),
        read::<FromErrand>(bytes),
        read::<ToAcme>(bytes),
        read::<FromAcme>(bytes),
        read::<ToWatcher>(bytes),
        read::<FromWatcher>(bytes),
        read::<ToFollower>(bytes),
        read::<FromFollower>(bytes),
    ];
    assert!(directions.iter().sum::<usize>() <= 1);
}
