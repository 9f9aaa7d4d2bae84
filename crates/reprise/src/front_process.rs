//! The hidden subcommand `front`, which the supervisor starts with the front's descriptors, as the front's user.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use front::Inherited;
use inbound::control::Link;
use ipc::control::{FromFront, ToFront};
use routing::settings::Settings;
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::peers::channel::{Channel, Received};

use crate::exit::{Code, Failure};
use crate::serve::BEFORE_OTHERS;

/// The channel to the supervisor, in the form that the front uses.
struct ToSupervisor(Mutex<Channel<FromFront, ToFront>>, OwnedFd);

impl ToSupervisor {
    fn channel(&self) -> MutexGuard<'_, Channel<FromFront, ToFront>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for ToSupervisor {
    fn send(&self, message: &FromFront) {
        self.send_with(message, &[]);
    }

    fn send_with(&self, message: &FromFront, attached: &[BorrowedFd<'_>]) {
        // The supervisor always reads. If it is gone, the lifeline tells the front.
        let _ = self.channel().send_and_wait(message, attached);
    }

    fn receive(&self) -> io::Result<Option<(ToFront, Vec<OwnedFd>)>> {
        Ok(match self.channel().receive()? {
            Received::Message(message, attached) => Some((message, attached)),
            Received::Nothing | Received::Closed => None,
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

/// Serves until the supervisor says to stop.
pub fn run() -> Result<Code, Failure> {
    let failed = |error: io::Error| Failure::new(Code::Internal, "front", error).hint("it is started by reprise serve");
    supervisor::os::sys::set_name(c"reprise-front");
    supervisor::os::sys::protect_memory().map_err(failed)?;
    supervisor::os::sys::fail_instead_of_size_signal().map_err(failed)?;
    let channel = inherited(FIRST_DESCRIPTOR).map_err(failed)?;
    let watched = channel.try_clone().map_err(failed)?;
    let lifeline = inherited(FIRST_DESCRIPTOR + 1).map_err(failed)?;
    let mut file = File::from(inherited(FIRST_DESCRIPTOR + 2).map_err(failed)?);
    // The file and its position are shared with earlier fronts.
    file.rewind().map_err(failed)?;
    let settings: Settings = serde_json::from_reader(io::BufReader::new(file)).map_err(|error| failed(error.into()))?;
    let others = i32::from(settings.access_log.is_some()) + i32::from(settings.spool.is_some());
    let after = FIRST_DESCRIPTOR + BEFORE_OTHERS + others;
    let mut after = after..;
    let listeners = after.by_ref().take(settings.listeners.len()).map(inherited).collect::<Result<_, _>>();
    let countries = after.take(settings.country_tables).map(inherited).collect::<Result<_, _>>();
    let inherited = Inherited {
        link: Arc::new(ToSupervisor(Mutex::new(Channel::from_fd(channel)), watched)),
        lifeline,
        listeners: listeners.map_err(failed)?,
        countries: countries.map_err(failed)?,
        access_log: settings.access_log.map(inherited).transpose().map_err(failed)?,
        spool: settings.spool.map(inherited).transpose().map_err(failed)?,
    };
    // Finds out how to write to standard error, which may have to be opened again.
    supervisor::logs::log::flush();
    // Everything is open now. The front confines itself before it starts threads, which inherit the confinement, and before
    // it reads a client's byte.
    for missing in supervisor::os::confine::front().map_err(failed)? {
        // The supervisor makes a line of the log of each line that the front writes.
        supervisor::logs::log::write(&format!("the front is not confined by {missing}\n"));
    }
    let run = front::run(settings, inherited);
    run.map_err(|error| Failure::new(Code::Internal, "front", supervisor::os::fork_limits::explain_own(&error)))?;
    Ok(Code::Success)
}
