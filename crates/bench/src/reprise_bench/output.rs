//! Where results and progress go.

use std::io::{IsTerminal, Write};
use std::path::Path;

use crate::failure::{Code, Failure};

/// Writes a file, if one is named.
pub fn write(file: Option<&Path>, text: &str) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, text).map_err(|error| Failure::new(Code::Permission, file.display().to_string(), error))
}

/// Progress: on a terminal one line that changes, else a line for each step.
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    /// Shows nothing yet.
    pub fn begin() -> Progress {
        Progress { is_terminal: std::io::stderr().is_terminal() }
    }

    /// Shows the current step.
    pub fn show(&self, step: &str) {
        let mut stderr = std::io::stderr();
        // Standard error may be closed.
        let _ = if self.is_terminal { write!(stderr, "\r\x1b[K{step}") } else { writeln!(stderr, "{step}") };
        let _ = stderr.flush();
    }

    /// Clears the line.
    pub fn end(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
