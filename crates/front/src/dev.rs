//! The front of an application under development (`reprise dev`): before each request it asks what has changed, and it tells browsers.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`fence`] | a request waits until everything is known that was changed before it came |
//! | [`browsers`] | what has changed, as events for browsers |
//! | [`insertion`] | the script by which a page listens, put into its body |
//! | [`policy`] | whether a page's Content-Security-Policy lets that script run |

pub mod browsers;
pub mod fence;
pub mod insertion;
pub mod policy;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use browsers::Browsers;
pub use fence::Fence;

/// Bytes of why something cannot be loaded.
const MAX_REASON: usize = 16 * 1024;
/// Reasons that are said in the log, each once.
const MAX_REASONS: usize = 50;

/// What a server of development has beside others.
pub struct Dev {
    /// What has changed.
    pub fence: Fence,
    /// What pages are told.
    pub browsers: Browsers,
    said: Mutex<BTreeSet<String>>,
}

impl Dev {
    /// For a front that begins now.
    pub fn new(fence: Fence) -> Dev {
        Dev { browsers: Browsers::new(fence.known()), fence, said: Mutex::default() }
    }

    /// The supervisor says what has changed. `is_busy`: PHP runs a request at the moment.
    pub fn changed(&self, told: fence::Told, is_busy: bool) {
        let (until, is_circle) = self.browsers.note(told.changes.count, is_busy);
        self.fence.answer(fence::Told { until, ..told });
        if is_circle {
            let why = "each reload of a page changes files of the application: pages are not reloaded for that any more. \
                `reprise dev --ignore PATH` names what the application writes";
            let _ = writeln!(io::stderr(), "{why}");
        }
    }

    /// A page does not listen: the log says once why.
    pub fn say(&self, path: &str, why: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < MAX_REASONS && said.insert(why.to_owned()) {
            let _ = writeln!(io::stderr(), "{path} does not reload by itself: {why}");
        }
    }
}

/// What the supervisor has written into a file.
pub fn reason(file: &OwnedFd) -> String {
    let mut bytes = vec![0; MAX_REASON];
    let count = rustix::io::pread(file, &mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}
