//! `reprise version`, and the search for reprise-php.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::{Code, Failure};

/// The reprise-php that was found.
pub struct Php {
    /// Its path.
    pub path: PathBuf,
    /// PHP's version.
    pub version: String,
    /// Where its php.ini comes from.
    pub ini: String,
}

/// Finds another executable of Reprise: beside this one, else in /usr/lib/reprise.
pub fn find_program(name: &str, code: Code) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().ok().map(|path| path.with_file_name(name));
    let candidates: Vec<PathBuf> = own.into_iter().chain([Path::new("/usr/lib/reprise").join(name)]).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        Failure::new(code, name, format!("not found; looked for {}", looked.join(" and ")))
            .hint("cargo build --release builds all programs of Reprise")
    })
}

/// Finds reprise-php, and asks it for its versions.
pub fn find_php() -> Result<Php, Failure> {
    let path = find_program("reprise-php", Code::NotBooted)?;
    let mut command = Command::new(&path);
    for name in process::notify::VARIABLES {
        command.env_remove(name);
    }
    let output = command
        .arg("--version")
        .output()
        .map_err(|error| Failure::new(Code::NotBooted, path.display().to_string(), error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    match (line("php "), line("ini "), line("reprise-php ")) {
        (Some(version), Some(ini), Some(ours)) if ours == env!("CARGO_PKG_VERSION") => {
            Ok(Php { path: path.clone(), version, ini })
        }
        (_, _, Some(other)) if other != env!("CARGO_PKG_VERSION") => {
            let why = format!("is version {other}, this is {}", env!("CARGO_PKG_VERSION"));
            Err(Failure::new(Code::NotBooted, path.display().to_string(), why).hint("build both together"))
        }
        _ => {
            let why = format!("does not start: {}", String::from_utf8_lossy(&output.stderr).trim());
            Err(Failure::new(Code::NotBooted, path.display().to_string(), why)
                .hint("is libphp (php8.2-embed) installed?"))
        }
    }
}

impl Php {
    /// Opens the executable: the user that runs it need not be able to reach its path.
    pub fn open(&self) -> Result<File, Failure> {
        File::open(&self.path).map_err(|error| Failure::new(Code::NotBooted, self.path.display().to_string(), error))
    }
}

/// Prints versions.
pub fn run() -> Result<Code, Failure> {
    println!("reprise {}", env!("CARGO_PKG_VERSION"));
    let php = find_php()?;
    println!("php {} ({})", php.version, php.path.display());
    println!("ini {}", php.ini);
    Ok(Code::Success)
}
