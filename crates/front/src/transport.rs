//! What knows HTTP/1: the bytes between a client's socket and hyper.
//!
//! hyper parses requests and writes responses. This module stands between hyper and the socket, and answers what hyper
//! cannot: where each message begins and ends, independent of how its bytes arrive; what stood in the request line; whether
//! the client has left.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`framing`] | a complete head: checked, its target made fit for hyper, the framing of its body; no I/O |
//! | [`chunked`] | where a chunked body ends; no I/O |
//! | [`held`] | bytes that cannot be handed on yet |
//! | [`stream`] | the socket as hyper sees it: one message at a time |

pub mod chunked;
pub mod framing;
mod held;
mod stream;

pub use framing::{Framed, Line};
pub use stream::{Stream, end};
