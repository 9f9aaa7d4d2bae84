//! What the process that follows a pool is told, for one application.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::keys::{Keys, PublicKey};
use crate::manifest::{Limits, Manifest};
use crate::pool::{self, Pool};
use crate::unpack::Shared;

/// Of one application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Its name.
    pub application: String,
    /// The name of this server among the nodes.
    pub node: String,
    /// Where releases come from.
    pub pool: String,
    /// Certificates of authorities in PEM, in the place of the system's.
    pub ca: Option<PathBuf>,
    /// Whose signatures are taken, as text. None: those of nobody, and the pool is a directory of this machine.
    pub keys: Vec<String>,
    /// Where releases are unpacked: a directory for each, by its id.
    pub directory: PathBuf,
    /// Where their files are kept, and what is known of the pool.
    pub state: PathBuf,
    /// Releases that are kept, the one that is served included.
    pub keep: usize,
    /// Bytes of all releases that are unpacked.
    pub memory: u64,
    /// Milliseconds for which the server is unready when it cannot know what the others serve.
    pub uncertain_ms: u64,
    /// Directories to which the application may write.
    pub shared: Vec<(String, PathBuf)>,
    /// PHP's release.
    pub php: String,
}

impl Settings {
    /// Whose signatures are taken.
    ///
    /// # Errors
    /// One of the texts is no key.
    pub fn keys(&self) -> Result<Keys, Fault> {
        let trusted = self.keys.iter().map(|text| PublicKey::parse(text)).collect::<Result<Vec<_>, _>>();
        let trusted = trusted.map_err(|why| Fault::refused(format!("release_keys: {why}")))?;
        let is_local = matches!(pool::kind(&self.pool), Ok(pool::Kind::Directory(_)));
        Ok(Keys { allows_unsigned: trusted.is_empty() && is_local, trusted })
    }

    /// The pool.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn open(&self) -> Result<Box<dyn Pool>, Fault> {
        pool::open(&self.pool, &self.application, self.ca.as_deref())
    }

    /// What a release may be.
    pub fn limits(&self) -> Limits {
        Limits { bytes: self.memory }
    }

    /// The directories to which the application may write.
    pub fn shared(&self) -> Vec<Shared> {
        self.shared.iter().map(|(path, to)| Shared { path: path.clone(), to: to.clone() }).collect()
    }

    /// Where a release is unpacked.
    pub fn place(&self, id: &str) -> PathBuf {
        self.directory.join(id)
    }

    /// Whether a release is for this application, and its compiled code for this PHP and these directories.
    ///
    /// # Errors
    /// It is not, and why.
    pub fn suits(&self, manifest: &Manifest) -> Result<(), Fault> {
        if manifest.application != self.application {
            return Err(Fault::refused(format!("is a release of the application '{}'", manifest.application)));
        }
        let Some(compiled) = &manifest.compiled else { return Ok(()) };
        let again = "build it on a machine like this one, or with --no-compile";
        let here = std::env::consts::ARCH;
        if compiled.architecture != here {
            return Err(Fault::refused(format!(
                "is compiled for {}, and this machine is {here}; {again}",
                compiled.architecture
            )));
        }
        if compiled.php != self.php {
            return Err(Fault::refused(format!(
                "is compiled for PHP {}, and the application runs with PHP {}; {again}",
                compiled.php, self.php
            )));
        }
        if Path::new(&compiled.directory) != self.directory {
            return Err(Fault::refused(format!(
                "is compiled for {}, and is unpacked to {} here; build it with --release-dir, or set release_dir",
                compiled.directory,
                self.directory.display()
            )));
        }
        Ok(())
    }
}
