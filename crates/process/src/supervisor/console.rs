//! `reprise dev` on a terminal: a key is a command.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};
use wire::control::ToFront;

use super::{Supervisor, log};

/// The terminal.
pub trait Console {
    /// What to wait for.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// What was pressed since the last call. Does not wait.
    fn keys(&mut self) -> Vec<Key>;
    /// Shows the application in the browser.
    fn open(&mut self) -> Result<(), String>;
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// New processes, by the configuration as it is.
    Restart,
    /// The browser.
    Open,
    /// To show requests as they come, or not to.
    Requests,
    /// The end. It is also what follows when the terminal is gone.
    Quit,
}

impl Supervisor {
    pub(super) fn take_keys(&mut self) {
        let keys = self.service.console.as_mut().map_or_else(Vec::new, |console| console.keys());
        for key in keys {
            match key {
                Key::Restart => self.reload(|reload, _| reload.request_all("key r", None)),
                Key::Open => {
                    let opened = self.service.console.as_mut().map_or(Ok(()), |console| console.open());
                    if let Err(why) = opened {
                        log("warning", format_args!("the browser cannot be opened: {why}"));
                    }
                }
                Key::Requests => self.toggle_requests(),
                Key::Quit => {
                    self.service.console = None;
                    self.stop("key q");
                }
            }
        }
    }

    /// The access log goes to standard output, or nowhere.
    fn toggle_requests(&mut self) {
        let shows = !self.service.shows_requests;
        let file = match shows {
            true => {
                let output = rustix::stdio::stdout();
                crate::log::own_description(output).or_else(|_| output.try_clone_to_owned())
            }
            false => rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(Into::into),
        };
        match (file, self.service.front_descriptors.last_mut()) {
            (Ok(file), Some(place)) => {
                *place = file;
                self.front.send(&ToFront::AccessLog, &[place.as_fd()]);
                self.service.shows_requests = shows;
                let now = if shows { "shown" } else { "not shown" };
                log("notice", format_args!("requests are {now} (key l)"));
            }
            (Err(error), _) => log("error", format_args!("standard output cannot be opened again: {error}")),
            (Ok(_), None) => {}
        }
    }
}
