//! What is in a release: the files with their sizes and hashes. It names files and nothing else: no link, device or owner can be said.

use std::collections::HashSet;

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::keys::hex;

/// Version of the format.
pub const FORMAT: u32 = 1;
/// Files of a release, those of opcache included.
pub const MAX_FILES: usize = 400_000;
/// Bytes of a path, and of a name in it.
const MAX_PATH: usize = 2048;
/// See [`MAX_PATH`].
const MAX_NAME: usize = 255;
/// Hexadecimal digits of an id.
pub const ID: usize = 40;
/// Bytes of an application's name.
const MAX_APPLICATION: usize = 64;

/// A release's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The application that it is a release of.
    pub application: String,
    /// Hash of the sources ([`id`]).
    pub id: String,
    /// Increases from one release of the application to the next.
    pub sequence: u64,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// For which PHP it has compiled code, if it has any.
    pub compiled: Option<Compiled>,
    /// The files, by their paths in ascending order.
    pub files: Vec<Entry>,
    /// Those of opcache's file cache.
    pub code: Vec<Entry>,
}

/// For whom compiled code is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compiled {
    /// PHP's release: 8.4.11.
    pub php: String,
    /// What opcache calls this build of PHP, in 32 digits.
    pub build: String,
    /// The processor.
    pub architecture: String,
    /// The directory in which the node has to unpack it: the code has its paths in it.
    pub directory: String,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its path below the directory, with slashes.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// What a release may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all files.
    pub bytes: u64,
}

/// The id of sources: the same files give the same id.
pub fn id(files: &[Entry]) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(b"reprise release tree 1\n");
    for file in files {
        let mode = if file.executable { "x" } else { "-" };
        hash.update(format!("{}\0{mode}{}\n", file.path, file.sha256).as_bytes());
    }
    hex(hash.finish().as_ref())[..ID].to_owned()
}

/// Whether that can be an application's name in a pool and in paths.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_APPLICATION).contains(&name.len()) && !name.starts_with(['.', '-']) && name.bytes().all(is_plain)
}

/// Whether that can be an id.
pub fn is_id(text: &str) -> bool {
    text.len() == ID && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Why that is no path of a file in a release.
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.len() > MAX_PATH {
        return Some("is empty or too long");
    }
    if path.starts_with('/') {
        return Some("is absolute");
    }
    if path.chars().any(|one| one.is_control() || one == '\\') {
        return Some("has a control character or a backslash");
    }
    let is_bad = |name: &str| name.is_empty() || name == "." || name == ".." || name.len() > MAX_NAME;
    path.split('/').any(is_bad).then_some("has an empty or overlong part, '.' or '..'")
}

fn check_entries(what: &str, entries: &[Entry]) -> Result<u64, Fault> {
    let refuse = |entry: &Entry, why: &str| Err(Fault::refused(format!("{what} {:?} {why}", entry.path)));
    let mut bytes = 0u64;
    for entry in entries {
        if let Some(why) = path_fault(&entry.path) {
            return refuse(entry, why);
        }
        if entry.sha256.len() != 64 || !is_hex(&entry.sha256) {
            return refuse(entry, "has no SHA-256");
        }
        let Some(sum) = bytes.checked_add(entry.size) else { return refuse(entry, "has an impossible size") };
        bytes = sum;
    }
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].path >= pair[1].path) {
        return refuse(&pair[1], "is there twice, or out of order");
    }
    let paths: HashSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    let above = |path: &'_ str| path.match_indices('/').map(|(at, _)| at).collect::<Vec<_>>();
    let collides = |entry: &&Entry| above(&entry.path).into_iter().any(|at| paths.contains(&entry.path[..at]));
    match entries.iter().find(collides) {
        Some(entry) => refuse(entry, "lies below what is a file"),
        None => Ok(bytes),
    }
}

/// A page of memory.
const PAGE: u64 = 4096;

/// What a file of so many bytes takes in memory.
pub fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}

impl Manifest {
    /// Bytes of everything that is unpacked.
    pub fn bytes(&self) -> u64 {
        self.files.iter().chain(&self.code).map(|entry| entry.size).sum()
    }

    /// Bytes of memory that a file system takes for that: each file whole pages.
    pub fn room(&self) -> u64 {
        self.files.iter().chain(&self.code).map(|entry| pages(entry.size)).fold(0, u64::saturating_add)
    }

    /// Checks what it says, by itself.
    ///
    /// # Errors
    /// It cannot be used, and why.
    pub fn check(&self, limits: &Limits) -> Result<(), Fault> {
        let refuse = |why: String| Err(Fault::Refused(why));
        if self.format != FORMAT {
            return refuse(format!("is of format {}; this Reprise reads format {FORMAT}", self.format));
        }
        if !is_name(&self.application) {
            return refuse("names no application".to_owned());
        }
        if self.files.len() + self.code.len() > MAX_FILES {
            return refuse(format!("has more than {MAX_FILES} files"));
        }
        let all = check_entries("the file", &self.files)?.checked_add(check_entries("the compiled file", &self.code)?);
        match all {
            Some(bytes) if bytes <= limits.bytes => {}
            _ => return refuse(format!("unpacks to more than {} bytes (release_memory)", limits.bytes)),
        }
        if self.id != id(&self.files) {
            return refuse("has an id that is not that of its files".to_owned());
        }
        match &self.compiled {
            None if !self.code.is_empty() => refuse("has compiled code, and does not say for which PHP".to_owned()),
            Some(compiled) if compiled.build.len() != 32 || !is_hex(&compiled.build) => {
                refuse("has compiled code for a build of PHP that has no name".to_owned())
            }
            Some(compiled) => {
                let is_its =
                    |entry: &Entry| entry.path.strip_prefix(&compiled.build).is_some_and(|rest| rest.starts_with('/'));
                match self.code.iter().find(|entry| !is_its(entry)) {
                    Some(entry) => refuse(format!("the compiled file {:?} is for another build of PHP", entry.path)),
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file of a manifest.
    pub fn entry(path: &str, size: u64) -> Entry {
        Entry { path: path.to_owned(), size, executable: false, modified: 1_700_000_000, sha256: "0".repeat(64) }
    }

    fn manifest(paths: &[&str]) -> Manifest {
        let files: Vec<Entry> = paths.iter().map(|path| entry(path, 1)).collect();
        Manifest {
            format: FORMAT,
            application: "shop".to_owned(),
            id: id(&files),
            sequence: 1,
            made: 1,
            compiled: None,
            files,
            code: Vec::new(),
        }
    }

    const LIMITS: Limits = Limits { bytes: 100 };

    #[test]
    fn paths_are_plain_and_do_not_collide() {
        assert_eq!(manifest(&["a", "a-b/c", "a.b/c/d", "b/ü.php", "b/… .txt"]).check(&LIMITS), Ok(()));
        for bad in ["", "/etc/passwd", "../a", "a/../b", "a/./b", "a//b", "a/", ".", "a\0b", "a\nb", "a\\b"] {
            assert!(manifest(&[bad]).check(&LIMITS).is_err(), "{bad:?}");
        }
        assert!(manifest(&[&"x".repeat(256)]).check(&LIMITS).is_err());
        assert!(manifest(&[&"x/".repeat(1500)]).check(&LIMITS).is_err());
        for bad in [&["a", "a"][..], &["b", "a"], &["a", "a-b", "a/b"], &["a", "a/b/c"]] {
            assert!(manifest(bad).check(&LIMITS).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_a_manifest_says_has_to_agree() {
        let good = manifest(&["a", "b"]);
        let bad = |change: &dyn Fn(&mut Manifest)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed.check(&LIMITS).is_err()
        };
        assert!(bad(&|one| one.format = 2));
        assert!(bad(&|one| one.application = "../x".to_owned()));
        assert!(bad(&|one| one.id = "0".repeat(ID)));
        assert!(bad(&|one| one.files[0].sha256.push('0')));
        assert!(bad(&|one| one.files[0].size = 100), "larger than the limit");
        assert!(bad(&|one| one.files[0].size = u64::MAX), "sizes overflow");
        assert!(bad(&|one| one.code = vec![entry("x/a.bin", 1)]), "code for no PHP");
        let compiled = |build: &str| Compiled {
            php: "8.2.1".to_owned(),
            build: build.to_owned(),
            architecture: "x86_64".to_owned(),
            directory: "/run".to_owned(),
        };
        let build = "a".repeat(32);
        assert!(!bad(&|one| {
            one.compiled = Some(compiled(&build));
            one.code = vec![entry(&format!("{build}/a.bin"), 1)];
        }));
        assert!(bad(&|one| {
            one.compiled = Some(compiled(&build));
            one.code = vec![entry("b/a.bin", 1)];
        }));
        assert!(bad(&|one| one.compiled = Some(compiled("../x"))));
        let text = serde_json::to_string(&good).unwrap();
        assert!(serde_json::from_str::<Manifest>(&text.replace("\"format\"", "\"link\":1,\"format\"")).is_err());
    }

    #[test]
    fn the_id_is_that_of_paths_contents_and_modes() {
        let files = vec![entry("a", 1), entry("b", 1)];
        let changed = |change: &dyn Fn(&mut Vec<Entry>)| {
            let mut other = files.clone();
            change(&mut other);
            id(&other) != id(&files)
        };
        assert!(changed(&|one| one[0].path = "c".to_owned()));
        assert!(changed(&|one| one[0].executable = true));
        assert!(changed(&|one| one[0].sha256 = "1".repeat(64)));
        assert!(!changed(&|one| one[0].modified = 0), "a checkout at another time is the same release");
    }
}
