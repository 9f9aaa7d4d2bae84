//! What may be asked for by which path, decided without a system call.
//!
//! | module | what |
//! |---|---|
//! | [`denials`] | names of files that no site wants sent |

pub mod denials;
