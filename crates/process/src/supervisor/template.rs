//! A template: the process that has booted a lane's entry up to its snapshot, or the forker of a worker script.

use std::time::Instant;

use wire::control::{Bodies, Isolation};

use super::child::Forker;
use crate::sys;

/// A template and what is known of it.
pub(super) struct Template {
    pub(super) child: Forker,
    /// Since when it is to end so that another can take its place.
    pub(super) leaving: Option<Instant>,
    /// It was killed because it took too long to boot.
    pub(super) is_late: bool,
    /// The script has shown that it wants no lane.
    pub(super) is_unasked: bool,
    /// A request could not go on from its snapshot.
    pub(super) is_unfit: bool,
    /// Requests of its dead workers.
    pub(super) requests: u64,
    /// What the slab said of workers ended by threads when it began.
    pub(super) threads_before: u64,
}

/// What a template says when it is ready.
pub(super) struct TemplateReady {
    pub(super) isolation: Isolation,
    pub(super) is_for_one_host: bool,
    pub(super) bodies: Bodies,
}

/// What a forker says of a child that it was to fork: its process, or the error.
#[derive(Clone, Copy)]
pub(super) struct Forked(pub(super) Result<i32, i32>);

impl Forked {
    /// The process, if it is a child of that forker's. One whose workers have broken into it must not have us kill what is
    /// not its own.
    pub(super) fn child_of(self, forker: Option<i32>) -> Option<i32> {
        let is_its = |pid: &i32| *pid > 0 && sys::parent_of(*pid).is_none_or(|parent| Some(parent) == forker);
        self.0.ok().filter(is_its)
    }

    /// Why there is none.
    pub(super) fn why(self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.0.err().unwrap_or_default())
    }
}

impl Template {
    /// Its lane has a new slab.
    pub(super) fn count_anew(&mut self) {
        (self.requests, self.threads_before) = (0, 0);
    }
}
