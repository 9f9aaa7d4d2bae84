//! Releases from a pool, through the real binaries: built, pushed, served by one node and by four, and what goes wrong on the way.

mod bad;
mod nodes;
mod one;
mod packaged;
mod web;
