//! The supervisor's process: it starts the front and one prototype per application, has workers forked and notices every death. One thread, no
//! async runtime, no PHP.
//!
//! | room | what is in it |
//! |---|---|
//! | [`supervisor`] | the loop, and everything that acts; the other rooms know, decide, and touch no process |
//! | [`lanes`] | generations, lanes, templates, workers: how many, which, when again |
//! | [`reload`] | the plan in force, the generations that serve it, the reload that is under way |
//! | [`shutdown`] | how far the end has come |
//! | [`plan`] | decisions without state: slots to fill, back-off |
//! | [`peers`] | channels, children, restarts, the control socket |
//! | [`listeners`] | the sockets that clients connect to |
//! | [`settings`] | what was configured and opened |
//! | [`logs`] | lines of the log, and those of children |
//! | [`os`] | users, rights, limits, descriptors, processes; the only unsafe code |

#![deny(unsafe_code)]

mod lanes;
mod listeners;
pub mod logs;
pub mod os;
pub mod peers;
pub mod plan;
mod reload;
mod settings;
mod shutdown;
mod supervisor;

pub use crate::listeners::Listener;
pub use crate::settings::drafts::AcmeDraft;
pub use crate::settings::drafts::{Certificates, CertificatesDraft, LookAtCertificates, LookedAt};
pub use crate::settings::drafts::{Console, Key};
pub use crate::settings::service::{Application, Draft, Entry, Phar, Plan, ReleaseDraft, Service, WatcherDraft};
pub use crate::settings::verification::{PATIENCE as VERIFY_PATIENCE, PageFound, Verification, VerifiedPage};
pub use crate::shutdown::Outcome;
pub use crate::supervisor::Supervisor;
pub use crate::supervisor::questions::errands::open_access_log;
pub use crate::supervisor::workers::starting::settings_file;
