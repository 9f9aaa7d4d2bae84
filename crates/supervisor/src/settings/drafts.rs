//! What the caller hands over for helper processes, certificates and the terminal.

use std::os::fd::{BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::os::user::Identity;

/// What the process is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeDraft {
    /// Its settings.
    pub settings: String,
    /// Whom it runs as.
    pub user: Option<Identity>,
}

/// Certificates on their way from the process that has read them. Their file is attached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CertificatesDraft {
    /// Which files they are, in words of whoever reads them.
    pub source: String,
    /// How the files were: the same as long as nobody changes them.
    pub seen: String,
    /// Their names and dates, for people.
    pub shown: String,
}

/// Certificates that were read.
pub struct Certificates {
    pub(crate) draft: CertificatesDraft,
    pub(crate) file: OwnedFd,
}

impl Certificates {
    /// With the file that they came in.
    pub fn new(draft: CertificatesDraft, file: OwnedFd) -> Certificates {
        Certificates { draft, file }
    }
}

/// What a look at the files of certificates has found.
#[derive(Serialize, Deserialize)]
pub enum LookedAt {
    /// They are as they were.
    Unchanged,
    /// They were read, and the log says this of them (attached: the file).
    Read(CertificatesDraft, Vec<String>),
    /// They cannot be served: how they are, and what is wrong with them.
    Broken(String, String),
}

/// Looks at the files of this source; reads them if they are not as they were seen, or if nothing is said of that.
pub type LookAtCertificates = dyn Fn(&str, Option<&str>) -> (LookedAt, Option<OwnedFd>);

/// The terminal.
pub trait Console {
    /// What to wait for.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// What was pressed since the last call. Does not wait.
    fn keys(&mut self) -> Vec<Key>;
    /// Shows the application in the browser.
    fn open(&mut self) -> Result<(), String>;
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// New processes, by the configuration as it is.
    Restart,
    /// The browser.
    Open,
    /// To show requests as they come, or not to.
    Requests,
    /// The end. It is also what follows when the terminal is gone.
    Quit,
}
