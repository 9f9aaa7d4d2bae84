//! Installed, upgraded, downgraded and purged in copies of a bare Debian, with a service manager that holds the sockets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests::client::{Client, connect};
use tests::server::{Directory, free_port};
use tests::{process, wait_for, wait_until};

use super::manager::Manager;
use super::place::Place;
use super::*;

/// Requests on connections of their own, quick and slow ones, until told to stop. None may be lost.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(port: u16) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let spawn = |path: &'static str| {
            let (stop, answered) = (stop.clone(), answered.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let connection = connect(port).unwrap_or_else(|error| panic!("{path}: refused: {error}"));
                    let mut client = Client::over(connection, "app.example");
                    let response = client.try_request("GET", path, &[("Connection", "close")], b"");
                    let response = response.unwrap_or_else(|error| panic!("{path}: lost: {error}"));
                    assert!(
                        response.status == 200 && response.text().starts_with("page of PHP"),
                        "{path}: {}",
                        response.text()
                    );
                    answered.fetch_add(1, Ordering::Relaxed);
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            })
        };
        let threads = ["/", "/", "/?sleep", "/?sleep"].map(spawn).into();
        Load { stop, answered, threads }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until further requests were answered.
    fn goes_on(&self) {
        let before = self.answered();
        wait_until("further answers", 60, || {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a client has failed");
            self.answered() > before + 20
        });
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a client failed"));
        self.answered.load(Ordering::Relaxed)
    }
}

/// Every request of a load is answered while something is done, and after it.
fn without_a_loss(what: &str, port: u16, act: impl FnOnce()) {
    let load = Load::begin(port);
    load.goes_on();
    act();
    load.goes_on();
    println!("{what}: {} requests, none lost", load.end());
}

const INDEX: &str = "<?php\nif (isset($_GET['sleep'])) usleep(200000);\necho 'page of PHP ', PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;\n";

struct Install {
    /// Ends before the root does.
    manager: Manager,
    place: Place,
    port: u16,
    php: &'static str,
}

impl Install {
    fn page(&self) -> String {
        Client::over(connect(self.port).expect("a connection"), "app.example").get("/").text()
    }

    fn log(&self) -> String {
        Manager::log(&self.place)
    }

    /// From `apt install` to the first page of an application.
    fn install(&self, packages: &[String]) {
        let began = Instant::now();
        let (seconds, _) = self.place.apt(&with("install", packages));
        self.place.write("/srv/app/index.php", INDEX);
        self.place.write(
            "/etc/reprise/conf.d/app.toml",
            "[[application]]\nname = \"app\"\nroot = \"/srv/app\"\nworkers = 2\n",
        );
        self.place.run("systemctl", &["start", "reprise.socket"]);
        self.place.run("systemctl", &["start", "reprise.service"]);
        assert_eq!(self.page(), format!("page of PHP {}", self.php), "{}", self.log());
        let took = began.elapsed().as_secs_f64();
        println!("from apt install to the first page: {took:.1} s, of which apt {seconds:.1} s");
        assert!(took <= tests::seconds(60).as_secs_f64(), "{took} s");
    }

    /// Other versions of the packages, under load: the service restarts once, and none of the former programs runs any more.
    fn change(&self, what: &str, arguments: &[&str], packages: &[String]) {
        let before = self.manager.done(|done| (done.starts, done.ends.len()));
        without_a_loss(what, self.port, || {
            self.place.apt(&[arguments, &with("install", packages)].concat());
        });
        let after = self.manager.done(|done| (done.starts, done.ends.len()));
        assert_eq!(after, (before.0 + 1, before.1 + 1), "{what}: starts and ends\n{}", self.log());
        assert!(self.manager.done(|done| done.ends.iter().all(|code| *code == Some(0))), "{}", self.log());
        assert_eq!(self.former_programs(), Vec::<PathBuf>::new(), "{what}");
    }

    /// Programs of the root that run, and whose files are gone.
    fn former_programs(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let programs = all.filter_map(|entry| std::fs::read_link(entry.path().join("exe")).ok());
        let ours =
            |path: &PathBuf| path.starts_with(&self.place.root) && path.to_string_lossy().ends_with(" (deleted)");
        programs.filter(ours).collect()
    }
}

fn with<'a>(verb: &'a str, packages: &'a [String]) -> Vec<&'a str> {
    std::iter::once(verb).chain(packages.iter().map(String::as_str)).collect()
}

/// What dpkg and the tools of maintainer scripts write for any package.
fn is_of_dpkg(path: &str) -> bool {
    let of_tools = [
        "/etc/passwd",
        "/etc/group",
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/subuid",
        "/etc/subgid",
        "/etc/.pwd.lock",
        "/etc/ld.so.cache",
        "/var/cache/ldconfig",
    ];
    path.starts_with("/var/lib/dpkg/") || of_tools.iter().any(|begin| path.starts_with(begin))
}

fn paths(place: &Place) -> BTreeSet<String> {
    place.paths().into_iter().filter(|path| !is_of_dpkg(path)).collect()
}

/// Installs in a bare release, with the packages of two versions: to the first page, an upgrade and a downgrade under load, another
/// libphp, removal, purge.
fn life(release: &str, php: &'static str, make: &dyn Fn(&Path, &str) -> Vec<PathBuf>) {
    let (directory, place, port) = (Directory::new(), Place::new(release), free_port());
    place.apt(&["update"]);
    // What tests mount there may be named so, too.
    let before = paths(&place);
    let versions = ["1", "2"].map(|revision| place.take(&make(&directory.0, revision)));
    let libphp = format!("libphp{php}-embed");
    let install = Install { manager: Manager::new(&place, port), place, port, php };
    let place = &install.place;
    install.install(&versions[0]);
    let accounts = || {
        ["passwd", "group"].map(|file| std::fs::read_to_string(place.root.join("etc").join(file)).expect("accounts"))
    };
    for user in ["reprise", "reprise-acme", "reprise-release"] {
        assert!(accounts()[0].contains(&format!("\n{user}:")), "{user}");
    }

    install.change("upgrade", &[], &versions[1]);
    let version = place.run("dpkg-query", &["-W", "-f", "${Version}", "reprise"]);
    assert!(version.ends_with("-2"), "{version}");
    install.change("downgrade", &["--allow-downgrades"], &versions[0]);

    // Another libphp: a reload, and no restart. The file is another one, so its processes show which of them they have.
    let (starts, reloads) = install.manager.done(|done| (done.starts, done.reloads.len()));
    without_a_loss("libphp", port, || {
        place.apt(&["install", "--reinstall", &libphp]);
    });
    let said = install.manager.done(|done| done.reloads.clone());
    assert!(
        said.len() == reloads + 1 && said[reloads].starts_with("reloaded: app generation"),
        "{said:?}\n{}",
        install.log()
    );
    assert_eq!(install.manager.done(|done| done.starts), starts);
    let deleted = || {
        let of = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let is_old = |pid: &i32| of(*pid).lines().any(|line| line.contains("libphp") && line.ends_with("(deleted)"));
        programs(place).into_iter().filter(is_old).collect::<Vec<i32>>()
    };
    wait_until("nobody has the former libphp", 60, || deleted().is_empty());

    // A mistake in a file of conf.d while packages change: what serves goes on, dpkg does not fail.
    place.write("/etc/reprise/conf.d/wrong.toml", "[[application]]\nrooot = 1\n");
    without_a_loss("a refused reload", port, || {
        place.apt(&["install", "--reinstall", &libphp]);
    });
    let refused = install.manager.done(|done| done.reloads.last().cloned()).unwrap_or_default();
    assert!(refused.contains("the server goes on as before") && refused.contains("wrong.toml:1"), "{refused}");
    std::fs::remove_file(place.root.join("etc/reprise/conf.d/wrong.toml")).expect("the file");

    // Removed: nothing runs, the configuration stays. Purged: nothing is left, and a second round leaves the same.
    let names = ["reprise", &format!("reprise-php{php}")];
    place.apt(&[&["remove"][..], &names].concat());
    wait_for("every process has ended", 60, || programs(place).is_empty().then_some(()));
    assert!(place.has("/etc/reprise/reprise.toml") && place.has("/etc/reprise/conf.d/app.toml"));
    // What an administrator has enabled, and releases have left.
    place.write("/etc/systemd/system/reprise.service.wants/run-reprise_releases.mount", "");
    // Not by `write`, which does not see what is mounted at /run.
    place.run("mkdir", &["-p", "/run/reprise_releases/shop/current"]);
    place.run("touch", &["/run/reprise_releases/shop/current/file"]);
    place.apt(&[&["purge"][..], &names].concat());
    let left = paths(place);
    let ours: Vec<&String> = left.difference(&before).filter(|path| path.contains("reprise")).collect();
    assert_eq!(ours, Vec::<&String>::new());
    assert_eq!(place.run("find", &["/run", "-name", "reprise*"]), "");
    assert!(accounts().iter().all(|text| !text.contains("reprise")), "{:?}", accounts());
    install.install(&versions[1]);
    place.apt(&[&["purge"][..], &names].concat());
    let again = paths(place);
    assert_eq!(again.symmetric_difference(&left).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Processes whose root is this one's, and whose program is one of Reprise's.
fn programs(place: &Place) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |pid: &i32| {
        let root = std::fs::read_link(format!("/proc/{pid}/root"));
        root.is_ok_and(|root| root == place.root) && process::name(*pid).is_some_and(|name| name.starts_with("reprise"))
    };
    pids.filter(is_ours).collect()
}

/// Debian 12 with PHP 8.2.
#[test]
fn on_debian_12() {
    life("bookworm", "8.2", &|output, revision| package(output, &["--revision", revision]));
}

/// The packages for Debian 13: the server, and PHP of the root that the suites have.
pub fn packages_of_debian_13(output: &Path, revision: &str) -> Vec<PathBuf> {
    let root = run(Command::new("scripts/root").current_dir(project()).args(["make", "trixie"]));
    let build =
        ["CARGO_TARGET_DIR=target/php8.4", "cargo", "build", "--quiet", "--profile", "tests", "-p", "reprise-php"];
    let path = format!("PATH={}", std::env::var("PATH").unwrap_or_default());
    run(Command::new("scripts/root").current_dir(project()).args(["enter", root.trim(), "env", &path]).args(build));
    let mut all = package(output, &["--revision", revision, "reprise"]);
    // Only what is below the checkout is to be seen in the root.
    let below = project().join("target/packages-of-tests");
    let flags = ["--revision", revision, "--programs", "target/php8.4/tests", "--root", root.trim(), "php"];
    all.extend(package(&below, &flags));
    all
}

/// lintian finds no error and nothing to warn of in the packages for Debian 13.
#[test]
fn lintian_finds_nothing_for_debian_13() {
    let directory = Directory::new();
    let packages = packages_of_debian_13(&directory.0, "1");
    assert!(packages[1].ends_with(format!("reprise-php8.4_{}-1_amd64.deb", env!("CARGO_PKG_VERSION"))), "{packages:?}");
    let said = run(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).args(packages));
    assert_eq!(said, "");
}

/// Debian 13 with PHP 8.4.
#[test]
fn on_debian_13() {
    life("trixie", "8.4", &packages_of_debian_13);
}
