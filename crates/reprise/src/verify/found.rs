//! What is compared, and what is found.

use super::visitor::{NAMES, Response};

/// Letters shown around a place.
const AROUND: usize = 60;

/// One response, and who asked when.
pub struct Visit {
    /// Of [`NAMES`].
    pub visitor: usize,
    /// Of two that this visitor has in that mode.
    pub session: usize,
    /// How often this session has asked for the page before.
    pub round: usize,
    /// In classic mode; else in the application's.
    pub is_classic: bool,
    /// With a longer head.
    pub is_padded: bool,
    /// What came.
    pub response: Response,
}

/// One difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whose response.
    pub visitor: &'static str,
    /// Status, a header or the body.
    pub what: String,
    /// In classic mode.
    pub classic: String,
    /// In the application's mode.
    pub own: String,
}

/// A place that is not compared letter by letter.
#[derive(Debug)]
pub struct Mask {
    /// A header or the body.
    pub what: String,
    /// With the letters around it.
    pub place: String,
    /// What varies there.
    pub kind: &'static str,
    /// Different values of classic mode, of so many responses.
    pub seen: (usize, usize),
    /// What was looked for there instead.
    pub checked: &'static str,
    /// Whether a leak would have been found there all the same.
    pub is_sure: bool,
}

/// What was found on a page.
#[derive(Default)]
pub struct Found {
    /// Where the modes differ.
    pub differences: Vec<Difference>,
    /// What is another's.
    pub leaks: Vec<String>,
    /// What varies in classic mode.
    pub masks: Vec<Mask>,
    /// Of the bodies nothing is left to compare.
    pub is_blind: bool,
}

/// A body or a header of one response.
pub struct Text<'a> {
    /// Whose.
    pub visit: &'a Visit,
    /// Whole.
    pub text: &'a str,
    /// In parts.
    pub parts: Vec<&'a str>,
}

impl Text<'_> {
    /// The letters around a part.
    pub fn around(&self, part: usize) -> String {
        around(self.text, self.parts.iter().take(part).map(|part| part.len()).sum())
    }

    /// The visitor's name.
    pub fn name(&self) -> &'static str {
        NAMES[self.visit.visitor]
    }
}

/// Of a response of the application's mode.
pub fn difference(what: &str, own: &Text<'_>, classic: String, shown: String) -> Difference {
    Difference { visitor: own.name(), what: what.to_owned(), classic, own: shown }
}

/// The letters around a place, on one line.
pub fn around(body: &str, at: usize) -> String {
    let mut from = at.saturating_sub(AROUND).min(body.len());
    while !body.is_char_boundary(from) {
        from -= 1;
    }
    body[from..].chars().take(2 * AROUND).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
