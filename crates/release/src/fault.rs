//! What goes wrong with releases, in words for people.

use std::fmt;
use std::io;
use std::path::Path;

/// Why something about a release cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It will not go better: the release or record is refused.
    Refused(String),
    /// The pool does not respond, or is busy: another attempt may go better.
    Unreachable(String),
}

impl Fault {
    /// A refusal.
    pub fn refused(why: impl fmt::Display) -> Fault {
        Fault::Refused(why.to_string())
    }

    /// Something that may pass.
    pub fn unreachable(why: impl fmt::Display) -> Fault {
        Fault::Unreachable(why.to_string())
    }

    /// A file of this machine that cannot be read or written.
    pub fn of_file(path: &Path) -> impl Fn(io::Error) -> Fault + '_ {
        move |error| Fault::Refused(format!("{}: {error}", path.display()))
    }

    /// Whether another attempt may go better.
    pub fn is_passing(&self) -> bool {
        matches!(self, Fault::Unreachable(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(why) | Fault::Unreachable(why) => to.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}
