//! What the black-box tests share: a server in a directory of its own, a plain HTTP client, waiting for conditions.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`backends`] | PostgreSQL and Redis |
//! | [`bridged`] | the test applications with the Composer package |
//! | [`server`] | starts and stops the real binaries |
//! | [`client`] | requests over sockets, answers read to the byte |
//! | [`marking`] | an application whose scripts leave marks |
//! | [`maxmind_file`] | small files of MaxMind's format |
//! | [`modes`] | an entry script in each mode |
//! | [`programs`] | which package has a program that is missing |
//! | [`process`] | what /proc says of processes |
//! | [`snapshot`] | scripts that call `reprise_snapshot()`, under both isolations, audited |
//! | [`status`] | numbers of `reprise status --json` |
//! | [`spoiled`] | what requests can change, as rows of PHP code |
//! | [`compare`] | the same visits to Reprise and to nginx with PHP-FPM |
//! | [`installed`] | the test applications, built once |
//! | [`once`] | what one test makes for all that need it |
//! | [`disguises`] | spellings of paths by which servers have been made to send what they deny |
//! | [`closed_list`] | what may differ between the two |
//! | [`tls`] | certificates, curl and openssl s_client |
//! | [`upstream`] | servers that say what a test wants |
//! | [`yard`] | releases, and nodes that serve them |
//! | [`pebble`] | an authority that issues certificates |
//! | [`peer`] | nginx with PHP-FPM to compare with, MariaDB |

#![forbid(unsafe_code)]

pub mod backends;
pub mod bridged;
pub mod client;
pub mod closed_list;
pub mod compare;
pub mod disguises;
pub mod http2;
pub mod installed;
pub mod marking;
pub mod maxmind_file;
pub mod memory_group;
pub mod modes;
pub mod once;
pub mod pebble;
pub mod peer;
pub mod process;
pub mod programs;
pub mod server;
pub mod snapshot;
pub mod spoiled;
pub mod status;
pub mod tls;
pub mod upstream;
pub mod yard;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use client::{Client, Response, get};
pub use server::{Server, Setup};

/// Seconds of a quiet machine: one that is not may take three times as long, and nothing has failed. `REPRISE_PATIENCE` says another
/// number than three, for an emulated machine.
pub fn seconds(quiet: u64) -> Duration {
    static PATIENCE: OnceLock<u64> = OnceLock::new();
    let said = || std::env::var("REPRISE_PATIENCE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(quiet * PATIENCE.get_or_init(|| said().unwrap_or(3)))
}

/// How rewinds find written pages, and the isolation of each server that names none: `REPRISE_WAY` is "userfaultfd" or "soft-dirty".
/// Without it, by the best way of this kernel, and "auto".
pub fn way() -> Option<String> {
    std::env::var("REPRISE_WAY").ok()
}

/// How much a test does: `usual`, or `full` in `./test --full`.
pub fn amount(usual: usize, full: usize) -> usize {
    if std::env::var_os("REPRISE_FULL").is_some() { full } else { usual }
}

/// How long `wait_for` waits until it asks again: at least and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Waits until `condition` gives something; panics with `what` when the time, in seconds of a quiet machine, is over. What
/// takes long to find out is asked less often: the processors are for what is waited for.
pub fn wait_for<T>(what: &str, quiet: u64, mut condition: impl FnMut() -> Option<T>) -> T {
    let limit = seconds(quiet);
    let deadline = Instant::now() + limit;
    loop {
        let asked = Instant::now();
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain: {what}");
        std::thread::yield_now();
        std::thread::park_timeout((asked.elapsed() * 4).clamp(PAUSE[0], PAUSE[1]));
    }
}

/// As [`wait_for`], for a condition that only holds.
pub fn wait_until(what: &str, seconds: u64, mut condition: impl FnMut() -> bool) {
    wait_for(what, seconds, || condition().then_some(()));
}
