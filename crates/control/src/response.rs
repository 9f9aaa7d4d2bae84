//! Reading a response. Server and client may be of different versions: keys that the client does not know are ignored; a key
//! that it needs and does not find is an error that names the key and both versions.

use std::fmt::{Display, Formatter};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::outcome::Outcome;

/// Why a response cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The connection ended before the end of the response.
    Cut,
    /// The server has refused the command; its reason.
    Refused(String),
    /// The response is not what this version reads.
    Foreign {
        /// What is missing or wrong.
        why: String,
        /// The version of the server, if the response names it.
        server: Option<String>,
    },
}

impl Display for Unreadable {
    fn fmt(&self, text: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::Cut => text.write_str("ended before it replied"),
            Unreadable::Refused(why) => text.write_str(why),
            Unreadable::Foreign { why, server } => {
                let server = server.as_deref().unwrap_or("unknown");
                let client = env!("CARGO_PKG_VERSION");
                write!(
                    text,
                    "sent a response that cannot be read: {why} (version of the server: {server}, of this program: {client})"
                )
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// The version that speaks, if it is told.
#[derive(Deserialize)]
struct Speaker {
    version: Option<String>,
}

/// The response to a command, from its text.
///
/// # Errors
///
/// It is cut off, a refusal, or not what this version knows.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    let error = match serde_json::from_str(text) {
        Ok(response) => return Ok(response),
        Err(error) if error.is_eof() => return Err(Unreadable::Cut),
        Err(error) => error,
    };
    if let Ok(Outcome { ok: false, message }) = serde_json::from_str(text) {
        return Err(Unreadable::Refused(message));
    }
    let server = serde_json::from_str(text).ok().and_then(|speaker: Speaker| speaker.version);
    Err(Unreadable::Foreign { why: error.to_string(), server })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    /// Each way in which a response can be unusable has an error of its own, which names what is missing and who speaks.
    #[test]
    fn an_unreadable_response_is_explained() {
        let failure = |text: &str| read::<Status>(text).expect_err(text).to_string();
        assert_eq!(failure(""), "ended before it replied");
        assert_eq!(failure(r#"{"version": "9.8.7", "pid""#), "ended before it replied");
        assert_eq!(failure(r#"{"ok": false, "message": "there is no such command"}"#), "there is no such command");
        for (text, what) in [
            (r#"{"version": "9.8.7", "pid": 1}"#, "missing field `seconds`"),
            (r#"{"version": "9.8.7", "pid": "one"}"#, "invalid type: string \"one\", expected u32"),
            (
                r#"{"version": "9.8.7", "pid": 1, "seconds": 1, "state": "asleep"}"#,
                "unknown word `asleep`, expected one of starting, serving, draining",
            ),
        ] {
            let failure = failure(text);
            assert!(failure.contains(what) && failure.contains("9.8.7"), "{failure}");
            assert!(failure.contains(env!("CARGO_PKG_VERSION")), "{failure}");
        }
        assert!(failure("[]").contains("version of the server: unknown"));
    }
}
