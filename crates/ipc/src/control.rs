//! What the supervisor and its children say to each other: one message per packet of a socket pair.
//!
//! Each direction has a type of its own with one variant per message, so that no process can send what its peer does not
//! take. [`codec`] has the one encoder and decoder; the numbers of messages differ between all directions.
//!
//! | from | to | type |
//! |---|---|---|
//! | supervisor | front | [`ToFront`] |
//! | front | supervisor | [`FromFront`] |
//! | supervisor | prototype, template, forker of a worker script | [`ToForker`] |
//! | prototype, template, forker of a worker script | supervisor | [`FromForker`] |
//! | child that reads or looks for the supervisor | supervisor | [`FromErrand`] |
//! | supervisor | process that orders certificates | [`ToAcme`] |
//! | process that orders certificates | supervisor | [`FromAcme`] |
//! | supervisor | process that watches files (`reprise dev`) | [`ToWatcher`] |
//! | process that watches files (`reprise dev`) | supervisor | [`FromWatcher`] |
//! | supervisor | process that follows a pool of releases | [`ToFollower`] |
//! | process that follows a pool of releases | supervisor | [`FromFollower`] |
//!
//! Workers do not talk to the supervisor: they have their slab.

pub mod codec;
mod names;
mod with_acme;
mod with_errand;
mod with_follower;
mod with_forker;
mod with_front;
mod with_store;
mod with_watcher;

pub use codec::{MAX_PACKET, Malformed, Message, Packet};
pub use names::{
    Bodies, DataCounts, Isolation, LaneId, LaneOffer, MAX_LANES, RequestId, RunningRequest, SETTINGS_FILE,
};
pub use with_acme::{FromAcme, ToAcme};
pub use with_errand::{FromErrand, ToErrand};
pub use with_follower::{FromFollower, ToFollower};
pub use with_forker::{FromForker, ToForker};
pub use with_front::{FromFront, ToFront};
pub use with_store::{FromStore, ToStore};
pub use with_watcher::{Changes, FromWatcher, ToWatcher};

#[cfg(test)]
mod tests;
