//! Starts under hard limits, what a start leaves behind and clears, modes and directories of the command line.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::client::{Client, connect};
use tests::server::{Directory, free_port, program};
use tests::{Setup, wait_for, wait_until};

/// A server of the command line, in a runtime directory of its own, perhaps below a limit of the shell's.
struct Started {
    child: Child,
    log: PathBuf,
    /// Writes down what it says.
    writing: JoinHandle<()>,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Started {
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Its exit code, within so many seconds; -1 if a signal ended it.
    fn end(&mut self, seconds: u64) -> i32 {
        let mut status = None;
        wait_until("the server ends", seconds, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        wait_until("its last words are written", seconds, || self.writing.is_finished());
        status.unwrap().code().unwrap_or(-1)
    }
}

fn start(place: &Path, limit: &str, arguments: &[&str]) -> Started {
    let log = place.join(format!("{}.log", free_port()));
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{limit}\nexec \"$@\"")).arg("sh").arg(program()).arg("serve").args(arguments);
    command.args(["--access-log", "off"]).stdin(Stdio::null());
    // Through a pipe: a limit of file sizes is one of logs too.
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut file) = (child.stderr.take().unwrap(), fs::File::create(&log).unwrap());
    let writing = std::thread::spawn(move || drop(std::io::copy(&mut said, &mut file)));
    Started { child, log, writing }
}

/// A directory that PHP's user can read, with these files.
fn directory(files: &[(&str, &str)]) -> Directory {
    let directory = Directory::new();
    for (name, text) in files {
        let path = directory.0.join("app").join(name);
        fs::DirBuilder::new().recursive(true).mode(0o755).create(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

const SNAPSHOT: (&str, &str) = ("index.php", "<?php reprise_snapshot(); echo reprise_info()['mode'];");

/// Each ends at once and says what is missing, or is ready and serves; none hangs.
#[test]
fn limits_of_the_shell_end_a_start_or_let_it_serve() {
    let place = directory(&[SNAPSHOT]);
    let app = place.0.join("app").display().to_string();
    for (limit, words) in [
        ("ulimit -n 20", Some("20 are allowed, at least 272 are needed")),
        ("ulimit -n 40", Some("LimitNOFILE")),
        ("ulimit -n 271", Some("271 are allowed")),
        ("ulimit -n 272", None),
        ("ulimit -f 0", Some("File too large")),
        ("ulimit -f 1", Some("File too large")),
        ("ulimit -v 200000", Some("Cannot allocate memory")),
        ("ulimit -l 0", None),
        ("ulimit -c 0", None),
        ("ulimit -p 1", Some("RLIMIT_NPROC")),
    ] {
        let port = free_port();
        let mut server = start(&place.0, limit, &[&app, "--listen", &format!("127.0.0.1:{port}")]);
        let is_over = wait_for("the server serves or ends", 20, || {
            if server.log().contains("\nready after") {
                Some(false)
            } else {
                server.child.try_wait().unwrap().map(|_| true)
            }
        });
        assert_eq!(is_over, words.is_some(), "{limit}: {}", server.log());
        match words {
            Some(words) => {
                let code = server.end(5);
                assert!(server.log().contains(words), "{limit}: {}", server.log());
                assert!([1, 70, 77].contains(&code), "{limit}: {code}");
                assert!(!limit.contains("-n") || code == 77, "{limit}: {code}");
            }
            None => {
                assert_eq!(Client::new(port).get("/").text(), "snapshot", "{limit}");
                server.signal(Signal::SIGTERM);
                assert_eq!(server.end(20), 0, "{limit}: {}", server.log());
            }
        }
    }
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Where this user's servers keep their state.
fn states() -> PathBuf {
    match nix::unistd::Uid::effective().is_root() {
        true => PathBuf::from("/run/reprise"),
        false => std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
            || std::env::temp_dir().join(format!("reprise-{}", nix::unistd::Uid::effective())),
            |runtime| PathBuf::from(runtime).join("reprise"),
        ),
    }
}

/// A state directory goes with its server, and those of killed servers go at the next start.
#[test]
fn a_server_leaves_no_state_directory_and_clears_those_of_killed_ones() {
    let place = directory(&[SNAPSHOT]);
    let app = place.0.join("app").display().to_string();
    let serve = || {
        let port = free_port();
        let server = start(&place.0, "", &[&app, "--listen", &format!("127.0.0.1:{port}")]);
        wait_until("the server is ready", 20, || server.log().contains("\nready after"));
        (server, format!("127.0.0.1-{port}"))
    };
    let has = |name: &String| names(&states()).contains(name);
    let (mut clean, clean_name) = serve();
    let (mut killed, killed_name) = serve();
    let foreign = states().join(format!("foreign-{}", free_port()));
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("lock"), "").unwrap();
    fs::write(foreign.join("notes.txt"), "").unwrap();
    assert!(has(&clean_name) && has(&killed_name));
    clean.signal(Signal::SIGTERM);
    assert_eq!(clean.end(20), 0);
    assert!(!has(&clean_name), "a clean end removes it");
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end(5), -1);
    assert!(has(&killed_name), "nobody could remove it yet");
    let (_running, running_name) = serve();
    let (_other, other_name) = serve();
    assert!(!has(&killed_name), "the next start clears it");
    assert!(has(&running_name) && has(&other_name), "one that runs keeps its own");
    assert!(foreign.join("notes.txt").exists(), "what is no server's state is left alone");
    fs::remove_dir_all(&foreign).unwrap();
}

/// Of many that start at once with one name, one has the directory at any time, and the others say who.
#[test]
fn servers_that_start_and_stop_at_once_do_not_take_each_others_directory() {
    let place = directory(&[SNAPSHOT]);
    let state = place.0.join("state");
    let config = place.0.join("reprise.toml");
    for round in 0..6 {
        let mut servers: Vec<Started> = (0..4)
            .map(|number| {
                let port = free_port();
                let text = format!(
                    "listen = [\"127.0.0.1:{port}\"]\nstate_dir = \"{}\"\naccess_log = \"off\"\n[[application]]\nroot = \"{}\"\nworkers = 1\n",
                    state.display(),
                    place.0.join("app").display()
                );
                let config = config.with_extension(format!("{number}.toml"));
                fs::write(&config, text).unwrap();
                start(&place.0, "", &["--config", &config.display().to_string()])
            })
            .collect();
        let is_settled =
            |server: &mut Started| server.log().contains("\nready after") || server.child.try_wait().unwrap().is_some();
        wait_until("all have started or given up", 30, || servers.iter_mut().all(is_settled));
        let ready: Vec<usize> = (0..4).filter(|number| servers[*number].log().contains("\nready after")).collect();
        assert_eq!(ready.len(), 1, "round {round}");
        for (number, server) in servers.iter_mut().enumerate() {
            if number != ready[0] {
                assert!(server.end(5) == 69 && server.log().contains("in use by process"), "{}", server.log());
            }
        }
        servers[ready[0]].signal(Signal::SIGTERM);
        assert_eq!(servers[ready[0]].end(20), 0);
        assert!(!state.exists(), "round {round}");
    }
}

/// `reprise serve --mode` sets the mode of the front controller.
#[test]
fn the_mode_may_be_said_on_the_command_line() {
    let both = "<?php if (function_exists('reprise_snapshot') && !isset($_GET['x'])) { reprise_snapshot(); } echo reprise_info()['mode'];";
    let looped = "<?php while (reprise_handle_request(function () { echo reprise_info()['mode']; })) {}";
    for (script, mode, answer) in [
        (both, "classic", "classic"),
        (both, "snapshot", "snapshot"),
        (both, "auto", "snapshot"),
        (looped, "worker", "worker"),
    ] {
        let place = directory(&[("index.php", script)]);
        let app = place.0.join("app").display().to_string();
        let port = free_port();
        let server = start(&place.0, "", &[&app, "--mode", mode, "--listen", &format!("127.0.0.1:{port}")]);
        wait_until("the server is ready", 20, || server.log().contains("\nready after"));
        let mut answered = String::new();
        wait_until("the mode that was said", 20, || {
            answered = Client::new(port).get("/").text();
            answered == answer
        });
        assert_eq!(answered, answer, "{mode}");
        assert_eq!(
            server.log().contains("the configuration says so"),
            ["snapshot", "worker"].contains(&mode),
            "{}",
            server.log()
        );
    }
    let run = |arguments: &[&str]| -> Output { Command::new(program()).arg("check").args(arguments).output().unwrap() };
    let place = directory(&[("a.php", "<?php echo 'by name';")]);
    let app = place.0.join("app").display().to_string();
    for (arguments, word) in [
        ([app.as_str(), "--mode", "worker"], "no front controller"),
        ([app.as_str(), "--mode", "swift"], "possible values"),
    ] {
        let output = run(&arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(64) && text.contains(word), "{text}");
    }
}

/// A directory of scripts without an index is served by the scripts' names, and the start says so.
#[test]
fn a_directory_of_scripts_without_an_index_is_served_by_name() {
    let place =
        directory(&[("a.php", "<?php echo 'by name';"), ("sub/b.php", "<?php echo 'below';"), ("c.txt", "text")]);
    let app = place.0.join("app").display().to_string();
    let port = free_port();
    let server = start(&place.0, "", &[&app, "--listen", &format!("127.0.0.1:{port}")]);
    wait_until("the server is ready", 20, || server.log().contains("\nready after"));
    let get = |path: &str| Client::new(port).get(path);
    assert_eq!(
        (get("/a.php").text(), get("/sub/b.php").text(), get("/c.txt").text()),
        ("by name".into(), "below".into(), "text".into())
    );
    for path in ["/", "/sub/", "/nope", "/nope.php"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    assert!(server.log().contains("there is no index.php or index.html"), "{}", server.log());
    // Nothing to serve is still a mistake.
    let empty = directory(&[("readme.txt", "")]);
    let output = Command::new(program()).arg("check").arg(empty.0.join("app")).output().unwrap();
    assert!(
        output.status.code() == Some(64) && String::from_utf8_lossy(&output.stderr).contains("no other script there")
    );
}

/// The worker's wait ends each second, its idleness does not.
#[test]
fn status_says_how_long_a_worker_has_been_idle() {
    for script in [
        "<?php echo 1;",
        "<?php reprise_snapshot(); echo 1;",
        "<?php while (reprise_handle_request(function () { echo 1; })) {}",
    ] {
        let server = Setup::empty().file("index.php", script).application("workers = 1").start();
        server.get("/");
        let longest = || {
            let status: serde_json::Value = serde_json::from_str(&server.status(&["--json", "--all"])).unwrap();
            let mut found: f64 = 0.0;
            collect_idle(&status, &mut found);
            found
        };
        wait_until("a worker idle for more than three seconds", 15, || longest() > 3.0);
        server.get("/");
    }
}

fn collect_idle(value: &serde_json::Value, found: &mut f64) {
    if value["state"] == "idle" {
        *found = found.max(value["state_seconds"].as_f64().unwrap_or(0.0));
    }
    match value {
        serde_json::Value::Array(list) => list.iter().for_each(|one| collect_idle(one, found)),
        serde_json::Value::Object(map) => map.values().for_each(|one| collect_idle(one, found)),
        _ => {}
    }
}

/// One address has so many connections; what is over that is closed, and others are served.
#[test]
fn connections_of_an_address_are_limited() {
    let admin = free_port();
    let setup = Setup::empty().file("index.php", "<?php echo 'served';");
    let server =
        setup.server("client_connections = 3").server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]")).start();
    let mut kept: Vec<Client> = (0..3).map(|_| server.client()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/").text(), "served"));
    let refused = || {
        connect(server.port).is_ok_and(|stream| Client::over(stream, "a").try_request("GET", "/", &[], b"").is_err())
    };
    assert!((0..5).all(|_| refused()));
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/").text(), "served"));
    let metrics = Client::new(admin).get("/metrics").text();
    assert!(metrics.contains("reprise_connections_refused_total 5\n"), "{metrics}");
    kept.pop();
    wait_until("a place is free again", 5, || !refused());
}

/// A declared proxy brings connections of many clients.
#[test]
fn connections_of_a_declared_proxy_are_not_limited() {
    let setup = Setup::empty().file("index.php", "<?php echo 'served';");
    let server = setup.server("client_connections = 1").server("proxies = [\"127.0.0.1\"]").start();
    let mut kept: Vec<Client> = (0..5).map(|_| server.client()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/").text(), "served"));
}
