//! Starts and stops the real binaries, each in a directory of its own that every user can enter.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::client::{Client, Response};
use crate::{process, wait_for};

/// The project's directory.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the project").to_owned()
}

/// The executable under test: it is built in the profile of the tests, and so lies in the same directory.
/// `REPRISE_PROGRAMS` names another directory for it and its PHP.
pub fn program() -> PathBuf {
    std::env::var_os("REPRISE_PROGRAMS").map_or_else(built, PathBuf::from).join("reprise")
}

/// Where Cargo puts programs; tests lie in `deps` there.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    let directory = test.parent().expect("a program is in a directory");
    if directory.ends_with("deps") { directory.with_file_name("") } else { directory.to_owned() }
}

/// A port that nobody listens on, that the kernel gives to no connection of a client (below those that it takes for them),
/// and that no other program of the tests gets while this one lives: who holds the abstract socket of a port's name has it.
/// Its name is not Reprise's, which has none: `neighbours` looks for that. `php_cli_server.inc` does the same.
pub fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static HELD: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());
    // Programs of tests that run at the same time begin at different places.
    let base = std::process::id().wrapping_mul(997);
    wait_for("a free port", 10, || {
        let turn = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + (base.wrapping_add(turn) % u32::from(COUNT)) as u16;
        let name = SocketAddr::from_abstract_name(format!("port-of-a-test-{port}")).expect("a short name");
        let held = UnixDatagram::bind_addr(&name).ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        Some(port)
    })
}

/// A new directory that other users can enter, removed with its owner. All paths of such directories are as long.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Makes it below the system's temporary directory.
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("reprise-test-{:07}-{number:04}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        Directory(path)
    }

    /// Removes those that a process has made and could not remove.
    pub fn remove_all_of(pid: i32) {
        let begin = format!("reprise-test-{pid:07}-");
        let all = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        for one in all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)) {
            let _ = fs::remove_dir_all(one.path());
        }
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a tree, readable for all.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-rT").arg(from).arg(to).status().expect("cp");
    assert!(status.success(), "cp {} {}", from.display(), to.display());
    let status = Command::new("chmod").args(["-R", "a+rX"]).arg(to).status().expect("chmod");
    assert!(status.success());
}

/// What to start.
pub struct Setup {
    directory: Directory,
    root: PathBuf,
    server: Vec<String>,
    application: Vec<String>,
    tables: Vec<String>,
    routes: Vec<String>,
    flags: Vec<String>,
    has_default_sizes: bool,
    command: Vec<PathBuf>,
    port: u16,
}

impl Setup {
    /// A copy of tests/apps/NAME with its document root `public`.
    pub fn app(name: &str) -> Setup {
        let setup = Setup::empty();
        copy(&project().join("tests/apps").join(name), &setup.directory.0.join("app"));
        setup
    }

    /// An empty document root.
    pub fn empty() -> Setup {
        let directory = Directory::new();
        let root = directory.0.join("app/public");
        fs::create_dir_all(&root).expect("document root");
        Setup {
            root,
            directory,
            server: vec![],
            application: vec![],
            tables: vec![],
            routes: vec![],
            flags: vec![],
            has_default_sizes: false,
            command: vec![program()],
            port: free_port(),
        }
    }

    /// A document root that is there already.
    pub fn root(root: &Path) -> Setup {
        Setup { root: root.to_owned(), ..Setup::empty() }
    }

    /// The same with another root, which need not be there yet.
    pub fn at(self, root: &Path) -> Setup {
        Setup { root: root.to_owned(), ..self }
    }

    /// Writes a file below the document root.
    pub fn file(self, name: &str, text: impl AsRef<[u8]>) -> Setup {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
        self
    }

    /// A line at the top of the configuration.
    pub fn server(mut self, line: &str) -> Setup {
        self.server.push(line.to_owned());
        self
    }

    /// A line of the application.
    pub fn application(mut self, line: &str) -> Setup {
        self.application.push(line.to_owned());
        self
    }

    /// A rule: the lines of its table.
    pub fn route(mut self, lines: &str) -> Setup {
        self.routes.push(format!("[[application.route]]\n{lines}"));
        self
    }

    /// Another application: the lines of its table.
    pub fn another(mut self, lines: &str) -> Setup {
        self.routes.push(format!("[[application]]\n{lines}"));
        self
    }

    /// A php.ini setting.
    pub fn ini(mut self, name: &str, value: &str) -> Setup {
        self.tables.push(format!("ini.\"{name}\" = \"{value}\""));
        self
    }

    /// As many workers as the memory allows, and not two.
    pub fn with_default_sizes(mut self) -> Setup {
        self.has_default_sizes = true;
        self
    }

    /// A flag of `reprise serve`.
    pub fn flag(mut self, flag: &str) -> Setup {
        self.flags.push(flag.to_owned());
        self
    }

    /// The command in the place of the executable: another user's copy of it, or a program that executes it.
    pub fn command<P: Into<PathBuf>>(mut self, command: impl IntoIterator<Item = P>) -> Setup {
        self.command = command.into_iter().map(Into::into).collect();
        self
    }

    /// An environment variable for PHP.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.tables.push(format!("env.\"{name}\" = \"{value}\""));
        self
    }

    /// The directory of this test, for its own files.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Makes a directory in that, to which PHP may write. Its path.
    pub fn writable(&self, name: &str) -> String {
        let path = self.directory().join(name);
        fs::create_dir(&path).expect("a new directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("permissions");
        path.to_str().expect("a plain path").to_owned()
    }

    /// The document root.
    pub fn document_root(&self) -> &Path {
        &self.root
    }

    /// Starts the server and waits until it is ready.
    pub fn start(self) -> Server {
        self.launch().ready()
    }

    /// Starts `reprise dev` on the document root, with its flags, and waits until it is ready.
    pub fn develop(self, flags: &[&str]) -> Server {
        let log = fs::File::create(self.directory.0.join("server.log")).expect("a log");
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args(["dev".as_ref(), self.root.as_os_str()])
            .args(["--listen", &format!("127.0.0.1:{}", self.port)])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the executable under test: cargo build --profile tests --workspace --bins");
        Server { child, ended: None, port: self.port, root: self.root, directory: self.directory }.ready()
    }

    /// Starts the server and does not wait.
    pub fn launch(self) -> Server {
        let directory = &self.directory.0;
        let has = |lines: &[String], name: &str| {
            lines.iter().any(|line| line.split('=').next().is_some_and(|known| known.trim() == name))
        };
        let mut text = String::new();
        if !has(&self.server, "listen") {
            text.push_str(&format!("listen = [\"127.0.0.1:{}\"]\n", self.port));
        }
        if !has(&self.server, "access_log") {
            text.push_str(&format!("access_log = \"{}/access.log\"\n", directory.display()));
        }
        text.push_str(&format!("state_dir = \"{}/state\"\n{}\n", directory.display(), self.server.join("\n")));
        text.push_str(&format!("[[application]]\nname = \"app\"\nroot = \"{}\"\n", self.root.display()));
        let has_workers = self.has_default_sizes || has(&self.application, "workers");
        if !has_workers && !has(&self.application, "max_workers") {
            text.push_str("workers = 2\n");
        }
        if let Some(way) = crate::way().filter(|_| !has(&self.application, "isolation")) {
            text.push_str(&format!("isolation = \"{way}\"\n"));
        }
        text.push_str(&format!("{}\n{}\n", self.application.join("\n"), self.tables.join("\n")));
        text.push_str(&format!("{}\n", self.routes.join("\n")));
        let config = directory.join("reprise.toml");
        fs::write(&config, text).expect("a configuration");
        let log = fs::File::create(directory.join("server.log")).expect("a log");
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args(["serve", "--config"])
            .arg(&config)
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the executable under test: cargo build --profile tests --workspace --bins");
        Server { child, ended: None, port: self.port, root: self.root, directory: self.directory }
    }
}

/// A running server. Stopped with its owner; its log is printed if the test fails.
pub struct Server {
    child: Child,
    ended: Option<ExitStatus>,
    /// Where it listens.
    pub port: u16,
    /// Its document root.
    pub root: PathBuf,
    directory: Directory,
}

impl Server {
    fn ready(self) -> Server {
        wait_for("the server is ready", 30, || {
            assert!(process::is_alive(self.pid()), "the server ended:\n{}", self.log());
            self.log().contains("ready after").then_some(())
        });
        self
    }

    /// The supervisor.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The test's directory.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// What it wrote to standard output and error.
    pub fn log(&self) -> String {
        fs::read(self.directory.0.join("server.log"))
            .map_or(String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// The access log.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.directory.0.join("access.log")).unwrap_or_default()
    }

    /// The front's process.
    pub fn front(&self) -> Option<i32> {
        process::children(self.pid()).into_iter().find(|&pid| process::name(pid).as_deref() == Some("reprise-front"))
    }

    /// The (first) prototype's process.
    pub fn prototype(&self) -> Option<i32> {
        let is_php = |&pid: &i32| process::is_php(pid);
        // Orphans on their way out are the supervisor's children too; a prototype has workers.
        process::children(self.pid()).into_iter().filter(is_php).find(|&pid| !process::children(pid).is_empty())
    }

    /// The workers.
    pub fn workers(&self) -> Vec<i32> {
        self.prototype().map_or(vec![], process::children)
    }

    /// A GET on a connection of its own.
    pub fn get(&self, path: &str) -> Response {
        Client::new(self.port).get(path)
    }

    /// A connection.
    pub fn client(&self) -> Client {
        Client::new(self.port)
    }

    /// What `reprise status` says.
    pub fn status(&self, flags: &[&str]) -> String {
        let state = self.directory().join("state");
        let output = Command::new(program()).args(["status", "--state-dir"]).arg(state).args(flags).output();
        let output = output.expect("reprise status");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Another command of `reprise` about this server: what it prints on both outputs, and its exit code.
    pub fn reprise(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.output(arguments);
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.code().unwrap_or(-1))
    }

    /// The same, with each output by itself.
    pub fn output<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        let state = self.directory().join("state");
        Command::new(program()).args(arguments).arg("--state-dir").arg(state).output().expect("a command")
    }

    /// The token of `reprise verify`, from the control socket.
    pub fn token(&self) -> String {
        let mut stream = UnixStream::connect(self.directory().join("state/admin.sock")).expect("the control socket");
        stream.write_all(b"cache \"token\\n\"\n").expect("a question");
        let answer: serde_json::Value = serde_json::from_reader(stream).expect("an answer");
        assert_eq!(answer["ok"], true, "{answer}");
        answer["message"].as_str().expect("a token").to_owned()
    }

    /// `reprise trace`: its exit code, and what it said.
    pub fn trace(&self, pid: &str) -> (Option<i32>, String) {
        let state = self.directory().join("state");
        let output = Command::new(program()).args(["trace", pid, "--state-dir"]).arg(state).output();
        let output = output.expect("reprise trace");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// Sends the supervisor a signal.
    pub fn signal(&self, signal: Signal) {
        process::kill(self.pid(), signal);
    }

    /// `reprise reload`: whether it went well, and what it said.
    pub fn reload(&self) -> (bool, String) {
        self.reload_with(&[])
    }

    /// `reprise reload --certificates`: the same.
    pub fn reload_certificates(&self) -> (bool, String) {
        self.reload_with(&["--certificates"])
    }

    fn reload_with(&self, flags: &[&str]) -> (bool, String) {
        let output = Command::new(program())
            .arg("reload")
            .args(flags)
            .arg("--state-dir")
            .arg(self.directory.0.join("state"))
            .output()
            .expect("reprise reload");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes its configuration anew, with a text replaced in it.
    pub fn reconfigure(&self, from: &str, to: &str) {
        let path = self.directory.0.join("reprise.toml");
        let text = fs::read_to_string(&path).expect("the configuration");
        assert!(text.contains(from), "{from:?} is not in the configuration");
        fs::write(&path, text.replace(from, to)).expect("the configuration");
    }

    /// All its processes.
    pub fn processes(&self) -> Vec<i32> {
        let mut all = vec![self.pid()];
        let mut next = 0;
        while next < all.len() {
            all.extend(process::children(all[next]));
            next += 1;
        }
        all
    }

    /// Waits for its end and returns its exit code; negative for a signal.
    pub fn wait(&mut self, seconds: u64) -> i32 {
        let status = wait_for("the server ends", seconds, || {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().expect("a child");
            }
            self.ended
        });
        use std::os::unix::process::ExitStatusExt;
        status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let (all, first) = (log.lines().count(), log.lines().position(|line| line.contains("panicked at")));
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            // A backtrace is longer than what is shown of the end.
            if let Some(first) = first.filter(|first| *first + tail.len() < all) {
                eprintln!(
                    "--- server log, from its first panic\n{}",
                    log.lines().skip(first).take(4).collect::<Vec<_>>().join("\n")
                );
            }
            eprintln!("--- server log\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        let began = Instant::now();
        let mut is_told = false;
        self.signal(Signal::SIGTERM);
        while self.ended.is_none() && matches!(self.child.try_wait(), Ok(None)) {
            // Nobody waits for what it still serves: a second signal ends the drain.
            if began.elapsed() > DRAIN && !is_told {
                is_told = true;
                self.signal(Signal::SIGTERM);
            }
            if began.elapsed() > Duration::from_secs(20) {
                // Its children see the end of the lifeline.
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// How long the server of a test that is over may serve on.
const DRAIN: Duration = Duration::from_millis(300);
