//! A server of the same configuration with another version of PHP, which runs as long as `reprise verify --php` does. Only verify reaches it: it
//! listens on a socket in a directory of its own.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use control::which::Which;
use rustix::process::{Pid, Signal, kill_process};
use supervisor::os::programs::PhpVersion;

use crate::comparison::visitor::{Side, Via};
use crate::config;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::installed;
use crate::private::{Private, socket, state_dir};
use crate::{admin, serve};

/// How long it may take to be ready.
const PATIENCE: Duration = Duration::from_secs(300);
/// Different messages that are kept.
const MOST_MESSAGES: usize = 1000;

/// What PHP wrote to its log, and how often.
pub type Messages = BTreeMap<String, usize>;

/// What the process of that server is told.
#[derive(Args)]
pub struct Draft {
    config: PathBuf,
    php: PhpVersion,
    directory: PathBuf,
}

/// The process of that server.
pub fn serve(draft: Draft) -> Result<Code, Failure> {
    supervisor::os::sys::end_with_parent().map_err(|error| Failure::new(Code::Internal, "verify --php", error))?;
    let private = Private { directory: draft.directory };
    let what = What { config: Some(draft.config), php: Some(draft.php), private: Some(private), ..What::default() };
    serve::run(what, false)
}

/// The running server. It ends with this value.
pub struct Beside {
    child: Child,
    directory: PathBuf,
    /// By which it lets verify choose the mode.
    token: String,
    messages: Arc<Mutex<Messages>>,
    /// Reads its log to the end.
    reader: Option<JoinHandle<()>>,
}

impl Beside {
    /// Starts a server with the configuration of the one that is meant, and waits until it is ready. Returns what that one runs, too.
    pub fn start(which: &Which, php: PhpVersion) -> Result<(Beside, String), Failure> {
        let running = admin::directory(which)?;
        let Some(config) = supervisor::os::state::config_of(&running) else {
            let why = format!("the server of {} was started without a configuration file", running.display());
            return Err(Failure::new(Code::Usage, "--php", why)
                .hint("start it with --config FILE: the same file is read for the other PHP"));
        };
        let versions = check_versions(&config, php)?;
        let failed = |error: std::io::Error| Failure::new(Code::Internal, "verify --php", error);
        let directory = std::env::temp_dir().join(format!("reprise-verify-{}", std::process::id()));
        // One of the same number that was killed has left it.
        let _ = std::fs::remove_dir_all(&directory);
        DirBuilder::new().mode(0o700).create(&directory).map_err(|error| {
            Failure::new(Code::Permission, directory.display().to_string(), error)
                .hint("remove it, or set TMPDIR to a directory of your own")
        })?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("verify-server").arg(&config).arg(php.to_string()).arg(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for name in supervisor::os::notify::VARIABLES {
            command.env_remove(name);
        }
        let mut child = command.spawn().inspect_err(|_| drop(std::fs::remove_dir(&directory))).map_err(failed)?;
        let (told, ready) = mpsc::channel();
        let messages = Arc::default();
        let reader = child.stderr.take().map(|output| {
            let kept = Arc::clone(&messages);
            std::thread::spawn(move || listen(output, &told, &kept))
        });
        let mut beside = Beside { child, directory, token: String::new(), messages, reader };
        beside.wait(&ready, php)?;
        beside.token = admin::token(&beside.which())?;
        Ok((beside, versions))
    }

    /// Waits until it is ready. What it said of its end is shown.
    fn wait(&mut self, ready: &Receiver<String>, php: PhpVersion) -> Result<(), Failure> {
        let (until, mut said) = (Instant::now() + PATIENCE, String::new());
        let wrong = |why: String| Err(Failure::new(Code::NotBooted, format!("the server with PHP {php}"), why));
        loop {
            match ready.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("ready after ") => return Ok(()),
                Ok(line) => said.push_str(&format!("  {line}\n")),
                Err(RecvTimeoutError::Timeout) => return wrong(format!("is not ready within {PATIENCE:?}\n{said}")),
                Err(RecvTimeoutError::Disconnected) => {
                    let ending = self.child.wait().map_or_else(|error| error.to_string(), |status| ended(&status));
                    return wrong(format!("did not start: it {ending}; it said\n{}", said.trim_end()));
                }
            }
        }
    }

    fn which(&self) -> Which {
        Which { config: None, name: None, state_dir: Some(state_dir(&self.directory)) }
    }

    /// Where its requests go.
    pub fn side(&self) -> Side {
        Side { via: Via::Socket(socket(&self.directory)), token: self.token.clone(), mode: "classic" }
    }

    /// Whether its front is still the one that it began with.
    pub fn check(&self) -> Result<(), Failure> {
        if admin::token(&self.which())? == self.token {
            return Ok(());
        }
        Err(Failure::new(Code::Internal, "verify --php", "the front of the server beside was started anew meanwhile"))
    }

    /// Ends it, and returns what its PHP wrote to its log.
    pub fn end(mut self) -> Messages {
        self.stop();
        self.reader.take().map(JoinHandle::join);
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let pid = Pid::from_child(&self.child);
            let ended = kill_process(pid, Signal::TERM).map_err(std::io::Error::from).and_then(|()| self.child.wait());
            if let Err(error) = ended {
                eprintln!("warning: the server beside, process {}: {error}", pid.as_raw_nonzero());
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop();
        // What a killed server left in it is of no use to anybody.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn ended(status: &std::process::ExitStatus) -> String {
    let by_signal = || status.signal().map_or_else(String::new, |signal| format!("was ended by signal {signal}"));
    status.code().map_or_else(by_signal, |code| format!("exited with {code}"))
}

/// A version that is the server's already, or that is not installed, is refused before anything is started. Returns what the server runs.
fn check_versions(file: &Path, php: PhpVersion) -> Result<String, Failure> {
    let of = |php: Option<PhpVersion>| {
        let what = What { config: Some(file.to_owned()), php, ..What::default() };
        installed::choose(&config::load(&what)?)
    };
    of(Some(php))?;
    let running = of(None)?.list;
    if running.iter().any(|running| running.minor != php) {
        let all: Vec<String> = running.iter().map(|running| format!("PHP {}", running.minor)).collect();
        return Ok(all.join(" or "));
    }
    Err(Failure::new(Code::Usage, "--php", format!("the server runs PHP {php} already: there is nothing to compare"))
        .hint("name another version that is installed for Reprise"))
}

/// Reads its log: first for who waits until it is ready, then for PHP's messages.
fn listen(output: ChildStderr, told: &mpsc::Sender<String>, messages: &Mutex<Messages>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(message) = of_php(&line) {
            let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
            if messages.len() < MOST_MESSAGES || messages.contains_key(message) {
                *messages.entry(message.to_owned()).or_default() += 1;
            }
        }
        // After it is ready nobody waits for that any more.
        let _ = told.send(line);
    }
}

/// The text of a line that PHP wrote: `TIME LEVEL php[PID] APPLICATION: TEXT`.
fn of_php(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" php[")?;
    rest.split_once("] ")?.1.split_once(": ").map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_php_are_told_from_the_server_s() {
        let line =
            "2026-11-25T22:31:07.123Z warning php[4711] shop: PHP Deprecated:  old(): gone in /srv/a.php on line 3";
        assert_eq!(of_php(line), Some("PHP Deprecated:  old(): gone in /srv/a.php on line 3"));
        assert_eq!(of_php("2026-11-25T22:31:07.123Z warning supervisor: shop: a worker ended"), None);
        assert_eq!(of_php("ready after 12 ms: unix:/tmp/x"), None);
    }
}
