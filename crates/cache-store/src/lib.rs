//! The stored responses of an HTTP cache.
//!
//! | module | what |
//! |---|---|
//! | [`learned`] | what the next front is to know of an application's pages |
//! | [`stored`] | the cache of responses |

#![forbid(unsafe_code)]

pub mod learned;
pub mod stored;
