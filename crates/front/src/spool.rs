//! Holds what PHP has written and the client has not taken, so that a slow client holds no worker.
//!
//! A task ([`pump`]) reads the response from the exchange as PHP writes it, whether or not the client takes it. The body of
//! the response ([`SpooledBody`]) sends what the task has read. What the client can take goes out at once.
//!
//! What is read ahead lies in memory first. Beyond the limits for memory it goes to a file that the supervisor has opened
//! and that has no name ([`store`]): the front opens no file for writing. Beyond the limits of that too the task waits for
//! the client, and PHP waits for the task. A response that has been sent as far as it was read may always read one part more.
//!
//! Threads of the runtime's pool write and read the file. At most [`WRITES`] parts of each front wait to be written, so a
//! disk that hangs keeps no memory of clients that have left.
//!
//! | module | what |
//! |---|---|
//! | [`store`] | the file, in blocks of equal size |
//! | [`queue`] | what one response has in memory and in the file |
//! | [`pump`] | the task that reads ahead |

mod pump;
mod queue;
mod store;

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

pub use pump::{Next, SpooledBody};
use store::Store;

/// Parts that wait for a thread of the pool to write them, or are being written.
const WRITES: usize = 4;
/// Time between two lines of the log about a file that cannot be written.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// What all responses share.
pub struct Spool {
    /// The file, if the supervisor could open one.
    store: Option<Arc<Store>>,
    writes: Arc<Semaphore>,
    memory: AtomicI64,
    responses: AtomicU64,
    full: AtomicU64,
    errors: AtomicU64,
    said: Mutex<Option<Instant>>,
}

/// The numbers of the spool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes in blocks of the file.
    pub disk: u64,
    /// Responses that PHP has written faster than their clients took them.
    pub responses: u64,
    /// Responses that reached a limit: PHP waited for the client.
    pub full: u64,
    /// Failures to write the file.
    pub errors: u64,
}

impl Spool {
    /// With a file for what memory has no room for. What an earlier front has left in it is dropped.
    pub fn new(file: Option<File>) -> Arc<Spool> {
        let spool = Spool {
            store: None,
            writes: Arc::new(Semaphore::new(WRITES)),
            memory: AtomicI64::new(0),
            responses: AtomicU64::new(0),
            full: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            said: Mutex::new(None),
        };
        let Some(file) = file else { return Arc::new(spool) };
        match file.set_len(0) {
            Ok(()) => Arc::new(Spool { store: Some(Store::new(file)), ..spool }),
            Err(error) => {
                spool.failed(&error);
                Arc::new(spool)
            }
        }
    }

    /// Its numbers.
    pub fn numbers(&self) -> Numbers {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Numbers {
            memory: self.memory.load(Ordering::Relaxed).max(0) as u64,
            disk: self.store.as_ref().map_or(0, |store| store.used()),
            responses: read(&self.responses),
            full: read(&self.full),
            errors: read(&self.errors),
        }
    }

    /// The file could not be written. Standard error is a pipe to the supervisor, which may be full: then the line is lost.
    fn failed(&self, error: &io::Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|then| then.elapsed() > BETWEEN_LINES) {
            *said = Some(Instant::now());
            let text = format!("the spool's file cannot be written: {error}; slow clients hold workers again\n");
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}
