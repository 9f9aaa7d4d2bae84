//! What the process that watches files says: which of them have changed, in one line for many, and what is wrong.

use std::path::Path;

/// Paths of one line.
const MAX_PATHS: usize = 3;

/// What is to be said.
#[derive(Default)]
pub struct Notes {
    lines: Vec<String>,
    paths: Vec<String>,
    more: usize,
}

impl Notes {
    /// A file has changed.
    pub fn changed(&mut self, path: &Path) {
        let path = path.to_string_lossy().into_owned();
        if self.paths.contains(&path) {
            return;
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.push(path);
        } else {
            self.more += 1;
        }
    }

    /// Something that people should know.
    pub fn note(&mut self, text: String) {
        self.add("warning", &text);
    }

    /// Something that does not work.
    pub fn error(&mut self, text: String) {
        self.add("error", &text);
    }

    fn add(&mut self, level: &str, text: &str) {
        // A thousand directories that cannot be read are one trouble.
        const MAX_LINES: usize = 20;
        if self.lines.len() < MAX_LINES {
            self.lines.push(format!("{level} {}\n", supervisor::logs::log::escape(text.as_bytes())));
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.paths.is_empty()
    }

    /// Takes what is to be said, as lines.
    pub fn take(&mut self) -> String {
        let mut all: String = std::mem::take(&mut self.lines).concat();
        let paths = std::mem::take(&mut self.paths);
        let more = std::mem::take(&mut self.more);
        if !paths.is_empty() {
            let more = if more > 0 { format!(", and {more} more changes") } else { String::new() };
            all.push_str(&format!(
                "notice changed: {}{more}\n",
                supervisor::logs::log::escape(paths.join(", ").as_bytes())
            ));
        }
        all
    }
}
