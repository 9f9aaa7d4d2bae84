//! The names of entries. An entry becomes a file below a directory, and a path in a URL: so no name leads out of the phar, and no two
//! names are the same, or need a file and a directory at one place.

use std::collections::BTreeMap;

use crate::{MAX_DEPTH, MAX_NAME, MAX_PART, MAX_PATHS};

/// A name as messages show it.
pub fn shown(name: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(name).chars().take(200).collect();
    format!("{text:?}")
}

/// The parts of a name that an entry may have; the slash at the end of a directory's is left out.
fn parts(name: &[u8]) -> Result<Vec<&[u8]>, String> {
    let wrong = |why: &str| Err(format!("the entry {} {why}", shown(name)));
    let plain = name.strip_suffix(b"/").unwrap_or(name);
    if name.len() > MAX_NAME {
        return wrong(&format!("has a name of more than {MAX_NAME} bytes"));
    }
    if plain.is_empty() {
        return wrong("has no name");
    }
    if name.starts_with(b"/") {
        return wrong("has an absolute path");
    }
    if name.iter().any(u8::is_ascii_control) {
        return wrong("has a control character in its name");
    }
    if name.contains(&b'\\') {
        return wrong("has a backslash in its name, which some programs take for a slash");
    }
    let parts: Vec<&[u8]> = plain.split(|byte| *byte == b'/').collect();
    if parts.len() > MAX_DEPTH {
        return wrong(&format!("lies more than {MAX_DEPTH} directories deep"));
    }
    for part in &parts {
        match *part {
            b"" => return wrong("has two slashes one behind the other in its name"),
            b"." | b".." => return wrong("has . or .. in its name, which could lead out of the phar"),
            long if long.len() > MAX_PART => {
                return wrong(&format!("has more than {MAX_PART} bytes between two slashes"));
            }
            _ => {}
        }
    }
    Ok(parts)
}

/// What lies at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    /// Named by an entry of its own, or only the way to others.
    Directory {
        is_named: bool,
    },
}

/// The names that were seen.
#[derive(Default)]
pub struct Names {
    seen: BTreeMap<Vec<u8>, Kind>,
}

impl Names {
    /// Adds the name of an entry, or says why it cannot be one.
    pub fn add(&mut self, name: &[u8]) -> Result<(), String> {
        let parts = parts(name)?;
        let is_directory = name.ends_with(b"/");
        let collides = |path: &[u8]| {
            Err(format!("the entry {} needs a directory where the entry {} is a file", shown(name), shown(path)))
        };
        let mut path: Vec<u8> = Vec::with_capacity(name.len());
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(part);
            let is_last = number + 1 == parts.len();
            let wanted = match is_last {
                true if !is_directory => Kind::File,
                is_named => Kind::Directory { is_named },
            };
            match (self.seen.get(&path).copied(), wanted) {
                (None, _) => drop(self.seen.insert(path.clone(), wanted)),
                (Some(Kind::Directory { is_named: false }), Kind::Directory { is_named: true }) => {
                    self.seen.insert(path.clone(), wanted);
                }
                (Some(Kind::Directory { .. }), Kind::Directory { is_named: false }) => {}
                (Some(Kind::File), Kind::Directory { .. }) => return collides(&path),
                (Some(Kind::Directory { .. }), Kind::File) => {
                    return Err(format!("the entry {} is a file where other entries need a directory", shown(name)));
                }
                (Some(_), _) => return Err(format!("two entries have the name {}", shown(name))),
            }
        }
        match self.seen.len() <= MAX_PATHS {
            true => Ok(()),
            false => Err(format!("its entries need more than {MAX_PATHS} files and directories")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(names: &[&str]) -> Result<(), String> {
        let mut seen = Names::default();
        names.iter().try_for_each(|name| seen.add(name.as_bytes()))
    }

    #[test]
    fn names_stay_within_the_phar() {
        for name in ["a", "a/b.php", "a/b/", "..a/b..", "a b/ü", ".phar/x", "..."] {
            assert_eq!(added(&[name]), Ok(()), "{name}");
        }
        for name in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a/.",
            "a//b",
            "a//",
            "a\0b",
            "a\nb",
            "a\\b",
        ] {
            assert!(added(&[name]).is_err(), "{name:?}");
        }
        assert!(added(&[&"a/".repeat(MAX_DEPTH)]).is_ok() && added(&[&"a/".repeat(MAX_DEPTH + 1)]).is_err());
        assert!(added(&[&"a".repeat(MAX_PART)]).is_ok() && added(&[&"a".repeat(MAX_PART + 1)]).is_err());
    }

    #[test]
    fn no_two_names_need_one_place() {
        for names in [&["a", "b"][..], &["a/b", "a/c", "a/"], &["a/", "a/b"], &["A", "a"]] {
            assert_eq!(added(names), Ok(()), "{names:?}");
        }
        for (names, why) in [
            (&["a", "a"][..], "two entries"),
            (&["a/", "a/"], "two entries"),
            (&["a", "a/"], "needs a directory"),
            (&["a/", "a"], "is a file where"),
            (&["a", "a/b"], "needs a directory"),
            (&["a/b", "a"], "is a file where"),
            (&["a/b/c", "a/b"], "is a file where"),
        ] {
            assert!(added(names).is_err_and(|said| said.contains(why)), "{names:?}");
        }
    }
}
