//! A test of a run.

use std::time::Duration;

/// A test that ran.
pub struct Ran {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Its processor time, with that of all processes it waited for.
    pub processor: Duration,
    /// What it printed.
    pub output: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl Ran {
    /// One that could not be started.
    pub fn never(name: String, why: String) -> Ran {
        Ran { name, took: Duration::ZERO, processor: Duration::ZERO, output: String::new(), failure: Some(why) }
    }
}
