//! Everything about processes: starting them as the right user, talking to them, noticing their deaths.
//!
//! One thread, no async runtime, no PHP. Decisions without state are in [`plan`]. [`supervisor`] has the loop and its parts, which
//! own their state and return what is to be done.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`supervisor`] | the loop: front, prototypes, workers, signals, drain |
//! | [`exited`] | how a process ended, in words |
//! | [`plan`] | pure decisions: slots to fill, back-off |
//! | [`channel`] | one message per packet, descriptors attached |
//! | [`boot`] | the request that a template boots with |
//! | [`errand`] | work that a child does because it may take long |
//! | [`files`] | files that others may replace |
//! | [`lines`] | the standard error and output of children, as lines of the log |
//! | [`log`] | lines on standard error, written without waiting |
//! | [`repeated`] | errors that come again and again, as few lines of the log |
//! | [`fork_limits`] | which limit keeps a process from being forked |
//! | [`user`] | the users that processes run as |
//! | [`capabilities`] | dropping capabilities |
//! | [`confine`] | the rights that the front gives up |
//! | [`notify`] | notifications to a service manager |
//! | [`programs`] | where the executables are, and for which versions of PHP |
//! | [`state`] | the state directory and its lock |
//! | [`sys`] | fork, exec, signals: the only unsafe code |

#![deny(unsafe_code)]

pub mod boot;
pub mod capabilities;
pub mod channel;
pub mod confine;
pub mod errand;
pub mod exited;
pub mod files;
pub mod fork_limits;
pub mod groups;
pub mod lines;
pub mod log;
pub mod namespace;
pub mod notify;
pub mod plan;
pub mod programs;
pub mod repeated;
pub mod state;
pub mod supervisor;
#[allow(unsafe_code)]
pub mod sys;
pub mod user;
