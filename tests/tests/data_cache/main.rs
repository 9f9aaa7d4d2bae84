//! The data cache, its adapters, and nodes that share a store.

mod adapters;
mod cluster;
mod data_cache;
mod data_cache_attacks;
mod data_cache_deaths;
mod data_cache_isolation;
mod data_cache_seen;
mod data_cache_suites;
mod data_cache_tables;
mod memo;
