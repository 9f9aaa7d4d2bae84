//! Small things that more than one program has to agree on, and that are in no message and no slab.

/// The signal that tells a worker that its request ran over its soft limit. PHP does not use this signal.
pub const OVERTIME_SIGNAL: i32 = 62;

/// The first number of reprise-php's own descriptors. It is high, so that a request that counts its descriptors finds none of them.
pub const SERVICE_DESCRIPTOR: i32 = 1000;

/// The byte that begins a message of reprise-php on standard error (ASCII's record separator).
pub const MESSAGE_MARK: u8 = 0x1e;
/// The byte before the end of a line whose message goes on in the next line (ASCII's unit separator).
pub const MORE_MARK: u8 = 0x1f;

/// Levels of a line of the log, by their number in syslog.
pub const LEVELS: [&str; 8] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// Seconds in which a front whose supervisor is gone may finish its requests. Workers go on a little longer.
pub const LAST_DRAIN_SECONDS: u64 = 30;

/// Header of a response that the front made by itself: the reason, as a word.
pub const REFUSED_HEADER: &str = "reprise-refused";
/// In a request of `reprise verify`: the mode that it asks for (`classic`, `own`), and the token by which it may. In a response: the mode that it was
/// made in.
pub const MODE_HEADER: &str = "reprise-mode";
