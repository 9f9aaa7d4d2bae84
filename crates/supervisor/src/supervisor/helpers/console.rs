//! `reprise dev` on a terminal: a key is a command.

use std::os::fd::AsFd;

use ipc::control::ToFront;
use rustix::fs::{Mode, OFlags};

use crate::logs::own::log;
use crate::settings::drafts::Key;

use crate::supervisor::Supervisor;

impl Supervisor {
    pub(crate) fn take_keys(&mut self) {
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
                crate::logs::log::own_description(output).or_else(|_| output.try_clone_to_owned())
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
