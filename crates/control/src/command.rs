//! Commands: a line each.

use std::fmt::{Display, Formatter, Result};

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Load code and configuration anew. The response comes when that has ended.
    Reload,
    /// Read the certificates anew. The response comes when new connections get them.
    ReloadCertificates,
    /// Finish what has begun, and end. The response comes when all processes have ended.
    Stop,
    /// What runs now.
    Status,
    /// The PHP stack of the worker with this process id.
    Trace(i32),
    /// Where the workers of an application are in their PHP code, over and over. A socket comes with the response: a packet for each look at a worker,
    /// as `reprise-php` describes them (`profile.c`), until the time is over.
    Profile {
        /// Which application; empty: the only one.
        application: String,
        /// For so many milliseconds.
        duration_ms: u32,
        /// Microseconds from one look to the next.
        interval_us: u32,
    },
    /// A question to the cache of responses: a purge, what it has for a URL, what it has done, or the token that passes by it. The front reads it.
    Cache(String),
    /// A question to the data cache of an application. A process of the application's user answers it (`segment::questions`).
    Data {
        /// Which application; empty: the only one that has a data cache.
        application: String,
        /// A line for each word.
        question: String,
    },
}

impl Command {
    /// The command of a line; `None` if there is no such command.
    pub fn parse(line: &str) -> Option<Command> {
        match line.split_once(' ') {
            None if line == "reload" => Some(Command::Reload),
            None if line == "status" => Some(Command::Status),
            None if line == "stop" => Some(Command::Stop),
            Some(("reload", "certificates")) => Some(Command::ReloadCertificates),
            Some(("trace", pid)) => pid.trim().parse().ok().map(Command::Trace),
            Some(("profile", text)) => {
                let (application, duration_ms, interval_us) = serde_json::from_str(text).ok()?;
                Some(Command::Profile { application, duration_ms, interval_us })
            }
            // A text of several lines, as a string of JSON on one.
            Some(("cache", text)) => serde_json::from_str(text).ok().map(Command::Cache),
            Some(("data", text)) => {
                let (application, question) = serde_json::from_str(text).ok()?;
                Some(Command::Data { application, question })
            }
            _ => None,
        }
    }
}

impl Display for Command {
    fn fmt(&self, text: &mut Formatter<'_>) -> Result {
        match self {
            Command::Reload => text.write_str("reload"),
            Command::ReloadCertificates => text.write_str("reload certificates"),
            Command::Status => text.write_str("status"),
            Command::Stop => text.write_str("stop"),
            Command::Trace(pid) => write!(text, "trace {pid}"),
            Command::Profile { application, duration_ms, interval_us } => {
                write!(text, "profile {}", serde_json::json!([application, duration_ms, interval_us]))
            }
            Command::Cache(question) => write!(text, "cache {}", serde_json::Value::from(question.as_str())),
            Command::Data { application, question } => {
                write!(text, "data {}", serde_json::Value::from([application.as_str(), question].as_slice()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The supervisor understands each command as the client writes it, and nothing else.
    #[test]
    fn commands_are_read_as_they_are_written() {
        let question = Command::Cache("purge\n\nhard\nt\"a\"".to_owned());
        let data = Command::Data { application: "shop \"1\"".to_owned(), question: "keys\na\n100".to_owned() };
        let plain =
            [Command::Reload, Command::ReloadCertificates, Command::Status, Command::Stop, Command::Trace(4711)];
        let profile = Command::Profile { application: "a b".to_owned(), duration_ms: 10_000, interval_us: 10_101 };
        for command in plain.into_iter().chain([question, data, profile]) {
            assert_eq!(Command::parse(&command.to_string()), Some(command));
        }
        for line in [
            "",
            "stop now",
            "status now",
            "trace",
            "trace x",
            "Reload",
            "reload ",
            "cache purge",
            "data keys",
            "profile",
            "profile [\"a\", 1]",
            "profile [\"a\", -1, 1]",
            "data [\"a\"]",
        ] {
            assert_eq!(Command::parse(line), None, "{line:?}");
        }
    }
}
