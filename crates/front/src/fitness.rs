//! Whether this server is to get requests, by what the supervisor knows and the front does not: such as that other nodes may serve another
//! release already. Readiness says it; requests that come all the same are served.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// Bytes of the reasons.
const MOST: u64 = 64 << 10;

/// Why it is not; empty: it is.
#[derive(Debug, Default)]
pub struct Fitness(Mutex<String>);

impl Fitness {
    /// Takes what the supervisor has sent.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn take(&self, attached: &[OwnedFd]) -> io::Result<()> {
        let Some(file) = attached.first() else { return Ok(()) };
        let mut file = File::from(file.try_clone()?);
        let mut text = String::new();
        file.rewind()?;
        file.take(MOST).read_to_string(&mut text)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
        Ok(())
    }

    /// The reasons, a line for each application.
    pub fn reasons(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
