//! `reprise version`.

use crate::exit::{Code, Failure};
use crate::installed;

/// Prints versions.
pub fn run() -> Result<Code, Failure> {
    println!("reprise {}", env!("CARGO_PKG_VERSION"));
    for php in installed::all() {
        let php = php?;
        println!("php {} ({})", php.version, php.path.display());
        println!("libphp {} (built with {})", php.libphp.display(), php.built);
        println!("ini {}", php.ini);
    }
    Ok(Code::Success)
}
