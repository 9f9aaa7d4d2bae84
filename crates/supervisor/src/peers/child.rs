//! Processes that the supervisor has a channel to: the front and forkers.

use std::time::{Duration, Instant};

use ipc::control::{FromForker, FromFront, Message, ToForker, ToFront};

use crate::peers::channel::Channel;
use crate::peers::liveness::Liveness;

/// The front, or a forker.
pub(crate) struct Child<Out, In> {
    /// 0 for a template whose process is not known yet.
    pub(crate) pid: i32,
    pub(crate) channel: Channel<Out, In>,
    pub(crate) since: Instant,
    pub(crate) ready: bool,
    pub(crate) liveness: Liveness,
    /// How long it has taken to become ready when that is said next.
    pub(crate) said_next: Duration,
}

/// How often the log says that something is not ready yet.
const SAID_EVERY: Duration = Duration::from_secs(10);

pub(crate) type Front = Child<ToFront, FromFront>;

/// A prototype, a template or the forker of a worker script.
pub(crate) type Forker = Child<ToForker, FromForker>;

impl<Out: Message, In: Message> Child<Out, In> {
    pub(crate) fn new(pid: i32, channel: Channel<Out, In>) -> Child<Out, In> {
        let (since, liveness) = (Instant::now(), Liveness::default());
        Child { pid, channel, since, ready: false, liveness, said_next: SAID_EVERY }
    }

    /// Seconds for which it has not been ready, each time that these are ten more.
    pub(crate) fn takes_long(&mut self, now: Instant) -> Option<u64> {
        let took = now.saturating_duration_since(self.since);
        if self.ready || took < self.said_next {
            return None;
        }
        while self.said_next <= took {
            self.said_next += SAID_EVERY;
        }
        Some(took.as_secs() / SAID_EVERY.as_secs() * SAID_EVERY.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_takes_long_says_so_every_ten_seconds() {
        let (ours, _) = Channel::pair().unwrap();
        let mut child = Forker::new(7, ours);
        let mut said = |seconds: u64| child.takes_long(child.since + Duration::from_secs(seconds));
        assert_eq!(
            [9, 10, 11, 19, 20, 45, 46, 50].map(&mut said),
            [None, Some(10), None, None, Some(20), Some(40), None, Some(50)]
        );
        child.ready = true;
        assert_eq!(child.takes_long(child.since + Duration::from_secs(60)), None);
    }
}
