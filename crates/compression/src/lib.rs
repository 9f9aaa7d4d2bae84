//! Compression of responses: which coding, whether at all, and how bytes are compressed as they come. What is done with a response is
//! [`crate::phases`]' business.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`coding`] | the codings |
//! | [`negotiation`] | which coding a client wants |
//! | [`eligible`] | whether a response may be compressed |
//! | [`encoder`] | compresses bytes |
//! | [`squeeze`] | compresses a body as it comes |

#![forbid(unsafe_code)]

pub mod coding;
pub mod eligible;
pub mod encoder;
pub mod negotiation;
pub mod squeeze;

pub use coding::{Coding, Codings};
