//! The flags that say which server is meant.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Which server.
#[derive(clap::Args)]
pub struct Which {
    /// The server that this configuration file describes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "state_dir"])]
    pub config: Option<PathBuf>,
    /// The server of this name; without one, the only one there is
    #[arg(long, value_name = "NAME", conflicts_with = "state_dir")]
    pub name: Option<String>,
    /// The server with this state directory
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

impl Which {
    /// The flag that was given, for the arguments of another command.
    pub fn flag(&self) -> Option<(&'static str, &OsStr)> {
        let config = self.config.as_ref().map(|file| ("--config", file.as_os_str()));
        let name = self.name.as_ref().map(|name| ("--name", OsStr::new(name)));
        let state_dir = self.state_dir.as_ref().map(|directory| ("--state-dir", directory.as_os_str()));
        config.or(name).or(state_dir)
    }
}
