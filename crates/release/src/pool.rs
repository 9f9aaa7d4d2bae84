//! Where releases lie for nodes to take them, with the records that say which one is served.
//!
//! | pool | |
//! |---|---|
//! | a directory | perhaps one that nodes share: [`directory`] |
//! | `valkey://`, `redis://` | [`shelf`] |
//! | `https://` | a directory pool behind a web server, which nodes can only read: [`web`] |
//!
//! Nothing in a pool is believed: what a node takes is signed.

pub mod directory;
pub mod shelf;
pub mod web;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use crate::fault::Fault;
use crate::manifest::is_name;

/// A node that has said nothing for so long is none.
pub const SILENT: Duration = Duration::from_secs(10);
/// Bytes of a node's report.
pub const MAX_REPORT: usize = 4096;
/// Releases of an application in a pool.
pub const MAX_RELEASES: usize = 1000;

/// Which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// What nodes are to prepare.
    Prepare,
    /// What nodes serve.
    Serve,
}

impl Slot {
    /// Its name in a pool.
    pub fn word(self) -> &'static str {
        match self {
            Slot::Prepare => "prepare",
            Slot::Serve => "serve",
        }
    }
}

/// A change of the records. Two who change them at once do not both succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nodes are to prepare; by a number that is higher than all before.
    Prepare,
    /// What was prepared by this number, which is still the latest, is served.
    Serve,
    /// It is not going to be.
    Withdraw,
}

impl Step {
    /// Which record it writes.
    pub fn slot(self) -> Slot {
        match self {
            Step::Prepare | Step::Withdraw => Slot::Prepare,
            Step::Serve => Slot::Serve,
        }
    }

    /// Whether it may be made, by the numbers that are there.
    pub fn is_allowed(self, number: u64, prepared: u64, served: u64) -> bool {
        served < number
            && match self {
                Step::Prepare => prepared < number,
                Step::Serve | Step::Withdraw => prepared == number,
            }
    }
}

/// What a node has said, and how long ago.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub node: String,
    /// What it said.
    pub text: Vec<u8>,
    /// How long ago by the pool's own clock.
    pub age: Duration,
}

/// A pool, for one application.
pub trait Pool {
    /// The names of the releases there.
    fn releases(&mut self) -> Result<Vec<String>, Fault>;
    /// Adds a release; false: there is one of that name. `done` is told of bytes.
    fn put(&mut self, name: &str, file: &mut File, done: &mut dyn FnMut(u64)) -> Result<bool, Fault>;
    /// Writes a release to a file, which gets `most` bytes at most.
    fn fetch(&mut self, name: &str, to: &mut File, most: u64) -> Result<(), Fault>;
    /// Removes a release; false: it was not there.
    fn remove(&mut self, name: &str) -> Result<bool, Fault>;
    /// A record.
    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Fault>;
    /// Changes the records, if the step is allowed. False: somebody else has been faster.
    fn advance(&mut self, step: Step, number: u64, record: &[u8]) -> Result<bool, Fault>;
    /// Says what a node does.
    fn report(&mut self, node: &str, text: &[u8]) -> Result<(), Fault>;
    /// What nodes have said.
    fn reports(&mut self) -> Result<Vec<Report>, Fault>;
    /// Whether nodes can only read it: each then serves the record as soon as it can.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// Which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory(PathBuf),
    /// Valkey or Redis, with the URL as its client takes it.
    Shelf(String),
    /// A web server: the URL of the directory.
    Web(String),
}

/// Which pool a text names.
///
/// # Errors
/// None; why.
pub fn kind(text: &str) -> Result<Kind, String> {
    if text.starts_with('/') {
        return Ok(Kind::Directory(PathBuf::from(text)));
    }
    if let Some(rest) = text.strip_prefix("https://") {
        let is_plain = !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['@', '?', '#', ' ']);
        return match is_plain {
            true => Ok(Kind::Web(text.trim_end_matches('/').to_owned())),
            false => Err("is not https://HOST/PATH".to_owned()),
        };
    }
    let other = || "is none of: an absolute directory, valkey://… (or redis://), https://HOST/PATH".to_owned();
    cluster::settings::of_client(text).map(Kind::Shelf).map_err(|_| other())
}

/// Opens the pool of an application.
///
/// # Errors
/// It cannot be reached, or the name cannot be an application's.
pub fn open(text: &str, application: &str, ca: Option<&std::path::Path>) -> Result<Box<dyn Pool>, Fault> {
    if !is_name(application) {
        return Err(Fault::refused(format!("'{application}' cannot be an application's name in a pool")));
    }
    Ok(match kind(text).map_err(|why| Fault::refused(format!("the pool {why}")))? {
        Kind::Directory(path) => Box::new(directory::Directory::new(path.join(application))),
        Kind::Shelf(url) => Box::new(shelf::Shelf::connect(&url, application, ca)?),
        Kind::Web(url) => Box::new(web::Web::new(&url, application, ca)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_one_kind_of_pool() {
        assert_eq!(kind("/srv/pool"), Ok(Kind::Directory("/srv/pool".into())));
        assert_eq!(kind("valkey://host"), Ok(Kind::Shelf("redis://host".to_owned())));
        assert_eq!(kind("https://host/a/"), Ok(Kind::Web("https://host/a".to_owned())));
        for bad in ["pool", "http://host/", "https://", "https://u:p@host/", "memcached://host", "ftp://x"] {
            assert!(kind(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_two_who_change_records_one_succeeds() {
        assert!(Step::Prepare.is_allowed(5, 4, 3) && Step::Prepare.is_allowed(1, 0, 0));
        assert!(!Step::Prepare.is_allowed(5, 5, 3) && !Step::Prepare.is_allowed(5, 4, 5));
        assert!(Step::Serve.is_allowed(5, 5, 4));
        assert!(!Step::Serve.is_allowed(5, 6, 4), "another has begun");
        assert!(!Step::Serve.is_allowed(5, 5, 5) && !Step::Withdraw.is_allowed(5, 5, 5), "it is served");
    }
}
