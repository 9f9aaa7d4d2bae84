//! The shared memory between the front and the PHP workers of one lane: one implementation, used by the front as a
//! crate and by `reprise-php` through the C functions of [`ffi`].
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | what lies where in a slab, and the limits that follow |
//! | [`slab`] | a mapped slab; all pointer arithmetic |
//! | [`owner`] | the states of an exchange and who may change them |
//! | [`queue`] | the lane's queue and the claim |
//! | [`ring`] | bytes between one writer and one reader |
//! | [`bell`] | sleeping and waking |
//! | [`head`], [`response`] | the head of a request and of a response |
//! | [`front`], [`worker`] | what each side does with an exchange |
//! | [`report`], [`purge`] | what workers ask of the front beside that |
//! | [`control`] | messages between supervisor, front and prototypes |
//! | [`exit`], [`date`], [`shared`] | exit codes, dates, and what else programs have to agree on |
//! | [`table!`] | an enum with its words and texts, as one table |
//! | [`key`] | which requests a lane takes |
//! | [`sys`] | system calls, without libc |
//!
//! Trust goes one way: workers believe the front; the front believes nothing it reads here. It keeps every length and
//! position that it relies on in private memory ([`front::Posting`]) and copies before it parses.

#![no_std]

mod table;

pub mod atomics;
pub mod bell;
#[cfg(not(loom))]
pub mod control;
pub mod date;
pub mod exit;
#[cfg(not(loom))]
pub mod ffi;
#[cfg(not(loom))]
pub mod front;
#[cfg(not(loom))]
pub mod head;
#[cfg(not(loom))]
pub mod key;
#[cfg(not(loom))]
pub mod layout;
pub mod owner;
#[cfg(not(loom))]
pub mod purge;
pub mod queue;
#[cfg(not(loom))]
pub mod report;
pub mod response;
pub mod ring;
pub mod shared;
#[cfg(not(loom))]
pub mod slab;
#[cfg(not(loom))]
pub mod sys;
#[cfg(not(loom))]
pub mod worker;
