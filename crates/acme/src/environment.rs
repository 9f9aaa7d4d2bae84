//! What the process is told, its clock and its log.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// What is to be ordered, where and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The URL of the authority's directory.
    pub directory: String,
    /// Mail addresses for the authority.
    pub contact: Vec<String>,
    /// The profile of certificates.
    pub profile: Option<String>,
    /// Challenges, the preferred one first.
    pub challenges: Vec<String>,
    /// The account that the authority knows already: its identifier, and the file of its key.
    pub external_account: Option<(String, PathBuf)>,
    /// The roots by which the authority's server is verified; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The directory for everything.
    pub storage: PathBuf,
    /// The hosts, each of which gets a certificate.
    pub hosts: Vec<String>,
    /// Seconds after a first failure.
    pub retry: u64,
}

/// Logs a line. The supervisor adds the time and the source.
pub fn say(level: &str, text: fmt::Arguments<'_>) {
    let text = text.to_string().replace(['\n', '\r'], " ");
    // Without a supervisor there is no log.
    let _ = writeln!(io::stderr(), "{level} {text}");
}

/// Seconds of the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
