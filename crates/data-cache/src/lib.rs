//! The memory of the data cache: PHP values that all workers of an application read without a copy.
//!
//! A segment is a memory file of a fixed size that the supervisor makes for each application. All processes of the application map it
//! at one address for reading, so that a value can point to its parts, and behind that for writing. Readers take no lock: they find an
//! entry by one word of the index, and what they have found stays where it is until their request has ended ([`process`]). One lock
//! protects changes. Whoever dies at any instruction leaves nothing that is not taken back by the next who looks.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | where everything lies |
//! | [`view`] | both mappings |
//! | [`alive`] | who a process is, and whether it lives |
//! | [`process`] | readers, epochs, the lock, sweeping up after the dead |
//! | [`entries`] | finding, storing, removing |
//! | [`regions`] | memory for entries, and who makes room; [`memo`]: for results of pure functions |
//! | [`leases`] | who computes a value |
//! | [`cluster`] | what is known of other nodes; [`talk`]: what is said to the process that knows them |
//! | [`numbers`] | what is counted, and what it holds |
//! | [`questions`], [`text`] | what people ask, and the text of answers |
//! | [`ffi`] | the same for C |
#![cfg_attr(not(test), no_std)]
#![allow(clippy::missing_panics_doc)]

pub mod alive;
pub mod cluster;
pub mod entries;
pub mod ffi;
pub mod layout;
pub mod leases;
pub mod memo;
pub mod numbers;
pub mod points;
pub mod process;
pub mod questions;
pub mod regions;
pub mod talk;
pub mod text;
pub mod view;
