//! The state directory: one per running server, locked. Files that a killed predecessor has left are removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// All files that a server keeps there.
const FILES: [&str; 4] = ["lock", "pid", CONFIG, SOCKET];
/// The control socket. Its file keeps the name that clients know.
const SOCKET: &str = "admin.sock";
/// The path of the configuration file: by it clients find a server whose name comes from an address that has changed.
const CONFIG: &str = "config";
/// How many directories of other servers are looked at.
const MAX_SIBLINGS: usize = 1000;

/// A locked state directory. The lock ends with the process, and the directory with a clean end.
pub struct StateDirectory {
    /// Where it is.
    pub path: PathBuf,
    lock: File,
}

/// Where the state of a server of that name goes by default.
pub fn default_path(name: &str) -> PathBuf {
    let base = if crate::os::user::is_root() {
        PathBuf::from("/run/reprise")
    } else if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        PathBuf::from(runtime).join("reprise")
    } else {
        std::env::temp_dir().join(format!("reprise-{}", nix::unistd::Uid::effective()))
    };
    base.join(name)
}

/// The state directories of all users that this one can see, with their owners: what lies where `default_path` puts it.
pub fn places() -> impl Iterator<Item = (PathBuf, u32)> {
    let below =
        |path: PathBuf| fs::read_dir(path).into_iter().flatten().take(MAX_SIBLINGS).flatten().map(|entry| entry.path());
    let of_users = below(PathBuf::from("/run/user")).map(|path| path.join("reprise"));
    // Anybody may make such a name there; it counts with the owner that it names.
    let is_one = |path: &PathBuf| {
        let owner = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|found| found.uid());
        owner.is_some_and(|owner| path.ends_with(format!("reprise-{owner}")))
    };
    let temporary = below(std::env::temp_dir()).filter(is_one);
    let bases = std::iter::once(PathBuf::from("/run/reprise")).chain(of_users).chain(temporary);
    let is_server =
        |path: PathBuf| fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_dir).map(|found| (path, found.uid()));
    bases.flat_map(below).filter_map(is_server)
}

/// How often a directory is made anew that another server has removed in between.
const TRIES: usize = 100;
/// How often a lock is tried again, and after how long.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

impl StateDirectory {
    /// Makes and locks the directory. An error names what is wrong. A directory that holds anything but a server's state
    /// is left alone.
    pub fn open(path: &Path) -> Result<StateDirectory, String> {
        for _ in 0..TRIES {
            if let Some(state) = StateDirectory::try_open(path)? {
                return Ok(state);
            }
        }
        Err(format!("state directory {}: other servers keep removing it", path.display()))
    }

    /// `None`: a server that ends, or one that clears what others left, has removed it in between.
    fn try_open(path: &Path) -> Result<Option<StateDirectory>, String> {
        let fail = |error: std::io::Error| format!("state directory {}: {error}", path.display());
        let wrong = |why: &str| format!("state directory {}: {why}", path.display());
        let is_gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
        let us = nix::unistd::Uid::effective().as_raw();
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(fail)?;
            let owner = fs::metadata(parent).map_err(fail)?.uid();
            if owner != us && owner != 0 {
                return Err(wrong("its parent belongs to another user"));
            }
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fail(error)),
            _ => {}
        }
        let metadata = match fs::symlink_metadata(path) {
            Err(error) if is_gone(&error) => return Ok(None),
            other => other.map_err(fail)?,
        };
        if !metadata.is_dir() || metadata.uid() != us {
            return Err(wrong("is not a directory of this user"));
        }
        match foreign_file(path) {
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(fail(error)),
            Ok(Some(name)) => return Err(wrong(&format!("contains {name}, which is not a file of a server"))),
            Ok(None) => {}
        }
        match fs::set_permissions(path, fs::Permissions::from_mode(0o700)) {
            Err(error) if is_gone(&error) => return Ok(None),
            other => other.map_err(fail)?,
        }
        let mut tries = 0;
        let lock = loop {
            match lock(path, true) {
                Err(error) if is_gone(&error) => return Ok(None),
                // A server that looks for leftovers holds the lock for a moment.
                Ok(None) if tries < LOCK_TRIES => tries += 1,
                other => break other.map_err(fail)?,
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        let Some(lock) = lock else {
            let holder = fs::read_to_string(path.join("pid")).unwrap_or_default();
            return Err(wrong(&format!("in use by process {}", holder.trim())));
        };
        if !holds(path, &lock) {
            return Ok(None);
        }
        fs::write(path.join("pid"), format!("{}\n", std::process::id())).map_err(fail)?;
        // A killed predecessor has left them: no other process has the lock.
        for name in [SOCKET, CONFIG] {
            match fs::remove_file(path.join(name)) {
                Err(error) if !is_gone(&error) => return Err(fail(error)),
                _ => {}
            }
        }
        Ok(Some(StateDirectory { path: path.to_owned(), lock }))
    }
}

/// The name of a file in the directory that is not a server's.
fn foreign_file(path: &Path) -> std::io::Result<Option<String>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !FILES.iter().any(|ours| name == *ours) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Takes the lock of a state directory; `None` if another has it.
fn lock(path: &Path, create: bool) -> std::io::Result<Option<File>> {
    let lock = OpenOptions::new().create(create).truncate(false).write(true).open(path.join("lock"))?;
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(lock))
}

/// Whether a lock is still that of the directory: another process may have removed the directory and its lock file.
fn holds(path: &Path, lock: &File) -> bool {
    let same = |ours: fs::Metadata, its: fs::Metadata| (ours.dev(), ours.ino()) == (its.dev(), its.ino());
    let its = fs::symlink_metadata(path.join("lock"));
    lock.metadata().is_ok_and(|ours| its.is_ok_and(|its| same(ours, its)))
}

/// Removes a state directory whose lock the caller has. The lock file goes last: a server that starts there meanwhile finds either this
/// lock, or a directory that its own lock file keeps from being removed. The next server uses a directory that cannot be removed.
fn remove(path: &Path) {
    for name in ["pid", CONFIG, SOCKET, "lock"] {
        let _ = fs::remove_file(path.join(name));
    }
    let _ = fs::remove_dir(path);
}

/// Removes what killed servers have left beside `ours`: directories of this user with nothing but a server's state, whose lock is
/// free.
pub fn clear_leftovers(ours: &Path) {
    let Some(Ok(siblings)) = ours.parent().map(fs::read_dir) else { return };
    let us = nix::unistd::Uid::effective().as_raw();
    for path in siblings.take(MAX_SIBLINGS).filter_map(|entry| Some(entry.ok()?.path())) {
        let is_server = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == us)
            && foreign_file(&path).is_ok_and(|foreign| foreign.is_none());
        if path == ours || !is_server {
            continue;
        }
        // The lock is held until all is removed.
        let held = lock(&path, false).ok().flatten().filter(|lock| holds(&path, lock));
        if held.is_some() {
            remove(&path);
        }
    }
}

/// The directories beside `directory` whose servers say that they were started with this configuration file.
pub fn of_config(directory: &Path, config: &Path) -> Vec<PathBuf> {
    let Some((Ok(siblings), Ok(config))) = directory.parent().map(fs::read_dir).map(|all| (all, config.canonicalize()))
    else {
        return Vec::new();
    };
    let paths = siblings.take(MAX_SIBLINGS).filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| fs::read(path.join(CONFIG)).is_ok_and(|it| it == config.as_os_str().as_encoded_bytes()))
        .collect()
}

/// The configuration file that the server of a state directory was started with, if there was one.
pub fn config_of(directory: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    fs::read(directory.join(CONFIG)).ok().map(|path| PathBuf::from(std::ffi::OsString::from_vec(path)))
}

impl StateDirectory {
    /// Notes the configuration file that the server was started with.
    pub fn note_config(&self, config: &Path) -> Result<(), String> {
        let fail = |error: std::io::Error| format!("state directory {}: {error}", self.path.display());
        let config = config.canonicalize().map_err(fail)?;
        fs::write(self.path.join(CONFIG), config.as_os_str().as_encoded_bytes()).map_err(fail)
    }

    /// The control socket, on which `reprise reload`, `status` and `trace` reach this server.
    pub fn listen(&self) -> Result<UnixListener, String> {
        let path = socket(&self.path);
        UnixListener::bind(&path).map_err(|error| format!("control socket {}: {error}", path.display()))
    }
}

/// Where the control socket of a state directory is.
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        if holds(&self.path, &self.lock) {
            remove(&self.path);
        }
    }
}
