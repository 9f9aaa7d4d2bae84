//! Where Reprise's executables are: beside the one that runs, and in the directory that packages use.
//!
//! There is one `reprise-php` for each minor version of PHP, `reprise-php8.4` for PHP 8.4. A checkout builds one without a version
//! in its name; what it runs, only the program itself can say (`reprise-php --version`).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where packages have executables that people do not call.
const PACKAGED: &str = "/usr/lib/reprise";
/// The executable for PHP, to which its version may be added.
const PHP: &str = "reprise-php";

/// A minor version of PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhpVersion {
    major: u8,
    minor: u8,
}

impl FromStr for PhpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<PhpVersion, String> {
        let is_number =
            |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        let parts = text.split_once('.').filter(|(major, minor)| is_number(major) && is_number(minor));
        let numbers = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = numbers.ok_or_else(|| format!("a version such as \"8.4\", not \"{text}\""))?;
        Ok(PhpVersion { major, minor })
    }
}

impl fmt::Display for PhpVersion {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}.{}", self.major, self.minor)
    }
}

impl PhpVersion {
    /// That of a release, such as `8.4.28`.
    pub fn of_release(release: &str) -> Option<PhpVersion> {
        let end = release.match_indices('.').nth(1)?.0;
        release.get(..end)?.parse().ok()
    }
}

/// An executable for PHP.
#[derive(Debug, PartialEq, Eq)]
pub struct PhpProgram {
    /// Its path.
    pub path: PathBuf,
    /// The version in its name.
    pub version: Option<PhpVersion>,
}

/// The directories, in the order in which they are looked at.
fn directories() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    own.into_iter().chain([PathBuf::from(PACKAGED)]).collect()
}

/// Finds an executable by its name, or says where it was looked for.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let candidates: Vec<PathBuf> = directories().iter().map(|directory| directory.join(name)).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        format!("not found; looked for {}", looked.join(" and "))
    })
}

/// Finds the executables for PHP. Of two for one version, the first counts.
pub fn find_php() -> Vec<PhpProgram> {
    find_php_in(&directories())
}

/// One directory after the other. In each, the newest version comes first, and the executable without a version last. A directory
/// that cannot be read has none.
fn find_php_in(directories: &[PathBuf]) -> Vec<PhpProgram> {
    let program = |entry: std::fs::DirEntry| {
        let (path, name) = (entry.path(), entry.file_name());
        let version = match name.to_str()?.strip_prefix(PHP)? {
            "" => None,
            version => Some(version.parse().ok()?),
        };
        path.is_file().then_some(PhpProgram { path, version })
    };
    let in_directory = |directory: &PathBuf| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut programs: Vec<PhpProgram> = entries.filter_map(program).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.version));
        programs
    };
    directories.iter().flat_map(in_directory).collect()
}

/// Where the executables for PHP were looked for, in words.
pub fn places() -> String {
    let looked: Vec<_> = directories().iter().map(|one| one.join(PHP).display().to_string()).collect();
    looked.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_numbers() {
        let version = |text: &str| text.parse::<PhpVersion>();
        assert!(version("8.10").unwrap() > version("8.4").unwrap());
        assert_eq!(version("8.4").unwrap().to_string(), "8.4");
        for bad in ["8", "8.", ".4", "8.4.1", "8.04", "8.x", "v8.4", "8.4 ", "8.999", "+8.4", ""] {
            assert!(version(bad).is_err(), "{bad}");
        }
        assert_eq!(PhpVersion::of_release("8.4.28"), version("8.4").ok());
        assert_eq!(PhpVersion::of_release("8.5.0-dev"), version("8.5").ok());
        assert_eq!(PhpVersion::of_release("8.4"), None);
    }

    #[test]
    fn the_first_directory_comes_first() {
        let base = std::env::temp_dir().join(format!("reprise-programs-{}", std::process::id()));
        let (first, second) = (base.join("first"), base.join("second"));
        for directory in [&first, &second] {
            std::fs::create_dir_all(directory).unwrap();
        }
        for file in ["reprise-php8.2", "reprise-php8.10", "reprise-php.d", "reprise-php8.4-old", "reprise-bench"] {
            std::fs::write(first.join(file), "").unwrap();
        }
        std::fs::create_dir_all(first.join("reprise-php8.3")).unwrap();
        for file in ["reprise-php8.2", "reprise-php8.4", "reprise-php"] {
            std::fs::write(second.join(file), "").unwrap();
        }
        let found = find_php_in(&[first.clone(), base.join("missing"), second.clone()]);
        std::fs::remove_dir_all(&base).unwrap();
        let found: Vec<_> =
            found.into_iter().map(|one| (one.version.map(|version| version.to_string()), one.path)).collect();
        let expected = |version: Option<&str>, path| (version.map(str::to_owned), path);
        assert_eq!(
            found,
            [
                expected(Some("8.10"), first.join("reprise-php8.10")),
                expected(Some("8.2"), first.join("reprise-php8.2")),
                expected(Some("8.4"), second.join("reprise-php8.4")),
                expected(Some("8.2"), second.join("reprise-php8.2")),
                expected(None, second.join("reprise-php")),
            ]
        );
    }
}
