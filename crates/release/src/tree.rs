//! The files of a directory that become a release.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::container;
use crate::fault::Fault;
use crate::keys::hex;
use crate::manifest::{Entry, MAX_FILES, path_fault};

/// Directories below one another.
const MAX_DEPTH: usize = 64;
/// What is left out if nothing else is said: histories of version control, and what editors leave.
pub const LEFT_OUT: [&str; 6] = [".git", ".hg", ".svn", ".DS_Store", "*.swp", "*~"];

/// A file to be packed.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it lies.
    pub from: PathBuf,
    /// What the manifest says of it.
    pub entry: Entry,
}

/// What is left out: a name at any depth, a name with `*` at one end, or a path.
#[derive(Clone, Debug)]
pub struct Excludes(pub Vec<String>);

impl Excludes {
    fn leaves_out(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.0.iter().map(|one| one.trim_end_matches('/')).any(|one| match one.strip_prefix('*') {
            _ if one.contains('/') => path == one.trim_start_matches('/'),
            Some(end) => name.ends_with(end),
            None => match one.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == one,
            },
        })
    }
}

struct Walk<'a> {
    root: PathBuf,
    excludes: &'a Excludes,
    found: Vec<(String, PathBuf, Metadata)>,
}

impl Walk<'_> {
    fn directory(&mut self, below: &str, path: &Path, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::refused(format!("{}: more than {MAX_DEPTH} directories deep", path.display())));
        }
        for one in fs::read_dir(path).map_err(Fault::of_file(path))? {
            let one = one.map_err(Fault::of_file(path))?;
            let here = one.path();
            let name = one.file_name().into_string().map_err(|_| {
                Fault::refused(format!("{}: its name is not UTF-8; rename it, or --exclude it", here.display()))
            })?;
            let below = if below.is_empty() { name } else { format!("{below}/{name}") };
            if self.excludes.leaves_out(&below) {
                continue;
            }
            let metadata = fs::symlink_metadata(&here).map_err(Fault::of_file(&here))?;
            if metadata.is_dir() {
                self.directory(&below, &here, depth + 1)?;
            } else {
                self.file(below, here, metadata)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, below: String, here: PathBuf, metadata: Metadata) -> Result<(), Fault> {
        let refuse =
            |why: &str| Err(Fault::refused(format!("{} {why}; --exclude {below} leaves it out", here.display())));
        let metadata = if metadata.is_symlink() {
            // What it leads to is packed in its place: Composer links commands so.
            let Ok(real) = fs::canonicalize(&here) else { return refuse("is a link that leads nowhere") };
            if !real.starts_with(&self.root) {
                return refuse("is a link that leads out of the directory");
            }
            fs::metadata(&real).map_err(Fault::of_file(&here))?
        } else {
            metadata
        };
        if metadata.is_dir() {
            return refuse("is a link to a directory");
        }
        if !metadata.is_file() {
            return refuse("is neither a file nor a directory");
        }
        if let Some(why) = path_fault(&below) {
            return refuse(why);
        }
        if self.found.len() >= MAX_FILES {
            return Err(Fault::refused(format!("there are more than {MAX_FILES} files")));
        }
        self.found.push((below, here, metadata));
        Ok(())
    }
}

/// All files of a directory, in the order of a manifest, with their hashes. `seen` is told of each.
///
/// # Errors
/// Something there cannot be part of a release, or cannot be read.
pub fn collect(root: &Path, excludes: &Excludes, seen: &mut dyn FnMut(u64)) -> Result<Vec<Source>, Fault> {
    let root = fs::canonicalize(root).map_err(Fault::of_file(root))?;
    let mut walk = Walk { root: root.clone(), excludes, found: Vec::new() };
    walk.directory("", &root, 0)?;
    let mut found = walk.found;
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let source = |(path, from, metadata): (String, PathBuf, Metadata)| {
        let file = File::open(&from).map_err(Fault::of_file(&from))?;
        let (hash, size) = container::hash(file).map_err(Fault::of_file(&from))?;
        seen(size);
        let entry = Entry {
            path,
            size,
            executable: metadata.permissions().mode() & 0o111 != 0,
            modified: u64::try_from(metadata.mtime()).unwrap_or_default(),
            sha256: hex(&hash),
        };
        Ok(Source { from, entry })
    };
    found.into_iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_left_out() {
        let excludes = Excludes(["node_modules", "*.log", "var/cache/", "tmp*"].map(str::to_owned).to_vec());
        for out in ["node_modules", "a/node_modules", "a/b.log", "var/cache", "tmp", "x/tmpfile"] {
            assert!(excludes.leaves_out(out), "{out}");
        }
        for kept in ["var", "x/var/cache", "cache", "log", "a/node_modules.js"] {
            assert!(!excludes.leaves_out(kept), "{kept}");
        }
    }
}
