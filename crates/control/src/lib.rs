//! What is said on the control socket of a running server. The supervisor makes the responses; `reprise status`, `trace`
//! and `reload` read them, and so does `reprise psd`.
//!
//! A client connects, sends a line with a command, reads an object of JSON, and finds the end of the connection.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`command`] | the commands |
//! | [`status`] | the response to `status` |
//! | [`outcome`] | the response to every other command |
//! | [`response`] | reading a response, and the error if it cannot be read |
//! | [`reference`] | the documentation of the keys |
//! | [`which`] | the flags that say which server is meant |

#![forbid(unsafe_code)]

pub mod command;
mod object;
pub mod outcome;
pub mod reference;
pub mod response;
pub mod status;
pub mod which;
