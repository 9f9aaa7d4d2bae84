//! The HTTP front: takes requests, serves files, gives the rest to PHP workers through shared memory.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what the supervisor tells the front |
//! | [`control`] | messages with the supervisor |
//! | [`server`] | threads, messages, drain |
//! | [`listening`] | the listeners that are open, which a reload may change |
//! | [`accept`] | a connection is taken, and who has connected is found out |
//! | [`shared`] | what all threads share |
//! | [`doors`] | how a thread learns what workers have done |
//! | [`tls`] | TLS: certificates by name, tickets, handshakes |
//! | [`transport`] | what knows HTTP/1: from a socket to a request, and back |
//! | [`preparing`] | what is done for a generation before it gets a client's request |
//! | [`warm`] | the requests that warm a generation up |
//! | [`verifying`] | the requests by which its pages are compared with classic mode |
//! | [`request`] | a request, independent of its protocol: head and body |
//! | [`connection`] | both ends of a connection, and whether its client has left |
//! | [`proxy_header`] | the client behind a load balancer that speaks the PROXY protocol |
//! | [`forwarded`] | the client behind a proxy |
//! | [`request_id`] | the id of a request, for both logs and PHP |
//! | [`phases`] | one request, phase by phase: admit, route, look up, run, deliver |
//! | [`network`] | addresses and networks |
//! | [`countries`] | countries by address, and how MaxMind files are read |
//! | [`host`] | the host that a request names |
//! | [`http2_limits`] | why connections and streams of HTTP/2 end, with counters |
//! | [`target`] | a request's target, decoded and cleaned |
//! | [`route`] | which application, which file or script |
//! | [`routing`] | the rules of an application: which path is answered by what, without a look at files |
//! | [`lead`] | what the rules' verdict leads to |
//! | [`explain`] | what responds and why, without serving it (`reprise route`) |
//! | [`passwords`] | checks of passwords, off the event loop |
//! | [`fitness`] | whether this server is to get requests |
//! | [`files`] | static files |
//! | [`precompressed`] | files that lie compressed beside others |
//! | [`fingerprint`] | names of files that stand for one content for ever |
//! | [`sent_file`] | files that a script has the front send |
//! | [`file_body`] | the bytes of a file, read without holding up other requests |
//! | [`head`] | the request head for PHP, header policy |
//! | [`lane`] | the mailbox: posting a request, waiting, deaths, time-outs |
//! | [`lanes`] | which lane runs a script |
//! | [`bodies`] | how long bodies of requests may be |
//! | [`request_body`] | bodies of requests, on their way to PHP |
//! | [`response`] | PHP's response: head read and checked |
//! | [`response_body`] | bodies of responses: where their bytes come from |
//! | [`stored`] | the cache of responses |
//! | [`learned`] | what the next front is to know of an application's pages |
//! | [`data_counts`] | what the data caches of applications have done |
//! | [`compression`] | which responses are compressed, by which coding, and how |
//! | [`hit`] | a stored response as the response to a request |
//! | [`dev`] | of `reprise dev`: what has changed, and pages that listen |
//! | [`spool`] | what slow clients have not taken yet of PHP's responses |
//! | [`wrapped`] | what happens when a body is over: permit, duration, log line |
//! | [`verified`] | which requests `reprise verify` has sent, by a token |
//! | [`upstream`] | servers that respond in the place of PHP |
//! | [`answered_by`] | which upstream made a response |
//! | [`reason`] | the reason phrase of a status |
//! | [`refusal`] | why a request is refused |
//! | [`page`] | responses that the front makes |
//! | [`addresses`] | connections at once of one address |
//! | [`rate`] | how often one address may ask for a path |
//! | [`clients`] | requests at once of one address |
//! | [`durations`] | a histogram of how long requests took |
//! | [`metrics`] | counters as OpenMetrics text |
//! | [`status`] | the state of workers, as PHP-FPM shows it |
//! | [`monitoring`] | responses to monitoring: ping, status, health, metrics |
//! | [`access`] | the access log |
//!
//! No PHP, no fork, no user code. All state of a request that matters is private memory of this process.

#![forbid(unsafe_code)]

mod accept;
pub mod access;
mod addresses;
mod answered_by;
mod bodies;
mod cache_questions;
mod clients;
mod compression;
pub mod connection;
pub mod control;
pub mod countries;
mod data_counts;
pub mod derived;
mod dev;
mod doors;
mod durations;
pub mod explain;
mod file_body;
mod files;
mod fingerprint;
mod fitness;
pub mod forwarded;
mod head;
mod hit;
mod host;
pub mod http2_limits;
mod in_force;
mod lane;
mod lanes;
mod lead;
mod learned;
mod listening;
mod metrics;
mod monitoring;
mod network;
mod page;
mod passwords;
mod phases;
mod precompressed;
mod preparing;
pub mod proxy_header;
mod rate;
mod reason;
mod refusal;
pub use refusal::reference as refusals;
pub mod request;
mod request_body;
pub mod request_id;
mod response;
mod response_body;
mod route;
pub mod routing;
pub mod sent_file;
mod server;
pub mod settings;
mod shared;
mod spool;
mod status;
mod stored;
pub mod target;
pub mod tls;
pub mod transport;
mod upstream;
mod verified;
mod verifying;
mod warm;
mod wrapped;

pub use durations::Durations;
pub use file_body::READERS;
pub use passwords::credentials;
pub use rate::CLIENTS as RATED_CLIENTS;
pub use route::INDEX;
pub use server::{Inherited, run};
pub use upstream::{fields as upstream_fields, protocol as upstream_protocol};
