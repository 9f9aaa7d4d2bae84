//! Looks at an application's tree for the hints of `check` and of the start: directories that the front's user cannot
//! enter, symbolic links that the front does not follow, and scripts that run by their own names. It reads names and permissions
//! only: it opens no file, and enters no directory by a symbolic link. It ends after a number of entries, or after some time.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use routing::explain::{self, Refused};
use routing::settings::Application;
use routing::target::is_hidden;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use supervisor::os::user::{self, Identity};

/// Most entries of a tree that are looked at.
const MOST_ENTRIES: usize = 20_000;
/// Most levels of directories.
const MOST_LEVELS: usize = 24;
/// Most closed directories, and most symbolic links, that are named.
const NAMED: usize = 3;
/// With this many scripts beside the front controller an application may not need one.
const MANY: usize = 5;

/// What was found.
#[derive(Default)]
pub struct Survey {
    /// Files that end in `.php`.
    pub scripts: usize,
    /// Directories, as paths below the root, whose files the front cannot send.
    closed: Vec<String>,
    /// Symbolic links, as paths below the root, that the front does not follow.
    pub links: Vec<(String, Refused)>,
    entries: usize,
    /// Whether the tree has more than was looked at.
    is_cut: bool,
}

struct Look<'a> {
    found: Survey,
    application: &'a Application,
    user: Option<&'a Identity>,
    until: Instant,
}

/// Looks at an application's tree for a front of that user, or else of this process's user.
pub fn look(application: &Application, user: Option<&Identity>, patience: Duration) -> Survey {
    let mut look = Look { found: Survey::default(), application, user, until: Instant::now() + patience };
    // The root has been checked before, with the links that lead to it.
    look.enter(rustix::fs::CWD, &application.root, "", MOST_LEVELS);
    look.found.closed.sort_unstable();
    look.found.links.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    look.found
}

impl Look<'_> {
    fn is_over(&mut self) -> bool {
        self.found.is_cut |= self.found.entries >= MOST_ENTRIES || Instant::now() > self.until;
        self.found.is_cut
    }

    /// `name` in the directory `above`, which is `below` the root.
    fn enter(&mut self, above: impl AsFd, name: impl rustix::path::Arg, below: &str, levels: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(above, name, flags, Mode::empty());
        let directory = match opened {
            Ok(directory) => directory,
            Err(rustix::io::Errno::ACCESS) => return self.found.closed.push(below.to_owned()),
            // The entry is gone, or was replaced.
            Err(_) => return,
        };
        let Ok(entries) = Dir::read_from(&directory) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." || is_hidden(name.as_bytes()) {
                continue;
            }
            if self.is_over() {
                return;
            }
            self.found.entries += 1;
            // Some file systems do not give the type here.
            let mut kind = entry.file_type();
            let stat = match kind {
                FileType::Directory | FileType::Unknown => statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok(),
                _ => None,
            };
            kind = stat.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            if kind == FileType::Symlink {
                let refused = explain::refused_link(self.application, &format!("/{path}"));
                self.found.links.extend(refused.map(|refused| (path.clone(), refused)));
            }
            match kind {
                FileType::Directory => {
                    let is_open = stat.zip(self.user).is_none_or(|(stat, user)| {
                        user::permits(user, (stat.st_uid, stat.st_gid, stat.st_mode), user::ENTER)
                    });
                    if !is_open {
                        self.found.closed.push(path);
                    } else if levels > 0 {
                        self.enter(&directory, name, &path, levels - 1);
                    } else {
                        self.found.is_cut = true;
                    }
                }
                FileType::RegularFile | FileType::Symlink if name.ends_with(".php") => self.found.scripts += 1,
                _ => {}
            }
        }
    }
}

/// The first of these names, and how many more there are; `None`: there is none.
fn named(names: &[impl AsRef<str>]) -> Option<String> {
    let named = names.iter().take(NAMED).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count > NAMED => Some(format!("{named} and {} more", count - NAMED)),
        _ => Some(named),
    }
}

impl Survey {
    /// A text about symbolic links that the front does not follow.
    pub fn refused(&self) -> Option<String> {
        let names: Vec<&str> = self.links.iter().map(|(name, _)| name.as_str()).collect();
        let (named, first) = (named(&names)?, names.first()?);
        let (are, them) = if names.len() == 1 { ("is a symbolic link", "it") } else { ("are symbolic links", "them") };
        Some(format!(
            "{named} {are} that the front does not follow: requests for {them} get 403; `reprise route /{first}` says why"
        ))
    }

    /// A text about directories that are closed to the front's user.
    pub fn closed(&self, user: &str) -> Option<String> {
        let named = named(&self.closed)?;
        let verb = if self.closed.len() == 1 { "is" } else { "are" };
        Some(format!("{named} {verb} closed to {user}, who sends files: requests for them get 403"))
    }

    /// Whether a front controller that was found, by no configuration and no preset, may be in the way.
    pub fn hint_of_scripts(&self, controller: &str) -> Option<String> {
        let others = self.scripts.saturating_sub(1);
        let more = if self.is_cut { "more than " } else { "" };
        (others >= MANY).then(|| {
            format!(
                "{more}{others} scripts beside {controller} run by their own names. Every path without a file goes to \
                 {controller}, which usually responds with 200. If every page is a script of its own, set \
                 front_controller = \"\": such paths then get 404. To keep the default without this hint, set \
                 front_controller = \"{controller}\""
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_directories_are_named_up_to_three() {
        let closed = |names: &[&str]| Survey {
            closed: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Survey::default()
        };
        assert_eq!(closed(&[]).closed("nobody"), None);
        let one = closed(&["a"]).closed("nobody").unwrap_or_default();
        assert!(one.starts_with("a is closed to nobody"), "{one}");
        let many = closed(&["a", "b/c", "d", "e", "f"]).closed("nobody").unwrap_or_default();
        assert!(many.starts_with("a, b/c, d and 2 more are closed to nobody"), "{many}");
    }
}
