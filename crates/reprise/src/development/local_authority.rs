//! The certificate of `reprise dev --https`, by the same script as that of `./run --https`: an authority of this machine's own, which can
//! vouch for local names alone.

use std::path::PathBuf;
use std::process::Command;

use crate::exit::{Code, Failure};

const SCRIPT: &str = include_str!("../../../../scripts/local-ca");

/// The directory with site.pem and site.key. What is missing or about to expire is made.
pub fn certificates() -> Result<PathBuf, Failure> {
    let failed = |why: String| Failure::new(Code::Configuration, "--https", why);
    let output = Command::new("bash").args(["-c", SCRIPT, "local-ca"]).output();
    let output = output.map_err(|error| failed(format!("bash: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.trim().trim_start_matches("reprise: ").to_owned()));
    }
    let directory = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let authority = directory.join("ca.pem");
    supervisor::logs::log::write(&format!(
        "  {:<13} {}; docs/guides/development.md says how browsers come to trust it\n",
        "authority",
        authority.display()
    ));
    Ok(directory)
}
