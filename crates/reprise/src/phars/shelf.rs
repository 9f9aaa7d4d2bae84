//! The directories into which phars are unpacked: one for each content, shared by all servers of a user, below the place of their state.
//!
//! Who uses a directory holds a shared lock on it, by an open descriptor; the kernel drops that with the process, however it ends. A directory
//! that nobody holds is removed by whoever comes next ([`sweep`]). A directory appears under its name when it is complete, and is this user's
//! then, whoever has filled it. Until then it lies in one that nobody else can enter.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use process::state;
use rustix::fs::{FlockOperation, flock};

/// The directory beside the state of servers. No server has a name that begins with a dot.
const NAME: &str = ".phars";
/// What a directory is named while it is made.
const UNFINISHED: &str = "unfinished-";
/// What it has in it: the directory that will get the name.
const TREE: &str = "tree";
/// How often a directory is made anew that another process has removed in between.
const TRIES: usize = 20;
/// How many directories are looked at.
const MOST: usize = 1000;

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
    // The front's user has to reach what is in it, whatever the umask is.
    fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(base)
}

/// A directory with a lock that keeps it; `None`: it is not there.
fn hold(path: &Path) -> Option<OwnedFd> {
    let directory = File::open(path).ok()?;
    flock(&directory, FlockOperation::LockShared).ok()?;
    // Somebody may have removed it before it was locked.
    let (ours, there) = (directory.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    ((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then(|| directory.into())
}

/// The directory of that name, and what keeps it. `make` fills it if it is not there; it is then complete or not there at all. With a group,
/// nobody else but its members can enter it.
pub fn keep(
    id: &str,
    group: Option<u32>,
    make: impl Fn(&Path) -> Result<(), String>,
) -> Result<(PathBuf, OwnedFd), String> {
    let base = make_base()?;
    let path = base.join(id);
    for _ in 0..TRIES {
        if let Some(lock) = hold(&path) {
            return Ok((path, lock));
        }
        sweep();
        let new = base.join(format!("{UNFINISHED}{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", new.display());
        let _ = fs::remove_dir_all(&new);
        DirBuilder::new().mode(0o700).create(&new).map_err(failed)?;
        // It is held from its beginning, so that nobody takes it for one that a killed process has left.
        let Some(_unfinished) = hold(&new) else { continue };
        let tree = new.join(TREE);
        DirBuilder::new().mode(0o755).create(&tree).map_err(failed)?;
        let made = make(&tree).and_then(|()| take_over(&tree, group).map_err(failed));
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
    Err(format!("{}: other processes keep removing it", path.display()))
}

/// Makes all of a tree this user's, with permissions that do not depend on who has made it. Who has made it has ended, and nobody else can
/// reach it.
fn take_over(tree: &Path, group: Option<u32>) -> io::Result<()> {
    let (us, ours) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut waiting = vec![tree.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let found = fs::symlink_metadata(&path)?;
            if found.is_dir() {
                waiting.push(path);
                continue;
            }
            if !found.is_file() || found.nlink() != 1 {
                return Err(io::Error::other(format!("{} is neither a file nor a directory", path.display())));
            }
            lchown(&path, Some(us), Some(ours))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        let is_top = directory == tree;
        lchown(&directory, Some(us), Some(group.filter(|_| is_top).unwrap_or(ours)))?;
        let mode = if is_top && group.is_some() { 0o750 } else { 0o755 };
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
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
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
