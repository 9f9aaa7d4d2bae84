//! Failures and the exit codes they become: those of docs/reference/exit-codes.md that measuring has.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit codes of `reprise bench` and `reprise psd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It was measured.
    Success = 0,
    /// Something that should not happen.
    Internal = 1,
    /// A target failed or cannot be measured.
    NotMeasured = 3,
    /// The command line is wrong.
    Usage = 64,
    /// A file may not be written.
    Permission = 77,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// What to do where nothing was measured.
pub const AGAIN: &str =
    "see that each page responds as it should (curl -i URL) and that its server goes on running, then measure again";

/// What failed, why, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    what: String,
    why: String,
    hint: Option<&'static str>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: Code, what: impl Into<String>, why: impl Display) -> Failure {
        Failure { code, what: what.into(), why: why.to_string(), hint: None }
    }

    /// Says what to do.
    pub fn hint(mut self, hint: &'static str) -> Failure {
        self.hint = Some(hint);
        self
    }

    /// Prints it and returns its exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("reprise: {}: {}", self.what, self.why);
        self.hint.iter().for_each(|hint| eprintln!("hint: {hint}"));
        self.code.into()
    }
}
