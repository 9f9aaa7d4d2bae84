//! What knows HTTP: from a client's socket to a [`inbound::request::Request`], and back.
//!
//! hyper parses requests of HTTP/1 and writes responses. This module hands the requests to the phases ([`crate::phases`]).
//! It also stands between hyper and the socket, and knows what hyper does not: where each message begins and ends, however
//! its bytes arrive; the request line as it came; and whether the client has left.
//!
//! h2 does the same for HTTP/2 ([`http2`]). The first bytes of a connection decide, or TLS has negotiated it.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`conversation`] | one connection, from its first byte to its last |
//! | [`breaking`] | the end of a body that breaks off |
//! | [`framing`] | a complete head: checked, its target made fit for hyper, the framing of its body; no I/O |
//! | [`chunked`] | where a chunked body ends; no I/O |
//! | [`held`] | bytes that cannot be handed on yet |
//! | [`http2`] | one connection of HTTP/2 |
//! | [`lingering`] | what is read of a client only so that it gets its response |
//! | [`parts`] | the body of a request |
//! | [`stream`] | the socket as hyper sees it: one message at a time |
//! | [`tunnel`] | a WebSocket: bytes in both directions |

mod breaking;
pub mod chunked;
mod conversation;
pub mod framing;
mod held;
pub mod http2;
mod lingering;
mod parts;
mod stream;
mod tunnel;

pub use conversation::{FIRST_REQUEST, converse, converse_http2};
pub use framing::Framed;
pub use parts::body_of;
pub use stream::Stream;
