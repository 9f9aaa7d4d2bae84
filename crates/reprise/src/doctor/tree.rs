//! The application's tree: its files, with owners and modes. Links to directories elsewhere are followed, each directory is entered once.

use std::collections::HashSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most entries that are looked at.
const MOST_ENTRIES: usize = 300_000;
/// Most levels of directories.
const MOST_LEVELS: usize = 64;
/// A longer script is not read.
pub const MOST_BYTES: u64 = 8 << 20;
/// Directories whose files are no code of the application.
const SKIPPED: [&str; 6] = [".git", ".svn", ".hg", ".bzr", "node_modules", ".idea"];
/// Endings of what is surely no PHP, so that it is not opened.
const NO_SOURCE: [&str; 35] = [
    "css", "scss", "less", "js", "mjs", "ts", "map", "json", "xml", "xsd", "xsl", "yml", "yaml", "md", "po", "mo",
    "pot", "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "woff", "woff2", "ttf", "eot", "otf", "gz", "zip",
    "phar", "pdf", "sql", "stub",
];
/// Directories that are document roots by their names.
const PUBLIC: [&str; 3] = ["public", "web", "htdocs"];

/// A file or a directory.
pub struct Entry {
    /// Its path below the tree.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its length.
    pub size: u64,
    /// Owner, group and mode.
    pub rights: (u32, u32, u32),
    /// Whether it is PHP's source: a script by its name, or by its first bytes.
    pub is_source: bool,
}

/// A tree.
pub struct Tree {
    /// Where it begins.
    pub base: PathBuf,
    /// Everything in it.
    pub entries: Vec<Entry>,
    /// Links to directories that were not followed: they lead into the tree or above it.
    pub links: usize,
    /// Directories that cannot be read here, and why.
    pub closed: Vec<(PathBuf, String)>,
    /// Whether there is more than was looked at.
    pub is_cut: bool,
}

/// The directory that holds all of an application: the one that the user has named, with the root in it. Where only the root is known, the
/// directory above it if the root's name is that of a public directory and the project is there.
pub fn base(root: &Path, named: Option<&Path>) -> PathBuf {
    let named = named.and_then(|named| named.canonicalize().ok());
    if let Some(named) = named.filter(|named| root.starts_with(named) && root != named) {
        return named;
    }
    let is_public = root.file_name().is_some_and(|name| PUBLIC.iter().any(|one| name == *one));
    let has_project = |above: &Path| {
        ["composer.json", "composer.lock", "vendor", "src", "app", "artisan", ".env"]
            .iter()
            .any(|name| above.join(name).exists())
    };
    match root.parent() {
        Some(above) if is_public && has_project(above) => above.to_owned(),
        _ => root.to_owned(),
    }
}

/// Looks at all of a tree.
pub fn walk(base: &Path) -> Tree {
    let mut tree = Tree { base: base.to_owned(), entries: Vec::new(), links: 0, closed: Vec::new(), is_cut: false };
    let own = base.canonicalize().unwrap_or_else(|_| base.to_owned());
    let mut waiting = vec![(PathBuf::new(), 0)];
    // Distributions put an application together by links. A directory that two of them lead to is entered once.
    let mut entered = HashSet::new();
    while let Some((directory, level)) = waiting.pop() {
        let is_new =
            std::fs::metadata(tree.base.join(&directory)).is_ok_and(|found| entered.insert((found.dev(), found.ino())));
        if !is_new && level > 0 {
            tree.links += 1;
            continue;
        }
        let listed = match std::fs::read_dir(tree.base.join(&directory)) {
            Ok(listed) => listed,
            Err(error) => {
                tree.closed.push((directory, error.to_string()));
                continue;
            }
        };
        for entry in listed.flatten() {
            if tree.entries.len() >= MOST_ENTRIES {
                tree.is_cut = true;
                return tree.sorted();
            }
            let path = directory.join(entry.file_name());
            let Ok(mut metadata) = entry.metadata() else { continue };
            if metadata.is_symlink() {
                // What a link to a file leads to counts; a link that leads nowhere does not.
                match std::fs::metadata(entry.path()) {
                    Ok(found) if found.is_file() => metadata = found,
                    Ok(found) if found.is_dir() => {
                        let leads = entry.path().canonicalize().unwrap_or_else(|_| own.clone());
                        if leads.starts_with(&own) || own.starts_with(&leads) {
                            tree.links += 1;
                            continue;
                        }
                        metadata = found;
                    }
                    _ => continue,
                }
            }
            if !metadata.is_file() && !metadata.is_dir() {
                continue;
            }
            let is_directory = metadata.is_dir();
            let is_skipped = is_directory && SKIPPED.iter().any(|name| entry.file_name() == *name);
            if is_directory && !is_skipped {
                match level < MOST_LEVELS {
                    true => waiting.push((path.clone(), level + 1)),
                    false => tree.is_cut = true,
                }
            }
            let rights = (metadata.uid(), metadata.gid(), metadata.mode());
            let mut entry = Entry { path, is_directory, size: metadata.len(), rights, is_source: false };
            entry.is_source = entry.is_script() || (!is_directory && opens_php(&tree.whole(&entry)));
            tree.entries.push(entry);
        }
    }
    tree.sorted()
}

/// Whether a file opens PHP with its first bytes. One without an ending is no part of an application: a template of code, or a command.
fn opens_php(path: &Path) -> bool {
    if path.extension().is_none_or(|ending| NO_SOURCE.iter().any(|one| ending.eq_ignore_ascii_case(one))) {
        return false;
    }
    let mut start = [0; 5];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok_and(|()| start == *b"<?php")
}

impl Tree {
    fn sorted(mut self) -> Tree {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self
    }

    /// The scripts, and other files of PHP's source.
    pub fn scripts(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_source)
    }

    /// The whole path of an entry.
    pub fn whole(&self, entry: &Entry) -> PathBuf {
        self.base.join(&entry.path)
    }

    /// Whether the tree has a file of that path.
    pub fn has(&self, path: &str) -> bool {
        self.base.join(path).is_file()
    }
}

impl Entry {
    /// Whether it is a script, by its name.
    pub fn is_script(&self) -> bool {
        !self.is_directory && self.path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("php"))
    }

    /// Its path for people.
    pub fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}
