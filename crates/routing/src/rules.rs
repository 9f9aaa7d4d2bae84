//! Which path is answered by what: the rules of an application (`[[application.route]]` and its preset), matched in order.
//! Nothing here asks the system: whether a file exists is asked through [`table::Files`], and only by rules that say so.
//!
//! | module | what |
//! |---|---|
//! | [`rule`] | a rule as settings have it |
//! | [`limits`] | limits that rules set, and those of several rules together |
//! | [`pattern`] | regular expressions with limits; texts with what they captured |
//! | [`table`] | the rules of an application, compiled, and what they decide of a request |
//! | [`faults`] | what is wrong with rules: broken, contradicting, looping, never matching |
//! | [`users`] | users of an htpasswd file, and their passwords' hashes |
//! | [`denials`] | names of files that no site wants sent |

pub mod denials;
pub mod faults;
pub mod limits;
pub mod pattern;
pub mod rule;
pub mod table;
#[cfg(test)]
mod tests;
pub mod users;
