//! The store that an application's nodes share: what the process that talks to it gets, and the hidden subcommand that the supervisor starts.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use cluster::settings::{SHORTEST_SECRET, of_client};
use cluster::{Link, Place, Said, Settings};
use ipc::control::{FromStore, ToStore};
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::peers::boot;
use supervisor::peers::channel::{Channel, Received};

use crate::exit::{Code, Failure};
use crate::options::Application;

/// Bytes of a purge.
const MOST_PURGED: usize = 256 * 1024;

/// What the process of an application gets; `None`: it has no store.
pub fn draft(application: &Application) -> Result<Option<String>, Failure> {
    let Some(url) = &application.data_cache_store else { return Ok(None) };
    let settings = Settings {
        application: application.name.clone(),
        url: url.clone(),
        secret: application.data_cache_secret.clone().unwrap_or_default(),
        ca: application.data_cache_store_ca.clone(),
        timeout: application.data_cache_store_timeout.as_millis() as u64,
    };
    let text = serde_json::to_string(&settings);
    text.map(Some).map_err(|error| Failure::new(Code::Internal, "data_cache_store", error))
}

/// Whether the options about the store agree.
pub fn check(application: &Application) -> Result<(), Failure> {
    let wrong = |option: &str, why: &str| {
        Failure::new(Code::Configuration, format!("application {}: {option}", application.name), why)
    };
    let Some(url) = &application.data_cache_store else {
        return match application.data_cache_secret {
            Some(_) => Err(wrong("data_cache_secret", "there is no data_cache_store whose values it could sign")),
            None => Ok(()),
        };
    };
    of_client(url).map_err(|why| wrong("data_cache_store", &why))?;
    if application.data_cache_memory == 0 {
        return Err(wrong("data_cache_store", "there is no data cache (data_cache_memory = 0) that could use it"));
    }
    match &application.data_cache_secret {
        None => {
            Err(wrong("data_cache_secret", "is missing: a store takes a secret that all nodes have, and nobody else")
                .hint("openssl rand -hex 32"))
        }
        Some(secret) if secret.len() < SHORTEST_SECRET => {
            Err(wrong("data_cache_secret", &format!("has fewer than {SHORTEST_SECRET} bytes"))
                .hint("openssl rand -hex 32"))
        }
        Some(_) => Ok(()),
    }
}

/// Milliseconds for which values are good without news of other nodes; 0: there is no store that brings any.
pub fn staleness(application: &Application) -> u64 {
    let has_store = application.data_cache_store.is_some();
    if has_store { (application.data_cache_staleness.as_millis() as u64).max(1) } else { 0 }
}

/// The store, for people.
pub fn described(application: &Application) -> Option<String> {
    let staleness = application.data_cache_store.as_ref().map(|_| application.data_cache_staleness)?;
    Some(format!("Valkey or Redis; values are good for {staleness:?} without it"))
}

/// The channel to the supervisor, and its descriptor for waiting, which takes no lock.
struct ToSupervisor(Mutex<Channel<FromStore, ToStore>>, OwnedFd);

impl Link for ToSupervisor {
    fn receive(&self) -> io::Result<Said> {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match channel.receive()? {
            Received::Message(ToStore::Purged, attached) => {
                let file = attached.first().ok_or(io::ErrorKind::InvalidData)?;
                Said::Purged(boot::read(file, MOST_PURGED)?)
            }
            Received::Message(ToStore::End, _) => Said::End,
            Received::Nothing => Said::Nothing,
            Received::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    fn purge(&self, text: &[u8]) -> io::Result<()> {
        let file = boot::sealed(text)?;
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send_and_wait(&FromStore::Purged, &[file.as_fd()])
    }
}

/// The hidden subcommand `store`: talks to the store until the supervisor is gone.
pub fn run(address: u64, size: u64) -> Result<Code, Failure> {
    let failed = |error: io::Error| Failure::new(Code::Internal, "store", error).hint("it is started by reprise serve");
    supervisor::os::sys::set_name(c"reprise-store");
    // Code of the application has the same user, and may not look for the secret here.
    supervisor::os::sys::protect_memory().map_err(failed)?;
    let channel = inherited(FIRST_DESCRIPTOR).map_err(failed)?;
    let lifeline = inherited(FIRST_DESCRIPTOR + 1).map_err(failed)?;
    let mut text = Vec::new();
    // The file is this process' own, and its position too.
    File::from(inherited(FIRST_DESCRIPTOR + 2).map_err(failed)?).read_to_end(&mut text).map_err(failed)?;
    let settings: Settings = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    let place = Place { file: inherited(FIRST_DESCRIPTOR + 3).map_err(failed)?, address, size };
    let door = inherited(FIRST_DESCRIPTOR + 4).map_err(failed)?;
    for missing in supervisor::os::confine::store().map_err(failed)? {
        supervisor::logs::log::write(&format!("notice the process is not confined by {missing}\n"));
    }
    let waiting = channel.try_clone().map_err(failed)?;
    let link = Arc::new(ToSupervisor(Mutex::new(Channel::from_fd(channel)), waiting));
    cluster::run(settings, link, &door, &lifeline, &place).map_err(failed)?;
    Ok(Code::Success)
}
