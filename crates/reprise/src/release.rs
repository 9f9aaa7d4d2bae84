//! `reprise release`: keys, building, pushing, and which release all nodes serve.
//!
//! | module | verbs |
//! |---|---|
//! | [`building`], [`compiling`] | build |
//! | [`shelving`] | push, list, remove |
//! | [`switching`], [`showing`] | activate, rollback, status |

mod building;
mod compiling;
mod shelving;
mod showing;
mod switching;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use release::fault::Fault;
use release::keys::{Keys, SecretKey};
use release::pool::{self, Pool};

use crate::exit::{Code, Failure};

pub use compiling::run as compile;

/// Examples.
pub const HELP: &str = "Examples:\n  reprise release keygen -o shop.key\n  reprise release build . -o shop.release --name shop --key shop.key\n  \
    reprise release push shop.release valkey://pool.example:6379 --key shop.key\n  \
    reprise release activate valkey://pool.example:6379 shop latest --key shop.key\n  \
    reprise release rollback valkey://pool.example:6379 shop --key shop.key\n\nA pool is a directory, valkey://HOST:PORT or redis:// \
    (valkeys:// by TLS). docs/guides/releases.md tells the story of a deployment.";

/// Bytes of a file with a key.
const MAX_KEY: u64 = 4096;

/// What to do with releases.
#[derive(Subcommand)]
pub enum Verb {
    /// Make a key: the secret half into a file, the public half to standard output, for the configuration of nodes
    Keygen {
        /// The file for the secret key, which must not be there yet
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Make a release of a directory: one signed file with the code, and what opcache makes of it
    Build(building::Asked),
    /// Put a release into a pool
    Push(shelving::Push),
    /// List the releases in a pool
    List(shelving::List),
    /// Show what is served, and what each node does
    Status(showing::Asked),
    /// Have all nodes serve a release: they get ready, then they switch together, or none does
    Activate(switching::Activate),
    /// Have all nodes serve the release before
    Rollback(switching::Rollback),
    /// Take a release out of a pool
    Remove(shelving::Remove),
}

/// Whose signature.
#[derive(Args)]
pub struct Key {
    /// The file of the secret key; without it nothing is signed, which nodes take only from a directory on their machine
    #[arg(long, value_name = "FILE", env = "REPRISE_RELEASE_KEY")]
    key: Option<PathBuf>,
}

/// Which pool, and whose.
#[derive(Args)]
pub struct Where {
    /// A directory, or valkey://HOST:PORT
    #[arg(value_name = "POOL")]
    pool: String,
    /// The application
    #[arg(value_name = "NAME")]
    name: String,
    /// Certificates of the authorities that the pool's certificate is checked against, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn failed(what: impl Into<String>) -> impl FnOnce(Fault) -> Failure {
    let what = what.into();
    move |fault| {
        let code = if fault.is_passing() { Code::Internal } else { Code::Configuration };
        Failure::new(code, what, fault)
    }
}

impl Key {
    fn read(&self) -> Result<Option<SecretKey>, Failure> {
        let Some(path) = &self.key else { return Ok(None) };
        let what = || format!("the key {}", path.display());
        let wrong = |error: std::io::Error| Failure::new(Code::Configuration, what(), error);
        let mut text = String::new();
        File::open(path).map_err(wrong)?.take(MAX_KEY).read_to_string(&mut text).map_err(wrong)?;
        SecretKey::parse(&text).map(Some).map_err(failed(what()))
    }

    /// The signatures that are right here.
    fn trusted(key: Option<&SecretKey>) -> Keys {
        Keys { trusted: key.iter().map(|key| key.public()).collect(), allows_unsigned: key.is_none() }
    }
}

/// A directory may be written as one is used to.
fn pool_text(text: &str) -> Result<String, Failure> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text).map_err(|error| Failure::new(Code::Usage, text, error))?;
    Ok(path.to_string_lossy().into_owned())
}

fn open(pool: &str, name: &str, ca: Option<&Path>) -> Result<Box<dyn Pool>, Failure> {
    pool::open(&pool_text(pool)?, name, ca).map_err(failed(format!("the pool of '{name}'")))
}

impl Where {
    fn open(&self) -> Result<Box<dyn Pool>, Failure> {
        open(&self.pool, &self.name, self.ca.as_deref())
    }

    fn failed(&self) -> impl FnOnce(Fault) -> Failure + use<> {
        failed(format!("the pool of '{}'", self.name))
    }
}

fn print(json: bool, value: &serde_json::Value, text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough is no failure.
    let _ = if json { writeln!(out, "{value}") } else { writeln!(out, "{text}") };
}

fn keygen(output: &Path) -> Result<Code, Failure> {
    let wrong = |error: std::io::Error| Failure::new(Code::Usage, output.display().to_string(), error);
    let key = SecretKey::generate().map_err(failed("a key"))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(output).map_err(wrong)?;
    writeln!(file, "{}", key.text()).and_then(|()| file.sync_all()).map_err(wrong)?;
    println!("{}", key.public().text());
    Ok(Code::Success)
}

/// Runs one of them.
pub fn run(verb: &Verb) -> Result<Code, Failure> {
    match verb {
        Verb::Keygen { output } => keygen(output),
        Verb::Build(asked) => building::run(asked),
        Verb::Push(asked) => shelving::push(asked),
        Verb::List(asked) => shelving::list(asked),
        Verb::Remove(asked) => shelving::remove(asked),
        Verb::Status(asked) => showing::run(asked),
        Verb::Activate(asked) => switching::activate(asked),
        Verb::Rollback(asked) => switching::rollback(asked),
    }
}
