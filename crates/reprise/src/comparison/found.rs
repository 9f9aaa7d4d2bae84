//! The types of what is compared and what is found.

use super::visitor::{NAMES, Response};

/// Characters that are shown around a place.
const AROUND: usize = 60;

/// One response, with its visitor and round.
pub struct Visit {
    /// The visitor: an index of [`NAMES`].
    pub visitor: usize,
    /// Which of the visitor's two sessions in that mode.
    pub session: usize,
    /// How often this session has requested the page before.
    pub round: usize,
    /// Whether it was made in classic mode; else in the application's.
    pub is_classic: bool,
    /// Whether the request had a longer head.
    pub is_padded: bool,
    /// The response.
    pub response: Response,
}

/// One difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// The visitor.
    pub visitor: &'static str,
    /// Where it is: status, a header or the body.
    pub what: String,
    /// The value in classic mode.
    pub classic: String,
    /// The value in the application's mode.
    pub own: String,
}

/// A place that is not compared character by character.
#[derive(Debug)]
pub struct Mask {
    /// A header or the body.
    pub what: String,
    /// The place, with the characters around it.
    pub place: String,
    /// The kind of value that varies there.
    pub kind: &'static str,
    /// The number of different values in classic mode, and of responses.
    pub seen: (usize, usize),
    /// The check that was made instead.
    pub checked: &'static str,
    /// Whether that check would have found a leak.
    pub is_sure: bool,
}

/// What was found on a page.
#[derive(Default)]
pub struct Found {
    /// Where the modes differ.
    pub differences: Vec<Difference>,
    /// Values that belong to the other visitor.
    pub leaks: Vec<String>,
    /// What varies in classic mode.
    pub masks: Vec<Mask>,
    /// Whether nothing of the bodies was left to compare.
    pub is_blind: bool,
}

/// A body or a header of one response.
pub struct Text<'a> {
    /// The index of its visit.
    pub visit: &'a Visit,
    /// The whole text.
    pub text: &'a str,
    /// The text in parts.
    pub parts: Vec<&'a str>,
}

impl Text<'_> {
    /// The characters around a part.
    pub fn around(&self, part: usize) -> String {
        around(self.text, self.parts.iter().take(part).map(|part| part.len()).sum())
    }

    /// The visitor's name.
    pub fn name(&self) -> &'static str {
        NAMES[self.visit.visitor]
    }
}

/// Whether the response is of the application's mode.
pub fn difference(what: &str, own: &Text<'_>, classic: String, shown: String) -> Difference {
    Difference { visitor: own.name(), what: what.to_owned(), classic, own: shown }
}

/// The characters around a place, on one line.
pub fn around(body: &str, at: usize) -> String {
    let mut from = at.saturating_sub(AROUND).min(body.len());
    while !body.is_char_boundary(from) {
        from -= 1;
    }
    body[from..].chars().take(2 * AROUND).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
