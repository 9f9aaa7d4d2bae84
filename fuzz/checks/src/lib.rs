//! What holds for any input. The fuzz targets look for inputs for which it does not; those that they found to be different
//! from all others are in `fuzz/corpus.txt`, and `tests/corpus.rs` gives them to the same functions.
//!
//! # Layout
//!
//! | module | input |
//! |---|---|
//! | [`authorization`] | names and passwords of basic authentication |
//! | [`cache_control`] | what responses say to caches, and what requests ask of them |
//! | [`certificate`] | files of certificates |
//! | [`connection`] | what clients of databases say, and what their servers reply |
//! | [`control`] | packets between the supervisor and its children |
//! | [`country_file`] | files with the countries of addresses |
//! | [`forwarded`] | headers of proxies |
//! | [`framing`] | what a client sends |
//! | [`http2_frames`] | frames of HTTP/2 |
//! | [`log`] | what of a request the access log shows |
//! | [`nodes`] | what workers say to the process that talks to the store, and what lies there |
//! | [`phar`] | phars |
//! | [`proxy_header`] | what a connection of a load balancer begins with |
//! | [`purge`] | what is to be purged, pages with holes, names of cookies |
//! | [`range`] | Range and If-Range |
//! | [`release`] | what is in the file of a release, and the records of a pool |
//! | [`response`] | the head of a response, as a worker may have written it |
//! | [`rules`] | patterns, rewrites and redirects of rules; htpasswd files |
//! | [`sent_file`] | paths that scripts name by X-Accel-Redirect |
//! | [`slab`] | words of shared memory, as a worker may have written them |
//! | [`target`] | request targets |
//! | [`ticket`] | TLS tickets |
//! | [`upstream_response`] | what an upstream responds |

#![forbid(unsafe_code)]

pub mod authorization;
pub mod cache_control;
pub mod certificate;
pub mod connection;
pub mod control;
pub mod country_file;
pub mod forwarded;
pub mod framing;
pub mod http2_frames;
pub mod log;
pub mod nodes;
pub mod phar;
pub mod proxy_header;
pub mod purge;
pub mod range;
pub mod release;
pub mod response;
pub mod rules;
pub mod sent_file;
pub mod slab;
pub mod target;
pub mod ticket;
pub mod upstream_response;

/// A check of one input: it panics if what has to hold does not.
pub type Check = fn(&[u8]);

/// All checks, by the names of the fuzz targets.
pub const CHECKS: [(&str, Check); 24] = [
    ("authorization", authorization::check),
    ("cache_control", cache_control::check),
    ("certificate", certificate::check),
    ("connection", connection::check),
    ("control", control::check),
    ("country_file", country_file::check),
    ("forwarded", forwarded::check),
    ("framing", framing::check),
    ("htpasswd", rules::check_users),
    ("http2_frames", http2_frames::check),
    ("log", log::check),
    ("nodes", nodes::check),
    ("phar", phar::check),
    ("proxy_header", proxy_header::check),
    ("purge", purge::check),
    ("range", range::check),
    ("release", release::check),
    ("response", response::check),
    ("rules", rules::check),
    ("sent_file", sent_file::check),
    ("slab", slab::check),
    ("target", target::check),
    ("ticket", ticket::check),
    ("upstream_response", upstream_response::check),
];
