//! Prototypes, templates and workers: started, booted, reaped, ended.

pub(crate) mod comparing;
pub(crate) mod damage;
pub(crate) mod deaths;
pub(crate) mod discovery;
pub(crate) mod starting;
pub(crate) mod templates;
pub(crate) mod unresponsive;
pub(crate) mod warmup;
