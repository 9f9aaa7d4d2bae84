//! The rules of an HTTP cache that many clients share: RFC 9111 (caching), 9110 §13 and §14 (conditions, ranges), 5861 (stale responses),
//! 8246 (immutable), 9211 (Cache-Status), 9213 (targeted fields).
//!
//! All of it is pure: functions of heads of requests and responses and of times that the caller gives. Nothing here reads a clock, waits,
//! or keeps a response.
//!
//! # Layout
//!
//! | module | what it decides |
//! |---|---|
//! | [`rules`] | by default, or as RFC 9111 has it |
//! | [`list`] | the members of a header that is a list |
//! | [`directives`] | what Cache-Control says, in a request or a response |
//! | [`targeted`] | which of the fields about caching is meant for this cache |
//! | [`freshness`] | how old a response is, and how long it is fresh |
//! | [`storing`] | whether a response may be stored, and on which terms |
//! | [`reuse`] | whether a stored response may answer a request |
//! | [`condition`] | whether the client has it already: 304 |
//! | [`range`] | which part of it the client asks for: 206 |
//! | [`variant`] | which of several stored responses of a URL answers: Vary |
//! | [`key`] | the key of a URL, which no other URL has |
//! | [`update`] | what a 304 changes in a stored response |
//! | [`invalidation`] | what a response to an unsafe method makes stale |
//! | [`tags`] | names by which responses can be purged together |
//! | [`purge`] | what is to be purged |
//! | [`esi`] | pages with holes, which other responses fill |
//! | [`cookies`] | which cookies tell visitors apart |
//! | [`status`] | how all this is told: Cache-Status |

#![forbid(unsafe_code)]

pub mod condition;
pub mod cookies;
pub mod directives;
pub mod esi;
pub mod freshness;
pub mod invalidation;
pub mod key;
pub mod list;
pub mod purge;
pub mod range;
pub mod reuse;
pub mod rules;
pub mod status;
pub mod storing;
pub mod tags;
pub mod targeted;
pub mod update;
pub mod variant;

pub use rules::Rules;
