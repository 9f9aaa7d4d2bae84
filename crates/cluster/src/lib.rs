//! Talks to the store (Valkey or Redis) that the nodes of an application share, and through it to the other nodes.
//!
//! One process of this kind runs for each application that has a store, as the application's user. It has all connections. Workers ask it
//! by the *door*: a socket by which they send one end of a pair of their own, which is then their conversation ([`data_cache::talk`]). What other
//! nodes have changed comes by the *bus*, a stream in the store. The process applies it to the application's segment, and says there until when
//! it has heard everything: without news, values are good for as long as the configuration says.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what the process is told |
//! | [`envelope`] | values and messages as they lie in the store, signed |
//! | [`known`] | which values of the store are good, by what the bus has said |
//! | [`outbox`] | messages that the bus has not taken yet |
//! | [`breaker`] | when a store that fails is asked again |
//! | [`terms`] | how things are called in a store, and how it fails |
//! | [`valkey`] | what is asked of a store |
//! | [`pool`] | connections to it |
//! | `bus` | reads and writes the stream |
//! | `conversation` | answers a worker |
//! | [`link`], `log` | what it says to the supervisor, and to people |
//! | [`serve`] | the process |

#![forbid(unsafe_code)]

pub mod breaker;
mod bus;
mod conversation;
pub mod envelope;
pub mod known;
pub mod link;
mod log;
pub mod outbox;
pub mod pool;
pub mod serve;
pub mod settings;
mod shared;
pub mod terms;
pub mod valkey;

pub use link::{Link, Said};
pub use serve::{Place, run};
pub use settings::Settings;
