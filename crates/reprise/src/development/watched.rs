//! The tree of an application under development, followed by inotify: which files change, and which of these changes PHP may miss.
//!
//! A directory that is new is watched first and read then, and what was found in it counts as changed: what was written before the watch
//! existed is there when it is read. A loop of links ends at a directory that is watched already, which the kernel's number of it says.

#[cfg(test)]
mod watched_tests;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr, OsString};
use std::fs::Metadata;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ipc::control::Changes;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::ignored::Ignored;
use super::notes::Notes;
use crate::discover;

/// Directories that are watched, at most.
const MAX_DIRECTORIES: usize = 500_000;
/// Bytes of events that are read at once.
const EVENTS: usize = 64 * 1024;
/// How often, at once. The kernel keeps a megabyte, unless it was told otherwise.
const MAX_READS: usize = 4096;
/// opcache keeps no file that was written within so many seconds (`opcache.file_update_protection`, which is fixed under development).
pub const PROTECTED_SECONDS: i64 = 2;
/// Nanoseconds by which the times of files may lag behind the clock.
const CLOCK: i64 = 20_000_000;
/// Where a link to a directory leads to no source.
const NO_SOURCE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A directory that is watched.
struct Place {
    path: PathBuf,
    /// The names that count, where the directory is watched for what links lead to.
    only: Option<HashSet<OsString>>,
}

/// The tree.
pub struct Watched {
    inotify: OwnedFd,
    directory: PathBuf,
    ignored: Ignored,
    places: HashMap<i32, Place>,
    /// Links to files and directories.
    links: HashSet<PathBuf>,
    /// Whether the directory itself is watched.
    has_root: bool,
    /// What decides which directory is served, and by which script.
    shape: Vec<bool>,
    changes: Changes,
    /// What is to be said of it.
    pub notes: Notes,
}

/// One event, out of the kernel's buffer.
struct Event {
    place: i32,
    what: ReadFlags,
    name: Option<OsString>,
}

impl Watched {
    /// Watches a directory and all below it. What was changed after `since` counts as changed.
    pub fn new(directory: &Path, ignored: Ignored, since: SystemTime) -> Result<Watched, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watched = Watched {
            inotify,
            directory: directory.to_owned(),
            ignored,
            places: HashMap::new(),
            links: HashSet::new(),
            has_root: false,
            shape: shape(directory),
            changes: Changes::default(),
            notes: Notes::default(),
        };
        let since = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        if watched.walk(directory, since - CLOCK).is_some() {
            watched.count(true, true);
        }
        Ok(watched)
    }

    /// What has changed so far, as it was when this was called or later.
    pub fn look(&mut self) -> Changes {
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        // More than the kernel keeps: what comes meanwhile is for the next call.
        for _ in 0..MAX_READS {
            let mut events = Vec::new();
            let end = read_events(&self.inotify, &mut buffer, &mut events);
            events.into_iter().for_each(|event| self.take(event));
            match end {
                Errno::AGAIN => break,
                Errno::INTR => {}
                error => {
                    self.notes.error(format!("inotify: {error}"));
                    self.changes.is_blind = true;
                    break;
                }
            }
        }
        if !self.has_root {
            self.watch_anew();
        }
        let shape = shape(&self.directory);
        if shape != self.shape {
            self.shape = shape;
            self.count(true, true);
        }
        self.changes
    }

    fn count(&mut self, is_whole: bool, is_page: bool) {
        self.changes.count += 1;
        if is_whole {
            self.changes.whole = self.changes.count;
        }
        if is_page {
            self.changes.page = self.changes.count;
        }
    }

    /// The directory is there again, or events were lost: what is there now is watched, and all of it counts as changed.
    fn watch_anew(&mut self) {
        let had_root = self.has_root;
        self.links.clear();
        // The kernel gives the same numbers again.
        self.places.clear();
        self.walk(&self.directory.clone(), i64::MAX);
        if self.has_root || had_root {
            self.count(true, true);
        }
    }

    fn take(&mut self, event: Event) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.notes.note(
                "more changes at once than fs.inotify.max_queued_events: everything counts as changed".to_owned(),
            );
            return self.watch_anew();
        }
        let Some(place) = self.places.get(&event.place) else { return };
        if event.what.contains(ReadFlags::IGNORED) {
            let gone = self.places.remove(&event.place);
            self.has_root &= gone.is_none_or(|gone| gone.path != self.directory);
            return;
        }
        let Some(name) = event.name else {
            if event.what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) && place.path == self.directory {
                self.leave(&self.directory.clone());
                self.has_root = false;
                self.count(true, true);
                self.notes.error(format!("{} is gone", self.directory.display()));
            }
            return;
        };
        if place.only.as_ref().is_some_and(|only| !only.contains(&name)) {
            return;
        }
        let path = place.path.join(&name);
        let is_directory = event.what.contains(ReadFlags::ISDIR);
        if self.ignored.is(&path, is_directory) {
            return;
        }
        let is_whole = match is_directory {
            true => self.directory_changed(&path, event.what),
            false => self.file_changed(&path, event.what),
        };
        if let Some(is_whole) = is_whole {
            self.count(is_whole, is_directory || !is_style(&name));
            self.notes.changed(path.strip_prefix(&self.directory).unwrap_or(&path));
        }
    }

    /// `Some`: it counts; true: PHP may miss it.
    fn directory_changed(&mut self, path: &Path, what: ReadFlags) -> Option<bool> {
        if what.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
            self.leave(path);
            return Some(true);
        }
        if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            let newest = self.walk(path, i64::MIN);
            // Files that have come with it may be older than others that had their names.
            return Some(newest.is_some() || what.contains(ReadFlags::MOVED_TO));
        }
        // Permissions.
        what.contains(ReadFlags::ATTRIB).then_some(true)
    }

    fn file_changed(&mut self, path: &Path, what: ReadFlags) -> Option<bool> {
        if what.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) && self.links.remove(path) {
            return Some(true);
        }
        let Ok(metadata) = path.symlink_metadata() else { return Some(false) };
        if metadata.is_symlink() {
            self.follow(path);
            return Some(true);
        }
        // It decides what other files mean.
        let decides = path.file_name() == Some(OsStr::new(".user.ini"));
        Some(decides || metadata.mtime() < now() - PROTECTED_SECONDS + 1)
    }

    /// Watches a directory and all below it, and returns the latest change of what is there, if that is after `since`.
    fn walk(&mut self, directory: &Path, since: i64) -> Option<i64> {
        let mut newest = None;
        let mut note = |changed: i64| {
            if changed > since {
                newest = newest.max(Some(changed));
            }
        };
        let mut left = vec![directory.to_owned()];
        while let Some(path) = left.pop() {
            if !self.watch(&path, None) {
                continue;
            }
            // A directory changes when something in it is removed.
            if since > i64::MIN {
                note(path.metadata().map_or(i64::MIN, |metadata| changed_at(&metadata)));
            }
            for entry in path.read_dir().into_iter().flatten().flatten() {
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if self.ignored.is(&path, kind.is_dir()) {
                    continue;
                }
                if kind.is_dir() {
                    left.push(path);
                } else if kind.is_symlink() {
                    note(entry.metadata().map_or(i64::MIN, |metadata| changed_at(&metadata)));
                    left.extend(self.link(path));
                } else {
                    note(entry.metadata().map_or(i64::MIN, |metadata| changed_at(&metadata)));
                }
            }
        }
        newest
    }

    /// Watches what a link leads to.
    fn follow(&mut self, path: &Path) {
        if let Some(directory) = self.link(path.to_owned()) {
            self.walk(&directory, i64::MAX);
        }
    }

    /// Notes a link. Returns it if it leads to a directory that is to be watched; what it leads to else is watched by its name.
    fn link(&mut self, path: PathBuf) -> Option<PathBuf> {
        let target = path.canonicalize();
        self.links.insert(path.clone());
        let target = target.ok()?;
        if target.is_dir() {
            let is_source = !NO_SOURCE.iter().any(|place| target.starts_with(place));
            // One that leads upwards is a loop, beside which lies what is not the application's.
            return (is_source && !self.directory.starts_with(&target)).then_some(path);
        }
        let (directory, name) = (target.parent()?, target.file_name()?);
        if !directory.starts_with(&self.directory) {
            self.watch(directory, Some(name));
        }
        None
    }

    /// Watches a directory itself. False: it is watched already, or cannot be.
    fn watch(&mut self, path: &Path, only: Option<&OsStr>) -> bool {
        if self.places.len() >= MAX_DIRECTORIES {
            return self.blind(path, format!("{MAX_DIRECTORIES} directories are watched, more are not"));
        }
        let flags = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let number = match inotify::add_watch(&self.inotify, path, flags) {
            Ok(number) => number,
            Err(Errno::NOSPC) => {
                let limit = setting("max_user_watches");
                let why = format!(
                    "the limit of watched directories is reached (fs.inotify.max_user_watches = {limit}); to raise it: \
                     sudo sysctl fs.inotify.max_user_watches=524288"
                );
                return self.blind(path, why);
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return false,
            Err(error) => {
                self.notes.note(format!("{}: {error}; it is not followed", path.display()));
                return false;
            }
        };
        if path == self.directory {
            self.has_root = true;
        }
        let only = only.map(|name| HashSet::from([name.to_owned()]));
        match self.places.get_mut(&number) {
            None => {
                self.places.insert(number, Place { path: path.to_owned(), only });
                true
            }
            Some(known) => {
                let was_part = known.only.is_some();
                known.only = match (known.only.take(), only) {
                    (Some(all), Some(more)) => Some(all.into_iter().chain(more).collect()),
                    _ => None,
                };
                // Events were lost, or it was moved: its path and what is below it are looked at again.
                let is_other = known.path != path && !known.path.is_dir();
                if is_other {
                    known.path = path.to_owned();
                }
                was_part && known.only.is_none() || is_other
            }
        }
    }

    fn blind(&mut self, path: &Path, why: String) -> bool {
        if !self.changes.is_blind {
            self.changes.is_blind = true;
            self.notes.error(format!(
                "{}: {why}. Until then and a restart every script runs in classic mode, and browsers are told of some changes alone",
                path.display()
            ));
        }
        false
    }

    /// Forgets a directory and all below it: it is gone, or has another path.
    fn leave(&mut self, path: &Path) {
        let below: Vec<i32> =
            self.places.iter().filter(|(_, place)| place.path.starts_with(path)).map(|(number, _)| *number).collect();
        for number in below {
            self.places.remove(&number);
            // One that is gone has no watch any more.
            let _ = inotify::remove_watch(&self.inotify, number);
        }
        self.links.retain(|link| !link.starts_with(path));
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Reads what is there, up to the error that says that there is no more.
fn read_events(inotify: &OwnedFd, buffer: &mut [MaybeUninit<u8>], events: &mut Vec<Event>) -> Errno {
    let mut reader = inotify::Reader::new(inotify, buffer);
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name: &CStr| OsStr::from_bytes(name.to_bytes()).to_owned());
                events.push(Event { place: event.wd(), what: event.events(), name });
            }
            Err(error) => return error,
        }
        // What one read has brought is taken before the next.
        if reader.is_buffer_empty() {
            return Errno::INTR;
        }
    }
}

/// When a file was changed last, in nanoseconds; nobody can set that.
fn changed_at(metadata: &Metadata) -> i64 {
    metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec())
}

fn is_style(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".css") || name.ends_with(b".css.map")
}

/// Which of the files are there by which a document root and its front controller are found.
fn shape(directory: &Path) -> Vec<bool> {
    discover::decisive(directory).map(|path| path.is_file()).collect()
}

fn setting(name: &str) -> String {
    let path = format!("/proc/sys/fs/inotify/{name}");
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64)
}
