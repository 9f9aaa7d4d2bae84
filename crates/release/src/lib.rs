//! Releases of an application: one signed file with its code, from the machine that builds it to the nodes that serve it.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`tree`], [`pack`] | the files of a directory, and the release that they become |
//! | [`manifest`], [`container`] | what a release says it has, and the file that it is: signature first |
//! | [`keys`] | keys and signatures |
//! | [`unpack`] | a release becomes a directory |
//! | [`pool`] | where releases lie for nodes |
//! | [`record`] | what nodes are to prepare and to serve |
//! | [`settings`], [`kept`] | what a node is told, and what it keeps |
//! | [`fetch`] | brings, checks and unpacks: the short-lived process |
//! | [`node`] | what a node does about what it sees: pure |
//! | [`follow`] | does it: the process that follows a pool |
//! | [`fault`] | what goes wrong |

#![forbid(unsafe_code)]

pub mod container;
pub mod fault;
pub mod fetch;
pub mod follow;
pub mod kept;
pub mod keys;
pub mod manifest;
pub mod node;
pub mod pack;
pub mod pool;
pub mod record;
pub mod settings;
pub mod tree;
pub mod unpack;
