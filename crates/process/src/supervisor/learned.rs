//! The pages that visitors ask for most, as the front has told last: code that is loaded later is warmed up with them. They last as long as this server.

use std::os::fd::OwnedFd;

use super::Supervisor;
use super::generation::GenerationId;
use crate::boot;

/// The most that the front tells of an application.
const MOST: usize = 256;
/// Bytes of all paths together.
const SIZE: usize = MOST * 256;

impl Supervisor {
    /// The front has told other pages. What it says is not trusted more than a visitor.
    pub(super) fn routes_learned(&mut self, id: GenerationId, attached: &[OwnedFd]) {
        let Some(name) = self.generations.get(id).map(|one| one.application.name.clone()) else { return };
        let Some(Ok(bytes)) = attached.first().map(|file| boot::read(file, SIZE)) else { return };
        self.learned.insert(name, paths(&String::from_utf8_lossy(&bytes)));
    }
}

fn paths(text: &str) -> Vec<String> {
    let is_path = |line: &&str| {
        line.starts_with('/') && line.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#')
    };
    text.lines().filter(is_path).take(MOST).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_are_learned() {
        assert_eq!(paths("/a\nb\n/c d\n/e?f\n\n/g#h\n/\u{e9}\n/i"), ["/a", "/i"]);
        assert_eq!(paths(&"/a\n".repeat(MOST + 1)).len(), MOST);
    }
}
