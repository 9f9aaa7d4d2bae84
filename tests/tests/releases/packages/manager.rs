//! A service manager for a root that has none: `systemctl` there asks it, and it starts the service by its unit, with the sockets of
//! the socket unit, which stay open.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use tests::process;

use super::place::Place;

/// The client, in the root. A named pipe has the answer: first the exit status, then the text.
const SYSTEMCTL: &str = r#"#!/bin/sh
at=/var/lib/manager/$$
mkfifo "$at.answer"
printf '%s\n' "$*" >"$at.new"
mv "$at.new" "$at.ask"
{ read -r status; cat; } <"$at.answer"
rm -f "$at.answer"
exit "$status"
"#;

/// What the manager has done.
#[derive(Default)]
pub struct Done {
    /// Starts of the service.
    pub starts: usize,
    /// Ends of the service that it was asked for, each with the exit code.
    pub ends: Vec<Option<i32>>,
    /// Reloads, each with what was said.
    pub reloads: Vec<String>,
}

struct State {
    root: PathBuf,
    enter: Vec<String>,
    listener: Option<TcpListener>,
    port: u16,
    child: Option<Child>,
    done: Arc<Mutex<Done>>,
}

/// A service manager.
pub struct Manager {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    done: Arc<Mutex<Done>>,
}

impl Manager {
    /// Begins to serve the `systemctl` of a root; the socket unit listens on a port.
    pub fn new(place: &Place, port: u16) -> Manager {
        place.write("/var/lib/manager/log", "");
        place.write("/usr/bin/systemctl", SYSTEMCTL);
        place.run("chmod", &["755", "/usr/bin/systemctl"]);
        place.run("mkdir", &["-p", "/run/systemd/system"]);
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Done::default())));
        let mut state = State {
            root: place.root.clone(),
            enter: place.arguments(),
            listener: None,
            port,
            child: None,
            done: done.clone(),
        };
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                state.serve();
                std::thread::park_timeout(Duration::from_millis(5));
            }
            state.stop();
        });
        Manager { stop, thread: Some(thread), done }
    }

    /// Looks at what was done.
    pub fn done<T>(&self, look: impl FnOnce(&Done) -> T) -> T {
        look(&self.done.lock().expect("no thread panics with the lock"))
    }

    /// The log of the service.
    pub fn log(place: &Place) -> String {
        fs::read_to_string(place.root.join("var/lib/manager/log")).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the manager has failed");
        }
    }
}

impl State {
    /// Answers what was asked since the last time.
    fn serve(&mut self) {
        let asked = fs::read_dir(self.root.join("var/lib/manager")).expect("the directory of the manager");
        for ask in
            asked.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "ask"))
        {
            let text = fs::read_to_string(&ask).expect("a command");
            fs::remove_file(&ask).expect("a command");
            let (status, said) = self.obey(text.trim());
            let answer = fs::OpenOptions::new().write(true).open(ask.with_extension("answer"));
            answer.and_then(|mut pipe| write!(pipe, "{status}\n{said}")).expect("systemctl waits for its answer");
        }
    }

    fn obey(&mut self, command: &str) -> (i32, String) {
        let words: Vec<&str> = command.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let Some((verb, units)) = words.split_first() else { return (1, String::new()) };
        let mut result = (0, String::new());
        for unit in units {
            let is_socket = unit.ends_with(".socket");
            result = match *verb {
                "is-active" if is_socket => (i32::from(self.listener.is_none()), String::new()),
                "is-active" => (i32::from(self.child.is_none()), String::new()),
                "is-enabled" => self.is_enabled(unit),
                "start" if is_socket => self.listen(),
                "start" => self.start(),
                "stop" if is_socket => {
                    self.listener = None;
                    (0, String::new())
                }
                "stop" => self.stop(),
                "restart" => {
                    self.stop();
                    self.start()
                }
                "reload" => self.reload(),
                other => (1, format!("the test's manager does not know '{other}'\n")),
            };
        }
        result
    }

    fn is_enabled(&self, unit: &str) -> (i32, String) {
        let wants = ["multi-user", "sockets"]
            .map(|target| self.root.join(format!("etc/systemd/system/{target}.target.wants/{unit}")));
        match wants.iter().any(|link| link.symlink_metadata().is_ok()) {
            true => (0, "enabled\n".to_owned()),
            false => (1, "disabled\n".to_owned()),
        }
    }

    /// The condition of both units.
    fn has_application(&self) -> bool {
        let files = fs::read_dir(self.root.join("etc/reprise/conf.d"));
        files.is_ok_and(|files| files.flatten().any(|file| file.path().extension().is_some_and(|end| end == "toml")))
    }

    fn listen(&mut self) -> (i32, String) {
        if self.listener.is_none() && self.has_application() {
            self.listener = Some(TcpListener::bind(("127.0.0.1", self.port)).expect("the port of the socket unit"));
        }
        (0, String::new())
    }

    /// The command of a line of the unit.
    fn line(&self, name: &str) -> Vec<String> {
        let unit = fs::read_to_string(self.root.join("usr/lib/systemd/system/reprise.service")).expect("the unit");
        let line = unit.lines().find_map(|line| line.strip_prefix(name)).expect("a command in the unit");
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn start(&mut self) -> (i32, String) {
        if self.child.is_some() || !self.has_application() {
            return (0, String::new());
        }
        let log = || fs::OpenOptions::new().append(true).open(self.root.join("var/lib/manager/log")).expect("a log");
        let mut command = Command::new("bash");
        // A number of two digits is for bash alone.
        let script = "if (($1)); then exec 3<&\"$1\"; export LISTEN_PID=$$ LISTEN_FDS=1; fi; shift; exec \"$@\"";
        let handed = self
            .listener
            .as_ref()
            .map(|listener| fcntl(listener.as_fd(), FcntlArg::F_DUPFD(100)).expect("a descriptor"));
        command.args(["-c", script, "start", &handed.unwrap_or(0).to_string(), "nsenter"]);
        // All of the environment is cleared, but for these two.
        let enter = self.enter.iter().filter(|word| *word != "-i");
        let child =
            command.args(enter).args(self.line("ExecStart=")).stdin(Stdio::null()).stdout(log()).stderr(log()).spawn();
        self.child = Some(child.expect("the service"));
        if let Some(handed) = handed {
            nix::unistd::close(handed).expect("close");
        }
        self.done.lock().expect("no thread panics with the lock").starts += 1;
        (0, String::new())
    }

    fn stop(&mut self) -> (i32, String) {
        if let Some(mut child) = self.child.take() {
            process::kill(child.id() as i32, Signal::SIGTERM);
            let status = child.wait().expect("a child");
            self.done.lock().expect("no thread panics with the lock").ends.push(status.code());
        }
        (0, String::new())
    }

    fn reload(&mut self) -> (i32, String) {
        let output =
            Command::new("nsenter").args(&self.enter).args(self.line("ExecReload=")).output().expect("nsenter");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        self.done.lock().expect("no thread panics with the lock").reloads.push(said);
        (i32::from(!output.status.success()), String::new())
    }
}
