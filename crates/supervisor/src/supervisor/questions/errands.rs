//! Errands: work that a child does ([`crate::peers::errand`]), because others decide how long it takes.
//!
//! | errand | who may delay it |
//! |---|---|
//! | to read the configuration, choose users and find each `reprise-php` | name services, file systems, `reprise-php --version` |
//! | to look whether scripts are files, where roots lead, and whether phars are as they were | an application's user, who may have put anything there |
//! | to open the access log again | its file system |
//! | to compare the pages of a generation with those of classic mode ([`crate::supervisor::verifying`]) | the application |
//! | to look at the files of certificates, and to read keys, which this process does not see | their file system |
//!
//! Applications' files are looked at with the rights of their users, so that no link leads to what they could not see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use ipc::control::ToFront;
use ipc::key::Key;

use crate::lanes::generation::GenerationId;
use crate::logs::own::log;
use crate::os::files;
use crate::os::sys;
use crate::peers::errand::Errand;
use crate::reload::Scope;
use crate::settings::drafts::LookedAt;
use crate::settings::service::{Application, Draft, Plan};
use crate::settings::verification::PageFound;
use crate::supervisor::Supervisor;
use crate::supervisor::helpers::phars::{self, FoundPhars};

/// What a child is to find out.
enum Purpose {
    /// What a reload needs.
    Configuration,
    /// Whether a script that wants a lane is a file.
    Script(Sought),
    /// Where roots lead.
    Roots,
    /// The access log is to be opened again (SIGUSR1).
    AccessLog,
    /// Whether the files of certificates have changed.
    Certificates,
    /// Whether the pages of a generation are as in classic mode.
    Verification(GenerationId),
}

/// A script that wants a lane.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) generation: GenerationId,
    pub(crate) key: String,
    pub(crate) is_worker_mode: bool,
    /// Its generation is not ready before the lane is.
    pub(crate) is_awaited: bool,
}

/// The scripts that are files, by application.
pub(crate) type Present = BTreeMap<String, BTreeSet<String>>;

/// The result of a child's work, or why there is none.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub(crate) enum Found {
    /// The new plan with the sockets of its new listeners, if the configuration was to be read.
    Configuration(Result<(Option<Plan>, Vec<OwnedFd>, Present), String>),
    Script(Sought, Result<bool, String>),
    Roots(Result<(BTreeMap<String, PathBuf>, FoundPhars), String>),
    AccessLog(Result<OwnedFd, String>),
    Certificates(Result<(LookedAt, Option<OwnedFd>), String>),
    Verification(GenerationId, Result<Vec<PageFound>, String>),
}

struct Pending {
    errand: Errand,
    purpose: Purpose,
}

/// The children that are on their way.
#[derive(Default)]
pub(crate) struct Errands {
    list: Vec<Pending>,
}

impl Errands {
    /// Notes a child that was started. Returns a result at once if it could not be started.
    fn begin(&mut self, errand: std::io::Result<Errand>, purpose: Purpose) -> Option<Found> {
        match errand {
            Ok(errand) => {
                self.list.push(Pending { errand, purpose });
                None
            }
            Err(error) => Some(purpose.failed(format!("a process cannot be started: {error}"))),
        }
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = &Errand> {
        self.list.iter().map(|pending| &pending.errand)
    }

    /// When the next of them has taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.list.iter().map(|pending| pending.errand.deadline()).min()
    }

    /// A child of the supervisor was reaped; perhaps one of these.
    pub(crate) fn was_reaped(&mut self, pid: i32) {
        self.list.iter_mut().for_each(|pending| pending.errand.was_reaped(pid));
    }

    /// Ends all of them.
    pub(crate) fn end(&mut self) {
        self.list.clear();
    }

    /// The results that have come.
    pub(crate) fn found(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        self.list = std::mem::take(&mut self.list)
            .into_iter()
            .filter_map(|pending| match pending.purpose.found(&pending.errand) {
                Ok(one) => {
                    found.push(one);
                    None
                }
                Err(purpose) => Some(Pending { errand: pending.errand, purpose }),
            })
            .collect();
        found
    }

    /// Ends the children that compare pages: the front that they ask is gone.
    pub(crate) fn end_verification(&mut self) {
        self.list.retain(|pending| !matches!(pending.purpose, Purpose::Verification(_)));
    }

    /// Whether a child looks at the roots.
    pub(crate) fn looks_at_roots(&self) -> bool {
        self.list.iter().any(|pending| matches!(pending.purpose, Purpose::Roots))
    }

    /// The keys of scripts that are looked for, for that generation.
    pub(crate) fn sought(&self, generation: GenerationId) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(move |pending| match &pending.purpose {
            Purpose::Script(sought) if sought.generation == generation => Some(sought.key.as_str()),
            _ => None,
        })
    }
}

impl Purpose {
    /// The result of the child's work; the purpose again if there is none yet.
    fn found(self, errand: &Errand) -> Result<Found, Purpose> {
        let answer = match &self {
            Purpose::Configuration => errand.answer().map(|answer| Found::Configuration(answer.and_then(plan))),
            Purpose::Roots => errand.answer().map(|answer| Found::Roots(answer.map(|(roots, _)| roots))),
            Purpose::AccessLog => errand.answer().map(|answer| Found::AccessLog(answer.and_then(access_log))),
            Purpose::Certificates => errand.answer().map(|answer| Found::Certificates(answer.map(first_attached))),
            Purpose::Verification(id) => {
                errand.answer().map(|answer| Found::Verification(*id, answer.map(|(pages, _)| pages)))
            }
            Purpose::Script(_) => {
                let Some(answer) = errand.answer() else { return Err(self) };
                let Purpose::Script(sought) = self else { return Err(self) };
                return Ok(Found::Script(sought, answer.map(|(is_there, _)| is_there)));
            }
        };
        answer.ok_or(self)
    }

    fn failed(self, why: String) -> Found {
        match self {
            Purpose::Configuration => Found::Configuration(Err(why)),
            Purpose::Script(sought) => Found::Script(sought, Err(why)),
            Purpose::Roots => Found::Roots(Err(why)),
            Purpose::AccessLog => Found::AccessLog(Err(why)),
            Purpose::Certificates => Found::Certificates(Err(why)),
            Purpose::Verification(id) => Found::Verification(id, Err(why)),
        }
    }
}

/// What a child sends: a draft of the configuration, if it was to be read, and what belongs to it: each `reprise-php` that it
/// needs, opened, certificates, sockets.
type Read = ((Option<Draft>, Present), Vec<OwnedFd>);

fn plan(((draft, present), mut descriptors): Read) -> Result<(Option<Plan>, Vec<OwnedFd>, Present), String> {
    let Some(draft) = draft else { return Ok((None, Vec::new(), present)) };
    let others = descriptors.len().checked_sub(draft.opened).ok_or("the process has not sent all sockets")?;
    let sockets = descriptors.split_off(others);
    Ok((Some(Plan::new(draft, descriptors)), sockets, present))
}

fn first_attached<T>((answer, descriptors): (T, Vec<OwnedFd>)) -> (T, Option<OwnedFd>) {
    (answer, descriptors.into_iter().next())
}

fn access_log(((), descriptors): ((), Vec<OwnedFd>)) -> Result<OwnedFd, String> {
    descriptors.into_iter().next().ok_or_else(|| "the process has not sent the file".to_owned())
}

impl Supervisor {
    fn begin_errand(&mut self, errand: std::io::Result<Errand>, purpose: Purpose) {
        let failed = self.errands.begin(errand, purpose);
        failed.into_iter().for_each(|found| self.take_found(found));
    }

    /// Goes on with the results of children.
    pub(crate) fn take_errands(&mut self) {
        self.errands.found().into_iter().for_each(|found| self.take_found(found));
    }

    fn take_found(&mut self, found: Found) {
        match found {
            Found::Configuration(Ok((plan, sockets, present))) => {
                if let Some(plan) = &plan {
                    self.listeners.add(&plan.listeners, sockets);
                }
                self.configuration_read(plan, &present);
            }
            Found::Configuration(Err(why)) => {
                self.reload(|reload, _| reload.reading_failed(&format!("reading the configuration: {why}")));
            }
            Found::Script(sought, found) => self.script_found(&sought, found),
            Found::Roots(Ok((roots, phars))) => {
                self.reload(|reload, generations| reload.roots_lead(&roots, generations));
                self.phars_found(&phars);
            }
            Found::Roots(Err(why)) => {
                log("warning", format_args!("the document roots of applications cannot be checked: {why}"))
            }
            Found::Verification(id, found) => self.verified(id, found),
            Found::Certificates(found) => self.certificates_found(found),
            Found::AccessLog(Ok(file)) => self.access_log_opened(file),
            Found::AccessLog(Err(why)) => log(
                "error",
                format_args!("SIGUSR1: the access log cannot be opened again, the old file stays in use: {why}"),
            ),
        }
    }

    /// Has a child look whether a script is a file.
    pub(crate) fn look_for_script(&mut self, application: &Application, script: &str, sought: Sought) {
        let errand = Errand::send(|| {
            let look = || files::is_script(&application.root, script);
            let found = sys::as_user(application.user.as_ref(), look).map_err(|error| error.to_string())?;
            Ok((found, Vec::new()))
        });
        self.begin_errand(errand, Purpose::Script(sought));
    }

    /// Has a child read what a reload needs.
    pub(crate) fn read_for(&mut self, scope: Scope) {
        self.tell_reloading();
        self.following.boot_begins(scope == Scope::All, Instant::now());
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let current = self.reload.current().iter().filter_map(|id| self.generations.get(*id));
        // Another application's file system may hang, so only applications that get a new generation are looked at.
        for generation in current.filter(|one| scope.includes(&one.application.name)) {
            let entries = generation.successor_entries().into_iter();
            let scripts = entries.filter_map(|entry| Some(Key::parse(&entry.script)?.script.to_owned())).collect();
            wanted.insert(generation.application.name.clone(), scripts);
        }
        let (read, plan) = (&self.service.read, self.reload.plan());
        let errand = Errand::send(|| {
            let whole = |release| read(plan, release).map(|(draft, php)| (Some(draft), php));
            let (draft, php) = match &scope {
                Scope::All => whole(None)?,
                Scope::Release(order) => whole(Some((&order.application, &order.id)))?,
                Scope::Application(_) => (None, Vec::new()),
            };
            let old = plan.applications.iter().map(Rc::as_ref);
            let present = match &draft {
                Some(draft) => present(draft.applications.iter(), &wanted),
                None => present(old, &wanted),
            };
            Ok(((draft, present), php))
        });
        self.begin_errand(errand, Purpose::Configuration);
    }

    /// Has a child look where watched roots lead, and at phars.
    pub(crate) fn look_at_roots(&mut self) {
        let applications =
            self.reload.current().iter().filter_map(|id| Some(self.generations.get(*id)?.application.clone()));
        let watched: Vec<Rc<Application>> =
            applications.filter(|one| one.watched.is_some() || one.phar.is_some()).collect();
        if watched.is_empty() {
            return;
        }
        let errand = Errand::send(|| {
            let root = |one: &Rc<Application>| Some((one.name.clone(), one.watched.as_ref()?.canonicalize().ok()?));
            let roots = watched.iter().filter_map(root).collect::<BTreeMap<String, PathBuf>>();
            let phar = |one: &Rc<Application>| Some((one.name.clone(), phars::look(one.phar.as_ref()?)?));
            Ok(((roots, watched.iter().filter_map(phar).collect::<FoundPhars>()), Vec::new()))
        });
        self.begin_errand(errand, Purpose::Roots);
    }

    /// Waits for a child that compares the pages of a generation.
    pub(crate) fn await_verification(&mut self, id: GenerationId, errand: Errand) {
        self.begin_errand(Ok(errand), Purpose::Verification(id));
    }

    /// Has a child open the access log again, because the file was renamed. This front and later ones write to the new file.
    pub(crate) fn reopen_access_log(&mut self) {
        let Some(path) = self.service.access_log.clone() else {
            return log("notice", format_args!("SIGUSR1: the access log is not a file, nothing to open again"));
        };
        let errand = Errand::send(|| {
            let file = open_access_log(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(((), vec![file]))
        });
        self.begin_errand(errand, Purpose::AccessLog);
    }

    /// Has a child look at the files of certificates, and read them if they are not as they were seen.
    pub(crate) fn look_at_certificates(&mut self, source: String, seen: Option<String>) {
        let look = &self.service.certificates;
        let errand = Errand::send(|| {
            let (found, file) = look(&source, seen.as_deref());
            Ok((found, file.into_iter().collect()))
        });
        self.begin_errand(errand, Purpose::Certificates);
    }

    fn access_log_opened(&mut self, file: OwnedFd) {
        let Some(place) = self.service.front_descriptors.last_mut() else { return };
        *place = file;
        self.front.send(&ToFront::AccessLog, &[place.as_fd()]);
        let path = self.service.access_log.as_deref().unwrap_or(std::path::Path::new("")).display();
        log("notice", format_args!("SIGUSR1: the access log {path} was opened again"));
    }
}

/// Opens the access log to append lines. If it is a pipe, opening and writing do not wait for its reader.
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
        // A file that the user cannot see is not there for PHP either.
        Some((application.name.clone(), sys::as_user(application.user.as_ref(), look).unwrap_or_default()))
    };
    applications.filter_map(of).collect()
}
