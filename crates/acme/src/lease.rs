//! Leases: of all servers that share a directory, one orders a certificate. A lease is a file that its owner touches, and removes at the
//! end. No file lock is used: not every shared file system has them, and some keep the lock of a machine that is gone.
//!
//! A lease whose owner has died ends. Processes of the same machine are looked up. Of others it is watched whether the file changes: one
//! that has not been touched for [`LEASE`], by the clock of who watches it, is taken over. Clocks of different machines are never compared.
//!
//! An owner that was stopped for longer than that finds that the lease is not its own any more ([`Lease::is_held`]), and ends what it does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::storage;

/// A lease that has not been touched for so long has no owner.
pub const LEASE: Duration = Duration::from_secs(60);
/// How often an owner touches its leases.
const TOUCH: Duration = Duration::from_secs(10);

/// Who has a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    /// Another one for each lease.
    token: String,
    /// The machine's boot and its process ids' name space: processes with the same can be looked up.
    machine: String,
    pid: i32,
}

/// A lease of this process. It ends when it is dropped.
pub struct Lease {
    path: PathBuf,
    owner: Owner,
    touching: JoinHandle<()>,
}

/// What was seen of others' leases: owner and time of change, and since when they are so.
#[derive(Default)]
pub struct Leases {
    seen: RefCell<HashMap<PathBuf, (String, SystemTime, Instant)>>,
}

fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

impl Owner {
    /// Whether the process is known to be gone.
    fn is_gone(&self, machine: &str) -> bool {
        let is_known = !machine.starts_with(' ') && self.machine == machine;
        let pid = Pid::from_raw(self.pid).filter(|_| is_known);
        pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }
}

/// The text of a lease and when it was changed. It is opened for that, because shared file systems look anew at files that are opened.
fn look(path: &Path) -> io::Result<Option<(String, SystemTime)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let changed = file.metadata()?.modified()?;
    let mut text = String::new();
    (&mut file).take(4096).read_to_string(&mut text)?;
    Ok(Some((text, changed)))
}

impl Leases {
    /// Takes a lease; `None`: another process has it.
    pub fn take(&self, path: &Path) -> io::Result<Option<Lease>> {
        self.take_at(path, Instant::now())
    }

    fn take_at(&self, path: &Path, now: Instant) -> io::Result<Option<Lease>> {
        let machine = machine();
        if let Some((text, changed)) = look(path)? {
            let is_gone = serde_json::from_str::<Owner>(&text).is_ok_and(|owner| owner.is_gone(&machine));
            if !is_gone && !self.is_abandoned(path, &text, changed, now) {
                return Ok(None);
            }
            if !end(path, &text)? {
                return Ok(None);
            }
        }
        self.seen.borrow_mut().remove(path);
        let owner = Owner { token: format!("{:032x}", fastrand::u128(..)), machine, pid: std::process::id() as i32 };
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            file => file?,
        };
        file.write_all(serde_json::to_string(&owner)?.as_bytes())?;
        let touched = path.to_owned();
        let touching = tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(TOUCH).await;
                // Who cannot touch it loses it, which `is_held` shows.
                let _ = File::open(&touched).and_then(|file| file.set_modified(SystemTime::now()));
            }
        });
        Ok(Some(Lease { path: path.to_owned(), owner, touching }))
    }

    /// Whether a lease has not changed for too long.
    fn is_abandoned(&self, path: &Path, text: &str, changed: SystemTime, now: Instant) -> bool {
        let mut seen = self.seen.borrow_mut();
        match seen.get(path) {
            Some((old, then, since)) if old == text && *then == changed => {
                now.saturating_duration_since(*since) >= LEASE
            }
            _ => {
                seen.insert(path.to_owned(), (text.to_owned(), changed, now));
                false
            }
        }
    }
}

/// Ends a lease whose owner is gone. False: another process was faster.
fn end(path: &Path, text: &str) -> io::Result<bool> {
    let aside = path.with_file_name(format!(".ended-{:032x}", fastrand::u128(..)));
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    let is_it = look(&aside)?.is_some_and(|(found, _)| found == text);
    if !is_it {
        // Another process has taken it between the look and the rename: it gets its lease back, unless a third one has it now.
        let _ = fs::hard_link(&aside, path);
    }
    storage::remove(&aside)?;
    Ok(is_it)
}

impl Lease {
    /// Whether it is still this process' own.
    pub fn is_held(&self) -> bool {
        let owner = look(&self.path).ok().flatten().and_then(|(text, _)| serde_json::from_str::<Owner>(&text).ok());
        owner.as_ref() == Some(&self.owner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.touching.abort();
        if self.is_held() {
            // If it cannot be removed, others wait until it is abandoned.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Scratch, local};

    #[test]
    fn one_has_it_until_it_ends() {
        let scratch = Scratch::new();
        local(async {
            let (path, leases) = (scratch.0.join("lease"), Leases::default());
            let first = leases.take(&path).unwrap().expect("nobody has it");
            assert!(leases.take(&path).unwrap().is_none() && first.is_held());
            drop(first);
            assert!(leases.take(&path).unwrap().is_some());
        });
    }

    #[test]
    fn a_dead_process_has_none() {
        let scratch = Scratch::new();
        local(async {
            let (path, leases) = (scratch.0.join("lease"), Leases::default());
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            let owner = Owner { token: "x".to_owned(), machine: machine(), pid: child.id() as i32 };
            fs::write(&path, serde_json::to_string(&owner).unwrap()).unwrap();
            assert!(leases.take(&path).unwrap().is_some(), "it was a process of this machine");
            let elsewhere = Owner { machine: "another".to_owned(), ..owner };
            fs::write(&path, serde_json::to_string(&elsewhere).unwrap()).unwrap();
            let now = Instant::now();
            assert!(leases.take_at(&path, now).unwrap().is_none(), "of another machine nothing is known");
        });
    }

    #[test]
    fn an_untouched_lease_is_taken_over_and_its_owner_notices() {
        let scratch = Scratch::new();
        local(async {
            let (path, leases, others) = (scratch.0.join("lease"), Leases::default(), Leases::default());
            let first = leases.take(&path).unwrap().expect("nobody has it");
            let elsewhere = Owner { machine: "another".to_owned(), ..first.owner.clone() };
            fs::write(&path, serde_json::to_string(&elsewhere).unwrap()).unwrap();
            let now = Instant::now();
            assert!(others.take_at(&path, now).unwrap().is_none());
            assert!(others.take_at(&path, now + LEASE / 2).unwrap().is_none());
            File::open(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
            assert!(others.take_at(&path, now + LEASE).unwrap().is_none(), "it was touched");
            assert!(others.take_at(&path, now + LEASE * 3 / 2).unwrap().is_none());
            let second = others.take_at(&path, now + LEASE * 2).unwrap().expect("it is abandoned");
            assert!(second.is_held() && !first.is_held());
            drop(first);
            assert!(second.is_held(), "its former owner leaves it alone");
        });
    }
}
