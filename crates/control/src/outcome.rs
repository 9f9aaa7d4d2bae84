//! The response to a command that does something.

use crate::object::object;

object! {
    /// How a command ended.
    pub struct Outcome {
        /// whether the command did what it should
        pub ok: bool,
        /// for `trace` the lane, if it is for one host, and the PHP stack; else the outcome in words
        pub message: String,
    }
}

impl From<Result<&str, &str>> for Outcome {
    fn from(how: Result<&str, &str>) -> Outcome {
        let (Ok(message) | Err(message)) = how;
        Outcome { ok: how.is_ok(), message: message.to_owned() }
    }
}
