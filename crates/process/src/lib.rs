//! Everything about processes: starting them as the right user, talking to them, noticing their deaths.
//!
//! One thread, no async runtime, no PHP. What is decided is pure and lives in [`plan`]; what is done lives in
//! [`supervisor`].
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`supervisor`] | the loop: front, prototypes, workers, signals, drain |
//! | [`plan`] | pure decisions: slots to fill, back-off, what an exit means |
//! | [`channel`] | one message per packet, descriptors attached |
//! | [`boot`] | the request that a template boots with |
//! | [`errand`] | what a child does because it may take its time |
//! | [`files`] | files that others may replace |
//! | [`lines`] | what children write to their standard error, as lines |
//! | [`log`] | lines on standard error, written without waiting |
//! | [`user`] | who runs what |
//! | [`capabilities`] | of processes that need none |
//! | [`confine`] | what the front takes from itself |
//! | [`notify`] | what a service manager is told |
//! | [`state`] | the state directory and its lock |
//! | [`sys`] | fork, exec, signals: the only unsafe code |

#![deny(unsafe_code)]

pub mod boot;
pub mod capabilities;
pub mod channel;
pub mod confine;
pub mod errand;
pub mod files;
pub mod lines;
pub mod log;
pub mod notify;
pub mod plan;
pub mod state;
pub mod supervisor;
#[allow(unsafe_code)]
pub mod sys;
pub mod user;
