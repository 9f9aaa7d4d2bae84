//! Tells the supervisor what was purged here, if other nodes are to do the same.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cache::purge::Purge;
use ipc::control::FromFront;
use rustix::fs::{MemfdFlags, SealFlags};

use inbound::control::Link;

/// Of an application.
pub struct Teller {
    link: Arc<dyn Link>,
    application: String,
    is_wanted: AtomicBool,
}

impl Teller {
    /// It tells nothing until [`Teller::wants`] says so.
    pub fn new(link: Arc<dyn Link>, application: &str) -> Teller {
        Teller { link, application: application.to_owned(), is_wanted: AtomicBool::new(false) }
    }

    /// Whether the application has other nodes.
    pub fn wants(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Passes a purge on. Without a descriptor left other nodes do not learn of it.
    pub fn tell(&self, purge: &Purge) {
        if self.is_wanted.load(Ordering::Relaxed) {
            if let Ok(file) = self.sealed(purge) {
                self.link.send_with(&FromFront::Purged, &[file.as_fd()]);
            }
        }
    }

    fn sealed(&self, purge: &Purge) -> io::Result<std::os::fd::OwnedFd> {
        let text = format!("{}\n{}", self.application, purge.text());
        let file = rustix::fs::memfd_create("reprise-purge", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        if rustix::io::pwrite(&file, text.as_bytes(), 0)? != text.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(file)
    }
}
