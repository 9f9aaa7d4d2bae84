//! Under a service manager: what it is told, sockets it hands over, the unit and its restrictions.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use tests::server::{Directory, program, project};
use tests::snapshot::best_isolation;
use tests::{Client, Server, Setup, process, wait_for, wait_until};

/// The socket of a service manager and what came there, with the time.
struct Manager {
    socket: UnixDatagram,
    heard: Vec<(Instant, String)>,
}

impl Manager {
    fn new(address: &SocketAddr) -> Manager {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        Manager { socket, heard: Vec::new() }
    }

    fn at(path: &Path) -> Manager {
        Manager::new(&SocketAddr::from_pathname(path).unwrap())
    }

    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(size) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8(bytes[..size].to_vec()).expect("text");
            assert!(text.lines().all(|line| line.contains('=')), "{text}");
            self.heard.push((Instant::now(), text));
        }
    }

    /// Messages but those of the watchdog.
    fn states(&mut self) -> Vec<String> {
        self.listen();
        self.heard.iter().filter(|(_, text)| text != "WATCHDOG=1").map(|(_, text)| text.clone()).collect()
    }

    fn pings(&mut self) -> Vec<Instant> {
        self.listen();
        self.heard.iter().filter(|(_, text)| text == "WATCHDOG=1").map(|(at, _)| *at).collect()
    }

    /// Waits until so many states were told.
    fn wait(&mut self, count: usize) -> Vec<String> {
        wait_for(&format!("{count} messages"), 30, || Some(self.states()).filter(|states| states.len() >= count))
    }
}

/// Has the server started with variables of a service manager, LISTEN_PID and `prelude` included, by a shell that becomes it.
fn managed(setup: Setup, prelude: &str) -> Setup {
    let script = format!("{prelude}\nexec \"$@\"");
    setup.command(["bash".into(), "-c".into(), script.into(), "bash".into(), program()])
}

/// A service manager is told of start, reload and stop, in order.
#[test]
fn the_manager_hears_of_start_reload_and_stop() {
    let setup = Setup::empty().file("index.php", "<?php echo 'here';").application("boot_timeout = \"100s\"");
    let place = setup.directory().join("notify");
    let mut manager = Manager::at(&place);
    let mut server = managed(setup, &format!("export NOTIFY_SOCKET={}", place.display())).start();
    let began = manager.wait(2);
    assert_eq!(began[0], "STATUS=booting\nEXTEND_TIMEOUT_USEC=115000000");
    assert_eq!(began[1], "READY=1\nSTATUS=serving app generation 1");

    assert!(server.reload().0);
    let reloaded = manager.wait(4);
    let time = |text: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("a time");
        line.parse().expect("microseconds")
    };
    assert!(reloaded[2].starts_with("RELOADING=1\nMONOTONIC_USEC=") && time(&reloaded[2]) > 0, "{}", reloaded[2]);
    assert_eq!(reloaded[3], "READY=1\nSTATUS=serving app generation 2");

    server.reconfigure("workers = 2", "workers = 0");
    assert!(!server.reload().0);
    let refused = manager.wait(6);
    assert!(refused[4].starts_with("RELOADING=1\n") && time(&refused[4]) > time(&refused[2]), "{}", refused[4]);
    assert!(refused[5].starts_with("READY=1\nSTATUS=reload refused: "), "{}", refused[5]);
    assert!(refused[5].contains("workers") && refused[5].ends_with("serving app generation 2"), "{}", refused[5]);

    // What does not boot is refused later than what cannot be read.
    server.reconfigure("workers = 0", "workers = 2\nmode.\"index.php\" = \"snapshot\"");
    server.signal(Signal::SIGHUP);
    let refused = manager.wait(8);
    assert!(refused[6].starts_with("RELOADING=1\n") && refused[7].contains("did not boot"), "{refused:?}");
    assert_eq!(server.get("/").text(), "here");

    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
    let states = manager.wait(9);
    assert_eq!(states.len(), 9, "{states:?}");
    assert_eq!(states[8], "STOPPING=1\nSTATUS=draining, at most 30s\nEXTEND_TIMEOUT_USEC=45000000");
    assert!(manager.pings().is_empty(), "nobody asked for them");
}

/// The watchdog is pinged in time, also over an abstract socket.
#[test]
fn the_watchdog_hears_in_time_and_by_an_abstract_name() {
    let name = format!("reprise-test-{}", std::process::id());
    let mut manager = Manager::new(&SocketAddr::from_abstract_name(&name).unwrap());
    let variables = format!("export NOTIFY_SOCKET=@{name} WATCHDOG_USEC=400000 WATCHDOG_PID=$$");
    let server = managed(Setup::empty(), &variables).start();
    // Those of a start may be late: the machine is busy with it.
    let before = manager.pings().len();
    let pings = wait_for("pings of an idle server", 20, || Some(manager.pings()).filter(|all| all.len() >= before + 6));
    let mut gaps: Vec<Duration> = pings[before..].windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort();
    assert!(gaps[gaps.len() / 2] < Duration::from_millis(400), "{gaps:?}");
    drop(server);

    let setup = Setup::empty();
    let place = setup.directory().join("notify");
    let mut of_another = Manager::at(&place);
    let variables = format!("export NOTIFY_SOCKET={} WATCHDOG_USEC=1000 WATCHDOG_PID=1", place.display());
    let server = managed(setup, &variables).start();
    of_another.wait(2);
    assert!(server.reload().0);
    of_another.wait(4);
    assert!(of_another.pings().is_empty());
}

/// No process of PHP gets the service manager's variables.
#[test]
fn what_the_manager_says_is_for_the_server_alone() {
    const NAMES: [&str; 5] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS"];
    let setup = Setup::empty()
        .file("index.php", "<?php echo implode(' ', array_keys(getenv()));")
        .application("clear_env = false");
    let place = setup.directory().join("notify");
    let _manager = Manager::at(&place);
    let variables = format!(
        "export NOTIFY_SOCKET={} WATCHDOG_USEC=400000 WATCHDOG_PID=$$ LISTEN_PID=$$ LISTEN_FDS=0 LISTEN_FDNAMES=a OTHER=1",
        place.display()
    );
    let server = managed(setup, &variables).start();
    let seen = server.get("/").text();
    assert!(seen.split(' ').any(|name| name == "OTHER"), "{seen}");
    assert!(NAMES.iter().all(|name| !seen.contains(name)), "{seen}");
    for pid in server.processes().into_iter().filter(|pid| *pid != server.pid()) {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        assert!(NAMES.iter().all(|name| !environment.contains(name)), "{:?}: {environment}", process::name(pid));
    }
}

/// Descriptors that a server is started with. They are kept out of other programs but for the moment of its start.
struct Handed(Vec<i32>);

impl Handed {
    /// Copies of sockets that a program started now inherits.
    fn over(sockets: &[&dyn AsFd]) -> Handed {
        let copy = |socket: &&dyn AsFd| fcntl(socket.as_fd(), FcntlArg::F_DUPFD(100)).expect("a descriptor");
        Handed(sockets.iter().map(copy).collect())
    }

    /// As systemd hands them over: from 3, in order.
    fn prelude(&self) -> String {
        let moves: Vec<String> =
            self.0.iter().enumerate().map(|(at, number)| format!("{}<&{number} {number}<&-", at + 3)).collect();
        format!("exec {}\nexport LISTEN_PID=$$ LISTEN_FDS={}", moves.join(" "), self.0.len())
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.0.iter().for_each(|number| nix::unistd::close(*number).expect("close"));
    }
}

fn launch_with(setup: Setup, sockets: &[&dyn AsFd]) -> Server {
    let handed = Handed::over(sockets);
    managed(setup, &handed.prelude()).launch()
}

fn start_with(setup: Setup, sockets: &[&dyn AsFd]) -> Server {
    let server = launch_with(setup, sockets);
    wait_for("the server is ready", 30, || {
        assert!(process::is_alive(server.pid()), "the server ended:\n{}", server.log());
        server.log().contains("ready after").then_some(())
    });
    server
}

/// A TCP and a unix socket, as a socket unit makes them.
fn sockets() -> (Directory, TcpListener, UnixListener, PathBuf) {
    let directory = Directory::new();
    let path = directory.0.join("web.sock");
    let unix = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    (directory, TcpListener::bind("127.0.0.1:0").unwrap(), unix, path)
}

/// Sockets of a service manager are served in place of `listen`, and stay open for the next server.
#[test]
fn sockets_handed_over_are_served_and_outlive_the_server() {
    let (_directory, tcp, unix, path) = sockets();
    let port = tcp.local_addr().unwrap().port();
    let setup = || Setup::empty().file("index.php", "<?php echo $_SERVER['REQUEST_URI'];");
    let mut server = start_with(setup(), &[&tcp, &unix]);
    let shown = format!("http://127.0.0.1:{port} (descriptor 3) unix:{} (descriptor 4)", path.display());
    assert!(server.log().contains(&shown), "{}", server.log());
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err(), "`listen` is bound beside them");
    assert_eq!(Client::new(port).get("/tcp").text(), "/tcp");
    let over_unix = || Client::over(UnixStream::connect(&path).unwrap(), "localhost");
    assert_eq!(over_unix().get("/unix").text(), "/unix");
    // Compared as ever: it has not changed.
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(Client::new(port).get("/again").text(), "/again");

    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
    assert!(fs::metadata(&path).unwrap().file_type().is_socket(), "the socket's file is the manager's");

    // Nobody is there: the kernel keeps them.
    let request = b"GET /waiting HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut waiting = (Client::new(port), over_unix());
    waiting.0.send(request).unwrap();
    waiting.1.send(request).unwrap();
    let _server = start_with(setup(), &[&tcp, &unix]);
    assert_eq!(waiting.0.read(false).unwrap().text(), "/waiting");
    assert_eq!(waiting.1.read(false).unwrap().text(), "/waiting");
}

/// With sockets of a service manager a restart refuses no connection.
#[test]
fn a_restart_refuses_no_connection() {
    let (_directory, tcp, unix, _path) = sockets();
    let port = tcp.local_addr().unwrap().port();
    let setup = || Setup::empty().file("index.php", "<?php usleep(2000); echo 'done';");
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Outlives the clients: a request that is on its way when they are told to stop is answered, too.
    let mut server = start_with(setup(), &[&tcp, &unix]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = Client::new(port).request("GET", "/", &[("Connection", "close")], b"");
                    assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..5 {
            let before = answered.load(Ordering::Relaxed);
            wait_until("answers", 20, || answered.load(Ordering::Relaxed) > before + 50);
            server.signal(Signal::SIGTERM);
            assert_eq!(server.wait(20), 0, "{}", server.log());
            server = start_with(setup(), &[&tcp, &unix]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(answered.load(Ordering::Relaxed) > 250);
}

/// A descriptor that cannot be served is refused, with its number.
#[test]
fn sockets_that_cannot_be_served_are_refused_by_number() {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut server = launch_with(Setup::empty(), &[&tcp, &udp]);
    assert_eq!(server.wait(20), 78);
    let log = server.log();
    assert!(log.contains("descriptor 4, handed over to listen on: it is no stream socket"), "{log}");
    assert!(log.contains("hint: ListenStream="), "{log}");

    let setup = Setup::empty();
    let mut server = managed(setup, "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&-").launch();
    assert_eq!(server.wait(20), 78);
    assert!(server.log().contains("descriptor 3, handed over to listen on: "), "{}", server.log());

    // Those of another process are not ours: `listen` is bound.
    let server = managed(Setup::empty().file("a.txt", "here"), "export LISTEN_PID=1 LISTEN_FDS=1").start();
    assert_eq!(server.get("/a.txt").text(), "here");
}

fn unit() -> PathBuf {
    project().join("packaging/reprise.service")
}

fn analyze(arguments: &[&str], unit: &Path) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).arg(unit).output().expect("scripts/setup test");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The unit passes systemd's security analysis, and argues for each restriction that it leaves out.
#[test]
fn the_unit_is_tight_and_says_why_it_is_not_tighter() {
    let (is_tight, table) = analyze(&["security", "--offline=true", "--threshold=30", "--no-pager"], &unit());
    assert!(is_tight, "{table}");
    let text = fs::read_to_string(unit()).unwrap();
    let (_, argued) = text.split_once("leaves open, and why:").unwrap();
    let open: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix('✗')?.split_whitespace().next()).collect();
    assert!(open.len() > 10, "{table}");
    for item in open {
        // RootDirectory=/RootImage= and CapabilityBoundingSet=~CAP_KILL: the setting is what is argued about.
        let setting = item.split_inclusive('=').next().unwrap();
        assert!(
            argued.contains(&format!("# {setting}")) || argued.contains(&format!(", {setting}")),
            "{item}: {argued}"
        );
    }
    // And the score that it names is the score.
    let score = table.lines().find_map(|line| line.split_once("reprise.service: ")?.1.split(' ').next());
    assert!(text.contains(&format!("rates it {} of 10", score.unwrap())), "{table}");
}

/// systemd verifies the packaged units without a warning.
#[test]
fn systemd_takes_the_units() {
    let directory = Directory::new();
    let text = fs::read_to_string(unit()).unwrap();
    let text = text.replace("/usr/bin/reprise", &program().display().to_string());
    let service = directory.0.join("reprise.service");
    fs::write(&service, text).unwrap();
    let socket = directory.0.join("reprise.socket");
    fs::copy(project().join("packaging/reprise.socket"), &socket).unwrap();
    let releases = directory.0.join("run-reprise_releases.mount");
    fs::copy(project().join("packaging/run-reprise_releases.mount"), &releases).unwrap();
    let verify = |unit: &Path| {
        let (is_taken, said) = analyze(&["verify", "--man=no", "--recursive-errors=no"], unit);
        assert!(is_taken && said.is_empty(), "{said}");
    };
    [&service, &socket, &releases].into_iter().for_each(|unit| verify(unit));
    // And the changes that the documentation proposes.
    let page = fs::read_to_string(project().join("docs/operations/systemd.md")).unwrap();
    let drop_in = directory.0.join("reprise.service.d/site.conf");
    fs::create_dir(drop_in.parent().unwrap()).unwrap();
    let blocks: Vec<&str> = page.split("```ini\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        fs::write(&drop_in, block).unwrap();
        verify(&service);
    }
}

/// systemd does not run here: another program takes away what it would.
fn confined(setup: Setup) -> Setup {
    setup.command(["python3".into(), project().join("tests/confine.py"), unit(), program()])
}

/// All modes work under the unit's restrictions.
#[test]
fn everything_works_under_the_units_restrictions() {
    const SCRIPT: &str = "<?php $boot = bin2hex(random_bytes(8)); reprise_snapshot();\n\
        $GLOBALS['n'] = ($GLOBALS['n'] ?? 0) + 1;\n\
        preg_match('/^(a+)+b?$/', str_repeat('a', 50));\n\
        file_put_contents(__DIR__ . '/data/written', 'x', FILE_APPEND);\n\
        echo $boot, ' ', getmypid(), ' ', $GLOBALS['n'], ' ', posix_geteuid(), ' ', trim(shell_exec('echo shell'));";
    let setup = Setup::empty().file("index.php", SCRIPT).file("data/written", "");
    let root = setup.document_root().to_owned();
    let user = nix::unistd::User::from_name("www-data").unwrap().unwrap();
    for path in [root.clone(), root.join("index.php"), root.join("data"), root.join("data/written")] {
        nix::unistd::chown(&path, Some(user.uid), Some(user.gid)).unwrap();
    }
    // Closed to root without rights, but for reading.
    fs::set_permissions(root.join("data"), fs::Permissions::from_mode(0o700)).unwrap();
    let socket = setup.directory().join("web.sock");
    // One that takes CAP_NET_BIND_SERVICE.
    let port = (600..1024).rev().find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let listen = format!("listen = [\"127.0.0.1:{port}\", \"unix:{}\"]", socket.display());
    let owners = "socket_mode = \"0660\"\nsocket_owner = \"www-data\"\nsocket_group = \"www-data\"";
    let setup = setup.server(&listen).server(owners).application("workers = 1\nmode.\"index.php\" = \"snapshot\"");
    let mut server = confined(setup).start();

    let bounding = u64::from_str_radix(&process::status(server.pid(), "CapBnd").unwrap(), 16).unwrap();
    assert_eq!(bounding.count_ones(), 7, "the set of the unit");
    assert_eq!(process::status(server.pid(), "Seccomp").as_deref(), Some("2"));
    // The front's own confinement comes on top of it.
    let front = server.front().unwrap();
    let unit_filters = process::status(server.pid(), "Seccomp_filters").unwrap().parse::<u32>().unwrap();
    assert_eq!(process::status(front, "Seccomp_filters"), Some((unit_filters + 2).to_string()));
    assert_eq!(process::status(front, "CapBnd").as_deref(), Some("0000000000000000"));
    assert!(!server.log().contains("not confined"), "{}", server.log());
    let isolation = best_isolation();
    assert!(server.log().contains(&format!("isolation {isolation}")), "{}", server.log());

    let get = || Client::over(UnixStream::connect(&socket).unwrap(), "localhost").get("/");
    // Fewer than a clone serves before it may make room for a snapshot that has learned something.
    let answers: Vec<String> = (0..10).map(|_| get()).map(|answer| answer.text()).collect();
    let words: Vec<&str> = answers[0].split(' ').collect();
    assert_eq!(&words[2..], ["1", &user.uid.to_string(), "shell"], "{}\n{}", answers[0], server.log());
    // The shell ends before its request does, and the worker goes on: the same process, rewound.
    let is_same =
        |answer: &str| answer == answers[0] || isolation == "fork" && answer.split(' ').next() == Some(words[0]);
    assert!(answers.iter().all(|answer| is_same(answer)), "{answers:?}\n{}", server.log());
    assert_eq!(Client::new(port).get("/").status, 200);
    let metadata = fs::metadata(&socket).unwrap();
    assert_eq!(
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o777),
        (user.uid.as_raw(), user.gid.as_raw(), 0o660)
    );

    // Workers of another user are found and killed, and reloads work.
    let (is_reloaded, said) = server.reload();
    assert!(is_reloaded, "{said}");
    assert_ne!(get().text(), answers[0]);
    server.reconfigure("workers = 1", "workers = 1\nrequest_timeout = \"300ms\"");
    fs::write(root.join("stuck.php"), "<?php for (;;) usleep(1000);").unwrap();
    assert!(server.reload().0);
    assert_eq!(Client::new(port).get("/stuck.php").status, 504);
    assert_eq!(get().status, 200);

    // Killed, it leaves a socket that is not its own any more; the next takes its place.
    let config = server.directory().join("reprise.toml");
    process::kill(server.pid(), Signal::SIGKILL);
    assert_eq!(server.wait(20), -9);
    let mut next = Command::new("python3")
        .arg(project().join("tests/confine.py"))
        .arg(unit())
        .arg(program())
        .args(["serve", "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(server.directory().join("next.log")).unwrap())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(server.directory().join("next.log")).unwrap_or_default();
    wait_until("the next serves", 30, || log().contains("ready after") || next.try_wait().unwrap().is_some());
    assert!(log().contains("ready after"), "{}", log());
    assert_eq!(get().status, 200);
    process::kill(next.id() as i32, Signal::SIGTERM);
    assert!(next.wait().unwrap().success(), "{}", log());
}

/// Its request is on the way when the stop begins: closed without an answer it would be lost.
#[test]
fn a_connection_made_before_a_stop_gets_its_first_answer() {
    let mut server = Setup::empty().file("index.php", "<?php echo 'done';").start();
    let mut early = server.client();
    assert_eq!(server.get("/").text(), "done");
    server.signal(Signal::SIGTERM);
    wait_until("the listener is closed", 10, || std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err());
    let answer = early.get("/");
    assert_eq!((answer.status, answer.text().as_str(), answer.header("connection")), (200, "done", Some("close")));
    assert_eq!(server.wait(20), 0);
}
