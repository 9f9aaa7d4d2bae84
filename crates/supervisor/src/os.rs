//! What the operating system has: users, rights, groups, descriptors, processes. [`sys`](os::sys) has the only unsafe code of this crate.

pub mod capabilities;
pub mod confine;
pub mod exited;
pub mod files;
pub mod fork_limits;
pub mod groups;
pub mod namespace;
pub mod notify;
pub mod programs;
pub mod state;
#[allow(unsafe_code)]
pub mod sys;
pub mod user;
