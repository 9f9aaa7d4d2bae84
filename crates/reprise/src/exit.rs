//! Failures and the exit codes they become; docs/exit-codes.md has the same table.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit codes of `reprise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Everything was done; of a server: drained.
    Success = 0,
    /// Something that should not happen, or requests were cut off at the end of a drain.
    Internal = 1,
    /// The command line is wrong.
    Usage = 64,
    /// The address is in use.
    AddressInUse = 69,
    /// The application, or PHP for it, did not start.
    NotBooted = 70,
    /// Something is not permitted to this user, or to the one PHP would run as.
    Permission = 77,
    /// The configuration is wrong.
    Configuration = 78,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// What failed, why, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    what: String,
    why: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: Code, what: impl Into<String>, why: impl Display) -> Failure {
        Failure { code, what: what.into(), why: why.to_string(), hint: None }
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it and returns its exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("reprise: {}: {}", self.what, self.why);
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        self.code.into()
    }
}
