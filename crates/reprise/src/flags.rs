//! Flags of the subcommands that read a configuration.

use std::path::PathBuf;

use clap::Args;
use supervisor::os::programs::PhpVersion;

use crate::development::Dev;
use crate::options::Mode;
use crate::private::Private;

/// What to serve. Flags win over the file, the file over defaults.
#[derive(Args, Default)]
pub struct What {
    /// The application's directory
    #[arg(value_name = "DIR", conflicts_with = "config")]
    pub directory: Option<PathBuf>,
    /// A configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on: HOST:PORT, PORT (127.0.0.1), *:PORT (all addresses) or unix:/PATH; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Address of /healthz, /readyz and /metrics, in the same forms; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Vec<String>,
    /// PHP workers of each lane
    #[arg(long, value_name = "N")]
    pub workers: Option<u64>,
    /// How the front controller runs; the option `mode` sets this for other scripts
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Version of PHP, such as 8.4
    #[arg(long, value_name = "VERSION")]
    pub php: Option<PhpVersion>,
    /// A php.ini setting; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub ini: Vec<String>,
    /// An environment variable for PHP; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Let PHP see the server's environment variables, as in a container: `clear_env = false`
    #[arg(long)]
    pub keep_env: bool,
    /// Run PHP as this user (needs root)
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Access log: stdout, off or a file
    #[arg(long, value_name = "TARGET")]
    pub access_log: Option<String>,
    /// What makes the server one of development (`reprise dev`); no flag does.
    #[arg(skip)]
    pub dev: Option<Dev>,
    /// What makes it one of `reprise verify --php`; no flag does.
    #[arg(skip)]
    pub private: Option<Private>,
}
