//! Unpacks a release into a new directory, which gets its name when everything in it is right. Files are read-only; times are the
//! manifest's, or opcache would not take its compiled code for theirs.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256};
use rustix::fs::{CWD, RenameFlags};

use crate::container::Archive;
use crate::fault::Fault;
use crate::keys::hex;
use crate::manifest::{Entry, Manifest};

/// The directory of the sources in that of a release.
pub const CODE: &str = "code";
/// The directory of opcache's file cache.
pub const OPCACHE: &str = "opcache";
/// The file beside them that says of what file they are, and which directories lie elsewhere.
const UNPACKED: &str = "unpacked";
/// The end of the name of a directory that is not complete. Before it stands the process that makes it.
const PART: &str = ".part";
/// Largest window of zstd, as a power of two.
const WINDOW: u32 = 27;
/// Bytes that are read at once.
const PIECE: usize = 128 << 10;

/// A directory of a release that is not part of it: the application may write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Its path in the release.
    pub path: String,
    /// Where it is: a link leads there.
    pub to: PathBuf,
}

/// What the file beside them says.
fn text_of(digest: &str, shared: &[Shared]) -> Vec<u8> {
    let links = shared.iter().map(|one| format!("{:?} {:?}\n", one.path, one.to));
    std::iter::once(format!("{digest}\n")).chain(links).collect::<String>().into_bytes()
}

/// Whether the file with that digest is unpacked there, with these directories elsewhere. The same sources may have been built again since,
/// and the configuration may name other directories.
pub fn is_unpacked(place: &Path, digest: &str, shared: &[Shared]) -> bool {
    fs::read(place.join(UNPACKED)).is_ok_and(|known| known == text_of(digest, shared))
}

struct Unpacking<'a, R> {
    from: R,
    piece: Vec<u8>,
    made: HashSet<PathBuf>,
    shared: &'a [Shared],
}

fn broken(entry: &Entry, why: &str) -> Fault {
    Fault::refused(format!("the file {:?} {why}", entry.path))
}

impl<R: Read> Unpacking<'_, R> {
    fn directories(&mut self, of: &Path) -> Result<(), Fault> {
        let Some(above) = of.parent().filter(|above| !self.made.contains(*above)) else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(Fault::of_file(above))?;
        let new: Vec<PathBuf> = above.ancestors().map(Path::to_owned).collect();
        self.made.extend(new);
        Ok(())
    }

    fn is_shared(&self, path: &str) -> bool {
        let lies_in =
            |one: &Shared| path.strip_prefix(&one.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.shared.iter().any(lies_in)
    }

    /// Copies a file of the archive; to nowhere, if it lies where the application may write.
    fn copy(&mut self, entry: &Entry, to: &Path) -> Result<(), Fault> {
        let failed = Fault::of_file(to);
        let mut file = match self.is_shared(&entry.path) {
            true => None,
            false => {
                self.directories(to)?;
                let mode = if entry.executable { 0o555 } else { 0o444 };
                Some(OpenOptions::new().write(true).create_new(true).mode(mode).open(to).map_err(&failed)?)
            }
        };
        let (mut hash, mut left) = (Context::new(&SHA256), entry.size);
        while left > 0 {
            let most = self.piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = match self.from.read(&mut self.piece[..most]) {
                Ok(0) => return Err(broken(entry, "is cut off")),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(entry, &format!("cannot be unpacked: {error}"))),
            };
            hash.update(&self.piece[..read]);
            if let Some(file) = &mut file {
                std::io::Write::write_all(file, &self.piece[..read]).map_err(&failed)?;
            }
            left -= read as u64;
        }
        if hex(hash.finish().as_ref()) != entry.sha256 {
            return Err(broken(entry, "is not what its hash says"));
        }
        file.map_or(Ok(()), |file| finish(&file, entry).map_err(&failed))
    }
}

/// Mode and time, whatever this process' mask is.
fn finish(file: &File, entry: &Entry) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(if entry.executable { 0o555 } else { 0o444 }))?;
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(entry.modified));
    file.set_times(FileTimes::new().set_modified(modified.unwrap_or(SystemTime::UNIX_EPOCH)))
}

/// Removes what processes have left halfway that were killed.
fn sweep(directory: &Path) -> Result<(), Fault> {
    for one in fs::read_dir(directory).map_err(Fault::of_file(directory))?.flatten() {
        let name = one.file_name();
        let maker = name.to_str().and_then(|name| name.strip_suffix(PART)?.rsplit('.').next()?.parse::<u32>().ok());
        let is_left =
            maker.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists());
        if is_left && one.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&one.path())?;
        }
    }
    Ok(())
}

/// Unpacks to a directory, in the place of what is unpacked there. What is there halfway when something fails is removed.
///
/// # Errors
/// The archive is not what the manifest says, or there is no room.
pub fn unpack(archive: Archive, manifest: &Manifest, digest: &str, to: &Path, shared: &[Shared]) -> Result<(), Fault> {
    to.parent().map_or(Ok(()), sweep)?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let part = to.with_file_name(format!(".{name}.{}{PART}", std::process::id()));
    let unpacked = unpack_part(archive, manifest, digest, &part, shared).and_then(|()| settle(&part, to));
    if unpacked.is_err() {
        let _ = remove(&part);
    }
    unpacked
}

fn unpack_part(
    archive: Archive,
    manifest: &Manifest,
    digest: &str,
    part: &Path,
    shared: &[Shared],
) -> Result<(), Fault> {
    DirBuilder::new().mode(0o755).create(part).map_err(Fault::of_file(part))?;
    let mut from = zstd::stream::read::Decoder::new(archive.0).map_err(Fault::refused)?;
    from.window_log_max(WINDOW).map_err(Fault::refused)?;
    let mut unpacking = Unpacking { from, piece: vec![0; PIECE], made: HashSet::new(), shared };
    for (directory, entries) in [(CODE, &manifest.files), (OPCACHE, &manifest.code)] {
        let base = part.join(directory);
        DirBuilder::new().mode(0o755).create(&base).map_err(Fault::of_file(&base))?;
        unpacking.shared = if directory == CODE { shared } else { &[] };
        for entry in entries {
            unpacking.copy(entry, &base.join(&entry.path))?;
        }
    }
    match unpacking.from.read(&mut [0]) {
        Ok(0) => {}
        Ok(_) => return Err(Fault::refused("has more files than its manifest names")),
        Err(error) => return Err(Fault::refused(format!("has an end that cannot be unpacked: {error}"))),
    }
    for one in shared {
        let link = part.join(CODE).join(&one.path);
        unpacking.directories(&link)?;
        symlink(&one.to, &link).map_err(Fault::of_file(&link))?;
    }
    let list = part.join(UNPACKED);
    fs::write(&list, text_of(digest, shared)).map_err(Fault::of_file(&list))
}

/// Closes the directories, writes everything to the disk if it lies on one, and gives the directory its name. The same may lie there, with
/// other links: who runs it finds the same code at each moment.
fn settle(part: &Path, to: &Path) -> Result<(), Fault> {
    let failed = Fault::of_file(part);
    each_directory(part, &|path| fs::set_permissions(path, Permissions::from_mode(0o555))).map_err(&failed)?;
    rustix::fs::syncfs(File::open(part).map_err(&failed)?).map_err(|error| failed(error.into()))?;
    match fs::rename(part, to) {
        Err(error) if [ErrorKind::AlreadyExists, ErrorKind::DirectoryNotEmpty].contains(&error.kind()) => {
            let exchanged = rustix::fs::renameat_with(CWD, part, CWD, to, RenameFlags::EXCHANGE);
            exchanged.map_err(|error| Fault::of_file(to)(error.into()))?;
            remove(part)
        }
        renamed => renamed.map_err(Fault::of_file(to)),
    }
}

fn each_directory(path: &Path, what: &dyn Fn(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    for one in fs::read_dir(path)? {
        let one = one?;
        if one.file_type()?.is_dir() {
            each_directory(&one.path(), what)?;
        }
    }
    what(path)
}

/// Removes an unpacked release, whose directories are read-only.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> Result<(), Fault> {
    if !path.is_dir() {
        return Ok(());
    }
    // Top down: a directory that cannot be searched cannot be read either.
    fn open(path: &Path) -> std::io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
        for one in fs::read_dir(path)? {
            let one = one?;
            if one.file_type()?.is_dir() {
                open(&one.path())?;
            }
        }
        Ok(())
    }
    open(path).and_then(|()| fs::remove_dir_all(path)).map_err(Fault::of_file(path))
}
