//! The processes and clients that this one talks to: how they are started again, what is sent, what is read.

pub(crate) mod attendant;
pub mod boot;
pub mod channel;
pub(crate) mod child;
pub(crate) mod control_socket;
pub mod errand;
pub(crate) mod front_link;
pub(crate) mod liveness;
pub(crate) mod restart;
