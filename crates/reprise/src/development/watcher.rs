//! The hidden subcommand `watcher`: the process that watches the files of an application under development.
//! `supervisor` starts it and asks it, and passes on what it has seen.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use ipc::control::{Changes, FromWatcher, ToWatcher};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::peers::channel::{Channel, Received};

use super::ignored::Ignored;
use super::watched::Watched;
use crate::exit::{Code, Failure};

/// What has changed is said when nothing else has changed for so long.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What the process is told.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// The application's directory.
    pub directory: PathBuf,
    /// What is not followed.
    pub ignored: Vec<PathBuf>,
}

/// Watches until the server ends. `since`: nanoseconds of the time before which nothing has been loaded.
pub fn run(since: u64) -> Result<Code, Failure> {
    let failed = |error: io::Error| Failure::new(Code::Internal, "watcher", error).hint("it is started by reprise dev");
    supervisor::os::sys::set_name(c"reprise-watcher");
    let channel = Channel::<FromWatcher, ToWatcher>::from_fd(inherited(FIRST_DESCRIPTOR).map_err(failed)?);
    let lifeline = inherited(FIRST_DESCRIPTOR + 1).map_err(failed)?;
    let mut text = Vec::new();
    File::from(inherited(FIRST_DESCRIPTOR + 2).map_err(failed)?).read_to_end(&mut text).map_err(failed)?;
    let settings: Settings = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    let ignored = Ignored { paths: settings.ignored };
    let since = UNIX_EPOCH + Duration::from_nanos(since);
    let mut watched = match Watched::new(&settings.directory, ignored, since) {
        Ok(watched) => watched,
        Err(errno) => return blind(&channel, &lifeline, errno).map_err(failed),
    };
    let mut told = None;
    loop {
        let mut tickets = Vec::new();
        loop {
            match channel.receive().map_err(failed)? {
                Received::Message(ToWatcher::Fence { ticket }, _) => tickets.push(ticket),
                Received::Nothing => break,
                Received::Closed => return Ok(Code::Success),
            }
        }
        // After the questions were read, so that it has what was done before they were asked.
        let changes = watched.look();
        if told != Some(changes) && tickets.is_empty() {
            tickets.push(0);
        }
        told = Some(changes);
        for ticket in tickets {
            channel.send_and_wait(&FromWatcher::Seen { ticket, changes }, &[]).map_err(failed)?;
        }
        let mut polled = [
            PollFd::new(&lifeline, PollFlags::empty()),
            channel.watched(),
            PollFd::from_borrowed_fd(watched.as_fd(), PollFlags::IN),
        ];
        let count = poll(&mut polled, (!watched.notes.is_empty()).then_some(&PAUSE));
        if !polled[0].revents().is_empty() {
            return Ok(Code::Success);
        }
        if count == Ok(0) {
            say(&watched.notes.take());
        }
    }
}

fn say(lines: &str) {
    // The supervisor reads them; without it there is nobody to tell.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Without inotify: nothing is seen, and the server is told so.
fn blind(
    channel: &Channel<FromWatcher, ToWatcher>,
    lifeline: &impl AsFd,
    errno: rustix::io::Errno,
) -> io::Result<Code> {
    let why = match errno {
        rustix::io::Errno::MFILE => {
            "fs.inotify.max_user_instances is reached; to raise it: sudo sysctl fs.inotify.max_user_instances=512"
                .to_owned()
        }
        other => other.to_string(),
    };
    say(&format!("error no file can be watched: {why}. Until then and a restart every script runs in classic mode\n"));
    let changes = Changes { is_blind: true, ..Changes::default() };
    channel.send_and_wait(&FromWatcher::Seen { ticket: 0, changes }, &[])?;
    loop {
        match channel.receive()? {
            Received::Message(ToWatcher::Fence { ticket }, _) => {
                channel.send_and_wait(&FromWatcher::Seen { ticket, changes }, &[])?;
            }
            Received::Closed => return Ok(Code::Success),
            Received::Nothing => {
                let mut polled = [PollFd::new(lifeline, PollFlags::empty()), channel.watched()];
                let _ = poll(&mut polled, None);
                if !polled[0].revents().is_empty() {
                    return Ok(Code::Success);
                }
            }
        }
    }
}
