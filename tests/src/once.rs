//! What one test of a run of ./test makes for all that need it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Names the directory with what this run of the tests has made, if there is one.
pub const SHARED: &str = "REPRISE_APPLICATIONS";

/// What this run of the tests has made once, by the first test that needs it; `None` outside of such a run.
pub fn shared(name: &str, make: impl Fn(&Path)) -> Option<PathBuf> {
    let place = shared_directory()?.join(name);
    once(&place, || make(&place));
    Some(place)
}

/// Where it lies, if there is such a run.
pub fn shared_directory() -> Option<PathBuf> {
    std::env::var_os(SHARED).map(PathBuf::from)
}

/// Does it unless another test has; `mark` with an extension is the file that says so.
pub fn once(mark: &Path, make: impl Fn()) {
    let lock = fs::File::create(mark.with_extension("lock")).expect("a lock");
    // Held to the end of this function, or of a process that fails.
    let _held = Flock::lock(lock, FlockArg::LockExclusive).expect("the lock");
    let done = mark.with_extension("done");
    if !done.exists() {
        make();
        fs::write(done, "").expect("a mark");
    }
}
