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

use super::{Kind, Terms, file_cache, handle, links, real_path, source};
use crate::rules::{denials, table};
use crate::target::{is_hidden, is_source};

/// What lies at a path.
enum Place {
    /// A file that may be sent, not opened for reading yet.
    File(OwnedFd, Stat),
    /// Anything else.
    Other(Kind),
}

/// The file at a cleaned path below the root, opened. Symbolic links are followed to places in the root and in directories that
/// `follow` names, and elsewhere as [`links`] says. What a link names must not be hidden, and must not be source unless it is run as
/// a script by its own name.
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
        Place::File(..)
        | Place::Other(Kind::File(_) | Kind::Script | Kind::Closed | Kind::Denied | Kind::Source | Kind::Link(_)) => {
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
    let Ok(real) = real_path(&place) else { return Place::Other(Kind::Missing) };
    if let Some((base, below)) = terms.allowed(&real) {
        let below = [b"/", below.as_os_str().as_bytes()].concat();
        return match judge(terms, path, &[(base.to_owned(), below)], &stat) {
            Ok(()) => Place::File(place, stat),
            Err(Judged::Kind(kind)) => Place::Other(kind),
            Err(Judged::Hidden | Judged::Source) => Place::Other(Kind::Missing),
        };
    }
    match links::walk(terms, path) {
        Ok(walked) => match judge(terms, path, &walked.names, &walked.stat) {
            Ok(()) => Place::File(walked.place, walked.stat),
            Err(Judged::Kind(kind)) => Place::Other(kind),
            Err(Judged::Hidden) => Place::Other(walked.refuse(links::Why::Hidden)),
            Err(Judged::Source) => Place::Other(walked.refuse(links::Why::Source)),
        },
        Err(kind) => Place::Other(kind),
    }
}

/// What is found instead of a file to send.
enum Judged {
    Kind(Kind),
    /// What links lead to is hidden.
    Hidden,
    /// What links lead to is source.
    Source,
}

/// Judges what was found at a path by its names: the path itself, and what links on the way lead to, each with the directory that it
/// lies below.
fn judge(terms: &Terms<'_>, path: &[u8], names: &[(PathBuf, Vec<u8>)], stat: &Stat) -> Result<(), Judged> {
    if names.iter().any(|(_, name)| is_hidden(name)) {
        return Err(Judged::Hidden);
    }
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => return Err(Judged::Kind(Kind::Directory)),
        rustix::fs::FileType::RegularFile => {}
        _ => return Err(Judged::Kind(Kind::Missing)),
    }
    let is_published = path.starts_with(b"/.well-known/");
    let mut all = names.iter().map(|(base, name)| (&**base, &**name)).chain([(terms.root, path)]);
    if terms.has_denials && !is_published && all.any(|(base, name)| is_denied(base, name)) {
        return Err(Judged::Kind(Kind::Denied));
    }
    let is_script = |name: &[u8]| Path::new(OsStr::from_bytes(name)).extension().is_some_and(|ending| ending == "php");
    if is_script(path) && names.last().is_none_or(|(_, name)| is_script(name)) {
        return Err(Judged::Kind(if terms.is_php_off { Kind::Denied } else { Kind::Script }));
    }
    if is_source(path) {
        return Err(Judged::Kind(Kind::Missing));
    }
    if names.iter().any(|(_, name)| is_source(name)) { Err(Judged::Source) } else { Ok(()) }
}

/// Whether a default denial concerns a file by a path below a directory.
fn is_denied(base: &Path, path: &[u8]) -> bool {
    let is_composers = |vendor: &[u8]| {
        let vendor = base.join(OsStr::from_bytes(&vendor[1..]));
        vendor.join("autoload.php").is_file() && vendor.join("composer").is_dir()
    };
    denials::of_name(path).is_some() || denials::vendors(path).any(is_composers)
}

/// Opens the file that was checked, not one that has taken its place since.
fn open(terms: &Terms<'_>, place: &impl AsFd, path: PathBuf, stat: Stat) -> Kind {
    match File::open(handle(place)) {
        Ok(file) if !terms.is_allowed && source::is_in(&file, stat.st_size.max(0) as u64) => Kind::Source,
        Ok(file) => Kind::File(file_cache::keep(terms, path, file, stat)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Kind::Closed,
        Err(_) => Kind::Missing,
    }
}
