//! Errands: a child of the supervisor does what may take long, such as reading files that others can replace or asking a name
//! service. The child sends its result as a file in memory, perhaps with descriptors, and ends. The supervisor polls for the result
//! as for any other message, and gives up after [`PATIENCE`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::{FromErrand, ToErrand};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::os::sys;
use crate::peers::boot;
use crate::peers::channel::{Channel, Received};

/// How long an errand may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a result.
const MAX_ANSWER: usize = 16 << 20;

/// A child that works.
pub struct Errand {
    pid: i32,
    channel: Channel<ToErrand, FromErrand>,
    since: Instant,
    patience: Duration,
}

/// The result of a child's work, with descriptors, or why there is none.
pub type Answer<T> = Result<(T, Vec<OwnedFd>), String>;

impl Errand {
    /// Starts a child that does some work.
    pub fn send<T: Serialize>(work: impl FnOnce() -> Answer<T>) -> io::Result<Errand> {
        Errand::start(PATIENCE, |_| work())
    }

    /// The same with a descriptor for the work, which may take that long.
    pub fn send_with<T: Serialize>(
        descriptor: BorrowedFd<'_>,
        patience: Duration,
        work: impl FnOnce(OwnedFd) -> Answer<T>,
    ) -> io::Result<Errand> {
        let errand = Errand::start(patience, |channel| work(begin(channel).map_err(|error| error.to_string())?))?;
        errand.channel.send(&ToErrand::Begin, &[descriptor])?;
        Ok(errand)
    }

    fn start<T: Serialize>(
        patience: Duration,
        work: impl FnOnce(&Channel<FromErrand, ToErrand>) -> Answer<T>,
    ) -> io::Result<Errand> {
        let (ours, theirs) = Channel::pair()?;
        let pid = sys::start_work(theirs.into(), |socket| {
            let channel = Channel::<FromErrand, ToErrand>::from_fd(socket);
            let (answer, descriptors) = match work(&channel) {
                Ok((answer, descriptors)) => (Ok(answer), descriptors),
                Err(why) => (Err(why), Vec::new()),
            };
            // The supervisor sees the end of the channel, and reports that there is no result.
            let Ok(text) = serde_json::to_vec(&answer) else { return };
            let Ok(file) = boot::file(&text) else { return };
            let attached: Vec<BorrowedFd<'_>> =
                std::iter::once(file.as_fd()).chain(descriptors.iter().map(AsFd::as_fd)).collect();
            let _ = channel.send_and_wait(&FromErrand::Found, &attached);
        })?;
        Ok(Errand { pid, channel: ours, since: Instant::now(), patience })
    }

    /// The result, or why there will be none; `None`: the child still works. A result has a limited size, and has to be of the
    /// expected type.
    pub fn answer<T: DeserializeOwned>(&self) -> Option<Answer<T>> {
        let mut attached = match self.channel.receive() {
            Ok(Received::Message(FromErrand::Found, attached)) => attached.into_iter(),
            Ok(Received::Nothing) if self.since.elapsed() < self.patience => return None,
            Ok(Received::Nothing) => return Some(Err(format!("it took longer than {:?}", self.patience))),
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

    /// Waits for the result: for work before there is a supervisor.
    pub fn wait<T: DeserializeOwned>(&self) -> Answer<T> {
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            let rest = self.deadline().saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
            // EINTR and time-out both mean: look again.
            let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&rest));
        }
    }

    /// Ends the child and waits until it has ended: for work before there is a supervisor, which would reap it.
    pub fn end(mut self) {
        sys::kill_work(self.pid);
        sys::await_end(self.pid);
        self.pid = 0;
    }

    /// A child was reaped. If it was this one, its pid may soon be another process'.
    pub fn was_reaped(&mut self, pid: i32) {
        if self.pid == pid {
            self.pid = 0;
        }
    }

    /// When it has taken too long.
    pub fn deadline(&self) -> Instant {
        self.since + self.patience
    }
}

/// The descriptor that the supervisor sends. Its end ends this process too.
fn begin(channel: &Channel<FromErrand, ToErrand>) -> io::Result<OwnedFd> {
    loop {
        match channel.receive()? {
            Received::Message(ToErrand::Begin, attached) => {
                return attached.into_iter().next().ok_or_else(|| io::Error::other("no descriptor has come"));
            }
            Received::Nothing => poll(&mut [channel.watched()], None).map(drop)?,
            Received::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
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
    /// Kills the child, whose result nobody waits for any more. It is reaped like any other child.
    fn drop(&mut self) {
        sys::kill_work(self.pid);
    }
}
