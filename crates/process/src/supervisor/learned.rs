//! What the front has learned of the pages of applications, as it has told last. It lasts as long as this server. Code that is loaded later is
//! warmed up with those that visitors ask for most; the next front gets back those whose responses are shared, without a look at them here.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use wire::control::ToFront;

use super::generation::GenerationId;
use super::{LearnedRoutes, Supervisor, log};
use crate::boot;

/// The most that the front tells of an application.
const MOST: usize = 256;
/// Bytes of a path.
const LONGEST: usize = 200;
/// Bytes of all paths together.
const SIZE: usize = MOST * 256;

/// By the names of the applications.
#[derive(Default)]
pub(super) struct Learned {
    /// The paths that are asked for most.
    pub(super) routes: LearnedRoutes,
    /// The pages whose responses are shared, as the front writes them.
    shared: BTreeMap<String, Vec<u8>>,
}

impl Supervisor {
    /// The front has learned something else. What it says is not trusted more than a visitor.
    pub(super) fn front_learned(&mut self, id: GenerationId, are_shared: bool, attached: &[OwnedFd]) {
        let Some(name) = self.generations.get(id).map(|one| one.application.name.clone()) else { return };
        let Some(Ok(bytes)) = attached.first().map(|file| boot::read(file, SIZE)) else { return };
        if are_shared {
            self.learned.shared.insert(name, bytes);
            return;
        }
        let paths = paths(&String::from_utf8_lossy(&bytes));
        if !paths.is_empty() {
            self.learned.routes.insert(name, paths);
        }
    }

    /// A new front gets what those before it have learned for it. Without a descriptor left it learns anew.
    pub(super) fn introduce_learned(&self) {
        for id in self.reload.current() {
            let name = self.generations.get(*id).map(|one| &one.application.name);
            let learned = name.and_then(|name| self.learned.shared.get(name));
            if let Some(Ok(file)) = learned.map(|bytes| boot::sealed(bytes)) {
                self.front.send(&ToFront::Learned { generation: *id }, &[file.as_fd()]);
            }
        }
    }

    /// A boot of a generation has failed: it may be a page's doing, so the next reload is without those that were learned.
    pub(super) fn forget_learned(&mut self, id: GenerationId) {
        let Some(application) = self.generations.get(id).map(|one| one.application.clone()) else { return };
        if application.learned > 0 && self.learned.routes.remove(&application.name).is_some() {
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
