//! What a node keeps on its disk: the releases' files, what it serves, and the highest number that it has seen. With it the node starts
//! without the pool.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::pool::directory::{ENDING, read_small};
use crate::record::Release;
use crate::settings::Settings;
use crate::unpack;

/// Bytes of the file.
const MAX_SIZE: usize = 256 << 10;
/// The end of the name of a file that is not complete.
const PART: &str = ".part";
/// The link to the release that is served, beside the releases.
pub const CURRENT: &str = "current";

/// A release that was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Which.
    pub release: Release,
    /// Until when, in seconds since 1970.
    pub until: u64,
}

/// What a node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What it serves.
    pub serving: Option<Release>,
    /// The number of the last record that it has followed. An older one is a replay.
    pub number: u64,
    /// What it served before, the last one first.
    pub former: Vec<Former>,
}

fn path(state: &Path) -> PathBuf {
    state.join("node.json")
}

/// What is kept in a directory; nothing, if there is no file.
///
/// # Errors
/// It cannot be read.
pub fn read(state: &Path) -> Result<Kept, Fault> {
    let path = path(state);
    let Some(text) = read_small(&path, MAX_SIZE)? else { return Ok(Kept::default()) };
    serde_json::from_slice(&text).map_err(|error| Fault::refused(format!("{}: {error}", path.display())))
}

/// Keeps it, on the disk, and points `current` to what is served.
///
/// # Errors
/// It cannot be written.
pub fn write(settings: &Settings, kept: &Kept) -> Result<(), Fault> {
    let path = path(&settings.state);
    let part = path.with_extension("part");
    let text = serde_json::to_vec(kept).map_err(Fault::refused)?;
    let written = File::create(&part).and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&part, &path)).map_err(Fault::of_file(&path))?;
    point(settings, kept)
}

/// Points `current` to what is served.
///
/// # Errors
/// The link cannot be made.
pub fn point(settings: &Settings, kept: &Kept) -> Result<(), Fault> {
    let Some(serving) = &kept.serving else { return Ok(()) };
    let (link, part) = (settings.directory.join(CURRENT), settings.directory.join(".current.part"));
    let _ = fs::remove_file(&part);
    symlink(&serving.id, &part).and_then(|()| fs::rename(&part, &link)).map_err(Fault::of_file(&link))
}

/// Where a release's file is kept.
pub fn file(settings: &Settings, release: &Release) -> PathBuf {
    settings.state.join(format!("{}{ENDING}", release.name()))
}

/// Bytes of memory that an unpacked release takes.
fn size(path: &Path) -> u64 {
    let Ok(list) = fs::read_dir(path) else { return 0 };
    let of = |one: fs::DirEntry| match one.file_type() {
        Ok(kind) if kind.is_dir() => size(&one.path()),
        Ok(kind) if kind.is_file() => one.metadata().map_or(0, |known| crate::manifest::pages(known.len())),
        _ => 0,
    };
    list.flatten().map(of).sum()
}

impl Kept {
    /// Notes that a release is served from now on, at that time.
    pub fn serve(&mut self, release: Release, number: u64, now: u64) {
        if let Some(old) = self.serving.take().filter(|old| old.id != release.id) {
            self.former.retain(|one| one.release.id != old.id);
            self.former.insert(0, Former { release: old, until: now });
        }
        self.former.retain(|one| one.release.id != release.id);
        self.serving = Some(release);
        self.number = number;
    }

    /// The releases that are kept, the one that is served first.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.serving.iter().chain(self.former.iter().map(|one| &one.release))
    }

    /// Forgets releases beyond `keep`, and removes files and directories of all that are not known. `needed` stays too.
    pub fn clear(&mut self, settings: &Settings, needed: Option<&str>) {
        self.former.truncate(settings.keep.saturating_sub(1));
        let known: Vec<&Release> = self.releases().collect();
        let is_known = |id: &str| needed == Some(id) || known.iter().any(|one| one.id == id);
        for one in fs::read_dir(&settings.directory).into_iter().flatten().flatten() {
            let name = one.file_name();
            let Some(id) = name.to_str().filter(|name| crate::manifest::is_id(name)) else { continue };
            if !is_known(id) {
                let _ = unpack::remove(&one.path());
            }
        }
        for one in fs::read_dir(&settings.state).into_iter().flatten().flatten() {
            let name = one.file_name();
            let file = |name: &str| Some(name.strip_suffix(ENDING).or_else(|| name.strip_suffix(PART))?.to_owned());
            let name = name.to_str().and_then(file);
            let Some((_, id)) = name.as_deref().and_then(crate::record::parse_name) else { continue };
            if !is_known(id) {
                let _ = fs::remove_file(one.path());
            }
        }
    }

    /// Makes room for so many bytes: the oldest releases go, but not the one that is served, nor the one before.
    ///
    /// # Errors
    /// There is no room even so.
    pub fn make_room(&mut self, settings: &Settings, bytes: u64, needed: &str) -> Result<(), Fault> {
        self.clear(settings, Some(needed));
        loop {
            let used: u64 =
                self.releases().filter(|one| one.id != needed).map(|one| size(&settings.place(&one.id))).sum();
            if used.saturating_add(bytes) <= settings.memory {
                return Ok(());
            }
            if self.former.len() <= 1 {
                return Err(Fault::refused(format!(
                    "needs {bytes} bytes beside {used} of the releases that are served or were served last; release_memory is {}",
                    settings.memory
                )));
            }
            self.former.pop();
            self.clear(settings, Some(needed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::release;

    #[test]
    fn what_was_served_is_known_in_order() {
        let mut kept = Kept::default();
        for (number, sequence) in [1, 2, 3, 2, 4].into_iter().enumerate() {
            kept.serve(release(sequence), number as u64, 100 + number as u64);
        }
        let known: Vec<u64> = kept.releases().map(|one| one.sequence).collect();
        assert_eq!(known, [4, 2, 3, 1]);
        assert_eq!((kept.number, kept.former[0].until), (4, 104));
        kept.serve(release(4), 9, 200);
        assert_eq!((kept.releases().count(), kept.number), (4, 9), "the same again");
    }
}
