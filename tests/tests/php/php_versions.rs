//! One server with two versions of PHP. These tests run where both are installed: `scripts/root make trixie both`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tests::client::connect;
use tests::server::{Directory, program};
use tests::{Client, Response, Server, Setup, amount, wait_until};

const VERSIONS: [&str; 2] = ["8.2", "8.4"];
/// The application whose version changes, and its neighbour, whose version stays.
const HOSTS: [&str; 2] = ["app.example", "other.example"];

/// How the changing application runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Classic,
    Snapshot,
    Worker,
}

/// Says the version of PHP that it was booted by, that runs the request, and that has compiled it and a file that it includes late.
fn script(mode: Mode) -> String {
    let (before, after) = match mode {
        Mode::Classic => ("(function () use ($booted) {", "})();"),
        Mode::Snapshot => ("reprise_snapshot(); (function () use ($booted) {", "})();"),
        Mode::Worker => ("while (reprise_handle_request(function () use ($booted) {", "})) {}"),
    };
    format!(
        "<?php\n$booted = phpversion();\n{before}\n\
         if (isset($_GET['sleep'])) usleep(150_000);\n\
         $part = require __DIR__ . '/part.php';\n\
         $body = strlen(file_get_contents('php://input'));\n\
         echo \"php $booted \", phpversion(), ' ', PHP_VERSION, \" $part body $body host $_SERVER[HTTP_HOST]\\n\";\n{after}\n"
    )
}

const PART: &str =
    "<?php return PHP_VERSION . ' ' . implode('.', [PHP_MAJOR_VERSION, PHP_MINOR_VERSION, PHP_RELEASE_VERSION]);\n";

/// Two applications: the first has the first version and a warm-up, the second always the second version.
fn two(mode: Mode) -> Setup {
    let setup = Setup::empty().file("index.php", script(mode)).file("part.php", PART);
    let other = setup.directory().join("other");
    fs::create_dir_all(&other).expect("a directory");
    fs::write(other.join("index.php"), script(mode)).expect("a script");
    fs::write(other.join("part.php"), PART).expect("a script");
    let lines = format!(
        "hosts = [\"{}\"]\nwarmup = [\"/\"]\nphp = \"{}\"\n[[application]]\nname = \"other\"\nroot = \"{}\"\nworkers = 2\nhosts = [\"{}\"]\nphp = \"{}\"",
        HOSTS[0],
        VERSIONS[0],
        other.display(),
        HOSTS[1],
        VERSIONS[1]
    );
    setup.application("workers = 6").application(&lines)
}

fn client(port: u16, host: &str) -> Client {
    Client::over(connect(port).expect("a connection"), host)
}

/// The version that a response is of. Panics if it is of two, of another application, or no response at all.
fn version(what: &str, response: io::Result<Response>, host: &str, body: usize) -> String {
    let response = response.unwrap_or_else(|error| panic!("{what}: lost: {error}"));
    let text = response.text();
    assert_eq!(response.status, 200, "{what}: {text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let release = words[1];
    assert!(words[1..6].iter().all(|word| *word == release), "{what}: a response of two versions: {text}");
    assert_eq!(words[6..], ["body", &body.to_string(), "host", host], "{what}: {text}");
    release.rsplit_once('.').expect("three numbers").0.to_owned()
}

/// Requests that are in flight while versions change: quick and slow ones, and uploads, to both applications.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(port: u16, changes: &Arc<AtomicUsize>) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let spawn = |(what, host): (&'static str, &'static str)| {
            let (stop, answered, changes) = (stop.clone(), answered.clone(), changes.clone());
            std::thread::spawn(move || {
                let mut client = client(port, host);
                while !stop.load(Ordering::Relaxed) {
                    let (response, body) = match what {
                        "get" => (client.try_request("GET", "/", &[], b""), 0),
                        "slow" => (client.try_request("GET", "/?sleep", &[], b""), 0),
                        "post" => (client.try_request("POST", "/", &[], &[b'x'; 3000]), 3000),
                        _ => (upload(port, host, &stop, &changes), UPLOAD),
                    };
                    let found = version(what, response, host, body);
                    assert!(host == HOSTS[0] || found == VERSIONS[1], "{what}: the neighbour is served by PHP {found}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    // Steady, not as much as the machine can take.
                    std::thread::park_timeout(Duration::from_millis(2));
                }
            })
        };
        let kinds = ["get", "get", "slow", "post", "upload"].map(|what| (what, HOSTS[0]));
        let threads = kinds.into_iter().chain([("get", HOSTS[1]), ("upload", HOSTS[1])]).map(spawn).collect();
        Load { stop, answered, threads }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a client failed"));
        self.answered.load(Ordering::Relaxed)
    }
}

const UPLOAD: usize = 400_000;

/// Sends half of a body, waits until a version has changed, and sends the rest.
fn upload(port: u16, host: &str, stop: &AtomicBool, changes: &AtomicUsize) -> io::Result<Response> {
    let mut client = client(port, host);
    let before = changes.load(Ordering::Relaxed);
    client.send(format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {UPLOAD}\r\n\r\n").as_bytes())?;
    client.send(&vec![b'u'; UPLOAD / 2])?;
    wait_until("a change, or the end", 60, || stop.load(Ordering::Relaxed) || changes.load(Ordering::Relaxed) > before);
    client.send(&vec![b'u'; UPLOAD / 2])?;
    client.read(false)
}

fn change(server: &Server, from: &str, to: &str) -> (bool, String) {
    // The neighbour has the second version in the line of its own.
    server.reconfigure(
        &format!("php = \"{from}\"\n[[application]]\nname = \"other\""),
        &format!("php = \"{to}\"\n[[application]]\nname = \"other\""),
    );
    server.reload()
}

fn changes_lose_nothing(mode: Mode) {
    let server = two(mode).start();
    let ready = || [0, 1].map(|at| server.log().matches("is booted").count() > at);
    wait_until("both lanes serve", 30, || mode == Mode::Classic || ready() == [true, true]);
    let changes = Arc::new(AtomicUsize::new(0));
    let load = Load::begin(server.port, &changes);
    for turn in 0..2 * amount(3, 50) {
        let (from, to) = (VERSIONS[turn % 2], VERSIONS[(turn + 1) % 2]);
        let (is_done, said) = change(&server, from, to);
        assert!(is_done, "to PHP {to}: {said}");
        let response = client(server.port, HOSTS[0]).try_request("GET", "/", &[], b"");
        assert_eq!(version("after the reload", response, HOSTS[0], 0), to);
        changes.fetch_add(1, Ordering::Relaxed);
    }
    let answered = load.end();
    println!("{} changes of version, {answered} requests, none lost or mixed", changes.load(Ordering::Relaxed));
    assert!(answered > 100, "{answered} requests");
}

/// Changes of version in each direction under load lose no request, and no response is of two versions.
#[test]
fn changes_of_version_lose_nothing_in_classic_mode() {
    changes_lose_nothing(Mode::Classic);
}

/// The same from snapshots.
#[test]
fn changes_of_version_lose_nothing_from_a_snapshot() {
    changes_lose_nothing(Mode::Snapshot);
}

/// The same in worker scripts.
#[test]
fn changes_of_version_lose_nothing_in_a_worker_script() {
    changes_lose_nothing(Mode::Worker);
}

/// Without `php` an application has the newest version, and `reprise check` says which version each has.
#[test]
fn the_newest_version_is_the_default() {
    let server = Setup::empty().file("index.php", "<?= PHP_VERSION;").start();
    assert!(server.get("/").text().starts_with(VERSIONS[1]), "{}", server.get("/").text());
    let server = Setup::empty().file("index.php", "<?= PHP_VERSION;").flag("--php").flag(VERSIONS[0]).start();
    assert!(server.get("/").text().starts_with(VERSIONS[0]), "{}", server.get("/").text());
    let server = two(Mode::Classic).start();
    for version in VERSIONS {
        assert!(server.log().contains(&format!("  PHP           {version}.")), "{}", server.log());
    }
}

/// An extension that one version lacks: a boot that needs it fails, and the version that has it goes on serving. The log says which
/// extensions the new version lacks.
#[test]
fn a_version_without_an_extension_does_not_boot() {
    let setup = Setup::empty()
        .file("index.php", "<?php $sum = bcadd('1', '2'); reprise_snapshot(); echo $sum, ' ', PHP_VERSION;");
    let server = setup.application("mode.\"index.php\" = \"snapshot\"").application("php = \"8.2\"").start();
    server.reconfigure("php = \"8.2\"", "php = \"8.4\"");
    let (is_done, said) = server.reload();
    assert!(!is_done, "{said}");
    let log = server.log();
    let missing = "application 'app': PHP 8.4";
    assert!(log.contains("undefined function bcadd()") && log.contains(missing), "{said}\n{log}");
    let line = log.lines().find(|line| line.contains(missing)).expect("a line");
    assert!(
        line.contains("/reprise.toml:") && line.contains("bcmath") && line.contains("apt-get install php8.4-"),
        "{line}"
    );
    assert!(server.get("/").text().starts_with("3 8.2."), "{}", server.get("/").text());
}

/// `reprise version` lists both versions, and the extensions that one has and the other lacks.
#[test]
fn both_versions_are_listed() {
    let output = Command::new(program()).arg("version").output().expect("reprise version");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"));
    assert!(at("\nphp 8.4.") < at("\nphp 8.2."), "{text}");
    for line in ["libphp /usr/lib/libphp8.4.so (built with 8.4.", "libphp /usr/lib/libphp8.2.so (built with 8.2."] {
        at(line);
    }
    let missing =
        |line: &str| text.lines().find(|one| one.starts_with(line)).unwrap_or_else(|| panic!("{line}: {text}"));
    assert!(missing("PHP 8.4 lacks ").contains("bcmath"), "{text}");
    assert!(missing("PHP 8.2 lacks ").contains("apcu"), "{text}");
}

/// A libphp of another minor version is refused before any of its code runs, each of a hundred times: one that LD_PRELOAD brings, and
/// one that lies at the path of the right one. A search path leads to no other one.
#[test]
fn each_version_refuses_the_other_s_libphp() {
    for (own, other) in [(VERSIONS[0], VERSIONS[1]), (VERSIONS[1], VERSIONS[0])] {
        let php = program().with_file_name(format!("reprise-php{own}"));
        let library = |version: &str| PathBuf::from(format!("/usr/lib/libphp{version}.so"));
        let mounted = format!(
            "mount --bind \"$(realpath {})\" \"$(realpath {})\" && exec {} --version",
            library(other).display(),
            library(own).display(),
            php.display()
        );
        let mut preloaded = Command::new(&php);
        preloaded.arg("--version").env("LD_PRELOAD", library(other));
        let mut exchanged = Command::new("unshare");
        exchanged.args(["-m", "sh", "-c", &mounted]);
        for turn in 0..100 {
            let refused = if turn % 2 == 0 { &mut preloaded } else { &mut exchanged }.output().expect("reprise-php");
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(refused.status.code() == Some(70) && refused.stdout.is_empty(), "{turn}: {refused:?}");
            assert!(said.contains(&format!(" is PHP {other}.")), "{turn}: {said}");
            assert!(said.contains(&format!("this reprise-php was built for PHP {own} (with {own}.")), "{turn}: {said}");
        }
        let setup = Setup::empty();
        symlink(library(other), setup.directory().join("libphp.so")).expect("a link");
        let fine = Command::new(&php)
            .arg("--version")
            .env("LD_LIBRARY_PATH", setup.directory())
            .output()
            .expect("reprise-php");
        let said = String::from_utf8_lossy(&fine.stdout).into_owned();
        assert!(fine.status.success() && said.contains(&format!("\nphp {own}.")), "{said}");
    }
}

/// Pages that are alike in both versions, one that shows its version, one that the other version refuses, and one that it deprecates.
const PAGES: &str = r#"<?php
if (!isset($_GET['do'])) { $_GET['do'] = ''; }
switch ($_GET['do']) {
    case 'alike':
        session_start();
        $_SESSION['seen'] = ($_SESSION['seen'] ?? 0) + 1;
        foreach (['REMOTE_ADDR', 'SERVER_ADDR', 'SERVER_PORT', 'SERVER_NAME', 'HTTP_HOST', 'REQUEST_SCHEME', 'REQUEST_URI'] as $name) { echo "$name $_SERVER[$name]\n"; }
        echo "seen $_SESSION[seen], forwarded ", implode(' ', preg_grep('/FORWARDED/', array_keys($_SERVER))), "\n";
        break;
    case 'shown': echo 'made by PHP ', PHP_MINOR_VERSION; break;
    case 'taken': eval('function array_any() { return "own"; }'); echo array_any(); break;
    case 'old': eval('function old(int $number = null) { return "old"; }'); echo old(); break;
}
"#;

/// `reprise verify --php` compares pages with those of another version, shows what that version logs, and leaves nothing behind.
#[test]
fn pages_are_compared_with_those_of_another_version() {
    let places = Directory::new();
    let setup = Setup::empty()
        .file("index.php", PAGES)
        .application("mode.\"index.php\" = \"classic\"\nwarmup = [\"/?do=shown\"]");
    let server =
        setup.application("php = \"8.2\"\nini = { error_reporting = \"32767\", display_errors = \"0\" }").start();
    let url = |what: &str| format!("http://127.0.0.1:{}/?do={what}", server.port);
    let verify = |what: &[&str]| {
        let pages: Vec<String> = what.iter().map(|what| url(what)).collect();
        let config = server.directory().join("reprise.toml");
        let mut command = Command::new(program());
        command.args(["verify", "--php", "8.4", "--config"]).arg(config).args(pages).env("TMPDIR", &places.0);
        let output = command.output().expect("reprise verify");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    };
    let (code, said) = verify(&["alike"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("alike ") && said.contains("PHP 8.4 logged nothing"), "{said}");
    let (code, said) = verify(&["old"]);
    assert_eq!(code, Some(0), "{said}");
    let logged = said.lines().find(|line| line.starts_with("logged ")).unwrap_or_else(|| panic!("{said}"));
    assert!(logged.contains("PHP Deprecated:  old(): Implicitly marking parameter $number as nullable"), "{said}");
    let (code, said) = verify(&["shown", "taken"]);
    assert_eq!(code, Some(2), "{said}");
    for line in
        ["  PHP 8.2 made by PHP 2", "  PHP 8.4 made by PHP 4", "Cannot redeclare function array_any()", "  PHP 8.4 500"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(fs::read_dir(&places.0).expect("a directory").count(), 0, "something is left");
    assert!(server.get("/?do=shown").text().ends_with('2'));
}
