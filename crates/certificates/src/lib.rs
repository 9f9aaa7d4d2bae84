//! TLS: certificates that are chosen by name, tickets that outlive the front, and handshakes with limits.
//!
//! A child of the supervisor reads certificates and keys, and checks them with the same code as here. The front gets them in a
//! sealed memory file ([`bundle::Bundle`]), at its start and whenever they have changed. It opens no file of them.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`bundle`] | certificates and keys as they come, and what is wrong with one |
//! | [`served`] | which certificate serves a name, and which requests its connections may make |
//! | [`challenges`] | what authorities are told that check names before they issue a certificate |
//! | [`tickets`] | tickets by which clients resume: keys come from the supervisor |
//! | [`handshake`] | from a socket to a TLS stream, and what becomes of handshakes that fail |
//! | [`secure`] | what is known of a connection, and PHP's variables for it |

#![forbid(unsafe_code)]

pub mod bundle;
pub mod challenges;
pub mod handshake;
pub mod secure;
pub mod served;
pub mod tickets;

pub use bundle::{Bundle, Certificate, ClientPolicy};
pub use handshake::Handshake;
pub use secure::Secure;
pub use served::Tls;
