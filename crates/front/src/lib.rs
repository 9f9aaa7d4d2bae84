//! The HTTP front: takes requests, serves files, gives the rest to PHP workers through shared memory.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`server`] | threads, messages, drain |
//! | [`listening`] | the listeners that are open, which a reload may change |
//! | [`accept`] | a connection is taken, and who has connected is found out |
//! | [`shared`] | what all threads share |
//! | [`doors`] | how a thread learns what workers have done |
//! | [`transport`] | what knows HTTP/1: from a socket to a request, and back |
//! | [`preparing`] | what is done for a generation before it gets a client's request |
//! | [`warm`] | the requests that warm a generation up |
//! | [`verifying`] | the requests by which its pages are compared with classic mode |
//! | [`phases`] | one request, phase by phase: admit, route, look up, run, deliver |
//! | [`passwords`] | checks of passwords, off the event loop |
//! | [`fitness`] | whether this server is to get requests |
//! | [`files`] | static files |
//! | [`precompressed`] | files that lie compressed beside others |
//! | [`sent_file`] | files that a script has the front send |
//! | [`file_body`] | the bytes of a file, read without holding up other requests |
//! | [`lanes`] | which lane runs a script |
//! | [`response`] | PHP's response: head read and checked |
//! | [`response_body`] | bodies of responses: where their bytes come from |
//! | [`data_counts`] | what the data caches of applications have done |
//! | [`hit`] | a stored response as the response to a request |
//! | [`dev`] | of `reprise dev`: what has changed, and pages that listen |
//! | [`spool`] | what slow clients have not taken yet of PHP's responses |
//! | [`wrapped`] | what happens when a body is over: permit, duration, log line |
//! | [`upstream`] | servers that respond in the place of PHP |
//! | [`page`] | responses that the front makes |
//! | [`clients`] | requests at once of one address |
//! | [`metrics`] | counters as OpenMetrics text |
//! | [`monitoring`] | responses to monitoring: ping, status, health, metrics |
//! | [`access`] | the access log |
//!
//! No PHP, no fork, no user code. All state of a request that matters is private memory of this process.

#![forbid(unsafe_code)]

mod accept;
pub mod access;
mod cache_questions;
mod clients;
mod data_counts;
mod dev;
mod doors;
mod file_body;
mod files;
mod fitness;
mod hit;
mod lanes;
mod listening;
mod metrics;
mod monitoring;
mod page;
mod passwords;
mod phases;
mod precompressed;
mod preparing;
mod response;
mod response_body;
pub mod sent_file;
mod server;
mod shared;
mod spool;
pub mod transport;
mod upstream;
mod verifying;
mod warm;
mod wrapped;

pub use file_body::READERS;
pub use passwords::credentials;
pub use server::{Inherited, run};
pub use upstream::{fields as upstream_fields, protocol as upstream_protocol};
