//! The supervisor waits for nobody: not for who reads its log, not for what an application's user has put in the place of a
//! file, not for a name service.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use tests::server::{Directory, program};
use tests::{Server, Setup, process, seconds, wait_until};

const SCRIPT: &str = r#"<?php
if (isset($_GET['say'])) for ($i = 0; $i < 10; $i++) {
    error_log(str_repeat('x', 900));
    fwrite(fopen('php://stdout', 'w'), str_repeat('x', 900) . "\n");
}
if (isset($_GET['die'])) exec('kill -9 ' . getmypid());
if (isset($_GET['hang'])) while (true) usleep(100000);
echo getmypid();
"#;

/// The reader of a server's standard error, who does not read unless he is asked to.
struct Errors {
    path: PathBuf,
    pipe: File,
}

impl Errors {
    fn in_directory(directory: &Path) -> Errors {
        let path = directory.join("errors");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        // Both ends: neither opening nor writing fails for want of the other.
        let flags = nix::libc::O_NONBLOCK;
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).unwrap();
        Errors { path, pipe }
    }

    /// The server's command, with its standard error there.
    fn command(&self) -> [String; 4] {
        let script = format!("exec {} \"$@\" 2>>{}", program().display(), self.path.display());
        ["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
    }

    fn read(&mut self, into: &mut String) {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = self.pipe.read(&mut bytes) {
            into.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

fn took(what: impl FnOnce()) -> Duration {
    let began = Instant::now();
    what();
    began.elapsed()
}

fn serves(server: &Server) {
    wait_until("it listens", 30, || {
        assert!(process::is_alive(server.pid()), "{}", server.log());
        tests::client::connect(server.port).is_ok()
    });
    assert_eq!(server.get("/").status, 200);
}

/// What the supervisor does for an application takes its usual time: a worker that has died is replaced, a request that runs over its
/// limit of a second ends, the status is told.
fn usual_times(server: &Server, path: &str) -> [Duration; 3] {
    let replaced = took(|| {
        for _ in 0..2 {
            let answer = server.get(&format!("{path}?die"));
            assert_eq!(answer.status, 502, "{answer:?}");
        }
        assert_eq!(server.get(path).status, 200);
    });
    let ended = took(|| assert_eq!(server.get(&format!("{path}?hang")).status, 504));
    let told = took(|| drop(server.status(&["--json"])));
    let limit = seconds(4);
    assert!(replaced < limit && ended < limit && told < limit, "{replaced:?} {ended:?} {told:?}");
    [replaced, ended, told]
}

/// If nobody reads the server's log, requests, limits and reloads still work, and dropped lines are counted.
#[test]
fn a_stalled_error_stream_stops_nothing() {
    let setup = Setup::empty().file("index.php", SCRIPT).application("request_timeout = \"1s\"");
    let mut errors = Errors::in_directory(setup.directory());
    let mut server = setup.command(errors.command()).launch();
    serves(&server);
    // Some 900 KB, of which the pipe takes 64 and the supervisor keeps 256.
    for _ in 0..50 {
        assert_eq!(server.get("/?say").status, 200);
    }
    let times = usual_times(&server, "/");
    let mut said = String::new();
    wait_until("what was dropped is counted", 10, || {
        errors.read(&mut said);
        said.contains(" lines were dropped here because nobody read them")
    });
    // And what is said from now on is read.
    server.signal(Signal::SIGUSR1);
    wait_until("the log goes on", 10, || {
        errors.read(&mut said);
        said.contains("SIGUSR1: the access log")
    });
    for _ in 0..50 {
        assert_eq!(server.get("/?say").status, 200);
    }
    let ended = took(|| {
        server.signal(Signal::SIGTERM);
        assert_eq!(server.wait(10), 0);
    });
    assert!(ended < seconds(4), "{ended:?}");
    println!(
        "stalled: two deaths {:?}, limit of 1 s {:?}, status {:?}, SIGTERM {ended:?}",
        times[0], times[1], times[2]
    );
}

/// A named pipe in the place of a file is named as such, and nothing waits for it.
#[test]
fn a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for() {
    let directory = Directory::new();
    let root = directory.0.join("public");
    fs::create_dir(&root).unwrap();
    nix::unistd::mkfifo(&root.join("index.php"), Mode::S_IRWXU).unwrap();
    let config = directory.0.join("reprise.toml");
    let check = |arguments: &[&Path]| {
        let output = Command::new("timeout").arg("20").arg(program()).arg("check").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(&config, format!("[[application]]\nroot = \"{}\"\n", root.display())).unwrap();
    for said in [check(&[Path::new("--config"), &config]), check(&[&directory.0])] {
        assert!(said.contains("index.php is a named pipe (FIFO), not a regular file"), "{said:?}");
    }
    fs::remove_file(&config).unwrap();
    nix::unistd::mkfifo(&config, Mode::S_IRWXU).unwrap();
    let said = check(&[Path::new("--config"), &config]);
    assert!(said.contains("it is a named pipe (FIFO), not a regular file"), "{said:?}");
}

/// A reload refuses a named pipe in the place of the configuration file.
#[test]
fn a_pipe_as_configuration_refuses_the_reload() {
    let server = Setup::empty().file("index.php", SCRIPT).start();
    let config = server.directory().join("reprise.toml");
    fs::rename(&config, config.with_extension("old")).unwrap();
    nix::unistd::mkfifo(&config, Mode::S_IRWXU).unwrap();
    let (done, said) = server.reload();
    assert!(!done && said.contains("it is a named pipe (FIFO), not a regular file"), "{said}");
    fs::rename(config.with_extension("old"), &config).unwrap();
    assert!(server.reload().0, "{}", server.log());
}

/// A name service that answers until a file is there, and then never again: real, and asked by glibc as any other.
fn hanging_name_service(directory: &Path) -> PathBuf {
    let hang = directory.join("hang");
    let source = format!(
        r#"#include <nss.h>
#include <pwd.h>
#include <unistd.h>
enum nss_status _nss_slow_getpwnam_r(const char *name, struct passwd *into, char *buffer, size_t size, int *error)
{{
    while (access("{0}", F_OK) == 0) usleep(50000);
    return NSS_STATUS_NOTFOUND;
}}
enum nss_status _nss_slow_getpwuid_r(uid_t uid, struct passwd *into, char *buffer, size_t size, int *error)
{{
    return _nss_slow_getpwnam_r("", into, buffer, size, error);
}}
"#,
        hang.display()
    );
    fs::write(directory.join("slow.c"), source).unwrap();
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(directory.join("libnss_slow.so.2"))
        .arg(directory.join("slow.c"))
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(directory.join("nsswitch.conf"), "passwd: slow files\ngroup: files\nhosts: files dns\n").unwrap();
    hang
}

/// Ends a thread that goes by it, whatever becomes of the test.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file, a pipe and a link to what only root may read, by turns in the same place.
fn flip(index: &Path, is_over: &AtomicBool) {
    let beside = index.with_extension("next");
    while !is_over.load(Ordering::Relaxed) {
        nix::unistd::mkfifo(&beside, Mode::from_bits_truncate(0o644)).unwrap();
        fs::rename(&beside, index).unwrap();
        std::os::unix::fs::symlink("/proc/kmsg", &beside).unwrap();
        fs::rename(&beside, index).unwrap();
        fs::write(&beside, "<?php echo 'flipped';").unwrap();
        fs::rename(&beside, index).unwrap();
    }
}

/// A stalled log, files that become pipes and a name service that hangs do not disturb other applications, even together.
#[test]
fn a_stalled_log_a_flipping_pipe_and_a_hanging_name_service_at_once_stop_no_other_application() {
    let directory = Directory::new();
    let (own, flipping) = (directory.0.join("own"), directory.0.join("flipping"));
    for root in [&own, &flipping] {
        fs::create_dir(root).unwrap();
        fs::write(root.join("index.php"), SCRIPT).unwrap();
    }
    let hang = hanging_name_service(&directory.0);
    let mut errors = Errors::in_directory(&directory.0);
    let inner = errors.command()[2].clone();
    let script = format!(
        "mount --bind {0}/nsswitch.conf /etc/nsswitch.conf && export LD_LIBRARY_PATH={0} && {inner}",
        directory.0.display()
    );
    let command = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", &script, "sh"];
    // Of an application's own mode a front controller is read at each reload.
    let other = format!(
        "request_timeout = \"1s\"\n[[application]]\nname = \"other\"\nroot = \"{}\"\nhosts = [\"other\"]",
        flipping.display()
    );
    let setup = Setup::root(&own).application("user = \"www-data\"\nhosts = [\"127.0.0.1\"]").application(&other);
    let mut server = setup.command(command).launch();
    serves(&server);
    let is_over = AtomicBool::new(false);
    let state = server.directory().join("state");
    let times = std::thread::scope(|scope| {
        let until = End(&is_over);
        scope.spawn(|| flip(&flipping.join("index.php"), &is_over));
        for _ in 0..50 {
            assert_eq!(server.get("/?say").status, 200);
        }
        // The names are there: only the application's own pipe and link are in the way.
        for _ in 0..8 {
            let output = Command::new(program()).args(["reload", "--state-dir"]).arg(&state).output().unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            // What the link leads to may be read by root alone. It is named by the link or by itself: what is in its place may have
            // changed meanwhile.
            let is_refused = ["not a regular file", "(mode 400) is closed to user www-data"];
            assert!(said.contains("reloaded: ") || is_refused.iter().any(|why| said.contains(why)), "{said}");
        }
        fs::write(&hang, "").unwrap();
        let reload =
            scope.spawn(|| Command::new(program()).args(["reload", "--state-dir"]).arg(&state).output().unwrap());
        wait_until("somebody asks the name service", 10, || server.processes().into_iter().any(is_errand));
        let times = usual_times(&server, "/");
        assert!(!reload.is_finished(), "the name service does not hang");
        let output = reload.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("took longer than 10s"), "{said}");
        wait_until("nobody is left over", 10, || !server.processes().into_iter().any(is_errand));
        drop(until);
        times
    });
    // And in the middle of the next.
    let mut reload =
        Command::new(program()).args(["reload", "--state-dir"]).arg(&state).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the name service is asked again", 10, || server.processes().into_iter().any(is_errand));
    let ended = took(|| {
        server.signal(Signal::SIGTERM);
        assert_eq!(server.wait(10), 0);
    });
    assert!(!reload.wait().unwrap().success() && ended < seconds(4), "{ended:?}");
    println!(
        "all at once: two deaths {:?}, limit of 1 s {:?}, status {:?}, SIGTERM {ended:?}",
        times[0], times[1], times[2]
    );
    let mut said = String::new();
    errors.read(&mut said);
    assert!(!said.is_empty());
}

/// A child of the supervisor that is a copy of it.
fn is_errand(pid: i32) -> bool {
    let is_copy = |pid| process::name(pid).as_deref() == Some("reprise");
    is_copy(pid) && process::parent(pid).is_some_and(is_copy)
}
