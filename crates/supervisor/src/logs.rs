//! Lines of the log, and those of children.

pub mod lines;
pub mod log;
pub(crate) mod output;
pub(crate) mod own;
pub mod repeated;
