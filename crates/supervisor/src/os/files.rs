//! Files that somebody else may have put there, or may replace at any moment.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What tells a file from another, and from itself with other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

impl Seen {
    /// Of what the system says of a file.
    pub fn of(metadata: &Metadata) -> Seen {
        Seen {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Whether it is the same file, whatever its bytes are.
    pub fn is_same_file(&self, other: &Seen) -> bool {
        self.file == other.file
    }
}

/// Opens a file for reading if it is a regular one. Its type is looked at before it is opened, so no pipe makes this process
/// wait, and no device is touched. Links are followed, with the rights of the caller.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    must_be_regular(&found)?;
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(again, flags, Mode::empty())?.into())
}

/// Makes a file without a name, for reading and writing: nobody else can open it, and it is gone with its last descriptor.
pub fn open_nameless(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        // Not every file system has such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        made => return Ok(made?),
    }
    let path = directory.join(format!(".reprise-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn must_be_regular(file: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(io::Error::other(format!("it is {}, not a regular file", name(other)))),
    }
}

/// The type of a file that is not a regular one, for messages.
pub fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a named pipe (FIFO)",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}

/// The type of what a path leads to, if that exists and is neither a file nor a directory.
pub fn oddity(path: &Path) -> Option<&'static str> {
    let kind = FileType::from_raw_mode(rustix::fs::stat(path).ok()?.st_mode);
    (!matches!(kind, FileType::RegularFile | FileType::Directory)).then(|| name(kind))
}

/// Whether a script is a file by its path below a root. Links are followed: which may be, the front decides for each request.
pub fn is_script(root: &Path, script: &str) -> bool {
    root.join(script.trim_start_matches('/')).is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_nameless_file_leaves_nothing_in_its_directory() {
        let directory = std::env::temp_dir().join(format!("reprise-nameless-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = File::from(open_nameless(&directory).unwrap());
        file.write_all_at(b"held", 5).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 5).unwrap();
        assert_eq!((&bytes, directory.read_dir().unwrap().count()), (b"held", 0));
        assert!(open_nameless(&directory.join("nowhere")).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let directory = std::env::temp_dir().join(format!("reprise-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, link, pipe) = (directory.join("file"), directory.join("link"), directory.join("pipe"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_regular(&file).is_ok() && open_regular(&link).is_ok());
        for path in [&pipe, &directory, Path::new("/dev/null"), Path::new("/nowhere")] {
            assert!(open_regular(path).is_err(), "{}", path.display());
        }
        assert_eq!((oddity(&pipe), oddity(&file)), (Some("a named pipe (FIFO)"), None));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
