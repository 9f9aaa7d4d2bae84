//! Every message is read as it was written, and bytes that no encoder writes are refused.

use super::*;

/// Sizes of a packet of zeros that decode as that message.
fn sizes<M: Message>(kind: u32) -> impl Iterator<Item = usize> {
    let mut bytes = [0; MAX_PACKET + 8];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    (0..bytes.len()).filter(move |&size| {
        let Ok(message) = M::decode(&bytes[..size]) else { return false };
        assert_eq!(message.encode().as_bytes(), &bytes[..size], "{kind:#x}");
        true
    })
}

fn check<M: Message + core::fmt::Debug>(kinds: &[u32]) {
    for &kind in kinds {
        let mut sizes = sizes::<M>(kind);
        let size = sizes.next().unwrap_or_else(|| panic!("{kind:#x} is never decoded"));
        assert!(size <= MAX_PACKET, "{kind:#x}: {size}");
        assert_eq!(sizes.next(), None, "{kind:#x} has two sizes");
    }
    let beyond = kinds.last().map_or(0, |last| last + 1);
    assert_eq!(M::decode(&beyond.to_le_bytes()).err(), Some(Malformed::Unknown(beyond)));
    assert_eq!(M::decode(&[]).err(), Some(Malformed::TooShort));
}

/// Every message of every direction comes back as it was, and one of another size does not come back.
#[test]
fn each_message_has_one_size_and_comes_back() {
    check::<ToFront>(ToFront::KINDS);
    check::<FromFront>(FromFront::KINDS);
    check::<ToForker>(ToForker::KINDS);
    check::<FromForker>(FromForker::KINDS);
    check::<FromErrand>(FromErrand::KINDS);
    check::<ToErrand>(ToErrand::KINDS);
    check::<ToAcme>(ToAcme::KINDS);
    check::<ToFollower>(ToFollower::KINDS);
    check::<FromFollower>(FromFollower::KINDS);
    check::<FromAcme>(FromAcme::KINDS);
    check::<ToStore>(ToStore::KINDS);
    check::<FromStore>(FromStore::KINDS);
    check::<ToWatcher>(ToWatcher::KINDS);
    check::<FromWatcher>(FromWatcher::KINDS);
}

/// A packet of one direction is none of another.
#[test]
fn no_number_is_used_twice() {
    let all = || {
        let with_front = [ToFront::KINDS, FromFront::KINDS, FromErrand::KINDS, ToWatcher::KINDS, FromWatcher::KINDS];
        let with_follower = [ToFollower::KINDS, FromFollower::KINDS];
        let others =
            [ToForker::KINDS, FromForker::KINDS, ToAcme::KINDS, FromAcme::KINDS, ToStore::KINDS, FromStore::KINDS];
        with_front.into_iter().chain(with_follower).chain(others).flatten()
    };
    for kind in all() {
        assert_eq!(all().filter(|one| *one == kind).count(), 1, "{kind:#x}");
    }
}

/// Fields keep their order and values.
#[test]
fn fields_come_back_as_they_were() {
    let lane = LaneId { generation: 7, lane: 3, epoch: 1 << 40 };
    let request = RequestId { exchange: 63, sequence: u32::MAX };
    let message = FromFront::Weigh { running: RunningRequest { lane, slot: 9, request }, limit_kib: 1 << 33 };
    assert_eq!(FromFront::decode(message.encode().as_bytes()), Ok(message));
    let bodies = Bodies { limit: 8 << 20, settings_file: *b".user.ini\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" };
    let message = FromForker::TemplateReady { isolation: Isolation::Fork, is_for_one_host: true, bodies };
    assert_eq!(FromForker::decode(message.encode().as_bytes()), Ok(message));
    let message = FromForker::Dead { slot: 1, pid: 2, status: -3, epoch: 4, processor_us: 5 };
    assert_eq!(FromForker::decode(message.encode().as_bytes()), Ok(message));
}

/// A truth that is neither, and an isolation that there is not.
#[test]
fn impossible_values_are_refused() {
    let ready = FromForker::TemplateReady {
        isolation: Isolation::WorkerMode,
        is_for_one_host: true,
        bodies: Bodies::default(),
    };
    let packet = ready.encode();
    for (at, value) in [(4, Isolation::ALL.len() as u8), (7, 0x80), (8, 2)] {
        let mut bytes = [0; MAX_PACKET];
        let size = packet.as_bytes().len();
        bytes[..size].copy_from_slice(packet.as_bytes());
        bytes[at] = value;
        assert_eq!(FromForker::decode(&bytes[..size]), Err(Malformed::Value), "byte {at}");
    }
}
