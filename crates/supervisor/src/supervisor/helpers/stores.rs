//! The processes that talk to the stores of the applications' data caches: one for each application that has a store, with its user. Workers
//! reach it by the *door*, a socket that outlives it. Without it, and without the store, everything else goes on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::{FromStore, ToFront, ToStore};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::logs::output::Output;
use crate::logs::own::{log, log_again};
use crate::os::capabilities;
use crate::os::exited::Ending;
use crate::os::sys;
use crate::os::user::Identity;
use crate::peers::attendant::Attendant;
use crate::peers::boot;
use crate::peers::channel::Channel;
use crate::peers::channel::send;
use crate::peers::child::Child;
use crate::settings::service::Application;
use crate::supervisor::Supervisor;

/// How long it may take to tell other nodes what they were not told, when the server ends.
const LAST: Duration = Duration::from_secs(3);
/// The purge of all responses, as the front reads it.
const EVERYTHING: &[u8] = b"hard\na";
/// Bytes of a purge.
const MOST_PURGED: usize = 256 * 1024;

/// What decides whether a process that runs is the one that is wanted.
#[derive(Clone, PartialEq, Eq)]
struct Wanted {
    settings: String,
    user: Option<Identity>,
    address: u64,
    size: u64,
}

struct Store {
    wanted: Wanted,
    /// The segment's file.
    file: OwnedFd,
    /// Its end, and the workers'.
    door: (OwnedFd, OwnedFd),
    process: Attendant<ToStore, FromStore>,
    /// The front has purged something while there was no process.
    has_missed: bool,
}

/// One for each application that has one, by its name.
#[derive(Default)]
pub(crate) struct Stores(BTreeMap<String, Store>);

impl Store {
    fn new(name: &str, wanted: Wanted, file: OwnedFd, now: Instant) -> io::Result<Store> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Store {
            wanted,
            file,
            door: socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?,
            process: Attendant::new(Output::of_store(name)?, now),
            has_missed: false,
        })
    }
}

impl Stores {
    /// The workers' end of the door, if the application has a store. `file` is that of its segment, `address` and `size` where it lies.
    pub(crate) fn of(
        &mut self,
        application: &Application,
        file: BorrowedFd<'_>,
        (address, size): (u64, u64),
    ) -> io::Result<Option<BorrowedFd<'_>>> {
        let Some(settings) = &application.store else {
            self.0.get_mut(&application.name).into_iter().for_each(|store| store.process.kill());
            self.0.remove(&application.name);
            return Ok(None);
        };
        let wanted = Wanted { settings: settings.clone(), user: application.user.clone(), address, size };
        match self.0.get_mut(&application.name) {
            Some(store) if store.wanted == wanted => {}
            Some(store) => {
                (store.wanted, store.file) = (wanted, file.try_clone_to_owned()?);
                store.process.kill();
            }
            None => {
                let store = Store::new(&application.name, wanted, file.try_clone_to_owned()?, Instant::now())?;
                self.0.insert(application.name.clone(), store);
            }
        }
        Ok(self.0.get(&application.name).map(|store| store.door.1.as_fd()))
    }

    /// Applications that are no longer served.
    pub(crate) fn keep_only(&mut self, is_served: impl Fn(&str) -> bool) {
        for (name, store) in &mut self.0 {
            if !is_served(name) {
                store.process.kill();
            }
        }
        self.0.retain(|name, _| is_served(name));
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = &Child<ToStore, FromStore>> {
        self.0.values().filter_map(|store| store.process.child.as_ref())
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        self.children().any(|child| child.pid == pid)
    }

    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.0.values().map(|store| &store.process.output)
    }

    pub(crate) fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.0.values_mut().map(|store| &mut store.process.output)
    }

    /// When one that is missing may be started, if that is not yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.0.values().filter_map(|store| store.process.wakes(now)).min()
    }

    /// It was reaped. Returns its application, and whether that was expected.
    fn died(&mut self, pid: i32, now: Instant) -> Option<(String, bool)> {
        self.0.iter_mut().find_map(|(name, store)| Some((name.clone(), store.process.died(pid, now)?)))
    }

    /// Another process told this server of a purge, which the process of that application tells to other nodes.
    fn purged(&mut self, application: &str, text: BorrowedFd<'_>) {
        let Some(store) = self.0.get_mut(application) else { return };
        match &store.process.child {
            Some(child) => send(&child.channel, &ToStore::Purged, &[text]),
            None => store.has_missed = true,
        }
    }

    /// The server ends, and nothing changes any more.
    pub(crate) fn end(&mut self) {
        self.children().for_each(|child| send(&child.channel, &ToStore::End, &[]));
        let until = Instant::now() + LAST;
        for store in self.0.values_mut() {
            let Some(child) = store.process.child.take() else { continue };
            child.channel.flush();
            if !has_ended_by(child.pid, until) {
                sys::kill(child.pid, Signal::SIGKILL);
            }
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child.pid), None);
        }
    }
}

impl Supervisor {
    /// Starts the processes that are missing, unless the server ends.
    pub(crate) fn start_stores(&mut self) {
        let now = Instant::now();
        if self.shutdown.is_begun() {
            return;
        }
        for (name, store) in &mut self.stores.0 {
            if !store.process.is_due(now) {
                continue;
            }
            let child = spawn(self.service.front.as_fd(), self.lifeline.0.as_fd(), store);
            store.process.started(child, &named(name), now);
            let Some(child) = store.process.child.as_ref().filter(|_| store.has_missed) else { continue };
            // Which purges were missed nobody knows any more.
            if let Ok(file) = boot::sealed(EVERYTHING) {
                send(&child.channel, &ToStore::Purged, &[file.as_fd()]);
                store.has_missed = false;
            }
        }
    }

    pub(crate) fn listen_to_stores(&mut self) {
        let mut purges = Vec::new();
        for (name, store) in &mut self.stores.0 {
            while let Some((FromStore::Purged, attached)) = store.process.receive(&named(name)) {
                let text = attached.first().and_then(|file| boot::read(file, MOST_PURGED).ok());
                purges.extend(text.map(|text| (name.clone(), text)));
            }
        }
        purges.into_iter().for_each(|(name, text)| self.purge_as_elsewhere(&name, &text));
    }

    /// What another node has purged.
    fn purge_as_elsewhere(&self, name: &str, text: &[u8]) {
        let question = [b"elsewhere\n", name.as_bytes(), b"\n", text].concat();
        match boot::sealed(&question) {
            // Nobody waits for the answer.
            Ok(file) => self.front.send(&ToFront::Cache { ticket: 0 }, &[file.as_fd()]),
            Err(error) => log("error", format_args!("{name}: another node's purge is not passed on: {error}")),
        }
    }

    /// The front has purged: `attached` is a sealed file with the application's name, a line feed and the purge.
    pub(crate) fn purged_here(&mut self, attached: &[OwnedFd]) {
        let Some(text) = attached.first().and_then(|file| boot::read(file, MOST_PURGED).ok()) else { return };
        let Some(at) = text.iter().position(|&byte| byte == b'\n') else { return };
        let name = String::from_utf8_lossy(&text[..at]);
        match boot::sealed(&text[at + 1..]) {
            Ok(file) => self.stores.purged(&name, file.as_fd()),
            Err(error) => log("error", format_args!("{name}: a purge is not passed on: {error}")),
        }
    }

    pub(crate) fn store_died(&mut self, pid: i32, ending: Ending) {
        let Some((name, is_expected)) = self.stores.died(pid, Instant::now()) else { return };
        if !is_expected && !self.shutdown.is_begun() {
            let what = named(&name);
            log_again("error", &what, format_args!("{what} {ending}"), format_args!("; another one follows"));
        }
    }

    /// Kills those that read no messages.
    pub(crate) fn end_unresponsive_stores(&mut self) {
        for (name, store) in &mut self.stores.0 {
            store.process.end_unresponsive(&named(name));
        }
    }
}

/// Waits for the end of a child that was not reaped yet.
fn has_ended_by(pid: i32, until: Instant) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return true };
    let Ok(file) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return false };
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut watched = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut watched, Some(&timeout)).is_ok_and(|count| count > 0)
}

fn named(application: &str) -> String {
    format!("{application}: the process for the store")
}

fn spawn(program: BorrowedFd<'_>, lifeline: BorrowedFd<'_>, store: &Store) -> io::Result<Child<ToStore, FromStore>> {
    let (ours, theirs) = Channel::pair()?;
    let wanted = &store.wanted;
    let settings = boot::sealed(wanted.settings.as_bytes())?;
    let pid = sys::start(&sys::Program {
        executable: program,
        arguments: ["reprise-store", "store", &wanted.address.to_string(), &wanted.size.to_string()]
            .map(str::to_owned)
            .to_vec(),
        environment: Vec::new(),
        descriptors: vec![theirs.as_fd(), lifeline, settings.as_fd(), store.file.as_fd(), store.door.0.as_fd()],
        messages: Some(store.process.output.writer()),
        output: None,
        user: wanted.user.as_ref(),
        limits: sys::ProcessLimits { no_capabilities: capabilities::may_limit(), ..sys::ProcessLimits::default() },
    })?;
    Ok(Child::new(pid, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        boot::sealed(b"segment").unwrap()
    }

    #[test]
    fn a_process_ends_when_something_else_is_wanted() {
        let mut stores = Stores::default();
        let mut shop = Application::for_test("shop");
        assert!(stores.of(&shop, file().as_fd(), (1, 2)).unwrap().is_none());
        shop.store = Some("one".to_owned());
        assert!(stores.of(&shop, file().as_fd(), (1, 2)).unwrap().is_some());
        let (ours, _theirs) = Channel::pair().unwrap();
        // A process that does not exist.
        stores.0.get_mut("shop").unwrap().process.child = Some(Child::new(0, ours));
        stores.of(&shop, file().as_fd(), (1, 2)).unwrap();
        assert!(!stores.0["shop"].process.is_told_to_end());
        stores.of(&shop, file().as_fd(), (1, 3)).unwrap();
        assert!(stores.0["shop"].process.is_told_to_end(), "its segment is another one");
        let now = Instant::now();
        assert_eq!(stores.died(0, now), Some(("shop".to_owned(), true)));
        assert!(stores.0["shop"].process.is_due(now));
        stores.keep_only(|name| name != "shop");
        assert!(stores.0.is_empty());
    }
}
