//! Processes that the supervisor has a channel to: the front and forkers.

use std::time::Instant;

use wire::control::{FromForker, FromFront, Message, ToForker, ToFront};

use super::liveness::Liveness;
use crate::channel::Channel;

/// The front, or a forker.
pub(super) struct Child<Out, In> {
    /// 0 for a template whose process is not known yet.
    pub(super) pid: i32,
    pub(super) channel: Channel<Out, In>,
    pub(super) since: Instant,
    pub(super) ready: bool,
    pub(super) liveness: Liveness,
}

pub(super) type Front = Child<ToFront, FromFront>;

/// A prototype, a template or the forker of a worker script.
pub(super) type Forker = Child<ToForker, FromForker>;

impl<Out: Message, In: Message> Child<Out, In> {
    pub(super) fn new(pid: i32, channel: Channel<Out, In>) -> Child<Out, In> {
        Child { pid, channel, since: Instant::now(), ready: false, liveness: Liveness::default() }
    }
}
