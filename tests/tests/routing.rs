//! Which paths are answered by what: default denials, and rules.

mod denials;
mod rules;
mod wrong;
