//! PHP as scripts see it, in classic and worker mode: the SAPI, settings, messages, versions of PHP.

mod as_fpm;
mod attributes;
mod broken_uploads;
mod direct_calls;
mod fpm;
mod fpm_report;
mod fpm_settings;
mod linked_scripts;
mod messages;
mod php_upgrade;
mod php_versions;
mod probes;
mod request_time;
mod sapi;
mod serving;
mod signals;
mod standard_output;
mod worker;
mod worker_bad;
mod worker_exits;
mod worker_hazards;
mod worker_leaks;
