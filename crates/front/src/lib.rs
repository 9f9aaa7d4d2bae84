//! The HTTP front: takes requests, serves files, gives the rest to PHP workers through shared memory.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what the supervisor tells the front |
//! | [`server`] | threads, listeners, connections, drain |
//! | [`shared`] | what all threads share |
//! | [`doors`] | how a thread learns what workers have done |
//! | [`conversation`] | one connection, from its first byte to its last |
//! | [`transport`] | what knows HTTP/1: framing, request lines, how a client leaves |
//! | [`connection`] | both ends of a connection, spelled for PHP and the log |
//! | [`service`] | one request, step by step |
//! | [`route`] | which application, which file or script |
//! | [`target`] | a request target decoded and cleaned |
//! | [`files`] | static files |
//! | [`forwarded`] | who is behind a proxy |
//! | [`head`] | the request head for PHP, header policy |
//! | [`lane`] | the mailbox: posting a request, waiting, deaths, time-outs |
//! | [`lanes`] | which lane runs a script |
//! | [`answer`] | PHP's answer read back |
//! | [`bodies`] | how long bodies of requests may be |
//! | [`body`] | bodies, both ways |
//! | [`refusal`] | why a request is refused |
//! | [`page`] | the front's own responses |
//! | [`addresses`] | connections at once of one address |
//! | [`clients`] | requests at once of one address |
//! | [`warm`] | requests made of a generation before visitors' |
//! | [`durations`] | a histogram of how long requests took |
//! | [`metrics`] | counters as OpenMetrics text |
//! | [`status`] | what workers do, as PHP-FPM shows it |
//! | [`monitoring`] | responses to monitoring: ping, status, health, metrics |
//! | [`host`] | whom a request is for |
//! | [`access`] | the access log |
//! | [`control`] | messages with the supervisor |
//!
//! No PHP, no fork, no user code. All state of a request that matters is private memory of this process.

#![forbid(unsafe_code)]

pub mod access;
mod addresses;
mod answer;
mod bodies;
mod body;
mod clients;
mod connection;
pub mod control;
mod conversation;
mod doors;
mod durations;
mod files;
pub mod forwarded;
mod head;
mod host;
mod lane;
mod lanes;
mod metrics;
mod monitoring;
mod page;
mod refusal;
mod route;
mod server;
mod service;
pub mod settings;
mod shared;
mod status;
pub mod target;
pub mod transport;
mod warm;

pub use durations::Durations;
pub use server::{Inherited, run};
