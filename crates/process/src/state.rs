//! The state directory: one per running server, locked, cleared of what a killed predecessor left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// All that a server keeps there.
const FILES: [&str; 3] = ["lock", "pid", SOCKET];
/// The admin socket.
const SOCKET: &str = "admin.sock";

/// A locked state directory. The lock ends with the process.
pub struct StateDirectory {
    /// Where it is.
    pub path: PathBuf,
    _lock: File,
}

/// Where the state of a server of that name goes by default.
pub fn default_path(name: &str) -> PathBuf {
    let base = if crate::user::is_root() {
        PathBuf::from("/run/reprise")
    } else if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        PathBuf::from(runtime).join("reprise")
    } else {
        std::env::temp_dir().join(format!("reprise-{}", nix::unistd::Uid::effective()))
    };
    base.join(name)
}

impl StateDirectory {
    /// Makes and locks the directory. An error names what is wrong. A directory that holds anything but a server's state
    /// is left alone.
    pub fn open(path: &Path) -> Result<StateDirectory, String> {
        let fail = |error: std::io::Error| format!("state directory {}: {error}", path.display());
        let wrong = |why: &str| format!("state directory {}: {why}", path.display());
        let us = nix::unistd::Uid::effective().as_raw();
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(fail)?;
            let owner = fs::metadata(parent).map_err(fail)?.uid();
            if owner != us && owner != 0 {
                return Err(wrong("its parent belongs to another user"));
            }
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(error)),
            _ => {}
        }
        let metadata = fs::symlink_metadata(path).map_err(fail)?;
        if !metadata.is_dir() || metadata.uid() != us {
            return Err(wrong("is not a directory of this user"));
        }
        for entry in fs::read_dir(path).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            if !FILES.iter().any(|ours| name == *ours) {
                return Err(wrong(&format!("holds {}, which no server has put there", name.to_string_lossy())));
            }
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(fail)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join("lock")).map_err(fail)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let holder = fs::read_to_string(path.join("pid")).unwrap_or_default();
            return Err(wrong(&format!("in use by process {}", holder.trim())));
        }
        fs::write(path.join("pid"), format!("{}\n", std::process::id())).map_err(fail)?;
        // What a killed predecessor has left: nobody else has the lock.
        match fs::remove_file(path.join(SOCKET)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        Ok(StateDirectory { path: path.to_owned(), _lock: lock })
    }
}

impl StateDirectory {
    /// The socket by which `reprise reload` and its like speak to this server.
    pub fn listen(&self) -> Result<UnixListener, String> {
        let path = socket(&self.path);
        UnixListener::bind(&path).map_err(|error| format!("admin socket {}: {error}", path.display()))
    }
}

/// Where the admin socket of a state directory is.
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        // The directory itself stays: removing it could take it from a successor that is just locking it.
        let _ = fs::remove_file(self.path.join("pid"));
        let _ = fs::remove_file(self.path.join(SOCKET));
    }
}
