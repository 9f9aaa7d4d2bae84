//! The processes: starts, stops, reloads, deaths, limits, users, service managers, what a running server tells.

mod balancer;
mod confined;
mod container;
mod damaged;
mod fault_suite;
mod faults;
mod isolation;
mod limits;
mod loaded_files;
mod neighbours;
mod overload;
mod process_limits;
mod ready;
mod reload;
mod reload_edges;
mod scaling;
mod seeing;
mod shutdown_delay;
mod slow;
mod small_memory;
mod smoke;
mod starting;
mod stop;
mod supervisor_waits;
mod systemd;
mod watch;
