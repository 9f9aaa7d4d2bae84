//! Applications: those of Debian, with and without the Composer package, also behind the cache and as a release.

mod apps;
mod bridges;
mod bridges_package;
mod cache_applications;
mod interleaved;
