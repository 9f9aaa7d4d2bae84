//! The HTTP front: takes requests, serves files, gives the rest to PHP workers through shared memory.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what the supervisor tells the front |
//! | [`server`] | threads, listeners, connections, drain |
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
//! | [`refusal`] | the front's own answers |
//! | [`addresses`] | connections at once of one address |
//! | [`clients`] | requests at once of one address |
//! | [`warm`] | requests made of a generation before visitors' |
//! | [`metrics`] | health and metrics on listeners of their own |
//! | [`status`] | ping and PHP-FPM's status page |
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
mod files;
pub mod forwarded;
mod head;
mod host;
mod lane;
mod lanes;
mod metrics;
pub use metrics::Durations;
mod refusal;
mod route;
mod server;
mod service;
pub mod settings;
mod status;
pub mod target;
pub mod transport;
mod warm;

pub use server::{Inherited, run};
