//! Connections that stay open while their process is rewound.
//!
//! A rewind puts back what a process knows of a connection. It does not put back what the server at the other end knows of it: its
//! transaction, its variables, its temporary tables. So the clone sends the protocol's reset after each request, and then says again
//! what the hooks that opened the connection have said. This crate reads what they said, makes the text of a reset and
//! judges the replies to it ([`protocols`]), and follows whether a request has sent whole messages ([`traffic`]).
//!
//! What is not understood is refused. The one proof that a connection is neither encrypted nor compressed is that each byte that its client
//! has sent is a message of the plain protocol, from the first to the last.
//!
//! | module | what |
//! |---|---|
//! | [`protocols`] | what the hooks have said, the text of a reset and its replies, of any protocol |
//! | [`mysql`], [`postgres`], [`redis`] | the same of one: its client's messages, and its server's replies |
//! | [`statement`] | SQL that can be said again, and SQL that leaves nothing |
//! | [`plan`], [`reset`] | what a reset says, and what its replies are |
//! | [`traffic`] | where messages end |
//! | [`networks`] | where servers may be |
//! | [`ffi`] | the same for C |
//!
//! It allocates nothing, and never panics: C calls it between two requests, where neither is possible.
#![cfg_attr(not(test), no_std)]

pub mod ffi;
pub mod mysql;
pub mod networks;
pub mod plan;
pub mod postgres;
pub mod protocols;
pub mod redis;
pub mod reset;
pub mod statement;
pub mod traffic;

#[cfg(test)]
mod said;
