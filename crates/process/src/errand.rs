//! Errands: whatever may take its time – reading files that others can replace, asking a name service – is done by a child of the
//! supervisor. It sends its answer as a file in memory, with descriptors if there are some, and ends. The supervisor waits
//! for it as for any other message, and for [`PATIENCE`] at most.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::{FromErrand, ToErrand};

use crate::boot;
use crate::channel::{Channel, Received};
use crate::sys;

/// How long an errand may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;

/// A child that is on its way.
pub struct Errand {
    pid: i32,
    channel: Channel<ToErrand, FromErrand>,
    since: Instant,
}

/// What a child has done: an answer with descriptors, or why there is none.
pub type Answer<T> = Result<(T, Vec<OwnedFd>), String>;

impl Errand {
    /// Sends a child to do that.
    pub fn send<T: Serialize>(work: impl FnOnce() -> Answer<T>) -> io::Result<Errand> {
        let (ours, theirs) = Channel::pair()?;
        let pid = sys::start_work(theirs.into(), |socket| {
            let (answer, descriptors) = match work() {
                Ok((answer, descriptors)) => (Ok(answer), descriptors),
                Err(why) => (Err(why), Vec::new()),
            };
            // The supervisor sees the end of the channel, and says that there was no answer.
            let Ok(text) = serde_json::to_vec(&answer) else { return };
            let Ok(file) = boot::file(&text) else { return };
            let attached: Vec<BorrowedFd<'_>> =
                std::iter::once(file.as_fd()).chain(descriptors.iter().map(AsFd::as_fd)).collect();
            let channel = Channel::<FromErrand, ToErrand>::from_fd(socket);
            let _ = channel.send_and_wait(&FromErrand::Found, &attached);
        })?;
        Ok(Errand { pid, channel: ours, since: Instant::now() })
    }

    /// What has become of it; `None`: it is not over yet. What a child says is bounded, and has to be what it was sent for.
    pub fn answer<T: DeserializeOwned>(&self) -> Option<Answer<T>> {
        let mut attached = match self.channel.receive() {
            Ok(Received::Message(FromErrand::Found, attached)) => attached.into_iter(),
            Ok(Received::Nothing) if self.since.elapsed() < PATIENCE => return None,
            Ok(Received::Nothing) => return Some(Err(format!("it took longer than {PATIENCE:?}"))),
            Ok(Received::Closed) => return Some(Err("the process that does it has ended".to_owned())),
            Err(error) => return Some(Err(error.to_string())),
        };
        let Some(file) = attached.next() else { return Some(Err("an answer without a file".to_owned())) };
        let read = |error: io::Error| format!("its result cannot be read: {error}");
        let text = size(&file).and_then(|size| boot::read(&file, size)).map_err(read);
        let answer = text
            .and_then(|text| serde_json::from_slice::<Result<T, String>>(&text).map_err(|error| read(error.into())));
        Some(answer.and_then(|answer| answer).map(|answer| (answer, attached.collect())))
    }

    /// A child was reaped: if it was this one, its number may soon be another's.
    pub fn was_reaped(&mut self, pid: i32) {
        if self.pid == pid {
            self.pid = 0;
        }
    }

    /// When its time is over.
    pub fn deadline(&self) -> Instant {
        self.since + PATIENCE
    }
}

fn size(file: &OwnedFd) -> io::Result<usize> {
    let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
    if size > MAX_ANSWER { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(size) }
}

impl AsFd for Errand {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Drop for Errand {
    /// Nobody waits for it any more. If it has not ended, it is reaped like any other child.
    fn drop(&mut self) {
        sys::kill_work(self.pid);
    }
}
