//! What holds for any input. The fuzz targets look for inputs for which it does not; those that they found to be different
//! from all others are in `fuzz/corpus`, and `tests/corpus.rs` gives them to the same functions.
//!
//! # Layout
//!
//! | module | input |
//! |---|---|
//! | [`control`] | packets between the supervisor and its children |
//! | [`forwarded`] | headers of proxies |
//! | [`framing`] | what a client sends |
//! | [`log`] | what of a request the access log shows |
//! | [`proxy_header`] | what a connection of a load balancer begins with |
//! | [`response`] | the head of a response, as a worker may have written it |
//! | [`slab`] | words of shared memory, as a worker may have written them |
//! | [`target`] | request targets |

#![forbid(unsafe_code)]

pub mod control;
pub mod forwarded;
pub mod framing;
pub mod log;
pub mod proxy_header;
pub mod response;
pub mod slab;
pub mod target;

/// A check of one input: it panics if what has to hold does not.
pub type Check = fn(&[u8]);

/// All checks, by the names of the fuzz targets and of the directories of their corpora.
pub const CHECKS: [(&str, Check); 8] = [
    ("control", control::check),
    ("forwarded", forwarded::check),
    ("framing", framing::check),
    ("log", log::check),
    ("proxy_header", proxy_header::check),
    ("response", response::check),
    ("slab", slab::check),
    ("target", target::check),
];
