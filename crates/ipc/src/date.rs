//! Dates of the logs of three programs. One of them, reprise-php, writes some lines where no code of a library may run.

/// `2026-01-31T23:59:59Z`, of seconds since 1970. Years have four digits: what comes after 9999 is shown as that year's last second.
pub fn timestamp(seconds: u64) -> [u8; 20] {
    const LAST: u64 = 253_402_300_799;
    let (days, rest) = (seconds.min(LAST) / 86400, seconds.min(LAST) % 86400);
    let (year, month, day) = date(days);
    let mut text = *b"0000-00-00T00:00:00Z";
    let numbers =
        [(0, 4, year), (5, 2, month), (8, 2, day), (11, 2, rest / 3600), (14, 2, rest / 60 % 60), (17, 2, rest % 60)];
    for (at, digits, mut number) in numbers {
        for byte in text[at..at + digits].iter_mut().rev() {
            *byte = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    text
}

/// Year, month and day of a day since 1970, Gregorian: counts from 1 March of year 0, in eras of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
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
        assert_eq!(&timestamp(0), b"1970-01-01T00:00:00Z");
        assert_eq!(&timestamp(951_782_399), b"2000-02-28T23:59:59Z");
        assert_eq!(&timestamp(951_782_400), b"2000-02-29T00:00:00Z");
        assert_eq!(&timestamp(1_795_161_600), b"2026-11-20T08:00:00Z");
        assert_eq!(&timestamp(u64::MAX), b"9999-12-31T23:59:59Z");
    }
}
