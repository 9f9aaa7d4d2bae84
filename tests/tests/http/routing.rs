//! Which paths are answered by what: default denials, and rules.

mod denials;
mod differences;
mod documented;
mod explained;
mod indexes;
mod limited;
mod planted;
mod presets;
mod rules;
mod wrong;
