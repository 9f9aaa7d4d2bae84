//! Which paths are answered by what: default denials.

mod denials;
