//! PHP's files are exchanged while a server runs, as a package manager does it. Each server has a mount namespace of its own, and
//! sees other files there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tests::server::program;
use tests::{Client, Server, Setup, process, wait_until};

/// Compilers put so short a text as what phpversion() returns into instructions; the constant is a text of its own.
const SCRIPT: &str = "<?php $name = 'PHP_VERSION'; $booted = constant($name); reprise_snapshot(); \
    if (isset($_GET['sleep'])) usleep(100_000); echo \"$booted \", constant($name), ' ', phpversion('Zend OPcache');";

/// A server that sees the files that [`Php::exchange`] puts in the place of PHP's.
fn start() -> (Server, Php) {
    let namespace = ["unshare", "--mount", "--propagation", "private"].map(PathBuf::from);
    let setup = Setup::empty().file("index.php", SCRIPT).application("mode.\"index.php\" = \"snapshot\"");
    let server = setup.command(namespace.into_iter().chain([program()])).start();
    let php = Php::of(&server);
    (server, php)
}

/// The files of a PHP that runs.
struct Php {
    libphp: PathBuf,
    opcache: PathBuf,
    release: String,
}

impl Php {
    fn of(server: &Server) -> Php {
        let maps =
            fs::read_to_string(format!("/proc/{}/maps", server.prototype().expect("a prototype"))).expect("maps");
        // In a root directory of another system the paths begin with its own.
        let file = |word: &str| {
            let line = maps.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {maps}"));
            PathBuf::from(&line[line.find("/usr/lib/").expect("a path")..])
        };
        let text = server.get("/").text();
        Php {
            libphp: file("/libphp8."),
            opcache: file("/opcache.so"),
            release: text.split(' ').next().expect("a release").to_owned(),
        }
    }

    /// Another release with as long a name: another last digit of the patch release, or of the minor version.
    fn other(&self, part: usize) -> String {
        let mut parts: Vec<String> = self.release.split('.').map(str::to_owned).collect();
        let last = if parts[part].ends_with('9') { '8' } else { '9' };
        parts[part].pop();
        parts[part].push(last);
        parts.join(".")
    }

    /// Puts a file that says another release in the place of one of PHP's files.
    fn exchange(&self, server: &Server, file: &Path, release: &str) {
        let mut bytes = fs::read(file).expect("PHP's file");
        let old = self.release.as_bytes();
        let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
        assert!(!places.is_empty(), "{} does not say its release", file.display());
        places.into_iter().for_each(|at| bytes[at..at + old.len()].copy_from_slice(release.as_bytes()));
        let copy =
            server.directory().join(format!("{release}-{}", file.file_name().expect("a name").to_string_lossy()));
        fs::write(&copy, bytes).expect("a file");
        tests::peer::run_to_end(inside(server, "mount").arg("--bind").arg(copy).arg(file));
    }
}

/// A command that sees the files that the server sees.
fn inside(server: &Server, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &server.pid().to_string(), "--mount", "--root", program]);
    command
}

/// The release that boots, runs and caches; panics if these differ.
fn release(what: &str, response: std::io::Result<tests::Response>) -> String {
    let response = response.unwrap_or_else(|error| panic!("{what}: lost: {error}"));
    let text = response.text();
    let words: Vec<&str> = text.split(' ').collect();
    assert!(response.status == 200 && words.len() == 3, "{what}: {} {text}", response.status);
    assert!(words.iter().all(|word| *word == words[0]), "{what}: a response of two releases: {text}");
    words[0].to_owned()
}

/// A patch upgrade under load loses no request. While libphp and opcache are of two releases, a reload is refused with both, and what
/// runs goes on; with both exchanged, a reload moves over.
#[test]
fn a_patch_upgrade_under_load_loses_nothing() {
    let (server, php) = start();
    let next = php.other(2);
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let spawn = |path: &'static str| {
        let (stop, answered, port) = (stop.clone(), answered.clone(), server.port);
        let releases = [php.release.clone(), next.clone()];
        std::thread::spawn(move || {
            let mut client = Client::new(port);
            while !stop.load(Ordering::Relaxed) {
                let found = release(path, client.try_request("GET", path, &[], b""));
                assert!(releases.contains(&found), "{found}");
                answered.fetch_add(1, Ordering::Relaxed);
                // Steady, not as much as the machine can take.
                std::thread::park_timeout(Duration::from_millis(2));
            }
        })
    };
    let threads = ["/", "/", "/?sleep"].map(spawn);

    php.exchange(&server, &php.libphp, &next);
    let (is_done, said) = server.reload();
    assert!(!is_done, "{said}");
    let words = format!("opcache is of PHP {}, and {} is PHP {next}", php.release, php.libphp.display());
    wait_until("the log names both releases", 20, || server.log().contains(&words));
    assert_eq!(release("before", server.client().try_request("GET", "/", &[], b"")), php.release);

    php.exchange(&server, &php.opcache, &next);
    let (is_done, said) = server.reload();
    assert!(is_done, "{said}");
    assert_eq!(release("after", server.client().try_request("GET", "/", &[], b"")), next);
    let versions =
        inside(&server, program().to_str().expect("a plain path")).arg("version").output().expect("reprise version");
    let versions = String::from_utf8_lossy(&versions.stdout).into_owned();
    assert!(
        versions.contains(&format!("\nphp {next} (")) && versions.contains(&format!("(built with {})", php.release)),
        "{versions}"
    );

    let before = answered.load(Ordering::Relaxed);
    wait_until("more requests", 20, || answered.load(Ordering::Relaxed) > before + 50);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a client failed"));
    println!("{} requests, none lost", answered.load(Ordering::Relaxed));
}

/// A prototype that dies in the middle of an upgrade starts when both files are of one release.
#[test]
fn a_prototype_waits_for_the_end_of_an_upgrade() {
    let (server, php) = start();
    let next = php.other(2);
    php.exchange(&server, &php.libphp, &next);
    process::kill(server.prototype().expect("a prototype"), nix::sys::signal::Signal::SIGKILL);
    let words = format!("opcache is of PHP {}, and ", php.release);
    wait_until("a start was refused", 20, || server.log().contains(&words));
    php.exchange(&server, &php.opcache, &next);
    assert_eq!(release("after the upgrade", server.client().try_request("GET", "/", &[], b"")), next);
}

/// A libphp of another minor version at the path of the right one: a reload is refused with both versions, and what runs goes on.
#[test]
fn another_minor_version_in_the_place_of_libphp_is_refused() {
    let (server, php) = start();
    let other = php.other(1);
    php.exchange(&server, &php.libphp, &other);
    let (is_done, said) = server.reload();
    let words = format!("{} is PHP {other}, and this reprise-php was built for PHP 8.", php.libphp.display());
    assert!(!is_done && said.contains(&words) && said.contains("hint: install libphp8."), "{said}");
    assert_eq!(release("after", server.client().try_request("GET", "/", &[], b"")), php.release);
}

/// A `php` that is not installed is refused at the start and by a reload, with its line, what is installed, and the package; so is a value
/// that is no version.
#[test]
fn a_version_that_is_not_installed_is_refused() {
    let server = Setup::empty().file("index.php", SCRIPT).application("workers = 3").start();
    let old = server.get("/").text();
    let minor = old.split(' ').next().and_then(|release| release.rsplit_once('.')).expect("a release").0.to_owned();
    let config = fs::read_to_string(server.directory().join("reprise.toml")).expect("the configuration");
    let line = config.lines().position(|line| line == "workers = 3").expect("a line") + 2;
    server.reconfigure("workers = 3", "workers = 3\nphp = \"8.9\"");
    let (is_done, said) = server.reload();
    assert!(
        !is_done && said.contains(&format!("reprise.toml:{line}: PHP 8.9 is not installed for Reprise; PHP ")),
        "{said}"
    );
    assert!(said.contains(&minor) && said.contains("hint: php = \"8."), "{said}");
    assert_eq!(server.get("/").text(), old);
    for (value, words) in [
        ("\"8.4.1\"", "'php' takes a version such as \"8.4\", not \"8.4.1\""),
        ("\"eight\"", "'php' takes a version such as \"8.4\", not \"eight\""),
        ("8.4", "php = \"8.4\", with quotes"),
    ] {
        let file = server.directory().join("reprise.toml");
        fs::write(&file, config.replace("workers = 3", &format!("workers = 3\nphp = {value}")))
            .expect("a configuration");
        let (is_done, said) = server.reload();
        assert!(
            !is_done && said.contains(words) && said.contains(&format!("reprise.toml:{line}: ")),
            "{value}: {said}"
        );
    }
    let said = Command::new(program())
        .arg("check")
        .arg(server.directory().join("app"))
        .args(["--php", "7.4"])
        .output()
        .expect("reprise check");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("reprise: --php: PHP 7.4 is not installed for Reprise; PHP "), "{said}");
}

/// An executable whose libphp is missing, or whose name is not its version, is refused by what would use it, and by nothing else.
#[test]
fn a_version_that_does_not_start_is_refused_alone() {
    let setup = Setup::empty().file("index.php", SCRIPT);
    let programs = setup.directory().join("programs");
    fs::create_dir(&programs).expect("a directory");
    let copy = |from: &str, to: &str, bytes: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let target = programs.join(to);
        fs::write(&target, bytes(fs::read(program().with_file_name(from)).expect("a program"))).expect("a copy");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("permissions");
    };
    let php = Command::new(program().with_file_name("reprise-php")).arg("--version").output().expect("reprise-php");
    let php = String::from_utf8_lossy(&php.stdout).into_owned();
    let line = |name: &str| php.lines().find_map(|line| line.strip_prefix(name)).expect(name).to_owned();
    let (release, library) = (line("php "), line("libphp "));
    let own = release.rsplit_once('.').expect("a release").0;
    // It names another libphp, which is not there.
    let missing = library.replace(own, "8.9");
    let without = |mut bytes: Vec<u8>| {
        let at =
            (0..bytes.len() - library.len()).find(|at| bytes[*at..].starts_with(library.as_bytes())).expect("a path");
        bytes[at..at + missing.len()].copy_from_slice(missing.as_bytes());
        bytes
    };
    copy("reprise", "reprise", &|bytes| bytes);
    copy("reprise-php", &format!("reprise-php{own}"), &|bytes| bytes);
    copy("reprise-php", "reprise-php8.7", &|bytes| bytes);
    copy("reprise-php", "reprise-php8.9", &without);
    let run = |arguments: &[&str]| {
        let output = Command::new(programs.join("reprise")).args(arguments).output().expect("reprise");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    let root = setup.document_root().to_str().expect("a plain path");
    let loader = format!("reprise-php8.9: does not start: {}/reprise-php8.9: error while loading", programs.display());
    let hint = "hint: is its libphp installed? apt-get install libphp8.9-embed";
    let name = format!("reprise-php8.7: is for PHP {release}, which is not what its name says");
    // The newest version is the default.
    let (code, said) = run(&["check", root]);
    assert!(code == Some(70) && said.contains(&loader) && said.contains(&missing) && said.contains(hint), "{said}");
    let (code, said) = run(&["check", root, "--php", "8.7"]);
    assert!(code == Some(70) && said.contains(&name), "{said}");
    let (code, said) = run(&["check", root, "--php", own]);
    assert!(code == Some(0) && said.contains(&format!("PHP {release}")), "{said}");
    let (code, said) = run(&["version"]);
    assert!(code == Some(70) && said.contains(&format!("\nphp {release} (")), "{said}");
    assert!(said.contains(&loader) && said.contains(&name), "{said}");
}
