//! The file at a path: opened if it may be sent, and never one that lies outside, is hidden, or is source.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};

use super::{Found, Kind, Terms};
use crate::routing::denials;
use crate::target::{is_hidden, is_source};

/// The file at a cleaned path below the root. Symbolic links are followed, but their target must lie in the root or in a
/// directory that `follow` names. The target must not be hidden, and must not be source unless it is run as a script by its
/// own name.
pub(super) fn look(terms: &Terms<'_>, path: &[u8]) -> Kind {
    let wanted = terms.root.join(OsStr::from_bytes(&path[1..]));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = match rustix::fs::open(&wanted, flags, Mode::empty()) {
        Ok(place) => place,
        Err(rustix::io::Errno::ACCESS) => return Kind::Closed,
        Err(_) => return Kind::Missing,
    };
    let (Ok(stat), Ok(real)) = (rustix::fs::fstat(&place), real_path(&place)) else { return Kind::Missing };
    let Some(below) = below_root(terms, &real) else { return Kind::Missing };
    if is_hidden(below.as_os_str().as_bytes()) {
        return Kind::Missing;
    }
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => Kind::Directory,
        rustix::fs::FileType::RegularFile => {
            if is_denied(terms, path, below) {
                return Kind::Denied;
            }
            let is_script = |path: &Path| path.extension().is_some_and(|ending| ending == "php");
            if is_script(&wanted) && is_script(&real) {
                return if terms.is_php_off { Kind::Denied } else { Kind::Script };
            }
            if is_source(path) || is_source(real.as_os_str().as_bytes()) {
                return Kind::Missing;
            }
            open(&place, wanted, stat)
        }
        _ => Kind::Missing,
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
fn open(place: &impl AsFd, path: PathBuf, stat: Stat) -> Kind {
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place.as_fd()));
    match File::open(handle) {
        Ok(file) => Kind::File(Found { file, path, stat }),
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
