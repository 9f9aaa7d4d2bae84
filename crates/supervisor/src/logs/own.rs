//! Lines in the supervisor's own name.

pub(crate) fn log(level: &str, text: std::fmt::Arguments<'_>) {
    crate::logs::log::line(level, "supervisor", text);
}

/// The same for an error that may come again and again: see [`crate::logs::repeated`].
pub(crate) fn log_again(level: &str, source: &str, text: std::fmt::Arguments<'_>, then: std::fmt::Arguments<'_>) {
    crate::logs::repeated::line(level, "supervisor", source, text, then);
}
