//! What clients of the control socket ask, and children that look for the answer.

pub(crate) mod cache_questions;
pub(crate) mod data_questions;
pub(crate) mod errands;
pub(crate) mod profiles;
pub(crate) mod status;
pub(crate) mod trace;
