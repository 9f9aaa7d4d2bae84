//! Why an attempt has failed, in the authority's own words, and requests that are repeated.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};

use crate::client::Transport;

/// How often a request is repeated because its nonce was refused (RFC 8555 §6.5). Nothing has happened then.
const NONCES: usize = 100;
/// How often a request is repeated that did not come through.
const TRIES: u32 = 3;
/// Before the first of these repetitions.
const PAUSE: Duration = Duration::from_millis(500);

/// Why an attempt has failed.
#[derive(Debug)]
pub struct Fault(pub String);

impl Fault {
    /// Whether the authority does not know the account.
    pub fn is_about_account(&self) -> bool {
        self.0.ends_with("(accountDoesNotExist)")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Api(problem) => Fault(words(&problem)),
            other => Fault(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault(format!("storage: {error}"))
    }
}

/// What the authority says.
pub fn words(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "no reason given".to_owned());
    let kinds = problem.r#type.as_deref().map(|kind| kind.trim_start_matches("urn:ietf:params:acme:error:"));
    text.extend(kinds.map(|kind| format!(" ({kind})")));
    for part in &problem.subproblems {
        text.push_str(&format!("; {part}"));
    }
    text
}

fn is_of(error: &Error, kind: &str) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref().is_some_and(|known| known.ends_with(kind)))
}

/// Makes a request, again if its nonce is refused, and a few times if it does not come through.
pub async fn persist<T>(mut ask: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    let (mut refused, mut lost) = (0, 0);
    loop {
        let error = match ask().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let is_lost = matches!(&error, Error::Other(why) if why.is::<Transport>());
        if is_of(&error, ":badNonce") && refused < NONCES {
            // It has come through.
            (refused, lost) = (refused + 1, 0);
        } else if is_lost && lost + 1 < TRIES {
            tokio::time::sleep(PAUSE.mul_f64((1 << lost) as f64 * (0.5 + fastrand::f64()))).await;
            lost += 1;
        } else {
            return Err(error);
        }
    }
}
