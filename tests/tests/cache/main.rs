//! The cache of responses.

mod cache;
mod cache_conformance;
