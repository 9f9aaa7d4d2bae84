//! The directory with the account, keys, certificates and what is known of them. Servers may share it, so a file is replaced as a whole
//! by a rename, and what takes one server alone is done under a lease ([`crate::lease`]).
//!
//! | file | what |
//! |---|---|
//! | `accounts/AUTHORITY.json` | the account and its key |
//! | `certificates/HOST.pem` | the key of a host and its certificate chain |
//! | `certificates/HOST.json` | when it is to be renewed, and what has failed ([`crate::schedule::State`]) |
//! | `certificates/HOST.order` | the order that is under way, and its key |
//! | `challenges/HOST.json` | what a handshake for `acme-tls/1` is to show |
//! | `leases/…` | who orders |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a file at most.
const MAX_SIZE: u64 = 1 << 20;
/// The directories in it.
const PARTS: [&str; 4] = ["accounts", "certificates", "challenges", "leases"];

/// The directory.
#[derive(Clone, Debug)]
pub struct Storage {
    root: PathBuf,
}

impl Storage {
    /// Makes what is missing in it. The directory itself is there.
    pub fn open(root: &Path) -> io::Result<Storage> {
        for part in PARTS {
            match DirBuilder::new().mode(0o700).create(root.join(part)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", root.join(part).display())));
                }
                _ => {}
            }
        }
        Ok(Storage { root: root.to_owned() })
    }

    /// The file of a host's key and certificate.
    pub fn certificate(root: &Path, host: &str) -> PathBuf {
        root.join("certificates").join(format!("{host}.pem"))
    }

    /// A file of a host.
    pub fn of_host(&self, host: &str, kind: &str) -> PathBuf {
        self.root.join("certificates").join(format!("{host}.{kind}"))
    }

    /// A challenge of a host.
    pub fn challenge(&self, host: &str) -> PathBuf {
        self.root.join("challenges").join(format!("{host}.json"))
    }

    /// The account with an authority.
    pub fn account(&self, directory: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name: String = directory.trim_start_matches("https://").chars().map(plain).take(200).collect();
        self.root.join("accounts").join(format!("{name}.json"))
    }

    /// A lease.
    pub fn lease(&self, name: &str) -> PathBuf {
        self.root.join("leases").join(name)
    }

    /// The challenges that are under way, with their content.
    pub fn challenges<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.root.join("challenges"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "json") {
                // One that goes meanwhile, or that nobody has written, is none.
                all.extend(read_json(&path).ok().flatten());
            }
        }
        Ok(all)
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Reads a file; `None`: there is none.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(path))?,
    };
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).map_err(at(path))?;
    Ok(Some(text))
}

/// The same, for what [`write_json`] has written.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let Some(text) = read(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| at(path)(error.into()))
}

/// Replaces a file as a whole; readers see the old one or the new one. Nobody else can read it.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let beside = directory.join(format!(".new-{:032x}", fastrand::u128(..)));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&beside);
    }
    written.and_then(|()| File::open(directory)?.sync_all()).map_err(at(path))
}

/// The same, as JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write(path, &serde_json::to_string(value)?)
}

/// Removes a file that may not be there.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
