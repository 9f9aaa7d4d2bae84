//! Where the faults happen: a server in each mode, with a small disk and a name server of its own.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::server::program;
use tests::{Server, Setup, wait_for, wait_until};

use super::load::PATIENCE;
use super::table::FAULTS;

/// Workers of each lane: one for each client of the load, one for the fault.
pub const WORKERS: usize = 4;

/// States that a request brings about, by what it does.
pub const SCRIPTS: [(&str, &str); 4] = [
    ("running", "usleep(1500000); echo getmypid();"),
    ("reading", "echo strlen(file_get_contents('php://input'));"),
    ("finishing", "echo getmypid(); fastcgi_finish_request(); usleep(1500000);"),
    ("rewinding", "echo getmypid(); for ($i = 0; $i < strlen($big); $i += 4096) $big[$i] = 'y';"),
];

/// A directory whose `.user.ini` has PHP open a session before the script runs, and the session that another holds.
pub const STARTING: (&str, &str) = ("starting", "session.auto_start=1\nsession.use_cookies=1\nsession.save_path=");
pub const HELD_SESSION: &str = "held";

/// A mode, as a column of the page.
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// As `reprise_info()` and the status have it.
    pub mode: &'static str,
    isolation: &'static str,
    /// `rlimit_processes` counts by user: each has its own.
    user: &'static str,
    script: [&'static str; 2],
}

const SNAPSHOT: [&str; 2] = ["$big = str_repeat('x', 32 << 20); reprise_snapshot(); answer();", ""];

/// All modes.
pub const COLUMNS: [Column; 4] = [
    Column { name: "classic", mode: "classic", isolation: "auto", user: "games", script: ["answer();", ""] },
    Column {
        name: "worker",
        mode: "worker",
        isolation: "auto",
        user: "irc",
        script: ["while (reprise_handle_request(function () { answer(); })) {}", ""],
    },
    Column { name: "snapshot", mode: "snapshot", isolation: "rewind", user: "news", script: SNAPSHOT },
    Column { name: "snapshot, fork isolation", mode: "snapshot", isolation: "fork", user: "backup", script: SNAPSHOT },
];

/// Good requests have a number, others name a file. `victim` says who had the last of these.
const ANSWER: &str = r#"<?php
$libc = FFI::cdef('int close(int); void abort(void); void _exit(int);');
function answer() {
    global $libc, $big;
    if (isset($_GET['n'])) { echo 'good ', $_GET['n'], ' ', reprise_info()['mode']; return; }
    $place = getenv('PLACE');
    file_put_contents("$place/victim", getmypid());
    include "$place/faults/{$_GET['fault']}.php";
}
"#;

/// What a column's faults need of the outside.
pub struct Place {
    /// The server.
    pub server: Server,
    /// Its mode.
    pub column: &'static Column,
    /// A directory that PHP may write to.
    pub directory: PathBuf,
    /// Takes questions and answers none.
    pub names: UdpSocket,
    /// Holds the locks of `locked` and of a session.
    _locks: [nix::fcntl::Flock<fs::File>; 2],
}

impl Place {
    /// Starts the server.
    pub fn start(column: &'static Column, number: usize) -> Place {
        let setup = Setup::empty().file("index.php", format!("{ANSWER}{}{}\n", column.script[0], column.script[1]));
        let place = setup.directory().join("place");
        for name in ["place", "place/disk", "place/faults"] {
            setup.writable(name);
        }
        for (number, fault) in FAULTS.iter().enumerate() {
            for (step, code) in [("prepare", fault.prepare), ("fault", fault.code), ("tidy", fault.tidy)] {
                fs::write(place.join(format!("faults/{step}{number}.php")), format!("<?php {code}\n")).unwrap();
            }
        }
        for (state, code) in SCRIPTS {
            fs::write(place.join(format!("faults/{state}.php")), format!("<?php {code}\n")).unwrap();
        }
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (starting, ini) = STARTING;
        let setup = setup
            .file(&format!("{starting}/index.php"), "<?php echo 'started';")
            .file(&format!("{starting}/.user.ini"), format!("{ini}{}\n", text(&place)));
        let locks = ["locked".to_owned(), format!("sess_{}", HELD_SESSION)].map(|name| {
            let file = place.join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
            nix::fcntl::Flock::lock(fs::File::open(file).unwrap(), nix::fcntl::FlockArg::LockExclusive).unwrap()
        });
        // Of the other columns, and of other runs.
        let address =
            format!("127.{}.{}.{}", 10 + number, std::process::id() / 250 % 250, std::process::id() % 250 + 1);
        let names = UdpSocket::bind((address.as_str(), 53)).expect("the place of a name server");
        names.set_nonblocking(true).unwrap();
        let resolver = setup.directory().join("resolv.conf");
        fs::write(&resolver, format!("nameserver {address}\noptions timeout:9 attempts:9\n")).unwrap();
        // Its own mounts, gone with it.
        let enter = "mount -t tmpfs -o size=4m,mode=1777 none \"$0\" && mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let disk = place.join("disk");
        let command = ["unshare", "-m", "sh", "-c", enter].map(PathBuf::from).into_iter();
        let command = command.chain([disk.clone(), resolver, program()]);
        let mut setup = setup
            .server(&format!("access_log = \"{}/access.log\"\nsend_timeout = \"2s\"", text(&disk)))
            .application(&format!("workers = {WORKERS}\nuser = \"{}\"\nrequest_timeout = \"6s\"", column.user))
            .application("rlimit_files = 1200\nrlimit_processes = 64\nlimits.\"/soft\" = { soft_timeout = \"300ms\", request_timeout = \"60s\" }\nlimits.\"/long\" = { request_timeout = \"60s\" }\nlimits.\"/starting\" = { request_timeout = \"60s\" }")
            .application(&format!("isolation = \"{}\"", column.isolation));
        if column.mode != "classic" {
            setup = setup.application(&format!("mode.\"index.php\" = \"{}\"", column.mode));
        }
        for (name, value) in [
            ("ffi.enable", "1"),
            ("display_errors", "0"),
            ("max_execution_time", "0"),
            ("memory_limit", "128M"),
            // From 8.3 on PHP ends deep recursion in C itself, unless this forbids it.
            ("zend.max_allowed_stack_size", "-1"),
            ("apc.enabled", "1"),
            ("session.use_cookies", "0"),
            ("session.save_path", &text(&disk)),
            ("upload_tmp_dir", &text(&disk)),
        ] {
            setup = setup.ini(name, value);
        }
        let server = setup.command(command).env("PLACE", &text(&place)).start();
        Place { server, column, directory: place, names, _locks: locks }
    }

    /// Whether each request takes its worker with it.
    pub fn forks(&self) -> bool {
        self.column.isolation == "fork"
    }

    /// Who had the last request that was no good one.
    pub fn victim(&self) -> i32 {
        wait_for("a request that says who has it", PATIENCE, || {
            fs::read_to_string(self.directory.join("victim")).ok()?.parse().ok()
        })
    }

    /// Forgets it.
    pub fn forget_victim(&self) {
        let _ = fs::remove_file(self.directory.join("victim"));
    }

    /// The mode's lane in each generation that there is, with the generation's number.
    pub fn lanes(&self) -> Vec<Value> {
        // What `reprise status` asks for, without a process for each look.
        let mut stream = UnixStream::connect(self.server.directory().join("state/admin.sock")).unwrap();
        stream.write_all(b"status\n").unwrap();
        let status: Value = serde_json::from_reader(stream).unwrap();
        let generations = status["applications"]["app"].as_array().unwrap().iter();
        let lanes = generations.flat_map(|generation| {
            let lanes = generation["lanes"].as_array().unwrap().iter().cloned();
            lanes.map(|mut lane| {
                lane["generation"] = generation["generation"].clone();
                lane
            })
        });
        lanes.filter(|lane| lane["mode"] == self.column.mode).collect()
    }

    /// Workers of all of them.
    pub fn workers(&self) -> Vec<Value> {
        self.lanes().iter().flat_map(of_lane).collect()
    }

    /// There is one generation, its lane is up and has its workers. Where each request takes one with it, the load leaves one
    /// missing at any time.
    pub fn wait_until_whole(&self, what: &str) {
        let least = WORKERS - usize::from(self.forks());
        wait_until(&format!("{what}: all workers are there"), PATIENCE, || {
            let lanes = self.lanes();
            lanes.len() == 1 && lanes[0]["state"] == "up" && of_lane(&lanes[0]).len() >= least
        });
    }
}

fn of_lane(lane: &Value) -> Vec<Value> {
    lane["workers"].as_array().cloned().unwrap_or_default()
}
