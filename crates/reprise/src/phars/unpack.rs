//! Writes the entries of a phar into a directory, as files that nobody but this user can change.

use std::fs::{DirBuilder, File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phar::{Archive, Entry};

/// How long it may take. Who waits for the child gives up after [`supervisor::peers::errand::PATIENCE`].
const PATIENCE: Duration = Duration::from_secs(8);

/// Names what [`unpack`] makes of these bytes: other bytes, another time, another name or another version of this code have another name.
pub fn id(bytes: &[u8], time: u32, stub: &[u8]) -> String {
    let text =
        |hash: &[u8], count: usize| hash.iter().take(count).map(|byte| format!("{byte:02x}")).collect::<String>();
    let (hash, name) = (phar::signature::sha256(bytes), phar::signature::sha256(stub));
    format!("3-{}-{time:x}-{}", text(&hash, 16), text(&name, 4))
}

/// Writes all entries below `place`, which is there and empty, and the stub under the phar's own name.
pub fn unpack(archive: &Archive<'_>, stub: &[u8], time: u32, place: &Path) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    for entry in &archive.entries {
        if Instant::now() > until {
            return Err(format!("to unpack it takes longer than {PATIENCE:?}"));
        }
        let path = place.join(std::ffi::OsStr::from_bytes(entry.name));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if entry.is_directory() {
            make_directory(&path).map_err(failed)?;
            continue;
        }
        let contents = phar::contents::of(entry)?;
        path.parent().map_or(Ok(()), make_directory).map_err(failed)?;
        write(&path, &contents, modified(entry, time)).map_err(failed)?;
    }
    let path = place.join(std::ffi::OsStr::from_bytes(stub));
    write(&path, archive.stub, UNIX_EPOCH + Duration::from_secs(time.into()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn make_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// When an entry was written, for ETag and Last-Modified. Its checksum is the part of a second: two versions of a file have two ETags, though
/// phars that are built to be the same byte for byte have the same time in all their versions.
fn modified(entry: &Entry<'_>, time: u32) -> SystemTime {
    // Dates alone tell two versions apart, as long as the file of each has a time of its own.
    let seconds = entry.time.max(time);
    UNIX_EPOCH + Duration::new(seconds.into(), entry.crc32 % 1_000_000_000)
}

fn write(path: &Path, contents: &[u8], modified: SystemTime) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(contents)?;
    file.set_times(FileTimes::new().set_modified(modified))
}
