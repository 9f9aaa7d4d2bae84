//! Symbolic links that lead out of the root: which of them are followed, and why one is not.
//!
//! PHP may make links in the directories that it writes to, and whoever can have it do that must not read by them what PHP's user
//! owns nothing of. So a link counts if its owner owns what it names, too; or if root has made it, and PHP's user cannot put
//! something else in the place of what it names.
//!
//! The path is walked component by component, each by a descriptor of the directory before it, and no link is followed by the kernel.
//! Owners are those of the descriptors, and what is sent is the descriptor at the end: what is replaced meanwhile changes nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Kind, Terms, real_path};
use crate::settings::Links;

/// Most components of a path with the texts of all links on the way. The kernel itself follows at most 40 links.
const MOST_STEPS: usize = 256;
/// Links that are remembered because the log has named them.
const REMEMBERED: usize = 1000;

/// A symbolic link that is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The link.
    pub link: PathBuf,
    /// What it names, without links.
    pub to: PathBuf,
    /// Why not.
    pub why: Why,
}

/// Why a symbolic link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The owners of the link and of what it names differ.
    Owners(u32, u32),
    /// Root has made the link, but this user, who runs PHP, can replace what it names.
    Replaceable(u32),
    /// The option `links` says so.
    Option,
    /// What it names is hidden, or lies in a hidden directory that it names.
    Hidden,
    /// What it names is PHP's source by its name.
    Source,
    /// The way is too long.
    Long,
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "the symbolic link {} leads to {}, ", self.link.display(), self.to.display())?;
        let directory = self.directory().display();
        match self.why {
            Why::Owners(link, named) => write!(
                to,
                "which is outside the root and has another owner ({named}) than the link ({link}); chown -h {named} of the link \
                 or follow = [\"{directory}\"] allows it"
            ),
            Why::Replaceable(user) => write!(
                to,
                "which is outside the root, in a directory that PHP's user ({user}) can write to, and the link is root's; \
                 chown -h of the link to the owner of what it names, or follow = [\"{directory}\"], allows it"
            ),
            Why::Option => {
                write!(to, "which is outside the root, and links = \"inside\"; follow = [\"{directory}\"] allows it")
            }
            Why::Hidden => write!(to, "which is hidden"),
            Why::Source => write!(to, "which is PHP's source by its name"),
            Why::Long => write!(to, "and the way has more than {MOST_STEPS} components"),
        }
    }
}

impl Refused {
    /// The directory that `follow` would have to name.
    pub fn directory(&self) -> &Path {
        if self.to.is_dir() { &self.to } else { self.to.parent().unwrap_or(&self.to) }
    }

    /// Writes it to the log, once for each link.
    pub fn log(&self, application: &str) {
        static NAMED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let Ok(mut named) = NAMED.lock() else { return };
        if named.len() < REMEMBERED && named.insert(self.link.clone()) {
            // Standard error is a pipe to the supervisor, which may be full or closed: then this line is lost.
            let _ = std::io::stderr().write_all(format!("{application}: not followed (403): {self}\n").as_bytes());
        }
    }
}

/// A path that has been walked to its end.
pub(super) struct Walked {
    /// What lies there.
    pub place: OwnedFd,
    /// The same, as the system describes it.
    pub stat: Stat,
    /// What each link on the way names, with what was walked below that: the directory that it lies in, and the path from there.
    pub names: Vec<(PathBuf, Vec<u8>)>,
    /// The last link, and what it names.
    last: Link,
}

impl Walked {
    /// Refuses the link that has led here.
    pub fn refuse(self, why: Why) -> Kind {
        self.last.refuse(why)
    }
}

/// A link that was read, and what it was found to name.
#[derive(Clone, Default)]
struct Link {
    path: PathBuf,
    owner: u32,
    to: PathBuf,
    /// Whether the name of what it names counts. It does not if the link is only on the way to what another one names.
    is_shown: bool,
}

impl Link {
    fn refuse(self, why: Why) -> Kind {
        Kind::Link(Box::new(Refused { link: self.path, to: self.to, why }))
    }
}

/// A component that is still to be walked.
struct Step {
    name: Vec<u8>,
    of: Of,
}

/// Where a component comes from.
enum Of {
    /// The path that was asked for.
    Path,
    /// The text of a link, on the way to what it names.
    Text,
    /// The last one of the text of a link: what it names.
    End(Link),
}

/// Walks a cleaned path below the root that leads out of it by a link.
pub(super) fn walk(terms: &Terms<'_>, path: &[u8]) -> Result<Walked, Kind> {
    let mut steps: Vec<Step> = names_of(path).map(|name| Step { name, of: Of::Path }).collect();
    let mut here = open(&rustix::fs::CWD, terms.root.as_os_str().as_bytes())?;
    let (mut names, mut last) = (Vec::<(PathBuf, Vec<u8>)>::new(), Link::default());
    for _ in 0..MOST_STEPS {
        let Some(Step { name, of }) = steps.pop() else { break };
        let entry = open(&here, &name)?;
        let stat = rustix::fs::fstat(&entry).map_err(|_| Kind::Missing)?;
        let is_shown = match of {
            Of::Text => false,
            Of::Path => {
                names.last_mut().into_iter().for_each(|(_, below)| below.extend([b"/", &name[..]].concat()));
                true
            }
            Of::End(mut link) => {
                link.to = real_path(&entry).map_err(|_| Kind::Missing)?;
                judge(terms, &link, &here, &entry, &name, &stat)?;
                let is_shown = link.is_shown;
                if is_shown {
                    let own = [b"/", link.to.file_name().unwrap_or_default().as_bytes()].concat();
                    names.push((link.to.parent().unwrap_or(&link.to).to_owned(), own));
                    last = link;
                }
                is_shown
            }
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            if steps.is_empty() {
                return Ok(Walked { place: entry, stat, names, last });
            }
            here = entry;
            continue;
        }
        let text = rustix::fs::readlinkat(&entry, "", Vec::new()).map_err(|_| Kind::Missing)?;
        if text.as_bytes().starts_with(b"/") {
            here = open(&rustix::fs::CWD, b"/")?;
        }
        let path = real_path(&entry).map_err(|_| Kind::Missing)?;
        let end = Of::End(Link { path, owner: stat.st_uid, to: PathBuf::new(), is_shown });
        let mut text = names_of(text.as_bytes());
        // The text may be "/" or ".".
        steps.push(Step { name: text.next().unwrap_or(b".".to_vec()), of: end });
        steps.extend(text.map(|name| Step { name, of: Of::Text }));
    }
    Err(last.refuse(Why::Long))
}

/// The components of a path, the last one first.
fn names_of(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.rsplit(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec)
}

/// An entry of a directory, the link itself if it is one.
fn open(directory: &impl std::os::fd::AsFd, name: &[u8]) -> Result<OwnedFd, Kind> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, OsStr::from_bytes(name), flags, Mode::empty()).map_err(|error| match error {
        Errno::ACCESS => Kind::Closed,
        _ => Kind::Missing,
    })
}

/// Whether a link may lead to what it names: `entry`, of that name in the directory `here`.
fn judge(
    terms: &Terms<'_>,
    link: &Link,
    here: &OwnedFd,
    entry: &OwnedFd,
    name: &[u8],
    stat: &Stat,
) -> Result<(), Kind> {
    if terms.allowed(&link.to).is_some() {
        return Ok(());
    }
    let why = match (terms.links, link.owner) {
        (Links::Inside, _) => Why::Option,
        (Links::Owner, owner) if owner == stat.st_uid => return Ok(()),
        (Links::Owner, 0) => {
            // "." and ".." do not lie in the directory where they are found.
            let above = if matches!(name, b"." | b"..") { &open(entry, b"..")? } else { here };
            let above = rustix::fs::fstat(above).map_err(|_| Kind::Missing)?;
            // An access control list may let more users write than the bits say, but its mask is in the bits of the group.
            if above.st_uid != terms.php_user && above.st_mode & 0o022 == 0 {
                return Ok(());
            }
            Why::Replaceable(terms.php_user)
        }
        (Links::Owner, owner) => Why::Owners(owner, stat.st_uid),
    };
    Err(link.clone().refuse(why))
}
