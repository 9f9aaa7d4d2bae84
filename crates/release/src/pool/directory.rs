//! A pool in a directory: a file for each release, for each record, and for what each node says. Every file gets its name when it is
//! complete.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{MAX_RELEASES, MAX_REPORT, Pool, Report, Slot, Step};
use crate::fault::Fault;
use crate::manifest::is_name;
use crate::record::{MAX_NODES, MAX_RECORD, parse_name};

/// How long another may take to write a record.
const PATIENCE: Duration = Duration::from_secs(5);
/// The end of the name of a release's file.
pub const ENDING: &str = ".release";

/// The pool of an application.
pub struct Directory {
    path: PathBuf,
}

/// A file that need not be there, where others may have put something else: neither a pipe nor a link makes this wait or read that.
fn open(path: &Path) -> Result<Option<File>, Fault> {
    let failed = |error: std::io::Error| Fault::unreachable(format!("{}: {error}", path.display()));
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok(Some(file)),
        false => Err(Fault::refused(format!("{}: is no file", path.display()))),
    }
}

/// The bytes of such a file.
///
/// # Errors
/// It is larger, no file, or cannot be read.
pub fn read_small(path: &Path, most: usize) -> Result<Option<Vec<u8>>, Fault> {
    let failed = |error: std::io::Error| Fault::unreachable(format!("{}: {error}", path.display()));
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() <= most {
        true => Ok(Some(bytes)),
        false => Err(Fault::refused(format!("{}: is larger than {most} bytes", path.display()))),
    }
}

/// Writes a file that replaces the one of its name at once. Until then its name is none that anybody reads, and neither a link nor a file
/// that another has put there is written to.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let failed = Fault::of_file(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let _ = fs::remove_file(&part);
    let written = OpenOptions::new().write(true).create_new(true).open(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_data()
    });
    let replaced = written.and_then(|()| fs::rename(&part, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&part);
    }
    replaced.map_err(failed)
}

/// The number that a record says it has. Only signatures say whether that is so; here it decides who came first.
fn number(record: Option<&[u8]>) -> u64 {
    #[derive(serde::Deserialize)]
    struct Numbered {
        number: u64,
    }
    let text = record.and_then(|bytes| bytes.get(crate::keys::SEAL..));
    text.and_then(|text| serde_json::from_slice::<Numbered>(text).ok()).map_or(0, |one| one.number)
}

impl Directory {
    /// In that directory, which need not be there yet.
    pub fn new(path: PathBuf) -> Directory {
        Directory { path }
    }

    fn make(&self) -> Result<(), Fault> {
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o755).create(path);
        make(&self.path).map_err(Fault::of_file(&self.path))?;
        let nodes = self.path.join("nodes");
        if !nodes.is_dir() {
            make(&nodes).map_err(Fault::of_file(&nodes))?;
            // Nodes have users of their own, and nobody removes what another has said.
            fs::set_permissions(&nodes, Permissions::from_mode(0o1777)).map_err(Fault::of_file(&nodes))?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<PathBuf, Fault> {
        match parse_name(name) {
            Some(_) => Ok(self.path.join(format!("{name}{ENDING}"))),
            None => Err(Fault::refused(format!("{name:?} is no name of a release"))),
        }
    }

    /// Held while a record is written.
    fn lock(&self) -> Result<File, Fault> {
        let path = self.path.join("lock");
        let failed = Fault::of_file(&path);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(&failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                    std::thread::park_timeout(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(Fault::unreachable(format!("{}: another holds it", path.display())));
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Now, by the clock of who stores the files.
    fn clock(&self) -> SystemTime {
        let path = self.path.join(".clock");
        let touched = File::create(&path).and_then(|mut file| file.write_all(b".").and_then(|()| file.metadata()));
        touched.and_then(|known| known.modified()).unwrap_or_else(|_| SystemTime::now())
    }
}

impl Pool for Directory {
    fn releases(&mut self) -> Result<Vec<String>, Fault> {
        let failed = |error: std::io::Error| Fault::unreachable(format!("{}: {error}", self.path.display()));
        let list = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            list => list.map_err(failed)?,
        };
        let mut names = Vec::new();
        for one in list {
            let name = one.map_err(failed)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            names.extend(name.filter(|name| parse_name(name).is_some()).map(str::to_owned));
            if names.len() > MAX_RELEASES {
                return Err(Fault::refused(format!("{}: more than {MAX_RELEASES} releases", self.path.display())));
            }
        }
        Ok(names)
    }

    fn put(&mut self, name: &str, file: &mut File, done: &mut dyn FnMut(u64)) -> Result<bool, Fault> {
        self.make()?;
        let to = self.file(name)?;
        let failed = Fault::of_file(&to);
        let part = self.path.join(format!(".{name}.{}.part", std::process::id()));
        let copied = File::create(&part).and_then(|mut new| {
            let mut piece = vec![0; 512 << 10];
            loop {
                let read = file.read(&mut piece)?;
                if read == 0 {
                    break;
                }
                new.write_all(&piece[..read])?;
                done(read as u64);
            }
            new.set_permissions(Permissions::from_mode(0o644))?;
            new.sync_all()
        });
        // A link is refused where there is a file: of two that push, one succeeds.
        let put = copied.and_then(|()| fs::hard_link(&part, &to));
        let _ = fs::remove_file(&part);
        match put {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|()| true).map_err(failed),
        }
    }

    fn fetch(&mut self, name: &str, to: &mut File, most: u64) -> Result<(), Fault> {
        let path = self.file(name)?;
        let failed = |error: std::io::Error| Fault::unreachable(format!("{}: {error}", path.display()));
        let file = open(&path)?.ok_or_else(|| Fault::refused(format!("{}: is not there", path.display())))?;
        let copied = std::io::copy(&mut file.take(most + 1), to).map_err(failed)?;
        match copied <= most {
            true => Ok(()),
            false => Err(Fault::refused(format!("{}: is larger than {most} bytes", path.display()))),
        }
    }

    fn remove(&mut self, name: &str) -> Result<bool, Fault> {
        let path = self.file(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(Fault::of_file(&path)),
        }
    }

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Fault> {
        let found = read_small(&self.path.join(slot.word()), MAX_RECORD)?;
        match found {
            // Without a record the directory itself has to be there: a file system that is not mounted is no empty pool.
            None if !self.path.is_dir() => Err(Fault::unreachable(format!("{}: is not there", self.path.display()))),
            found => Ok(found),
        }
    }

    fn advance(&mut self, step: Step, number_of_step: u64, record: &[u8]) -> Result<bool, Fault> {
        self.make()?;
        let _lock = self.lock()?;
        let (prepared, served) = (self.read(Slot::Prepare)?, self.read(Slot::Serve)?);
        if !step.is_allowed(number_of_step, number(prepared.as_deref()), number(served.as_deref())) {
            return Ok(false);
        }
        replace(&self.path.join(step.slot().word()), record)?;
        Ok(true)
    }

    fn report(&mut self, node: &str, text: &[u8]) -> Result<(), Fault> {
        replace(&self.path.join("nodes").join(node), text)
    }

    fn reports(&mut self) -> Result<Vec<Report>, Fault> {
        let nodes = self.path.join("nodes");
        let failed = |error: std::io::Error| Fault::unreachable(format!("{}: {error}", nodes.display()));
        let list = match fs::read_dir(&nodes) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            list => list.map_err(failed)?,
        };
        let (now, mut reports) = (self.clock(), Vec::new());
        for one in list {
            let one = one.map_err(failed)?;
            let Some(node) = one.file_name().to_str().filter(|name| is_name(name)).map(str::to_owned) else { continue };
            let Ok(modified) = one.metadata().and_then(|known| known.modified()) else { continue };
            let Ok(Some(text)) = read_small(&one.path(), MAX_REPORT) else { continue };
            reports.push(Report { node, text, age: now.duration_since(modified).unwrap_or_default() });
            if reports.len() > MAX_NODES {
                return Err(Fault::refused(format!("{}: more than {MAX_NODES} nodes", nodes.display())));
            }
        }
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everybody may write to `nodes`, so what lies there may be meant to mislead.
    #[test]
    fn what_a_node_says_goes_to_its_own_file_alone() {
        let path = std::env::temp_dir().join(format!("reprise-pool-{:032x}", fastrand::u128(..)));
        let mut pool = Directory::new(path.clone());
        pool.make().unwrap();
        let (nodes, own) = (path.join("nodes"), path.join("own"));
        fs::write(&own, "mine").unwrap();
        std::os::unix::fs::symlink(&own, nodes.join(format!(".web.1.{}.part", std::process::id()))).unwrap();
        std::os::unix::fs::symlink(&own, nodes.join("web.2")).unwrap();
        // Another process is writing what its node says.
        fs::write(nodes.join(".web.3.1.part"), "half").unwrap();
        for node in ["web.1", "web.2"] {
            pool.report(node, node.as_bytes()).unwrap();
        }
        let mut said: Vec<_> = pool.reports().unwrap().into_iter().map(|one| (one.node, one.text)).collect();
        said.sort();
        let expected = ["web.1", "web.2"].map(|node| (node.to_owned(), node.as_bytes().to_vec()));
        assert_eq!((said, fs::read(&own).unwrap()), (expected.to_vec(), b"mine".to_vec()));
        fs::remove_dir_all(&path).unwrap();
    }
}
