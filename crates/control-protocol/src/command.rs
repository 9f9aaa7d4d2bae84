//! Commands: a line each.

use std::fmt::{Display, Formatter, Result};

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Load code and configuration anew. The response comes when that has ended.
    Reload,
    /// Read the certificates anew. The response comes when new connections get them.
    ReloadCertificates,
    /// What runs now.
    Status,
    /// The PHP stack of the worker with this process id.
    Trace(i32),
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
            Some(("reload", "certificates")) => Some(Command::ReloadCertificates),
            Some(("trace", pid)) => pid.trim().parse().ok().map(Command::Trace),
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
            Command::Trace(pid) => write!(text, "trace {pid}"),
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
        let plain = [Command::Reload, Command::ReloadCertificates, Command::Status, Command::Trace(4711)];
        for command in plain.into_iter().chain([question, data]) {
            assert_eq!(Command::parse(&command.to_string()), Some(command));
        }
        for line in [
            "",
            "stop",
            "status now",
            "trace",
            "trace x",
            "Reload",
            "reload ",
            "cache purge",
            "data keys",
            "data [\"a\"]",
        ] {
            assert_eq!(Command::parse(line), None, "{line:?}");
        }
    }
}
