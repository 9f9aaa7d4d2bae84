//! Splits texts into words and what is between them, and recognises kinds of words.

use std::time::{SystemTime, UNIX_EPOCH};

/// From this number of characters on the repetition of a word is not an accident.
const LONG: usize = 8;
/// The same limit in bits, for what the characters of several values say about how they were drawn.
const ENOUGH_BITS: f64 = 18.0;
/// Seconds of a day.
const DAY: f64 = 86400.0;

/// Whether a character belongs to a word or a nonce.
pub fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_-".contains(letter)
}

/// Whether the byte is a number's decimal point or separates its thousands: it stands between digits.
fn is_point(bytes: &[u8], at: usize) -> bool {
    if bytes[at] != b'.' && bytes[at] != b',' {
        return false;
    }
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_-".contains(byte);
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let before = bytes[..at].iter().rposition(|byte| !is_letter(byte)).map_or(0, |end| end + 1);
    let after = bytes[at + 1..].iter().position(|byte| !is_letter(byte)).map_or(bytes.len(), |end| at + 1 + end);
    is_number(&bytes[before..at]) && is_number(&bytes[at + 1..after])
}

/// Splits a text into words and what is between them. A nonce is one part, and so is a number with its fraction, because a
/// time may have none.
pub fn parts(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let mut from = 0;
    let mut last = None;
    for (at, letter) in text.char_indices() {
        let kind = is_of_word(letter) || is_point(bytes, at);
        if last.is_some_and(|last| last != kind) {
            parts.push(&text[from..at]);
            from = at;
        }
        last = Some(kind);
    }
    if from < text.len() {
        parts.push(&text[from..]);
    }
    parts
}

/// A number, with or without thousands parted by commas.
pub fn number(part: &str) -> Option<f64> {
    if !part.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    part.replace(',', "").parse().ok()
}

/// The part as a Unix time of about today, in seconds, if it is one. It may be written in seconds with or without a
/// fraction, or in thousandths, millionths or billionths of a second.
pub fn unix_time(part: &str) -> Option<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let value = number(part)?;
    [1.0, 1e3, 1e6, 1e9].into_iter().map(|unit| value / unit).find(|time| (time - now).abs() < DAY)
}

/// Whether the part is a Unix time of about today.
pub fn is_now(part: &str) -> bool {
    unix_time(part).is_some()
}

/// Whether a text shows a clock: a Unix time of today, or 12:34.
pub fn has_clock(text: &str) -> bool {
    let parts = parts(text);
    parts.iter().any(|part| is_now(part))
        || parts.windows(3).any(|near| near[1] == ":" && is_clock(near[0]) && is_clock(near[2]))
}

/// Hours, minutes or seconds at the end of a word: `09`, `2026-11-23T09`.
fn is_clock(part: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(part) || part.rsplit_once('T').is_some_and(|(_, hour)| digits(hour))
}

/// The same for a part, with the parts around it.
pub fn is_of_clock(part: &str, before: &str, after: &str) -> bool {
    part.len() == 2 && is_clock(part) && (before == ":" || after == ":")
}

/// Whether a word looks like a random token or id: long, with letters and digits.
pub fn is_token(word: &str) -> bool {
    let has = |kind: fn(&char) -> bool| word.chars().any(|letter| kind(&letter));
    word.len() >= LONG && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
}

/// All words of a text that look like tokens. `+` belongs to base64.
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_of_word(letter) && letter != '+').filter(|word| is_token(word))
}

/// Whether different values were drawn from so many that two equal ones are not an accident. The characters that differ at
/// each position give a lower limit of that number.
pub fn are_of_many(values: &[&str]) -> bool {
    let Some(first) = values.first() else { return false };
    let has_digits = values.iter().filter(|value| value.bytes().any(|byte| byte.is_ascii_digit())).count();
    let is_fraction = first.contains(['.', ',']);
    if is_fraction || has_digits * 2 < values.len() || values.iter().any(|value| value.len() != first.len()) {
        return false;
    }
    let kinds =
        |at: usize| values.iter().map(|value| value.as_bytes()[at]).collect::<std::collections::HashSet<u8>>().len();
    (0..first.len()).map(|at| (kinds(at) as f64).log2()).sum::<f64>() >= ENOUGH_BITS
}

/// Words that follow a figure of memory.
const UNITS: [&str; 12] = ["b", "byte", "bytes", "kb", "kib", "mb", "mib", "gb", "gib", "k", "m", "kbytes"];

/// Whether the parts around a number, or the letters at its end, say that it counts memory.
pub fn looks_like_memory(parts: &[&str], at: usize) -> bool {
    let lower = |part: &str| part.trim().to_ascii_lowercase();
    let is_unit = |part: &str| UNITS.contains(&lower(part).as_str());
    let digits = parts[at].trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    if number(digits).is_none() {
        return false;
    }
    let after = parts.get(at + 1).is_some_and(|gap| gap.trim().is_empty())
        && parts.get(at + 2).is_some_and(|part| is_unit(part));
    let before = parts[at.saturating_sub(6)..at].iter().any(|part| lower(part).contains("memory"));
    after || before || is_unit(&parts[at][digits.len()..])
}

/// Words that follow a duration.
const TIME_UNITS: [&str; 12] =
    ["s", "ms", "us", "µs", "ns", "sec", "secs", "second", "seconds", "milliseconds", "microseconds", "nanoseconds"];

/// Whether the part behind a number, or the letters at its end, say that it is a duration.
pub fn looks_like_duration(parts: &[&str], at: usize) -> bool {
    let is_unit = |part: &str| TIME_UNITS.contains(&part.trim().to_lowercase().as_str());
    let digits = parts[at].trim_end_matches(char::is_alphabetic);
    let after = parts.get(at + 1).is_some_and(|gap| gap.trim().is_empty())
        && parts.get(at + 2).is_some_and(|part| is_unit(part));
    number(digits).is_some() && (after || is_unit(&parts[at][digits.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_the_same_way_whatever_was_drawn() {
        assert_eq!(parts("a1.2b, x9.y"), ["a1", ".", "2b", ", ", "x9", ".", "y"]);
        assert_eq!(parts("v8.2 of 1,234.5."), ["v8", ".", "2", " ", "of", " ", "1,234.5", "."]);
        assert_eq!(number("1,234.5"), Some(1234.5));
        assert_eq!(number("a"), None);
    }

    #[test]
    fn times_are_known_in_every_unit() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for text in [
            now.as_secs().to_string(),
            now.as_millis().to_string(),
            now.as_nanos().to_string(),
            format!("{:.4}", now.as_secs_f64()),
        ] {
            assert!(is_now(&text), "{text}");
        }
        assert!(!is_now("1234567890") && !is_now("17") && has_clock("at 2026-11-23T09:17") && !has_clock("a: b, 1:2"));
    }

    #[test]
    fn few_values_are_told_from_many() {
        let many = ["9f86d081", "60303ae2", "fd61a03a", "4b227777", "ef2d127d", "e7f6c011", "7902699b", "2c624232"];
        assert!(are_of_many(&many));
        assert!(!are_of_many(&["post-01", "post-02", "post-13", "post-24"]));
        assert!(!are_of_many(&["0.0012340", "0.0092371", "0.0045612", "0.0034093"]));
        assert!(!are_of_many(&["strawberry", "blackberry", "cloudberry"]));
        assert_eq!(tokens("you <b>are</b> ab+12cd34/x utf-8 strawberry").collect::<Vec<_>>(), ["ab+12cd34"]);
    }

    #[test]
    fn durations_are_known_by_their_unit() {
        for (text, at) in [("took 0.0012 s", 2), ("17ms", 0), ("14 us", 0), ("3 seconds", 0), ("5 µs", 0)] {
            assert!(looks_like_duration(&parts(text), at), "{text}");
        }
        assert!(!looks_like_duration(&parts("17 posts"), 0) && !looks_like_duration(&parts("a s"), 0));
    }

    #[test]
    fn memory_is_known_by_its_unit() {
        for (text, at) in [("took 2.5 MB", 2), ("4096bytes", 0), ("Memory usage: 17", 4)] {
            assert!(looks_like_memory(&parts(text), at), "{text}");
        }
        assert!(!looks_like_memory(&parts("took 17 seconds"), 2) && !looks_like_memory(&parts("a MB"), 0));
    }
}
