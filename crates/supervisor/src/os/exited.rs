//! How a process ended, and what messages say of that.

use ipc::exit::Exit;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit code.
    Exited(i32),
    /// Signal, and whether it dumped core.
    Killed(i32, bool),
}

impl Ending {
    /// From a wait status as the kernel gives it.
    pub fn from_status(status: i32) -> Ending {
        if status & 0x7f == 0 {
            Ending::Exited(status >> 8 & 0xff)
        } else {
            Ending::Killed(status & 0x7f, status & 0x80 != 0)
        }
    }

    /// Whether it ended by itself with this code.
    pub fn is(self, code: Exit) -> bool {
        self == Ending::Exited(code as i32)
    }

    /// Whether a worker that ends so has ended as it should: it was drained, or it has given its reason to be replaced by a fresh clone.
    pub fn is_regular(self) -> bool {
        self.is(Exit::Success) || self.is(Exit::Recycle)
    }

    /// What a message about the ending of a process adds if that process has written why.
    pub const IN_LOG: &str = "; the process's own message is in the log";

    /// The same for this ending: a process that a signal ends has written nothing.
    pub fn hint(self) -> &'static str {
        match self {
            Ending::Exited(_) => Ending::IN_LOG,
            Ending::Killed(..) => "",
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Ending::Exited(code) => write!(text, "exited with code {code}{}", meaning(code)),
            Ending::Killed(signal, core) => {
                let name = nix::sys::signal::Signal::try_from(signal).map_or("unknown signal", |known| known.as_str());
                write!(text, "was killed by {name}{}", if core { " (core dumped)" } else { "" })
            }
        }
    }
}

fn meaning(code: i32) -> String {
    let word = Exit::of_code(code).map_or("", Exit::word);
    if word.is_empty() { String::new() } else { format!(" ({word})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_well() {
        assert!(Ending::from_status(88 << 8).is_regular() && !Ending::from_status(89 << 8).is_regular());
        assert_eq!(Ending::from_status(9).to_string(), "was killed by SIGKILL");
        assert_eq!(Ending::from_status(11 | 0x80).to_string(), "was killed by SIGSEGV (core dumped)");
        let meanings = [(0, "drained"), (70, "the start failed"), (71, "no snapshot and no loop"), (77, "permission")];
        let own = [(88, "recycle"), (89, "unhealthy"), (90, "a request closed the worker's own descriptors")];
        for (code, meaning) in meanings.into_iter().chain(own) {
            assert_eq!(Ending::from_status(code << 8).to_string(), format!("exited with code {code} ({meaning})"));
        }
    }
}
