//! The memory files of the applications' data caches. They outlive generations. The supervisor makes them and never maps them: what is in one is
//! its application's.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, memfd_create};

use data_cache::layout::Geometry;

use crate::settings::service::Application;

/// Addresses that are free in every process: above programs that are not position-independent and AddressSanitizer's shadow memory, which ends at
/// 0x1000_7fff_8000, and 3 TiB below those that the kernel chooses first with `ulimit -s unlimited`, which are its lowest (a sixth of 47 bits, less at
/// most 1 TiB, and downwards from there).
#[cfg(target_arch = "x86_64")]
const ADDRESSES: std::ops::Range<u64> = 0x1100_0000_0000..0x1120_0000_0000;
/// The same on processors where the kernel may have only 39 bits of addresses.
#[cfg(not(target_arch = "x86_64"))]
const ADDRESSES: std::ops::Range<u64> = 0x20_0000_0000..0x40_0000_0000;
const ALIGNED: u64 = 4 << 20;

/// Whose values a file has: one of another user, program or size starts cold.
#[derive(Clone, PartialEq, Eq)]
struct Owner {
    user: Option<(u32, u32)>,
    php: (u64, u64, i64, i64),
    php_version: String,
    size: u64,
}

struct DataCache {
    owner: Owner,
    file: OwnedFd,
    address: u64,
}

/// What a prototype gets.
pub(crate) struct Attached<'a> {
    pub(crate) file: BorrowedFd<'a>,
    /// Where the segment lies, and its size.
    pub(crate) place: (u64, u64),
}

/// One for each application that has one, by its name.
#[derive(Default)]
pub(crate) struct DataCaches(BTreeMap<String, DataCache>);

impl DataCaches {
    /// What the prototype of an application gets. None: it has no data cache.
    pub(crate) fn of(&mut self, application: &Application, php: BorrowedFd<'_>) -> io::Result<Option<Attached<'_>>> {
        let Some(geometry) = Geometry::of(application.data_cache) else {
            self.0.remove(&application.name);
            return Ok(None);
        };
        let status = rustix::fs::fstat(php)?;
        let owner = Owner {
            user: application.user.as_ref().map(|user| (user.uid, user.gid)),
            php: (status.st_dev, status.st_ino, status.st_mtime as i64, status.st_size as i64),
            php_version: application.php_version.clone(),
            size: geometry.size,
        };
        if self.0.get(&application.name).is_none_or(|cache| cache.owner != owner) {
            let made = DataCache { file: memory_file(geometry.size)?, address: choose_address(geometry.size)?, owner };
            // Generations that still run keep the old file.
            self.0.insert(application.name.clone(), made);
        }
        let Some(cache) = self.0.get(&application.name) else { return Ok(None) };
        Ok(Some(Attached { file: cache.file.as_fd(), place: (cache.address, geometry.size) }))
    }

    /// Applications that are no longer served.
    pub(crate) fn keep_only(&mut self, is_served: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_served(name));
    }
}

fn memory_file(size: u64) -> io::Result<OwnedFd> {
    let file = memfd_create("reprise-data", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, size)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Another one at each start of the server, so that nobody can count on it.
fn choose_address(size: u64) -> io::Result<u64> {
    let bytes = crate::os::sys::random::<8>()?;
    let places = (ADDRESSES.end - ADDRESSES.start - 2 * size) / ALIGNED;
    Ok(ADDRESSES.start + u64::from_ne_bytes(bytes) % places * ALIGNED)
}
