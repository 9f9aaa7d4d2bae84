//! Errors that come again and again: a line of the log when one comes first, and then each time that its number has doubled.
//!
//! An error is known by its source, such as the boot of a lane, and its text. Another text of the same source is another error, and
//! so is the same one after [`works`] or after [`FORGOTTEN`].

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An error that has not come for so long is a new one.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// Sources that are remembered. With one more all are forgotten, and their errors are logged once more.
const MAX_SOURCES: usize = 4096;

struct Seen {
    text: String,
    count: u64,
    last: Instant,
}

static SEEN: Mutex<BTreeMap<String, Seen>> = Mutex::new(BTreeMap::new());

/// Writes a line to the log, unless the same error has come before and its number has not doubled since the last line. `then` is what
/// follows from it, which may be different each time.
pub fn line(level: &str, who: &str, source: &str, text: Arguments<'_>, then: Arguments<'_>) {
    let text = text.to_string();
    let count = SEEN.lock().unwrap_or_else(PoisonError::into_inner).count(source, &text, Instant::now());
    match count {
        1 => crate::logs::log::line(level, who, format_args!("{text}{then}")),
        _ if count.is_power_of_two() => {
            crate::logs::log::line(level, who, format_args!("{text}{then} ({count} times by now)"))
        }
        _ => {}
    }
}

/// The source works again.
pub fn works(source: &str) {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
}

trait Count {
    /// How often this has come by now.
    fn count(&mut self, source: &str, text: &str, now: Instant) -> u64;
}

impl Count for BTreeMap<String, Seen> {
    fn count(&mut self, source: &str, text: &str, now: Instant) -> u64 {
        if let Some(seen) = self.get_mut(source) {
            let is_same = seen.text == text && now.saturating_duration_since(seen.last) < FORGOTTEN;
            seen.count = if is_same { seen.count + 1 } else { 1 };
            seen.last = now;
            if !is_same {
                text.clone_into(&mut seen.text);
            }
            return seen.count;
        }
        if self.len() >= MAX_SOURCES {
            self.clear();
        }
        self.insert(source.to_owned(), Seen { text: text.to_owned(), count: 1, last: now });
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_counted_until_it_changes_or_is_forgotten() {
        let (mut seen, now) = (BTreeMap::new(), Instant::now());
        assert_eq!((1..=3).map(|_| seen.count("a", "x", now)).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!([seen.count("b", "x", now), seen.count("a", "x", now), seen.count("a", "y", now)], [1, 4, 1]);
        assert_eq!([seen.count("a", "y", now), seen.count("a", "y", now + FORGOTTEN)], [2, 1]);
        for number in 0..2 * MAX_SOURCES {
            seen.count(&number.to_string(), "x", now);
            assert!(seen.len() <= MAX_SOURCES);
        }
    }
}
