//! `reprise reload`, `stop`, `status`, `trace`, `purge` and `cache`: ask a running server by the control socket in its state directory.

mod caches;
pub mod data;
pub mod purge;
mod table;

use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::command::Command;
use control::outcome::Outcome;
use control::response::{self, Unreadable};
use control::status::{ServerState, Status};
use control::which::Which;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use supervisor::os::{state, user};

use crate::config;
use crate::exit::{Code, Failure};

/// Most servers of other users that are named.
const SHOWN: usize = 3;

/// The state directory of the server that is meant.
pub fn directory(which: &Which) -> Result<PathBuf, Failure> {
    if let Some(directory) = &which.state_dir {
        return Ok(directory.clone());
    }
    if let Some(name) = &which.name {
        let exact = state::default_path(name);
        // An address, as the server prints it, stands for the name that comes from it.
        let of_address = state::default_path(&config::name_of(name));
        return Ok(if is_running(&of_address) && !is_running(&exact) { of_address } else { exact });
    }
    if let Some(file) = &which.config {
        let config = config::load_server(file)?;
        let usual = state::default_path(&config.name);
        // The name may come from an address that has changed since the start.
        let renamed = || state::of_config(&usual, file).into_iter().find(|directory| is_running(directory));
        let found = if config.is_named || is_running(&usual) { None } else { renamed() };
        return Ok(config.state_dir.or(found).unwrap_or(usual));
    }
    let base = state::default_path("");
    let entries = std::fs::read_dir(&base).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut running: Vec<PathBuf> = entries.filter(|path| is_running(path)).collect();
    running.sort();
    match running.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let why = format!("no running server of this user has its state in {}", base.display());
            let failure = Failure::new(Code::Usage, "no server", why);
            Err(match of_others(None) {
                Some(hint) => failure.hint(hint),
                None => failure.hint("start one, or name its state directory: --config FILE or --state-dir DIR"),
            })
        }
        several => {
            let names = several.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
            let names = names.collect::<Vec<_>>().join(", ");
            Err(Failure::new(Code::Usage, "which server", format!("several run: {names}")).hint("--name NAME"))
        }
    }
}

/// A hint that names the servers of other users: all, or the one of this state directory and those whose directories have
/// its name.
fn of_others(named: Option<&Path>) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    // Root may connect to it: it is not its owner that is in the way.
    let its = named.filter(|_| own != 0).and_then(|path| Some((path.to_owned(), path.metadata().ok()?.uid())));
    let is_meant = |path: &Path| named.is_none_or(|named| path != named && path.file_name() == named.file_name());
    let all = its.into_iter().chain(state::places().filter(|(path, _)| is_meant(path)));
    let found: Vec<(PathBuf, u32)> = all.filter(|(_, uid)| *uid != own).take(SHOWN).collect();
    let owner = |uid: u32| user::name_of(uid).unwrap_or_else(|| format!("of id {uid}"));
    let retry = match (own, owner(found.first()?.1)) {
        (0, _) => "name it with --state-dir DIR".to_owned(),
        (_, name) => format!("run the command as {name}"),
    };
    let one = |(path, uid): &(PathBuf, u32)| {
        format!("user {} has one in {}", owner(*uid), path.display().to_string().escape_debug())
    };
    Some(format!("{}: {retry}", found.iter().map(one).collect::<Vec<_>>().join(", ")))
}

fn is_running(directory: &Path) -> bool {
    UnixStream::connect(state::socket(directory)).is_ok()
}

/// What a server has sent.
struct Response {
    directory: PathBuf,
    text: String,
}

impl Response {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        response::read(&self.text).map_err(|why| {
            let failure = Failure::new(Code::Internal, server(&self.directory), &why);
            match why {
                Unreadable::Foreign { .. } => failure.hint("use the reprise that the server was started with"),
                _ => failure,
            }
        })
    }
}

/// Sends a command and waits for the response.
fn ask(which: &Which, command: Command) -> Result<Response, Failure> {
    send(&directory(which)?, &command, None)
}

/// What a connection to a server's control socket ends with.
fn failed(directory: &Path, error: std::io::Error) -> Failure {
    let code = if error.kind() == std::io::ErrorKind::PermissionDenied { Code::Permission } else { Code::Internal };
    let hint =
        of_others(Some(directory)).unwrap_or_else(|| "is the server running, and does it run as your user?".to_owned());
    Failure::new(code, server(directory), error).hint(hint)
}

/// The same. `patience`: how long the server may be silent.
fn send(directory: &Path, command: &Command, patience: Option<Duration>) -> Result<Response, Failure> {
    let stream = UnixStream::connect(state::socket(directory)).map_err(|error| failed(directory, error))?;
    talk(directory, stream, command, patience)
}

fn talk(
    directory: &Path,
    mut stream: UnixStream,
    command: &Command,
    patience: Option<Duration>,
) -> Result<Response, Failure> {
    let failed = |error| failed(directory, error);
    stream.set_read_timeout(patience).map_err(failed)?;
    stream.write_all(format!("{command}\n").as_bytes()).map_err(failed)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(failed)?;
    Ok(Response { directory: directory.to_owned(), text })
}

fn server(directory: &Path) -> String {
    format!("server of {}", directory.display())
}

/// Asks the cache of responses something.
fn question(which: &Which, text: String, what: &str) -> Result<String, Failure> {
    let Outcome { ok, message } = ask(which, Command::Cache(text))?.read()?;
    if ok { Ok(message) } else { Err(Failure::new(Code::Usage, what, message)) }
}

/// The token by which requests pass by the cache of responses and choose their mode.
pub fn token(which: &Which) -> Result<String, Failure> {
    question(which, "token\n".to_owned(), "the token of the server")
}

/// To standard output. A reader that has seen enough is no failure.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `reprise reload`.
pub fn reload(which: &Which, only_certificates: bool) -> Result<Code, Failure> {
    let command = if only_certificates { Command::ReloadCertificates } else { Command::Reload };
    let Outcome { ok, message } = ask(which, command)?.read()?;
    if !ok {
        return Err(Failure::new(Code::NotBooted, "reload refused, the server goes on as before", message));
    }
    println!("reloaded: {message}");
    Ok(Code::Success)
}

/// How long a stop may take: the longest `shutdown_delay` and `drain_timeout`, and a minute for the end of the processes.
const LONGEST_DRAIN: Duration = Duration::from_secs(2 * 86400 + 60);
/// How long the supervisor's own process may take to end after its response.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// `reprise stop`: asks for a drain, and waits until the server's process is gone.
pub fn stop(which: &Which) -> Result<Code, Failure> {
    let directory = directory(which)?;
    let failed = |error| failed(&directory, error);
    let stream = UnixStream::connect(state::socket(&directory)).map_err(failed)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|error| failed(error.into()))?;
    let process = pidfd_open(peer.pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let Outcome { ok, message } = talk(&directory, stream, &Command::Stop, Some(LONGEST_DRAIN))?.read()?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    let patience = Timespec { tv_sec: LAST_STEPS.as_secs() as i64, tv_nsec: 0 };
    if poll(&mut ends, Some(&patience)).is_ok_and(|count| count == 0) {
        let why =
            format!("{message}, but its process {} has not ended after {LAST_STEPS:?}", peer.pid.as_raw_nonzero());
        return Err(Failure::new(Code::Internal, server(&directory), why));
    }
    if !ok {
        return Err(Failure::new(Code::Internal, "the server has stopped", message));
    }
    println!("stopped: {message}");
    Ok(Code::Success)
}

/// How long a server may be silent that is asked by the way.
const BY_THE_WAY: Duration = Duration::from_secs(5);

/// What a server does, if it answers soon.
pub fn look(which: &Which) -> Result<Status, Failure> {
    send(&directory(which)?, &Command::Status, Some(BY_THE_WAY))?.read()
}

/// `reprise status --ready`: as /readyz, without a listener.
pub fn ready(which: &Which) -> Result<Code, Failure> {
    let directory = directory(which)?;
    let unready = |why: &str| Failure::new(Code::Internal, "not ready", why.trim_end().replace('\n', " "));
    let status: Status = send(&directory, &Command::Status, Some(BY_THE_WAY))?.read()?;
    if status.state != ServerState::Serving {
        return Err(unready(&format!("the server is {}", status.state.word())));
    }
    let Outcome { ok, message } = send(&directory, &Command::Cache("ready\n".to_owned()), Some(BY_THE_WAY))?.read()?;
    if !ok {
        return Err(unready(&message));
    }
    println!("ready");
    Ok(Code::Success)
}

/// `reprise status`.
pub fn status(which: &Which, is_json: bool, is_all: bool, watch: bool) -> Result<Code, Failure> {
    loop {
        let response = ask(which, Command::Status)?;
        let text = if is_json {
            // Passed on as it is, with keys that this version does not know.
            let mut object: serde_json::Map<String, serde_json::Value> = response.read()?;
            if let Ok(status) = response.read::<Status>() {
                if let Some(caches) = caches::of(&response.directory, &status) {
                    object.insert("caches".to_owned(), serde_json::json!(caches));
                }
                let data = data::of(&response.directory, &status);
                object.insert("data_caches".to_owned(), serde_json::json!(data));
            }
            format!("{}\n", serde_json::Value::Object(object))
        } else {
            let mut status: Status = response.read()?;
            status.caches = caches::of(&response.directory, &status);
            status.data_caches = Some(data::of(&response.directory, &status));
            table::status(&status, is_all)
        };
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
    let Outcome { ok, message } = ask(which, Command::Trace(pid))?.read()?;
    if !ok {
        return Err(Failure::new(Code::Usage, format!("trace {pid}"), message).hint("reprise status shows the workers"));
    }
    print!("{message}");
    Ok(Code::Success)
}
