//! Generations, lanes, templates and their workers: what is known of them and decided about them. Nothing here starts or ends a process.

pub(crate) mod comparison;
pub(crate) mod elastic;
pub(crate) mod eviction;
pub(crate) mod generation;
pub(crate) mod lane;
pub(crate) mod mailbox;
pub(crate) mod template;
pub(crate) mod worker_target;
