//! `reprise reload`, `status` and `trace`: ask a running server by the admin socket in its state directory.

mod table;

use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::state;
use serde_json::Value;

use crate::config;
use crate::exit::{Code, Failure};
use crate::flags::What;

/// Which server.
#[derive(clap::Args)]
pub struct Which {
    /// The server that this configuration file describes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "state_dir"])]
    config: Option<PathBuf>,
    /// The server of this name; without one, the only one there is
    #[arg(long, value_name = "NAME", conflicts_with = "state_dir")]
    name: Option<String>,
    /// The server with this state directory
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl Which {
    /// Its state directory.
    fn directory(&self) -> Result<PathBuf, Failure> {
        if let Some(directory) = &self.state_dir {
            return Ok(directory.clone());
        }
        if let Some(name) = &self.name {
            return Ok(state::default_path(name));
        }
        if let Some(file) = &self.config {
            let config = config::load(&What::of_file(file))?;
            return Ok(config.state_dir.unwrap_or_else(|| state::default_path(&config.name)));
        }
        let base = state::default_path("");
        let entries = std::fs::read_dir(&base).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut running: Vec<PathBuf> = entries.filter(|path| is_running(path)).collect();
        running.sort();
        match running.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::new(Code::Usage, "no server", format!("none of this user runs in {}", base.display()))
                .hint("--config FILE or --state-dir DIR, if its state is elsewhere")),
            several => {
                let names = several.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
                let names = names.collect::<Vec<_>>().join(", ");
                Err(Failure::new(Code::Usage, "which server", format!("several run: {names}")).hint("--name NAME"))
            }
        }
    }
}

fn is_running(directory: &Path) -> bool {
    UnixStream::connect(state::socket(directory)).is_ok()
}

/// Sends a command and waits for its answer.
fn ask(which: &Which, command: &str) -> Result<Value, Failure> {
    let directory = which.directory()?;
    let failed = |error: std::io::Error| {
        let what = format!("server of {}", directory.display());
        let code = if error.kind() == std::io::ErrorKind::PermissionDenied { Code::Permission } else { Code::Internal };
        Failure::new(code, what, error).hint("is the server running, and does it run as your user?")
    };
    let mut stream = UnixStream::connect(state::socket(&directory)).map_err(failed)?;
    stream.write_all(format!("{command}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    serde_json::from_str(&answer).map_err(|_| {
        Failure::new(Code::Internal, format!("server of {}", directory.display()), "ended before it replied")
    })
}

/// `reprise reload`.
pub fn reload(which: &Which) -> Result<Code, Failure> {
    let answer = ask(which, "reload")?;
    let message = answer["message"].as_str().unwrap_or_default();
    if answer["ok"] == true {
        println!("reloaded: {message}");
        Ok(Code::Success)
    } else {
        Err(Failure::new(Code::NotBooted, "reload refused, the server goes on as before", message))
    }
}

/// `reprise status`.
pub fn status(which: &Which, is_json: bool, is_all: bool, watch: bool) -> Result<Code, Failure> {
    loop {
        let answer = ask(which, "status")?;
        let text = if is_json { format!("{answer}\n") } else { table::status(&answer, is_all) };
        let mut out = std::io::stdout().lock();
        // The screen is cleared only where there is one.
        let clear = if watch && out.is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        let written = write!(out, "{clear}{text}").and_then(|()| out.flush());
        if written.is_err() || !watch {
            // A reader that has seen enough is no failure.
            return Ok(Code::Success);
        }
        drop(out);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// `reprise trace`.
pub fn trace(which: &Which, pid: i32) -> Result<Code, Failure> {
    let answer = ask(which, &format!("trace {pid}"))?;
    let message = answer["message"].as_str().unwrap_or_default();
    if answer["ok"] == true {
        print!("{message}");
        Ok(Code::Success)
    } else {
        Err(Failure::new(Code::Usage, format!("trace {pid}"), message).hint("reprise status shows the workers"))
    }
}
