//! The process: its threads, and the door by which workers come.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use data_cache::view::{Unusable, View};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::bus;
use crate::conversation::converse;
use crate::envelope::Change;
use crate::link::{Link, Said};
use crate::log::{log_seldom, now};
use crate::settings::Settings;
use crate::shared::Shared;

/// Conversations at once. More workers are told that the store cannot be asked.
const MOST_CONVERSATIONS: usize = 256;
/// Bytes of a thread's stack.
const STACK: usize = 512 << 10;
/// How often this process looks whether a prototype has made the segment.
const LOOK: Duration = Duration::from_millis(20);
/// How often this process says that it lives.
const ALIVE: Duration = Duration::from_millis(300);
/// How long changes that were not told yet may take when the server ends.
const LAST: Duration = Duration::from_secs(2);

/// Where the application's segment lies.
pub struct Place {
    /// Its memory file.
    pub file: OwnedFd,
    /// Where it is mapped.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// A thread without which the process is of no use: its end is the process'.
struct Vital;

impl Drop for Vital {
    fn drop(&mut self) {
        std::process::abort();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work).map(drop)
}

/// Runs until `lifeline` hangs up, or the supervisor does not want it any more.
///
/// # Errors
/// The segment cannot be mapped, or a system call failed.
pub fn run(
    settings: Settings,
    link: Arc<dyn Link>,
    door: &OwnedFd,
    lifeline: &OwnedFd,
    place: &Place,
) -> io::Result<()> {
    // The first one that is asked for; a second call finds it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Some(view) = join(place, lifeline)? else { return Ok(()) };
    let shared = Arc::new(Shared::new(settings, view));
    // What the process before this one has said of itself is over, and what it had not told it cannot tell any more.
    shared.view.set_ready(None);
    if shared.view.unsent() != 0 {
        shared.tell(Change::Lost);
    }
    {
        let shared = shared.clone();
        spawn("bus-write", move || {
            let _vital = Vital;
            bus::write(&shared)
        })?;
    }
    {
        let shared = shared.clone();
        let link = link.clone();
        spawn("bus-hear", move || {
            let _vital = Vital;
            bus::hear(&shared, &*link)
        })?;
    }
    let conversations = Arc::new(AtomicUsize::new(0));
    while wait(&[door.as_fd(), link.descriptor()], lifeline, Some(ALIVE))? {
        shared.view.set_alive(now());
        match link.receive()? {
            Said::Purged(text) => {
                shared.tell(Change::Purge(text));
            }
            Said::End => break,
            Said::Nothing => {}
        }
        while let Some(stream) = receive(door)? {
            let (shared, conversations) = (shared.clone(), conversations.clone());
            if conversations.fetch_add(1, Ordering::Relaxed) >= MOST_CONVERSATIONS {
                conversations.fetch_sub(1, Ordering::Relaxed);
                log_seldom(&format!(
                    "more than {MOST_CONVERSATIONS} workers ask for the store of the data cache at once"
                ));
                continue;
            }
            let counted = conversations.clone();
            let begun = spawn("conversation", move || {
                let _counted = Counted(counted);
                converse(&shared, stream);
            });
            if let Err(error) = begun {
                conversations.fetch_sub(1, Ordering::Relaxed);
                log_seldom(&format!("a worker's request for the store of the data cache is dropped: {error}"));
            }
        }
    }
    // Values for workers do not matter any more, what other nodes are to know does.
    shared.outbox.wait_until_empty(LAST);
    Ok(())
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Maps the segment once a prototype has made it. `None`: the supervisor is gone.
fn join(place: &Place, lifeline: &OwnedFd) -> io::Result<Option<View>> {
    loop {
        match View::join(place.file.as_raw_fd(), place.address, place.size) {
            Ok(view) => return Ok(Some(view)),
            Err(Unusable::Foreign) => {}
            Err(why) => return Err(io::Error::other(format!("the data cache cannot be mapped: {why:?}"))),
        }
        if !wait(&[], lifeline, Some(LOOK))? {
            return Ok(None);
        }
    }
}

/// Waits until something can be read. False: the lifeline has hung up.
fn wait(others: &[BorrowedFd<'_>], lifeline: &OwnedFd, patience: Option<Duration>) -> io::Result<bool> {
    let mut watched: Vec<PollFd<'_>> = vec![PollFd::new(lifeline, PollFlags::empty())];
    watched.extend(others.iter().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN)));
    let timeout = patience.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) => Ok(watched[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A worker's end of a conversation.
fn receive(door: &OwnedFd) -> io::Result<Option<UnixStream>> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [io::IoSliceMut::new(&mut byte)];
    match recvmsg(door, into, &mut ancillary, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC) {
        Ok(_) => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let first = files.next();
    Ok(first.map(UnixStream::from))
}
