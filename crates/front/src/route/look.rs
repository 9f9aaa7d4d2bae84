//! The file at a path: opened if it may be sent, and never one that lies outside, is hidden, or is source.
//!
//! Paths are looked up by the thread itself, as nginx does: the kernel has names that were asked for before in memory, and cannot be
//! asked to fail instead of waiting by a system call whose purpose a filter can see (openat2 has its flags in memory).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};

use super::{Kind, Terms, file_cache};
use crate::routing::{denials, table};
use crate::target::{is_hidden, is_source};

/// What lies at a path.
enum Place {
    /// A file that may be sent, not opened for reading yet.
    File(OwnedFd, Stat),
    /// Anything else.
    Other(Kind),
}

/// The file at a cleaned path below the root, opened. Symbolic links are followed, but their target must lie in the root or in a
/// directory that `follow` names. The target must not be hidden, and must not be source unless it is run as a script by its
/// own name.
pub(super) fn look(terms: &Terms<'_>, path: &[u8]) -> Kind {
    let wanted = terms.root.join(OsStr::from_bytes(&path[1..]));
    if let Some(found) = file_cache::find(terms, &wanted) {
        return Kind::File(found);
    }
    match inspect(terms, path, &wanted) {
        Place::File(place, stat) => open(terms, &place, wanted, stat),
        Place::Other(kind) => kind,
    }
}

/// Whether there is a file at a cleaned path, or a directory (`None`: neither).
pub(super) fn exists(terms: &Terms<'_>, path: &[u8]) -> Option<table::Kind> {
    match inspect(terms, path, &terms.root.join(OsStr::from_bytes(&path[1..]))) {
        Place::File(..) | Place::Other(Kind::File(_) | Kind::Denied) if path.ends_with(b"/") => None,
        Place::File(..) | Place::Other(Kind::File(_) | Kind::Script | Kind::Closed | Kind::Denied) => {
            Some(table::Kind::File)
        }
        Place::Other(Kind::Directory) => Some(table::Kind::Directory),
        Place::Other(Kind::Missing) => None,
    }
}

fn inspect(terms: &Terms<'_>, path: &[u8], wanted: &Path) -> Place {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = match rustix::fs::open(wanted, flags, Mode::empty()) {
        Ok(place) => place,
        Err(rustix::io::Errno::ACCESS) => return Place::Other(Kind::Closed),
        Err(_) => return Place::Other(Kind::Missing),
    };
    let Ok(stat) = rustix::fs::fstat(&place) else { return Place::Other(Kind::Missing) };
    match judge(terms, path, wanted, &place, &stat) {
        Some(kind) => Place::Other(kind),
        None => Place::File(place, stat),
    }
}

/// Why what was found is no file to send. `None`: it is one.
fn judge(terms: &Terms<'_>, path: &[u8], wanted: &Path, place: &OwnedFd, stat: &Stat) -> Option<Kind> {
    let Ok(real) = real_path(place) else { return Some(Kind::Missing) };
    let Some(below) = below_root(terms, &real) else { return Some(Kind::Missing) };
    if is_hidden(below.as_os_str().as_bytes()) {
        return Some(Kind::Missing);
    }
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => Some(Kind::Directory),
        rustix::fs::FileType::RegularFile => {
            if is_denied(terms, path, below) {
                return Some(Kind::Denied);
            }
            let is_script = |path: &Path| path.extension().is_some_and(|ending| ending == "php");
            if is_script(wanted) && is_script(&real) {
                return Some(if terms.is_php_off { Kind::Denied } else { Kind::Script });
            }
            (is_source(path) || is_source(real.as_os_str().as_bytes())).then_some(Kind::Missing)
        }
        _ => Some(Kind::Missing),
    }
}

/// Whether a default denial concerns a file, by its path or by its real path below the root.
fn is_denied(terms: &Terms<'_>, path: &[u8], below: &Path) -> bool {
    let is_published = || path.starts_with(b"/.well-known/");
    let is_composers = |vendor: &[u8]| {
        let vendor = terms.root.join(OsStr::from_bytes(&vendor[1..]));
        vendor.join("autoload.php").is_file() && vendor.join("composer").is_dir()
    };
    terms.has_denials
        && !is_published()
        && (denials::of_name(path).or_else(|| denials::of_name(below.as_os_str().as_bytes())).is_some()
            || denials::vendors(path).any(is_composers))
}

/// Opens the file that was checked, not one that has taken its place since.
fn open(terms: &Terms<'_>, place: &impl AsFd, path: PathBuf, stat: Stat) -> Kind {
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place.as_fd()));
    match File::open(handle) {
        Ok(file) => Kind::File(file_cache::keep(terms, path, file, stat)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Kind::Closed,
        Err(_) => Kind::Missing,
    }
}

fn real_path(place: &impl AsFd) -> io::Result<PathBuf> {
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place.as_fd()));
    std::fs::read_link(handle)
}

fn below_root<'a>(terms: &Terms<'_>, real: &'a Path) -> Option<&'a Path> {
    std::iter::once(terms.root)
        .chain(terms.follow.iter().map(PathBuf::as_path))
        .find_map(|root| real.strip_prefix(root).ok())
}
