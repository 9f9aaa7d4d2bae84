//! Snapshots: the boot, the rewind, lanes and hosts, connections that stay open.

mod connections;
mod forkers;
mod hosts;
mod lanes;
mod rewind;
mod rewind_database;
mod rewind_ends;
mod rewind_fast;
mod rewind_faults;
mod rewind_free;
mod rewind_held;
mod rewind_input;
mod rewind_kernel;
mod rewind_memory;
mod rewind_mixed;
mod rewind_php84;
mod rewind_planted;
mod rewind_prepend;
mod rewind_random;
mod rewind_refused;
mod rewind_resources;
mod rewind_shared;
mod rewind_state;
mod rewind_users;
mod soft_dirty;
mod warm_function;
