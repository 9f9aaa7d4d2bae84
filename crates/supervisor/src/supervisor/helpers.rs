//! Helper processes and what they bring: certificates, releases, data caches, changed files.

pub(crate) mod acme;
pub(crate) mod certificates;
pub(crate) mod console;
pub(crate) mod data_caches;
pub(crate) mod followers;
pub(crate) mod following;
pub(crate) mod phars;
pub(crate) mod stores;
pub(crate) mod upstreams;
