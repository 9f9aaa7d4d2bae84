//! Lines of the server's log on standard error: time, level, who, text. One write per line.

use std::fmt::Arguments;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes a line. `who` names the part of the server.
pub fn line(level: &str, who: &str, text: Arguments<'_>) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let line = format!("{} {level} {who}: {text}\n", timestamp(seconds));
    // A log that cannot be written has nowhere to be reported.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// `2026-01-31T23:59:59Z`.
pub fn timestamp(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86400);
    let rest = seconds % 86400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of a day since 1970, Gregorian: counts from 1 March of year 0, in eras of 400 years.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_right() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(1_795_161_600), "2026-11-20T08:00:00Z");
    }
}
