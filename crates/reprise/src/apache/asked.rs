//! What is asked of the files of directories: a file by its path, and regular expressions that are tried for many files.

use std::cell::RefCell;
use std::collections::HashMap;

use routing::rules::pattern::{Budget, Pattern};

use super::directives::Directive;

/// The file of a directory.
pub struct Scope {
    /// Its path for people.
    pub file: String,
    /// The path of its directory as URLs have it: empty for the root, else `/a/b`.
    pub directory: String,
    /// What is in force.
    pub directives: Vec<Directive>,
}

/// Regular expressions that have been compiled, as one is tried for each file. `None` is one that cannot be.
#[derive(Default)]
pub struct Patterns(RefCell<HashMap<String, Option<Pattern>>>);

/// Patterns that are kept. When there are more, all are compiled anew.
const MOST_PATTERNS: usize = 10_000;

impl Patterns {
    /// Whether a regular expression is found in a text; `None` if it cannot be tried.
    pub fn is_match(&self, pattern: &str, text: &str, is_caseless: bool) -> Option<bool> {
        let pattern = format!("{}{pattern}", if is_caseless { "(?i)" } else { "" });
        let mut kept = self.0.borrow_mut();
        if kept.len() >= MOST_PATTERNS {
            kept.clear();
        }
        let compiled = kept.entry(pattern).or_insert_with_key(|pattern| Pattern::new(pattern).ok());
        compiled.as_ref()?.is_in(text.as_bytes(), &Budget::new()).ok()
    }
}

/// A request's file.
pub struct Asked<'a> {
    /// What was compiled for other files.
    pub patterns: &'a Patterns,
    /// Its path as URLs have it: `/a/b.txt`.
    pub path: &'a str,
    /// Its path in the file system.
    pub file: &'a str,
}
