//! What the process is told.

use std::path::PathBuf;
use std::time::Duration;

use redis::IntoConnectionInfo;
use serde::{Deserialize, Serialize};

/// Bytes of a secret, at least.
pub const SHORTEST_SECRET: usize = 16;

/// Of one application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Begins all names in the store, and is signed with everything.
    pub application: String,
    /// `valkey://`, `redis://`.
    pub url: String,
    /// Signs values and messages. The same on all nodes.
    pub secret: String,
    /// Certificates of authorities in PEM, in the place of the system's.
    pub ca: Option<PathBuf>,
    /// Milliseconds for connecting, and for each response.
    pub timeout: u64,
}

/// The URL of a store as the client takes it.
///
/// # Errors
/// It names no store; why.
pub fn of_client(url: &str) -> Result<String, String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("is no URL: valkey://HOST:PORT/DATABASE".to_owned());
    };
    let scheme = match scheme {
        "valkey" | "redis" => "redis",
        "valkeys" | "rediss" => "rediss",
        "valkey+unix" | "redis+unix" | "unix" => "redis+unix",
        _ => {
            return Err(format!(
                "has the scheme {scheme}; there are valkey, valkeys (TLS), valkey+unix, and the same with redis"
            ));
        }
    };
    let made = format!("{scheme}://{rest}");
    // An error would show the password.
    made.as_str().into_connection_info().map_err(|_| "is not valkey://USER:PASSWORD@HOST:PORT/DATABASE".to_owned())?;
    Ok(made)
}

impl Settings {
    /// For connecting, and for each response.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_store() {
        assert_eq!(of_client("valkey://a:b@host:1/2").unwrap(), "redis://a:b@host:1/2");
        assert_eq!(of_client("rediss://host").unwrap(), "rediss://host");
        assert_eq!(of_client("valkey+unix:///run/v.sock").unwrap(), "redis+unix:///run/v.sock");
        for bad in ["host", "http://host", "valkey://", "redis://host:x", "memcached://host"] {
            assert!(of_client(bad).is_err(), "{bad}");
        }
        assert!(!of_client("redis://u:secret@host:x").unwrap_err().contains("secret"));
    }
}
