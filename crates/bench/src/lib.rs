//! The library of `reprise-bench`, the executable behind `reprise bench` and `reprise psd`.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | targets and requests
//! | [`check`] | checks responses before the measurement
//! | [`stats`] | ratios and means with their intervals, orders |
//! | [`compare`] | `reprise bench` |
//! | [`psd`] | `reprise psd` |
//! | [`machine`] | describes the machine |
//! | [`page`] | reports |
//! | [`report`] | the results of `reprise bench` |
//! | [`response`] | responses as a client reads them |
//! | [`load`] | loads and their outcomes |
//! | [`generator`] | closed and open loops |
//! | [`groups`] | processes, what they use of processors and memory |

#![forbid(unsafe_code)]

pub mod check;
pub mod compare;
pub mod generator;
pub mod groups;
pub mod load;
pub mod machine;
pub mod page;
pub mod psd;
pub mod report;
pub mod response;
pub mod scenario;
pub mod stats;
