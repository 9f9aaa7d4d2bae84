//! How long a request's body may be, as far as the front can know: up to php.ini's post_max_size, unless there is a
//! `.user.ini` in the script's directory or above it. Then PHP decides, which reads that file: it does not read a body that
//! is too long.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ipc::control::Bodies as Said;
use rustix::io::Errno;

/// What is known of the bodies that a lane takes.
pub struct Bodies(Mutex<Known>);

struct Known {
    limit: u64,
    settings_file: String,
}

impl Known {
    fn of(said: &Said) -> Known {
        let name = said.settings_file.split(|&byte| byte == 0).next().unwrap_or_default();
        Known { limit: said.limit, settings_file: String::from_utf8_lossy(name).into_owned() }
    }
}

impl Bodies {
    /// As the message about the lane says.
    pub fn new(said: &Said) -> Bodies {
        Bodies(Mutex::new(Known::of(said)))
    }

    /// As the message about a new forker of the lane says.
    pub fn learn(&self, said: &Said) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Known::of(said);
    }

    /// Bytes that a body of this length (`None`: unknown) to that script may have; 0: PHP decides.
    pub fn limit(&self, root: &Path, script: &[u8], length: Option<u64>) -> u64 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = known.limit == 0 || length.is_some_and(|length| length <= known.limit);
        if fits || known.settings_file.is_empty() {
            return known.limit;
        }
        let file = known.settings_file.clone();
        let limit = known.limit;
        drop(known);
        if has_settings_file(root, script, &file) { 0 } else { limit }
    }
}

/// Whether such a file is in the script's directory or above it, up to the root. If that cannot be found out, it counts as
/// there.
fn has_settings_file(root: &Path, script: &[u8], file: &str) -> bool {
    let slashes = memchr::memchr_iter(b'/', script).map(|at| &script[1.min(at)..at]);
    slashes.map(|directory| root.join(OsStr::from_bytes(directory))).any(|mut directory| {
        // Not join(): a name that begins with a slash would replace the directory.
        directory.as_mut_os_string().push("/");
        directory.as_mut_os_string().push(file);
        !matches!(rustix::fs::stat(&directory), Err(Errno::NOENT | Errno::NOTDIR))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipc::control::SETTINGS_FILE;

    fn bodies(limit: u64, file: &str) -> Bodies {
        let mut settings_file = [0; SETTINGS_FILE];
        settings_file[..file.len()].copy_from_slice(file.as_bytes());
        Bodies::new(&Said { limit, settings_file })
    }

    #[test]
    fn files_above_a_script_raise_its_limit() {
        let root = std::env::temp_dir().join(format!("reprise-bodies-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/.user.ini"), "").unwrap();
        let limit = |file: &str, script: &str, length| bodies(100, file).limit(&root, script.as_bytes(), length);
        for (script, expected) in [("/x.php", 100), ("/a/x.php", 0), ("/a/b/x.php", 0), ("/b/x.php", 100)] {
            assert_eq!(limit(".user.ini", script, Some(101)), expected, "{script}");
            assert_eq!(limit(".user.ini", script, None), expected, "{script}");
            assert_eq!(limit(".user.ini", script, Some(100)), 100, "{script}");
            assert_eq!(limit("", script, Some(101)), 100, "{script}");
            assert_eq!(limit("other.ini", script, Some(101)), 100, "{script}");
        }
        assert_eq!(bodies(0, ".user.ini").limit(&root, b"/x.php", None), 0);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
