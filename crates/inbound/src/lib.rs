//! What comes in: connections, requests, and whose they are.
//!
//! | module | what |
//! |---|---|
//! | [`answered_by`] | which upstream made a response |
//! | [`connection`] | both ends of a connection, and whether its client has left |
//! | [`control`] | messages with the supervisor |
//! | [`forwarded`] | the client behind a proxy |
//! | [`head`] | the request head for PHP, header policy |
//! | [`host`] | the host that a request names |
//! | [`http2_limits`] | why connections and streams of HTTP/2 end, with counters |
//! | [`proxy_header`] | the client behind a load balancer that speaks the PROXY protocol |
//! | [`request`] | a request, independent of its protocol: head and body |
//! | [`request_id`] | the id of a request, for both logs and PHP |
//! | [`verified`] | which requests `reprise verify` has sent, by a token |

#![forbid(unsafe_code)]

pub mod answered_by;
pub mod connection;
pub mod control;
pub mod forwarded;
pub mod head;
pub mod host;
pub mod http2_limits;
pub mod proxy_header;
pub mod request;
pub mod request_id;
pub mod verified;
