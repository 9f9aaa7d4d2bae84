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
    /// `valkey://`, `redis://`, `memcached://`.
    pub url: String,
    /// Signs values and messages. The same on all nodes.
    pub secret: String,
    /// Certificates of authorities in PEM, in the place of the system's.
    pub ca: Option<PathBuf>,
    /// Milliseconds for connecting, and for each response.
    pub timeout: u64,
}

/// What kind of store a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Valkey or Redis, with the URL as the client takes it.
    Valkey(String),
    /// Memcached: `host:port`, or a path.
    Memcached(String),
}

/// Which store a URL names.
///
/// # Errors
/// It names none; why.
pub fn kind(url: &str) -> Result<Kind, String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("is no URL: valkey://HOST:PORT/DATABASE, or memcached://HOST:PORT".to_owned());
    };
    let of_client = match scheme {
        "valkey" | "redis" => "redis",
        "valkeys" | "rediss" => "rediss",
        "valkey+unix" | "redis+unix" | "unix" => "redis+unix",
        "memcached" => return memcached(rest),
        _ => {
            return Err(format!(
                "has the scheme {scheme}; there are valkey, valkeys (TLS), valkey+unix, the same with redis, and memcached"
            ));
        }
    };
    let made = format!("{of_client}://{rest}");
    // An error would show the password.
    made.as_str().into_connection_info().map_err(|_| "is not valkey://USER:PASSWORD@HOST:PORT/DATABASE".to_owned())?;
    Ok(Kind::Valkey(made))
}

fn memcached(rest: &str) -> Result<Kind, String> {
    let failed = || "is not memcached://HOST:PORT, or memcached:///PATH/OF/SOCKET".to_owned();
    if rest.starts_with('/') {
        return Ok(Kind::Memcached(rest.to_owned()));
    }
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => (host, port.parse::<u16>().map_err(|_| failed())?),
        _ => (rest, 11_211),
    };
    if host.is_empty() || host.contains(['/', '@', '?']) {
        return Err(failed());
    }
    Ok(Kind::Memcached(format!("{host}:{port}")))
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
    fn a_url_names_one_kind_of_store() {
        assert_eq!(kind("valkey://a:b@host:1/2"), Ok(Kind::Valkey("redis://a:b@host:1/2".to_owned())));
        assert_eq!(kind("rediss://host"), Ok(Kind::Valkey("rediss://host".to_owned())));
        assert_eq!(kind("valkey+unix:///run/v.sock"), Ok(Kind::Valkey("redis+unix:///run/v.sock".to_owned())));
        assert_eq!(kind("memcached://host"), Ok(Kind::Memcached("host:11211".to_owned())));
        assert_eq!(kind("memcached://host:1/"), Ok(Kind::Memcached("host:1".to_owned())));
        assert_eq!(kind("memcached:///run/m.sock"), Ok(Kind::Memcached("/run/m.sock".to_owned())));
        for bad in ["host", "http://host", "valkey://", "redis://host:x", "memcached://", "memcached://a:b@c:x"] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        assert!(!kind("redis://u:secret@host:x").unwrap_err().contains("secret"));
    }
}
