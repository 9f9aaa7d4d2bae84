//! The mailbox of a lane: requests on their way to workers, and responses on their way back.
//!
//! | module | what |
//! |---|---|
//! | [`bodies`] | how long bodies of requests may be |
//! | [`durations`] | a histogram of how long requests took |
//! | [`lane`] | the mailbox: posting a request, waiting, deaths, time-outs |
//! | [`request_body`] | bodies of requests, on their way to PHP |
//! | [`status`] | the state of workers, as PHP-FPM shows it |

#![forbid(unsafe_code)]

pub mod bodies;
pub mod durations;
pub mod lane;
pub mod request_body;
pub mod status;
