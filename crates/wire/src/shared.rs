//! Small things that more than one program has to agree on, and that are in no message and no slab.

/// The signal by which a worker learns that its request ran over its soft limit: one that PHP does not use.
pub const OVERTIME_SIGNAL: i32 = 62;

/// Descriptors of reprise-php's own are numbered from here: a request that counts its descriptors finds none of them.
pub const SERVICE_DESCRIPTOR: i32 = 1000;

/// On standard error begins a message of reprise-php (ASCII's record separator).
pub const MESSAGE_MARK: u8 = 0x1e;
/// Before the end of line: the rest of a message follows in another (unit separator).
pub const MORE_MARK: u8 = 0x1f;

/// Levels of a line of the log, by their number in syslog.
pub const LEVELS: [&str; 8] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// Seconds in which a front whose supervisor is gone finishes what it has. Workers go on a little longer.
pub const LAST_DRAIN_SECONDS: u64 = 30;

/// Header of a response that the front made by itself: why, as a word.
pub const REFUSED_HEADER: &str = "reprise-refused";
/// Header of a request: its mode (`classic`), asked for on this machine. Of a response: the mode it was made in.
pub const MODE_HEADER: &str = "reprise-mode";
