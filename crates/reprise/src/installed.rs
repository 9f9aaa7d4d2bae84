//! The installed versions of PHP: which there are, and which of them runs each application.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use supervisor::os::programs::{self, PhpProgram, PhpVersion};

use crate::exit::{Code, Failure};
use crate::options::{Config, WantedPhp};

/// The distributions that have packages of Reprise (docs/reference/support.md): codename, name, version of PHP.
const PACKAGES: [(&str, &str, &str); 2] = [("bookworm", "Debian 12", "8.2"), ("trixie", "Debian 13", "8.4")];

/// A `reprise-php` that has said what it is.
#[derive(Debug)]
pub struct Php {
    /// Its path.
    pub path: PathBuf,
    /// The minor version.
    pub minor: PhpVersion,
    /// The release of the libphp that it loads.
    pub version: String,
    /// The release that it was built with.
    pub built: String,
    /// The libphp that it loads.
    pub libphp: PathBuf,
    /// Where its php.ini comes from.
    pub ini: String,
}

/// The versions of PHP that run the applications of a configuration.
pub struct Phps {
    /// Each once.
    pub list: Vec<Php>,
    /// For each application, its place in the list.
    pub of: Vec<usize>,
}

/// Finds another executable of Reprise.
pub fn find_program(name: &str, code: Code) -> Result<PathBuf, Failure> {
    programs::find(name)
        .map_err(|why| Failure::new(code, name, why).hint("cargo build --release builds all programs of Reprise"))
}

/// An executable, and what it has said if it was asked.
struct Candidate {
    minor: PhpVersion,
    path: PathBuf,
    asked: Option<Php>,
}

/// The executables, the newest version first. Only those without a version in their names are asked. If such a one does not start,
/// it is not known which version it would have been.
fn candidates() -> (Vec<Candidate>, Option<Failure>) {
    let (mut list, mut failure): (Vec<Candidate>, _) = (Vec::new(), None);
    for PhpProgram { path, version } in programs::find_php() {
        let candidate = match version {
            Some(minor) => Candidate { minor, path, asked: None },
            None => match ask(&path) {
                Ok(php) => Candidate { minor: php.minor, path, asked: Some(php) },
                Err(why) => {
                    failure.get_or_insert(why);
                    continue;
                }
            },
        };
        if list.iter().all(|one| one.minor != candidate.minor) {
            list.push(candidate);
        }
    }
    list.sort_by_key(|candidate| std::cmp::Reverse(candidate.minor));
    (list, failure)
}

impl Candidate {
    /// Asks the executable, which must be for the version in its name.
    fn ask(&mut self) -> Result<Php, Failure> {
        if let Some(php) = self.asked.take() {
            return Ok(php);
        }
        let php = ask(&self.path)?;
        if php.minor != self.minor {
            let why = format!("is for PHP {}, which is not what its name says", php.version);
            return Err(Failure::new(Code::NotBooted, self.path.display().to_string(), why));
        }
        Ok(php)
    }
}

/// All executables: what each says, or why it does not start.
pub fn all() -> Vec<Result<Php, Failure>> {
    let (list, failure) = candidates();
    list.into_iter().map(|mut candidate| candidate.ask()).chain(failure.map(Err)).collect()
}

/// Chooses the version of PHP for each application of a configuration.
pub fn choose(config: &Config) -> Result<Phps, Failure> {
    let (mut candidates, mut failure) = candidates();
    let mut chosen = Phps { list: Vec::new(), of: Vec::new() };
    for application in &config.applications {
        let wanted = application.php.as_ref();
        let found = match wanted {
            Some(wanted) => candidates.iter().position(|one| one.minor == wanted.version),
            None => (!candidates.is_empty() && failure.is_none()).then_some(0),
        };
        let Some(candidate) = found.and_then(|found| candidates.get_mut(found)) else {
            let other = failure.take().filter(|_| wanted.is_none() || candidates.is_empty());
            return Err(other.unwrap_or_else(|| not_installed(wanted, &candidates)));
        };
        let known = chosen.list.iter().position(|php| php.minor == candidate.minor);
        let place = match known {
            Some(place) => place,
            None => {
                chosen.list.push(candidate.ask()?);
                chosen.list.len() - 1
            }
        };
        chosen.of.push(place);
    }
    Ok(chosen)
}

/// How to install Reprise for the PHP of this distribution.
pub fn package() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    package_of(&release)
}

fn package_of(release: &str) -> String {
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    match PACKAGES.iter().find(|(name, ..)| Some(*name) == codename) {
        Some((_, _, version)) => format!("apt-get install reprise-php{version}"),
        None => PACKAGES.map(|(_, name, version)| format!("{name} has the package reprise-php{version}")).join(", "),
    }
}

fn not_installed(wanted: Option<&WantedPhp>, candidates: &[Candidate]) -> Failure {
    let Some(wanted) = wanted else {
        let why = format!("not found; looked for {}, also with a version of PHP at the end", programs::places());
        return Failure::new(Code::NotBooted, "reprise-php", why)
            .hint(format!("{}; in a checkout cargo build --release", package()));
    };
    let versions: Vec<String> = candidates.iter().map(|candidate| candidate.minor.to_string()).collect();
    let installed = match versions.as_slice() {
        [] => "no version is".to_owned(),
        [one] => format!("PHP {one} is"),
        [first @ .., last] => format!("PHP {} and {last} are", first.join(", ")),
    };
    let why = format!("PHP {} is not installed for Reprise; {installed}", wanted.version);
    let package = package();
    let has_package = package.ends_with(&wanted.version.to_string());
    let hint = match versions.first() {
        Some(version) if has_package => format!("{package}, or php = \"{version}\""),
        Some(version) => format!("php = \"{version}\""),
        None if has_package => package,
        None => format!("{package}, and leave php out"),
    };
    Failure::new(Code::Configuration, &wanted.place, why).hint(hint)
}

/// Asks an executable what it is.
fn ask(path: &Path) -> Result<Php, Failure> {
    let failed = |why: String| Failure::new(Code::NotBooted, path.display().to_string(), why);
    let mut command = Command::new(path);
    for name in supervisor::os::notify::VARIABLES {
        command.env_remove(name);
    }
    let output = command.arg("--version").output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    let own = env!("CARGO_PKG_VERSION");
    if let Some(other) = line("reprise-php ").filter(|other| other != own) {
        return Err(failed(format!("is version {other}, this is {own}"))
            .hint("install or build both together; after an upgrade of Reprise, restart the server"));
    }
    let answer = || {
        let version = line("php ")?;
        Some(Php {
            path: path.to_owned(),
            minor: PhpVersion::of_release(&version)?,
            version,
            built: line("built ")?,
            libphp: line("libphp ")?.into(),
            ini: line("ini ")?,
        })
    };
    answer().ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        let (why, hint) = words.trim().split_once("\nhint: ").unwrap_or((words.trim(), ""));
        // The loader names the library that is missing.
        let version = why.split_once("libphp").and_then(|(_, rest)| rest.split_once(".so")).map(|(version, _)| version);
        let package = version.filter(|version| version.parse::<PhpVersion>().is_ok()).unwrap_or("8.x");
        let default = format!("is its libphp installed? apt-get install libphp{package}-embed");
        failed(format!("does not start: {why}")).hint(if hint.is_empty() { &default } else { hint })
    })
}

/// The executable for a version, if there is one that starts.
pub fn of_version(version: PhpVersion) -> Option<Php> {
    candidates().0.into_iter().find(|candidate| candidate.minor == version)?.ask().ok()
}

impl Php {
    /// Opens the executable: the user that runs it need not be able to reach its path.
    pub fn open(&self) -> Result<File, Failure> {
        File::open(&self.path).map_err(|error| Failure::new(Code::NotBooted, self.path.display().to_string(), error))
    }
}

impl Phps {
    /// Opens all of the list.
    pub fn open(&self) -> Result<Vec<OwnedFd>, Failure> {
        self.list.iter().map(|php| php.open().map(OwnedFd::from)).collect()
    }

    /// The versions of the applications, in their order.
    pub fn each(&self) -> impl Iterator<Item = &Php> {
        self.of.iter().filter_map(|place| self.list.get(*place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_that_the_distribution_has() {
        assert_eq!(package_of("ID=debian\nVERSION_CODENAME=bookworm\n"), "apt-get install reprise-php8.2");
        assert_eq!(package_of("VERSION_CODENAME=trixie"), "apt-get install reprise-php8.4");
        let others = package_of("VERSION_CODENAME=noble");
        assert_eq!(others, "Debian 12 has the package reprise-php8.2, Debian 13 has the package reprise-php8.4");
    }
}
