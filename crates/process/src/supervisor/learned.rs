//! The pages that visitors ask for most, as the front has told last: code that is loaded later is warmed up with them. They last as long as this server.

use std::os::fd::OwnedFd;

use super::generation::GenerationId;
use super::{Supervisor, log};
use crate::boot;

/// The most that the front tells of an application.
const MOST: usize = 256;
/// Bytes of a path.
const LONGEST: usize = 200;
/// Bytes of all paths together.
const SIZE: usize = MOST * 256;

impl Supervisor {
    /// The front has told other pages. What it says is not trusted more than a visitor.
    pub(super) fn routes_learned(&mut self, id: GenerationId, attached: &[OwnedFd]) {
        let Some(name) = self.generations.get(id).map(|one| one.application.name.clone()) else { return };
        let Some(Ok(bytes)) = attached.first().map(|file| boot::read(file, SIZE)) else { return };
        let paths = paths(&String::from_utf8_lossy(&bytes));
        if !paths.is_empty() {
            self.learned.insert(name, paths);
        }
    }

    /// A boot of a generation has failed: it may be a page's doing, so the next reload is without those that were learned.
    pub(super) fn forget_learned(&mut self, id: GenerationId) {
        let Some(application) = self.generations.get(id).map(|one| one.application.clone()) else { return };
        if application.learned > 0 && self.learned.remove(&application.name).is_some() {
            let name = &application.name;
            log("notice", format_args!("application '{name}': the next reload is without pages that were learned"));
        }
    }
}

fn paths(text: &str) -> Vec<String> {
    let is_path = |line: &&str| {
        line.starts_with('/')
            && line.len() <= LONGEST
            && line.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#')
    };
    text.lines().filter(is_path).take(MOST).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_are_learned() {
        assert_eq!(paths("/a\nb\n/c d\n/e?f\n\n/g#h\n/\u{e9}\n/i"), ["/a", "/i"]);
        assert!(paths(&format!("/{}", "a".repeat(LONGEST))).is_empty());
        assert_eq!(paths(&"/a\n".repeat(MOST + 1)).len(), MOST);
    }
}
