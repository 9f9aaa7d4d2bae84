//! What the supervisor has children do ([`crate::errand`]), because it may take as long as somebody else likes:
//!
//! | errand | who may make it wait |
//! |---|---|
//! | to read the configuration, choose users and find `reprise-php` | name services, file systems, `reprise-php --version` |
//! | to look whether scripts are files, and where roots lead | an application's user, who may have put anything there |
//! | to open the access log again | its file system |
//!
//! Applications' files are looked at with the rights of their users, so that no link leads to what they could not see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use wire::control::{Isolation, MAX_LANES, ToFront};
use wire::key::{Key, MAX_ORIGIN};

use super::generation::Warmth;
use super::lane::Lane;
use super::reload::Scope;
use super::service::{Application, Draft, Plan};
use super::{Supervisor, log};
use crate::errand::{Answer, Errand};
use crate::plan::{MAX_NAME, script_name};
use crate::{boot, files, sys};

/// A child that is on its way, and what for.
pub(super) struct Pending {
    pub(super) errand: Errand,
    purpose: Purpose,
}

enum Purpose {
    /// A reload.
    Reading,
    /// A script that wants a lane in that generation, by its key.
    Script { number: usize, key: String, is_loop: bool, is_awaited: bool },
    /// Where roots lead.
    Roots,
    /// SIGUSR1.
    AccessLog,
}

/// A draft of the configuration, if it was to be read, and the scripts that are files, by application.
type Read = (Option<Draft>, BTreeMap<String, BTreeSet<String>>);

impl Pending {
    pub(super) fn deadline(&self) -> Instant {
        self.errand.deadline()
    }
}

impl AsFd for Pending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.errand.as_fd()
    }
}

impl Supervisor {
    fn begin_errand(&mut self, errand: std::io::Result<Errand>, purpose: Purpose) {
        match errand {
            Ok(errand) => self.errands.push(Pending { errand, purpose }),
            Err(error) => self.errand_failed(purpose, &format!("a process cannot be started: {error}")),
        }
    }

    /// Hears what children have found.
    pub(super) fn take_answers(&mut self) {
        let mut at = 0;
        while at < self.errands.len() {
            let errand = &self.errands[at].errand;
            let is_over = match &self.errands[at].purpose {
                Purpose::Reading => errand.answer::<Read>().map(|answer| self.finish(at, answer, Self::was_read)),
                Purpose::Script { .. } => {
                    errand.answer::<bool>().map(|answer| self.finish(at, answer, Self::script_found))
                }
                Purpose::Roots => errand
                    .answer::<BTreeMap<String, PathBuf>>()
                    .map(|answer| self.finish(at, answer, Self::roots_found)),
                Purpose::AccessLog => {
                    errand.answer::<()>().map(|answer| self.finish(at, answer, Self::access_log_opened))
                }
            };
            at += usize::from(is_over.is_none());
        }
    }

    /// Takes an errand off the list, and goes on with its answer.
    fn finish<T>(&mut self, at: usize, answer: Answer<T>, then: fn(&mut Supervisor, Purpose, T, Vec<OwnedFd>)) {
        let purpose = self.errands.remove(at).purpose;
        match answer {
            Ok((answer, descriptors)) => then(self, purpose, answer, descriptors),
            Err(why) => self.errand_failed(purpose, &why),
        }
    }

    fn errand_failed(&mut self, purpose: Purpose, why: &str) {
        match purpose {
            Purpose::Reading => {
                self.reload(|reload, _| reload.reading_failed(&format!("reading the configuration: {why}")))
            }
            Purpose::Script { number, key, is_awaited, .. } => {
                self.is_sought_no_more(number, is_awaited);
                self.stays_classic(number, &key, why);
            }
            Purpose::Roots => {
                log("warning", format_args!("the document roots of applications cannot be checked: {why}"))
            }
            Purpose::AccessLog => {
                log(
                    "error",
                    format_args!("SIGUSR1: the access log cannot be opened again, the old file stays in use: {why}"),
                );
            }
        }
    }

    /// Whether a child looks at the roots.
    pub(super) fn is_looking_at_roots(&self) -> bool {
        self.errands.iter().any(|pending| matches!(pending.purpose, Purpose::Roots))
    }

    /// Has what a reload needs read.
    pub(super) fn read_for(&mut self, scope: Scope) {
        self.tell_reloading();
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let current = self.reload.current().iter().map(|number| &self.generations[*number]);
        // Another application's file system may hang: what is not renewed is not looked at.
        for generation in current.filter(|one| scope.includes(&one.application.name)) {
            let entries = generation.heritage().into_iter();
            let scripts = entries.filter_map(|entry| Some(Key::parse(&entry.script)?.script.to_owned())).collect();
            wanted.insert(generation.application.name.clone(), scripts);
        }
        let (read, plan, is_for_all) = (&self.service.read, self.reload.plan(), scope == Scope::All);
        let errand = Errand::send(|| {
            let (draft, php) =
                if is_for_all { read().map(|(draft, php)| (Some(draft), Some(php)))? } else { (None, None) };
            let old = plan.applications.iter().map(Rc::as_ref);
            let present = match &draft {
                Some(draft) => present(draft.applications.iter(), &wanted),
                None => present(old, &wanted),
            };
            Ok(((draft, present), php.into_iter().collect()))
        });
        self.begin_errand(errand, Purpose::Reading);
    }

    fn was_read(&mut self, _: Purpose, (draft, present): Read, descriptors: Vec<OwnedFd>) {
        let plan = match (draft, descriptors.into_iter().next()) {
            (Some(draft), Some(php)) => Some(Plan::new(draft, php)),
            (None, _) => None,
            (Some(_), None) => {
                return self.reload(|reload, _| reload.reading_failed("reprise-php was not opened"));
            }
        };
        self.configuration_read(plan, &present);
    }

    /// Has a child look where the roots lead that are watched.
    pub(super) fn look_at_roots(&mut self) {
        let applications = self.reload.current().iter().map(|number| self.generations[*number].application.clone());
        let watched: Vec<Rc<Application>> = applications.filter(|one| one.watched.is_some()).collect();
        if watched.is_empty() {
            return;
        }
        let errand = Errand::send(|| {
            let root = |one: &Rc<Application>| Some((one.name.clone(), one.watched.as_ref()?.canonicalize().ok()?));
            Ok((watched.iter().filter_map(root).collect::<BTreeMap<String, PathBuf>>(), Vec::new()))
        });
        self.begin_errand(errand, Purpose::Roots);
    }

    fn roots_found(&mut self, _: Purpose, roots: BTreeMap<String, PathBuf>, _: Vec<OwnedFd>) {
        self.reload(|reload, generations| reload.roots_lead(&roots, generations));
    }

    /// After the file was renamed: what is logged from now on goes to a new one, in this front and in later ones.
    pub(super) fn reopen_access_log(&mut self) {
        let Some(path) = self.service.access_log.clone() else {
            return log("notice", format_args!("SIGUSR1: the access log is not a file, nothing to open again"));
        };
        let errand = Errand::send(|| {
            let file = open_access_log(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(((), vec![file]))
        });
        self.begin_errand(errand, Purpose::AccessLog);
    }

    fn access_log_opened(&mut self, _: Purpose, (): (), descriptors: Vec<OwnedFd>) {
        let place = self.service.front_descriptors.last_mut();
        let (Some(file), Some(place)) = (descriptors.into_iter().next(), place) else { return };
        *place = file;
        if let Some(place) = self.service.front_descriptors.last() {
            self.tell_front(&ToFront::AccessLog, &[place.as_fd()]);
        }
        let path = self.service.access_log.as_deref().unwrap_or(std::path::Path::new("")).display();
        log("notice", format_args!("SIGUSR1: the access log {path} was opened again"));
    }

    /// A script in classic mode asked for a snapshot or has a loop: it gets a lane, if it is what the front says and may have one.
    pub(super) fn discovered(&mut self, number: usize, name: &OwnedFd, is_loop: bool) {
        let bytes = match boot::read(name, MAX_NAME + MAX_ORIGIN + 1) {
            Ok(bytes) => bytes,
            Err(error) => return log("error", format_args!("a lane key from the front cannot be read: {error}")),
        };
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let (Some(generation), Some(key)) = (self.generations.get(number), Key::parse(&shown)) else { return };
        let application = generation.application.clone();
        if application.classic.contains(key.script) || self.has_or_seeks(number, &shown) {
            return;
        }
        let refused = match script_name(key.script.as_bytes()) {
            Err(why) => Some(why),
            Ok(_) if !key.origin.is_none_or(|origin| application.answers_to(origin)) => {
                Some("the option hosts does not name its host")
            }
            Ok(_) => None,
        };
        if let Some(why) = refused {
            return self.stays_classic(number, &shown, why);
        }
        let of_generation =
            |pending: &&Pending| matches!(pending.purpose, Purpose::Script { number: one, .. } if one == number);
        let sought = self.errands.iter().filter(of_generation).count();
        if generation.lanes.len() + sought >= MAX_LANES {
            // Whether there is such a file is looked at when a new generation may have a place for it.
            self.generations[number].eviction.wait(&shown, is_loop);
            return self.stays_classic(number, &shown, "the application has the most lanes it may have");
        }
        let errand = Errand::send(|| {
            let look = || files::is_script(&application.root, key.script);
            let found = sys::as_user(application.user.as_ref(), look).map_err(|error| error.to_string())?;
            Ok((found, Vec::new()))
        });
        // What the warm-up has found is there before visitors come.
        let is_awaited = generation.warmth != Warmth::Warm;
        self.generations[number].sought += usize::from(is_awaited);
        self.begin_errand(errand, Purpose::Script { number, key: shown, is_loop, is_awaited });
    }

    /// Whether a key has a lane, or may be about to get one.
    fn has_or_seeks(&self, number: usize, wanted: &str) -> bool {
        let generation = &self.generations[number];
        let is_sought = |pending: &Pending| matches!(&pending.purpose, Purpose::Script { number: one, key, .. } if *one == number && key == wanted);
        generation.lanes.iter().any(|lane| lane.boots(wanted, &generation.application))
            || self.errands.iter().any(is_sought)
    }

    fn is_sought_no_more(&mut self, number: usize, is_awaited: bool) {
        let generation = self.generations.get_mut(number).filter(|_| is_awaited);
        generation.into_iter().for_each(|generation| generation.sought = generation.sought.saturating_sub(1));
    }

    fn stays_classic(&self, number: usize, key: &str, why: &str) {
        let Some(generation) = self.generations.get(number) else { return };
        let name = &generation.application.name;
        log("warning", format_args!("application '{name}': {key:?} stays in classic mode: {why}"));
    }

    fn script_found(&mut self, purpose: Purpose, is_there: bool, _: Vec<OwnedFd>) {
        let Purpose::Script { number, key, is_loop, is_awaited } = purpose else { return };
        self.is_sought_no_more(number, is_awaited);
        let Some(generation) = self.generations.get(number).filter(|generation| !generation.is_ending()) else {
            return;
        };
        let (name, places) = (generation.application.name.clone(), generation.lanes.len());
        if !is_there || places >= MAX_LANES {
            let why = if is_there {
                "the application has the most lanes it may have"
            } else {
                "it is not a file below the root"
            };
            return self.stays_classic(number, &key, why);
        }
        if self.has_or_seeks(number, &key) {
            return;
        }
        let mut lane = Lane {
            entry: Some(key.clone()),
            is_awaited,
            isolation: if is_loop { Isolation::Loop } else { Isolation::Auto },
            ..Lane::classic(Instant::now())
        };
        lane.mailbox = match self.front.as_ref().map(|_| self.new_mailbox(number, places)).transpose() {
            Ok(mailbox) => mailbox,
            Err(error) => return log("error", format_args!("a lane of '{name}' cannot be made: {error}")),
        };
        let what = if is_loop { "is a worker script" } else { "asks for a snapshot" };
        log(
            "notice",
            format_args!("application '{name}': {key} {what}; requests run in classic mode until it is booted"),
        );
        self.generations[number].lanes.push(lane);
    }
}

/// Opens the access log for lines to be added. Where that is a pipe, nobody waits for its reader.
pub fn open_access_log(path: &std::path::Path) -> std::io::Result<OwnedFd> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().append(true).create(true).custom_flags(nonblocking).open(path).map(OwnedFd::from)
}

/// Which of the wanted scripts are files, looked at with the rights of each application's user.
fn present<'a>(
    applications: impl Iterator<Item = &'a Application>,
    wanted: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let of = |application: &Application| {
        let scripts = wanted.get(&application.name)?;
        let look = || scripts.iter().filter(|script| files::is_script(&application.root, script)).cloned().collect();
        // What cannot be seen by its user is not there for PHP either.
        Some((application.name.clone(), sys::as_user(application.user.as_ref(), look).unwrap_or_default()))
    };
    applications.filter_map(of).collect()
}
