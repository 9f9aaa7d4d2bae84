//! Roots that are phars. A process that lives for that alone reads the bytes, checks their signature and unpacks them ([`phar_reader`]): no process
//! that serves reads a phar, but PHP, which reads a sealed copy of the bytes that were checked.
//!
//! The front sends files out of the unpacked directory as out of any other. PHP runs `phar:///srv/app.phar/…`, and where it opens `/srv/app.phar` it
//! gets the copy (`csrc/pinned.c`): so a generation has one phar from its first request to its last, whatever becomes of the file.

mod phar_reader;
mod shelf;
mod unpack;

use std::cell::Cell;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use supervisor::os::files::Seen;

use crate::root::{Held, Phar, Root};
use phar_reader::Task;

pub use shelf::{open_to, sweep};

/// The ending of a phar's name. PHP knows phars by it.
const ENDING: &str = ".phar";
/// What the message about a damaged file says.
const REPLACE: &str = "write the new phar beside the old one and rename it";

/// A path that leads into a phar: the file, and the path inside of it. `None`: no part of it is a file with a phar's name.
pub fn part(path: &Path) -> Option<(PathBuf, String)> {
    let is_phar =
        |at: &&Path| at.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING)) && at.is_file();
    let file = path.ancestors().find(is_phar)?;
    let inside = path.strip_prefix(file).ok()?;
    let parts: Option<Vec<&str>> = inside
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    Some((file.to_owned(), parts?.join("/")))
}

/// The file that a path into a phar leads to, as it is written.
pub fn file_of(path: &Path) -> PathBuf {
    part(path).map_or_else(|| path.to_owned(), |(file, _)| file)
}

/// Has a phar checked and unpacked. An error says what is wrong with which file, and what to do.
pub fn open(file: &Path, inside: &str) -> Result<Root, String> {
    let shown = file.display();
    let file = file.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
    if file.to_str().is_none_or(|text| text.contains(['\n', '\0'])) {
        return Err(format!("{shown}: the path of a phar has to be UTF-8, on one line"));
    }
    if !file.as_os_str().as_encoded_bytes().ends_with(ENDING.as_bytes()) {
        let why =
            format!("leads to {}, whose name does not end in {ENDING}: PHP would take it for no phar", file.display());
        return Err(format!("{shown}: {why}"));
    }
    let (directory, phar) = read(&file, inside).map_err(|why| format!("phar {}: {why}", file.display()))?;
    let root = Root::of_phar(&directory, phar);
    match root.is_dir() {
        true => Ok(root),
        false => Err(format!("phar {shown}: {inside} is not a directory in it")),
    }
}

/// Reads the file, at most so many bytes as a phar may have.
fn contents(file: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let said = |error: std::io::Error| error.to_string();
    let opened = supervisor::os::files::open_regular(file).map_err(said)?;
    let before = opened.metadata().map_err(said)?;
    let mut bytes = Vec::new();
    (&opened).take(phar::MAX_SIZE + 1).read_to_end(&mut bytes).map_err(said)?;
    if bytes.len() as u64 > phar::MAX_SIZE {
        return Err(format!("it is larger than {} MiB", phar::MAX_SIZE >> 20));
    }
    let after = opened.metadata().map_err(said)?;
    if Seen::of(&before) != Seen::of(&after) || bytes.len() as u64 != before.size() {
        return Err(format!("it was changed while it was read: {REPLACE}"));
    }
    Ok((bytes, before))
}

/// The public key beside a phar, if there is one.
fn key(file: &Path) -> Result<Option<Vec<u8>>, String> {
    let mut path = file.as_os_str().to_owned();
    path.push(".pubkey");
    let mut bytes = Vec::new();
    let read = supervisor::os::files::open_regular(Path::new(&path))
        .and_then(|opened| opened.take(64 << 10).read_to_end(&mut bytes));
    // A link that leads nowhere is no key, and was meant to be one.
    let is_absent = || std::fs::symlink_metadata(&path).is_err();
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_absent() => Ok(None),
        Err(error) => Err(format!("the public key beside it: {error}")),
    }
}

/// Reads the file, without a look at what is in it, and has the rest done. The directory into which it is unpacked, and what is known of it.
fn read(file: &Path, inside: &str) -> Result<(PathBuf, Phar), String> {
    let (bytes, metadata) = contents(file)?;
    let time = u32::try_from(metadata.mtime()).unwrap_or(0);
    let stub = file.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let task = Task { bytes: &bytes, key: key(file)?, stub, time };
    let found = Cell::new(None);
    let id = unpack::id(&bytes, time, stub);
    let (directory, lock) = shelf::keep(&id, |place| {
        found.set(Some(phar_reader::send(&task, Some(place))?));
        Ok(())
    })?;
    // Another server may have unpacked the same bytes; their signature is checked all the same.
    let (facts, copy) = match found.take() {
        Some(found) => found,
        None => phar_reader::send(&task, None)?,
    };
    let named = |notice: &String| format!("phar {}: {notice}", file.display());
    Ok((
        directory,
        Phar {
            file: file.to_owned(),
            inside: inside.to_owned(),
            id,
            seen: Seen::of(&metadata),
            held: Some(Arc::new(Held { copy, lock })),
            notices: facts.notices.iter().map(named).collect(),
            described: facts.described,
        },
    ))
}
