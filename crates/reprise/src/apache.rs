//! Apache's configuration of a directory: what a `.htaccess` has written, and what that decides of a request.
//!
//! | module | what |
//! |---|---|
//! | [`directives`] | reads a file: directives with their lines and sections, and those that are in force |
//! | [`asked`] | what is asked: a file, and the files of directories on its way |
//! | [`denied`] | what the files on the way to a file deny |
//! | [`rewriting`] | which rules of mod_rewrite deny a path |

pub mod asked;
pub mod denied;
pub mod directives;
pub mod rewriting;
