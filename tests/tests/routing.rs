//! Which paths are answered by what: default denials, and rules.

mod denials;
mod documented;
mod explained;
mod indexes;
mod limited;
mod presets;
mod rules;
mod wrong;
