//! Which rules hold.

/// Which rules hold for an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// A response is stored only if it says so to shared caches. A request with a cookie or a password gets a stored response only if that
    /// is public. No client can make the cache ask the application anew.
    #[default]
    Safe,
    /// RFC 9111 as it is written, with heuristic freshness. Only Set-Cookie is kept out here too.
    Rfc9111,
}
