//! Servers that applications connect to, beside [`crate::peer::Database`]: PostgreSQL and Redis, each in a directory of its own.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Uid;

use crate::once;
use crate::peer::{Program, run_to_end, writable_directory};
use crate::server::{Directory, free_port};

/// A Redis server. On systems that have Valkey and no Redis, it is that.
pub struct Redis {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    directory: Directory,
    arguments: Vec<String>,
    program: Option<Program>,
}

impl Redis {
    /// Starts one.
    pub fn start(arguments: &[&str]) -> Redis {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut redis = Redis { port: free_port(), directory: Directory::new(), arguments, program: None };
        redis.again();
        redis
    }

    /// Starts it anew; what was in it is gone.
    pub fn again(&mut self) {
        self.program = None;
        let mut command = Command::new(installed("server"));
        command.args(["--save", "", "--port", &self.port.to_string(), "--unixsocketperm", "777", "--dir"]);
        command.arg(&self.directory.0).arg("--unixsocket").arg(self.socket()).args(&self.arguments);
        let mut program = Program::start(&mut command, &self.directory.0.join("redis.log"));
        let port = self.port;
        let socket = self.socket();
        let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok() && UnixStream::connect(&socket).is_ok();
        program.await_ready(20, is_ready);
        self.program = Some(program);
    }

    /// Stops it.
    pub fn stop(&mut self) {
        self.program = None;
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.program.as_ref().expect("it runs").pid()
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.0.join("socket")
    }

    /// For `data_cache_store`.
    pub fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}", self.port)
    }

    /// What it says to a command.
    pub fn say(&self, arguments: &[&str]) -> String {
        let output = Command::new(installed("cli")).args(["-p", &self.port.to_string()]).args(arguments).output();
        let output = output.expect("its client");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

/// Redis' program of that name, or Valkey's where only that is installed.
fn installed(name: &str) -> PathBuf {
    let programs = ["redis", "valkey"].map(|kind| PathBuf::from(format!("/usr/bin/{kind}-{name}")));
    programs.into_iter().find(|program| program.exists()).unwrap_or_else(|| panic!("redis-{name} or valkey-{name}"))
}

/// A PostgreSQL whose superuser `app` needs no password.
pub struct Postgres {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    directory: Directory,
    settings: Vec<String>,
    program: Option<Program>,
}

/// PostgreSQL runs as no root.
fn as_owner(program: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions.filter_map(Result::ok).map(|entry| entry.path()).max().expect("a version of PostgreSQL");
    let program = newest.join("bin").join(program);
    if !Uid::effective().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

impl Postgres {
    /// Starts one with more settings of postgresql.conf: `name=value`.
    pub fn start(settings: &[&str]) -> Postgres {
        let directory = Directory::new();
        let data = directory.0.join("data");
        match once::shared("postgres", Postgres::install) {
            Some(made) => run_to_end(Command::new("cp").arg("-a").arg(made).arg(&data)),
            None => Postgres::install(&data),
        }
        let settings = settings.iter().map(|one| (*one).to_owned()).collect();
        let mut made = Postgres { port: free_port(), directory, settings, program: None };
        made.again();
        made
    }

    fn install(place: &Path) {
        writable_directory(place, "postgres");
        run_to_end(as_owner("initdb").args(["-A", "trust", "--no-sync", "-U", "app", "-E", "UTF8", "-D"]).arg(place));
    }

    /// Starts it anew.
    pub fn again(&mut self) {
        self.program = None;
        let run = self.directory.0.join("run");
        writable_directory(&run, "postgres");
        let mut command = as_owner("postgres");
        command.arg("-D").arg(self.directory.0.join("data"));
        let place = format!("unix_socket_directories={}", run.display());
        let port = format!("port={}", self.port);
        let own = [place.as_str(), &port, "listen_addresses=127.0.0.1", "fsync=off", "unix_socket_permissions=0777"];
        for setting in own.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        // By SIGTERM it would wait for its clients, which keep their connections.
        let program = Program::start(&mut command, &self.directory.0.join("postgres.log"));
        let mut program = program.stopped_by(Signal::SIGINT);
        let socket = run.join(format!(".s.PGSQL.{}", self.port));
        // It listens before it lets anybody in.
        program.await_ready(30, || UnixStream::connect(&socket).is_ok() && self.runs("select 1"));
        self.program = Some(program);
    }

    /// Stops it.
    pub fn stop(&mut self) {
        self.program = None;
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.program.as_ref().expect("it runs").pid()
    }

    /// What it said.
    pub fn log(&self) -> String {
        self.program.as_ref().expect("it runs").log()
    }

    /// The directory of its socket, as libpq takes it.
    pub fn host(&self) -> String {
        self.directory.0.join("run").display().to_string()
    }

    fn psql(&self, statement: &str) -> Command {
        let mut command = Command::new("psql");
        command.args([
            "-h",
            &self.host(),
            "-p",
            &self.port.to_string(),
            "-U",
            "app",
            "-d",
            "postgres",
            "-tAqc",
            statement,
        ]);
        command.stdin(Stdio::null());
        command
    }

    fn runs(&self, statement: &str) -> bool {
        self.psql(statement).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// What a statement finds.
    pub fn say(&self, statement: &str) -> String {
        let output = self.psql(statement).output().expect("psql");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}
