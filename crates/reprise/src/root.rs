//! The root of an application: a directory, or a phar or a directory in one. A phar is unpacked ([`crate::phars`]), so whoever looks at files
//! finds a directory either way.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use supervisor::os::files::Seen;

/// Where an application's files are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    directory: PathBuf,
    phar: Option<Phar>,
}

/// A phar that was checked and unpacked.
#[derive(Clone, Debug)]
pub struct Phar {
    /// Its file, resolved.
    pub file: PathBuf,
    /// The directory in it that is the root: `public`, or empty.
    pub inside: String,
    /// Names the bytes of the file.
    pub id: String,
    /// The file when it was read.
    pub seen: Seen,
    /// What is open for it, until a plan has it.
    pub held: Option<Arc<Held>>,
    /// How it is signed, and how much is in it, for people.
    pub described: String,
    /// What is to be said of it.
    pub notices: Vec<String>,
}

/// What is open for a phar.
#[derive(Debug)]
pub struct Held {
    /// The sealed copy that PHP reads.
    pub copy: OwnedFd,
    /// As long as it is open, the directory into which the phar was unpacked stays.
    pub lock: OwnedFd,
}

impl PartialEq for Phar {
    fn eq(&self, other: &Phar) -> bool {
        (&self.file, &self.inside, &self.id) == (&other.file, &other.inside, &other.id)
    }
}

impl Phar {
    /// The root as PHP has it.
    pub fn scripts(&self) -> PathBuf {
        let mut text = std::ffi::OsString::from("phar://");
        text.push(&self.file);
        let root = PathBuf::from(text);
        if self.inside.is_empty() { root } else { root.join(&self.inside) }
    }

    /// The path of its stub as a script, if the root is the whole phar.
    pub fn stub(&self) -> Option<String> {
        let name = self.file.file_name()?.to_str()?;
        self.inside.is_empty().then(|| format!("/{name}"))
    }

    /// The directory that its file lies in.
    pub fn directory(&self) -> PathBuf {
        self.file.parent().map_or_else(PathBuf::new, Path::to_owned)
    }
}

impl Root {
    /// A directory, resolved.
    pub const fn directory(directory: PathBuf) -> Root {
        Root { directory, phar: None }
    }

    /// A phar, unpacked into that directory.
    pub fn of_phar(unpacked: &Path, phar: Phar) -> Root {
        let directory = if phar.inside.is_empty() { unpacked.to_owned() } else { unpacked.join(&phar.inside) };
        Root { directory, phar: Some(phar) }
    }

    /// The phar that it is in.
    pub const fn phar(&self) -> Option<&Phar> {
        self.phar.as_ref()
    }

    /// Closes what is open for a phar.
    pub fn let_go(&mut self) {
        if let Some(phar) = &mut self.phar {
            phar.held = None;
        }
    }

    /// What people own and name: the phar's file, or the directory.
    pub fn own(&self) -> &Path {
        self.phar.as_ref().map_or(&self.directory, |phar| &phar.file)
    }

    /// A directory of it, or above it in the same phar, as people read it.
    pub fn shown_base(&self, base: &Path) -> String {
        match &self.phar {
            None => base.display().to_string(),
            Some(phar) => format!("phar://{}", phar.file.display()),
        }
    }

    /// As people read it.
    pub fn shown(&self) -> String {
        match &self.phar {
            None => self.directory.display().to_string(),
            Some(phar) => phar.scripts().display().to_string(),
        }
    }
}

impl Deref for Root {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.directory
    }
}

impl AsRef<Path> for Root {
    fn as_ref(&self) -> &Path {
        &self.directory
    }
}
