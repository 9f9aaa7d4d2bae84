//! What the settings of an application make of a request: which rule applies, which file or script it means, whether it is refused. It opens no
//! connection and answers nothing: the front does, and `reprise route`, `reprise check` and the doctor ask the same code without one.
//!
//! | module | what |
//! |---|---|
//! | [`addresses`] | connections at once of one address |
//! | [`countries`] | countries by address, and how MaxMind files are read |
//! | [`explain`] | what responds and why, without serving it (`reprise route`) |
//! | [`fingerprint`] | names of files that stand for one content for ever |
//! | [`lead`] | what the rules' verdict leads to |
//! | [`network`] | addresses and networks |
//! | [`rate`] | how often one address may ask for a path |
//! | [`reason`] | the reason phrase of a status |
//! | [`refusal`] | why a request is refused |
//! | [`route`] | which application, which file or script |
//! | [`rules`] | the rules of an application: which path is answered by what, without a look at files |
//! | [`settings`] | what the supervisor tells the front of listeners and applications |
//! | [`target`] | a request's target, decoded and cleaned |

#![forbid(unsafe_code)]

pub mod addresses;
pub mod countries;
pub mod derived;
pub mod explain;
pub mod fingerprint;
pub mod in_force;
pub mod lead;
pub mod network;
pub mod rate;
pub mod reason;
pub mod refusal;
pub mod route;
pub mod rules;
pub mod settings;
pub mod target;
