//! The directories into which phars are unpacked: one for each content, shared by all servers of a user, below the place of their state.
//!
//! Who uses a directory holds a shared lock on it, by an open descriptor; the kernel drops that with the process, however it ends. A directory
//! that nobody holds is removed by whoever comes next ([`sweep`]). A directory appears under its name when it is complete, and is this user's
//! then, whoever has filled it. Until then it lies in one that nobody else can enter; afterwards the front's group can ([`open_to`]), and nobody
//! else, whoever may read the phar.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, fchown, flock, fstat, openat};
use rustix::process::Gid;
use supervisor::os::state;
use supervisor::os::user::Identity;

/// The directory beside the state of servers. No server has a name that begins with a dot.
const NAME: &str = ".phars";
/// What a directory is named while it is made.
const UNFINISHED: &str = "unfinished-";
/// What it has in it: the directory that will get the name.
const TREE: &str = "tree";
/// How often a directory is made anew that another process has removed in between.
const TRIES: usize = 20;
/// How long another process gets that removes it.
const PAUSE: Duration = Duration::from_millis(20);
/// How many directories are looked at.
const MOST: usize = 1000;
/// Levels of directories: a phar has fewer.
const DEEPEST: usize = 80;

fn base() -> PathBuf {
    state::default_path(NAME)
}

/// Whether the directory is this user's own, in one of this user or of root: what lies there is ours to use and to remove.
fn is_ours(base: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let is_directory_of = |path: &Path, owners: &[u32]| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && owners.contains(&found.uid()))
    };
    base.parent().is_some_and(|parent| is_directory_of(parent, &[us, 0])) && is_directory_of(base, &[us])
}

fn make_base() -> Result<PathBuf, String> {
    let base = base();
    let failed = |error: std::io::Error| format!("the directory for unpacked phars, {}: {error}", base.display());
    DirBuilder::new().recursive(true).mode(0o755).create(&base).map_err(failed)?;
    if !is_ours(&base) {
        return Err(format!(
            "the directory for unpacked phars, {}, or the one above it, is a link or belongs to another user",
            base.display()
        ));
    }
    // The front's user has to reach what is in it, whatever the umask is. Nobody else learns what there is.
    fs::set_permissions(&base, fs::Permissions::from_mode(0o711)).map_err(failed)?;
    Ok(base)
}

/// A directory with a lock that keeps it; `None`: it is not there, or somebody removes it. Never waits: who may read a directory may lock it, too.
fn hold(path: &Path) -> Option<OwnedFd> {
    let directory = File::open(path).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockShared).ok()?;
    is_at(&directory, path).then(|| directory.into())
}

/// Whether a directory is still the one of that path: between its opening and its lock another process may have removed it, and a third one
/// put another there.
fn is_at(directory: &File, path: &Path) -> bool {
    let known = directory.metadata().ok().zip(fs::symlink_metadata(path).ok());
    known.is_some_and(|(ours, there)| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

/// The directory of that name, and what keeps it. `make` fills it if it is not there; it is then complete or not there at all. Nobody but this user
/// can enter it before [`open_to`].
pub fn keep(id: &str, make: impl Fn(&Path) -> Result<(), String>) -> Result<(PathBuf, OwnedFd), String> {
    let base = make_base()?;
    let path = base.join(id);
    for turn in 0..TRIES {
        if turn > 0 {
            std::thread::sleep(PAUSE);
        }
        // What is left of servers that have ended may be incomplete after a failure of the machine, and nobody has guarded it.
        sweep();
        if let Some(lock) = hold(&path) {
            return Ok((path, lock));
        }
        let drawn = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let new = base.join(format!("{UNFINISHED}{}-{drawn:x}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", new.display());
        DirBuilder::new().mode(0o700).create(&new).map_err(failed)?;
        // Nobody takes it for one that a killed process has left.
        let Some(_unfinished) = hold(&new) else { continue };
        let tree = new.join(TREE);
        DirBuilder::new().mode(0o755).create(&tree).map_err(failed)?;
        let made = make(&tree).and_then(|()| take_over(&tree).map_err(failed));
        let moved = made.and_then(|()| {
            let lock = hold(&tree).ok_or("it cannot be locked")?;
            // An error: another process has made the same meanwhile.
            Ok(fs::rename(&tree, &path).is_ok().then_some(lock))
        });
        let _ = fs::remove_dir_all(&new);
        if let Some(lock) = moved? {
            return Ok((path, lock));
        }
    }
    Err(format!("{}: other processes keep removing or locking it", path.display()))
}

/// How files and directories of somebody else are opened.
const OPENED: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Makes all of a tree this user's, with permissions that do not depend on who has made it: whoever that was has ended. A directory is this user's
/// before it is looked into, and no link is followed: nobody changes what it has any more.
fn take_over(tree: &Path) -> io::Result<()> {
    take_over_below(&openat(CWD, tree, OPENED | OFlags::DIRECTORY, Mode::empty())?, 0)
}

/// At each level one directory is open, however many there are.
fn take_over_below(directory: &OwnedFd, depth: usize) -> io::Result<()> {
    own(directory, if depth == 0 { 0o700 } else { 0o755 })?;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let failed = |why: &str| io::Error::other(format!("{}: {why}", name.to_string_lossy()));
        let one = openat(directory, name, OPENED, Mode::empty()).map_err(|error| failed(&error.to_string()))?;
        let found = fstat(&one)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory if depth < DEEPEST => take_over_below(&one, depth + 1)?,
            FileType::RegularFile if found.st_nlink == 1 => own(&one, 0o644)?,
            _ => return Err(failed("is neither a file nor a directory")),
        }
    }
    Ok(())
}

fn own(one: &OwnedFd, mode: u32) -> io::Result<()> {
    fchown(one, Some(rustix::process::geteuid()), Some(rustix::process::getegid()))?;
    Ok(fchmod(one, Mode::from_raw_mode(mode))?)
}

/// Has the front enter a directory that is kept: its group, and nobody else. Where the front is this user there is nothing to do.
pub fn open_to(lock: &OwnedFd, front: &Identity) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("the directory of an unpacked phar: {error}");
    let found = fstat(lock).map_err(failed)?;
    if found.st_mode & 0o050 != 0 && found.st_gid != front.gid {
        return Err(format!(
            "another server serves the same phar with a front of group {}, and this one's is {}: give both the same front_user",
            found.st_gid, front.gid
        ));
    }
    fchown(lock, None, Some(Gid::from_raw(front.gid)))
        .and_then(|()| fchmod(lock, Mode::from_raw_mode(0o750)))
        .map_err(failed)
}

/// Removes the directories that nobody holds.
pub fn sweep() {
    let base = base();
    // Nothing is removed where a link of somebody else leads.
    if !is_ours(&base) {
        return;
    }
    let Ok(entries) = fs::read_dir(base) else { return };
    for path in entries.take(MOST).filter_map(|entry| Some(entry.ok()?.path())) {
        let Ok(directory) = File::open(&path) else { continue };
        let is_free = flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_free && is_at(&directory, &path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
