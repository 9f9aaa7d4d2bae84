//! What the caller hands over: the applications, as a plan, and the service with everything that was opened for it.

pub(crate) mod drafts;
pub(crate) mod service;
pub(crate) mod verification;
