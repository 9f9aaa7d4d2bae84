//! The lanes of all applications: which runs a script, and what each thread does with all of them.
//!
//! Lanes come and are replaced by the supervisor's word. Each thread has a table of its own, renewed when the version has
//! changed, so that a request takes no lock to find its lane.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use wire::control::{Isolation, Kind, MAX_LANES, Message};
use wire::slab::Slab;

use crate::control::Link;
use crate::lane::Lane;
use crate::settings::Application;

/// Entries of an application that are reported to the supervisor.
const MAX_ENTRIES: usize = 64;
/// Bytes of a script's name at most; a target that has one is not longer.
const MAX_NAME: usize = crate::target::MAX_TARGET;

/// All lanes.
pub struct Lanes {
    link: Arc<dyn Link>,
    /// MAX_LANES places for each application; classic is its first.
    places: Vec<RwLock<Option<Arc<Lane>>>>,
    /// Changes with every new lane.
    version: AtomicU64,
    /// Of each application: scripts that asked for a snapshot in classic mode.
    entries: Vec<Mutex<HashSet<String>>>,
}

/// What a thread knows of them.
struct Known {
    version: u64,
    lanes: Vec<Arc<Lane>>,
    /// Where the lanes of an application begin, and at last their number.
    from: Vec<usize>,
}

thread_local! {
    static KNOWN: RefCell<Known> = const { RefCell::new(Known { version: 0, lanes: Vec::new(), from: Vec::new() }) };
}

impl Lanes {
    /// Places for the lanes of that many applications.
    pub fn new(applications: usize, link: Arc<dyn Link>) -> Lanes {
        Lanes {
            link,
            places: (0..applications * MAX_LANES).map(|_| RwLock::new(None)).collect(),
            version: AtomicU64::new(1),
            entries: (0..applications).map(|_| Mutex::default()).collect(),
        }
    }

    fn at(&self, place: usize) -> Option<Arc<Lane>> {
        self.places[place].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn place(&self, message: &Message) -> Option<usize> {
        let (application, lane) = (message.application as usize, message.lane as usize);
        (application < self.entries.len() && lane < MAX_LANES).then_some(application * MAX_LANES + lane)
    }

    /// The lane a message is about, if it is of its epoch.
    pub fn of(&self, message: &Message) -> Option<Arc<Lane>> {
        self.at(self.place(message)?).filter(|lane| lane.epoch() == message.epoch)
    }

    /// All there are.
    pub fn all(&self) -> impl Iterator<Item = Arc<Lane>> {
        (0..self.places.len()).filter_map(|place| self.at(place))
    }

    /// Whether every application can be served.
    pub fn are_complete(&self) -> bool {
        (0..self.places.len()).step_by(MAX_LANES).all(|place| self.at(place).is_some())
    }

    /// Requests posted and not finished.
    pub fn in_flight(&self) -> usize {
        self.all().map(|lane| lane.in_flight()).sum()
    }

    /// Takes a lane from the supervisor: its slab, and the name of its script unless it is classic. A lane of this epoch
    /// has a template again, or a prototype that may take bodies of another size.
    pub fn take(&self, message: &Message, attached: &[OwnedFd], applications: &[Application]) -> io::Result<()> {
        let wrong = |what: &'static str| io::Error::other(what);
        let place = self.place(message).ok_or_else(|| wrong("a lane of no application"))?;
        if let Some(lane) = self.of(message) {
            lane.set_body_limit(message.limit);
            lane.set_up(true);
            return Ok(());
        }
        let script = match (message.lane, attached.get(1)) {
            (0, _) => String::new(),
            (_, Some(file)) => read(file)?,
            (_, None) => return Err(wrong("a lane without a script")),
        };
        let slab = attached.first().ok_or_else(|| wrong("a lane without a slab"))?;
        let slab =
            Slab::map(slab.as_raw_fd(), message.geometry).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let application = &applications[message.application as usize];
        let lane = Arc::new(Lane::new(slab, message, script, application, self.link.clone()));
        *self.places[place].write().unwrap_or_else(PoisonError::into_inner) = Some(lane);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// The lane that runs a script now: its own while that is up, else classic.
    pub fn find(&self, application: usize, script: &str) -> Option<Arc<Lane>> {
        self.with_known(|known| {
            let own = &known.lanes[*known.from.get(application)?..*known.from.get(application + 1)?];
            let (classic, others) = own.split_first().filter(|(classic, _)| classic.is_classic())?;
            Some(others.iter().find(|lane| lane.takes(script)).unwrap_or(classic).clone())
        })
    }

    /// The lane that runs whatever has no lane of its own.
    pub fn classic(&self, application: usize) -> Option<Arc<Lane>> {
        self.with_known(|known| {
            let own = &known.lanes[*known.from.get(application)?..*known.from.get(application + 1)?];
            own.first().filter(|lane| lane.is_classic()).cloned()
        })
    }

    /// All lanes of an application.
    pub fn of_application(&self, application: usize) -> Vec<Arc<Lane>> {
        self.with_known(|known| match (known.from.get(application), known.from.get(application + 1)) {
            (Some(&from), Some(&to)) => known.lanes[from..to].to_vec(),
            _ => Vec::new(),
        })
    }

    /// Does the same with each lane.
    pub fn each(&self, each: impl Fn(&Lane)) {
        self.with_known(|known| known.lanes.iter().for_each(|lane| each(lane)));
    }

    fn with_known<R>(&self, use_it: impl FnOnce(&Known) -> R) -> R {
        KNOWN.with_borrow_mut(|known| {
            let version = self.version.load(Ordering::Acquire);
            if known.version != version {
                *known = Known { version, lanes: Vec::new(), from: Vec::new() };
                for place in 0..self.places.len() {
                    if place % MAX_LANES == 0 {
                        known.from.push(known.lanes.len());
                    }
                    known.lanes.extend(self.at(place));
                }
                known.from.push(known.lanes.len());
            }
            use_it(known)
        })
    }

    /// Tells the supervisor, once, that a script in classic mode asked for a snapshot or is a worker script.
    pub fn report_entry(&self, application: usize, script: &str, is_loop: bool) {
        let mut entries = self.entries[application].lock().unwrap_or_else(PoisonError::into_inner);
        if entries.contains(script) || entries.len() >= MAX_ENTRIES {
            return;
        }
        entries.insert(script.to_owned());
        drop(entries);
        // Without descriptors to spare there is no lane: classic mode serves on.
        let Ok(file) = rustix::fs::memfd_create("reprise-entry", rustix::fs::MemfdFlags::CLOEXEC) else { return };
        if rustix::io::pwrite(&file, script.as_bytes(), 0) == Ok(script.len()) {
            let message = Message {
                application: application as u32,
                status: if is_loop { Isolation::Loop as i32 } else { 0 },
                ..Message::new(Kind::Entry)
            };
            self.link.send_with(&message, &[file.as_fd()]);
        }
    }
}

fn read(file: &OwnedFd) -> io::Result<String> {
    let file = File::from(file.try_clone()?);
    let mut bytes = vec![0; MAX_NAME];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    String::from_utf8(bytes).map_err(io::Error::other)
}
