//! Releases from a pool, applications in a phar, Debian packages.

mod packages;
mod phar;
mod release;
