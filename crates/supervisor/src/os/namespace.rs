//! A file system of this process' own, in the place of a directory. Nobody else sees it, and it goes with the process.

use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

/// Covers a directory with an empty file system in memory. Without root that takes a user namespace, which some systems forbid.
pub fn cover(directory: &Path) -> io::Result<()> {
    const NONE: Option<&str> = None;
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        let (user, group) = (Uid::effective(), Gid::effective());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // What is mounted here must not appear elsewhere.
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    mount(Some("reprise"), directory, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=755"))?;
    Ok(())
}
