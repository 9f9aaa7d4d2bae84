//! A lane's key says which requests the lane takes. As text, in messages, logs and metrics:
//!
//! | key | requests |
//! |---|---|
//! | `/index.php` | all of a script |
//! | `https://a.example/index.php` | those of a script that were made to one host by one scheme |

use core::fmt::{self, Display, Formatter};

/// Bytes that an origin adds to a script's name at most: `https://` and a host of 255.
pub const MAX_ORIGIN: usize = 8 + 255;

/// Which requests a lane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Path of the script below the root, for example `/index.php`.
    pub script: &'a str,
    /// Scheme and host that the requests were made to; `None`: any.
    pub origin: Option<Origin<'a>>,
}

/// Scheme and host of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The scheme: https, or else http.
    pub is_https: bool,
    /// The host as the request names it: with the port, if the request names one.
    pub host: &'a str,
}

impl<'a> Key<'a> {
    /// Reads a key. The caller still has to check the script's name and the host.
    pub fn parse(text: &'a str) -> Option<Key<'a>> {
        if text.starts_with('/') {
            return Some(Key { script: text, origin: None });
        }
        let (is_https, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return None,
        };
        let (host, script) = rest.split_at(rest.find('/').filter(|at| *at > 0)?);
        Some(Key { script, origin: Some(Origin { is_https, host }) })
    }
}

impl Display for Key<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(origin) = self.origin {
            write!(out, "{}://{}", origin.scheme(), origin.host)?;
        }
        out.write_str(self.script)
    }
}

impl<'a> Origin<'a> {
    /// The name of the scheme.
    pub fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// The host without its port.
    pub fn name(&self) -> &'a str {
        split_port(self.host).0
    }

    /// The port that the host is named with.
    pub fn port(&self) -> Option<&'a str> {
        split_port(self.host).1
    }
}

/// A host's name, and the port behind it.
pub fn split_port(host: &str) -> (&str, Option<&str>) {
    let from = host.rfind(']').map_or(0, |end| end + 1);
    match host[from..].find(':') {
        Some(at) => (&host[..from + at], Some(&host[from + at + 1..])),
        None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let origin = |is_https, host| Some(Origin { is_https, host });
        for (text, origin, script) in [
            ("/index.php", None, "/index.php"),
            ("/http://a/index.php", None, "/http://a/index.php"),
            ("http://a.example/index.php", origin(false, "a.example"), "/index.php"),
            ("https://a.example:8443/b/c.php", origin(true, "a.example:8443"), "/b/c.php"),
            ("http://[::1]:80/index.php", origin(false, "[::1]:80"), "/index.php"),
        ] {
            let key = Key { script, origin };
            assert_eq!((Key::parse(text), key.to_string().as_str()), (Some(key), text));
        }
        for text in ["", "index.php", "http:///index.php", "https://a.example", "ftp://a.example/index.php"] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ports_are_told_from_names() {
        assert_eq!(split_port("a.example:8080"), ("a.example", Some("8080")));
        assert_eq!(split_port("[::1]:80"), ("[::1]", Some("80")));
        assert_eq!((split_port("[::1]"), split_port("a")), (("[::1]", None), ("a", None)));
    }
}
