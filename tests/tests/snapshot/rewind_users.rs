//! Whoever runs the server, and whatever the kernel lets him: the best isolation that is possible, and a line that says why.

use std::path::PathBuf;
use std::process::Command;

use tests::process::is_root;
use tests::snapshot::{best_isolation, best_way, has_soft_dirty_bits, has_userfaultfd, is_sanitized, snapshot};
use tests::{Server, Setup, process, wait_until};

const CASES: &str = "case 'count': echo ++$count, ' ', posix_geteuid(); break;\n";
const BOOT: &str = "$count = 0; $held = range(1, 5000);";

/// Executables where an ordinary user can reach them.
struct Place {
    /// tests/src/deny.c
    deny: PathBuf,
    reprise: PathBuf,
}

impl Place {
    /// The command that executes the server in which a call fails so.
    fn denying(&self, call: &str, error: &str) -> Vec<PathBuf> {
        vec![self.deny.clone(), call.into(), error.into(), self.reprise.clone()]
    }
}

fn place(setup: &Setup) -> Place {
    let home = setup.directory().join("home");
    std::fs::create_dir(&home).unwrap();
    for name in ["reprise", "reprise-php"] {
        std::fs::copy(tests::server::program().with_file_name(name), home.join(name)).unwrap();
    }
    let (source, deny) = (tests::server::project().join("tests/src/deny.c"), home.join("deny"));
    tests::peer::run_to_end(Command::new("gcc").arg("-o").arg(&deny).arg(&source));
    Place { deny, reprise: home.join("reprise") }
}

/// As root, becomes an ordinary user, whose directory this is then.
fn as_user(setup: &Setup) -> Vec<PathBuf> {
    if is_root() {
        let owner = Some(nix::unistd::Uid::from_raw(33));
        nix::unistd::chown(setup.directory(), owner, Some(nix::unistd::Gid::from_raw(33))).unwrap();
    }
    let words = ["setpriv", "--reuid=33", "--regid=33", "--clear-groups", "--"];
    if is_root() { words.iter().map(PathBuf::from).collect() } else { vec![] }
}

fn serves(server: &Server, isolation: &str, user: u32) {
    let info = server.get("/?info").text();
    assert!(
        info.contains("mode=snapshot") && info.contains(&format!("isolation={isolation}\n")),
        "{info}\n{}",
        server.log()
    );
    for _ in 0..40 {
        assert_eq!(server.get("/?do=count").text(), format!("1 {user}"), "{isolation}");
    }
    let log = server.log();
    assert!(!log.contains("recycled") && !log.contains("killed by"), "{log}");
}

fn user() -> u32 {
    if is_root() { 33 } else { nix::unistd::Uid::effective().as_raw() }
}

/// What keeps it from rewinding.
fn why() -> &'static str {
    if is_sanitized() { "AddressSanitizer" } else { "userfaultfd" }
}

/// Started by root, clones run as the application's user with the best isolation.
#[test]
fn root_serves_as_another_user() {
    let server = snapshot(BOOT, CASES).flag("--audit").start();
    serves(&server, best_isolation(), user());
}

/// Started by an ordinary user, clones have the best isolation, too.
#[test]
fn an_ordinary_user_rewinds_too() {
    let setup = snapshot(BOOT, CASES).flag("--audit");
    let place = place(&setup);
    let command = as_user(&setup).into_iter().chain([place.reprise]);
    let server = setup.command(command).start();
    assert_eq!(process::status(server.pid(), "Uid").unwrap().split_whitespace().next().unwrap(), user().to_string());
    serves(&server, best_isolation(), user());
}

/// Error numbers.
const EPERM: &str = "1";
const ENOTTY: &str = "25";
const ENOSYS: &str = "38";

/// A restriction: the call, its error, what executes the server, and the words that the start has for it.
struct Restriction {
    call: &'static str,
    error: &'static str,
    within: &'static [&'static str],
    words: &'static [&'static str],
}

const RESTRICTIONS: &[Restriction] = &[
    Restriction {
        call: "userfaultfd",
        error: EPERM,
        within: &[],
        words: &["a seccomp filter denies userfaultfd", "EPERM", "Seccomp: 2"],
    },
    Restriction {
        call: "userfaultfd",
        error: ENOSYS,
        within: &[],
        words: &["a seccomp filter denies userfaultfd", "ENOSYS", "Seccomp: 2"],
    },
    Restriction {
        call: "userfaultfd",
        error: "kill",
        within: &[],
        words: &["a seccomp filter ends processes that call userfaultfd", "Seccomp: 2"],
    },
    Restriction {
        call: "UFFDIO_API",
        error: EPERM,
        within: &[],
        words: &["a seccomp filter denies UFFDIO_API", "EPERM"],
    },
    Restriction {
        call: "PAGEMAP_SCAN",
        error: ENOTTY,
        within: &[],
        words: &["a seccomp filter denies PAGEMAP_SCAN", "ENOTTY"],
    },
    // To its programs this kernel is 2.6 then, and it has no PAGEMAP_SCAN: an old one.
    Restriction {
        call: "PAGEMAP_SCAN",
        error: ENOTTY,
        within: &["setarch", "--uname-2.6"],
        words: &["Linux 2.6.", "is too old, 6.7 or newer is needed", "bookworm-backports"],
    },
];

/// The lines of a text about the isolation of the server: what it is and why, and the hint.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_start);
    lines.skip_while(|line| !line.starts_with("isolation ")).take_while(|line| !line.starts_with("front ")).collect()
}

/// Whatever keeps a server from rewinding: it forks, and says why, at what cost, and what mends it. That is said once, and `reprise
/// check` says the same.
#[test]
fn what_keeps_a_server_from_rewinding_is_said_once() {
    for restriction in RESTRICTIONS {
        // Another script boots while the server runs.
        let setup = snapshot(BOOT, CASES).file("other.php", "<?php reprise_snapshot(); echo 'other';");
        let place = place(&setup);
        let within = restriction.within.iter().map(PathBuf::from);
        let command: Vec<PathBuf> = as_user(&setup)
            .into_iter()
            .chain(within)
            .chain(place.denying(restriction.call, restriction.error))
            .collect();
        let server = setup.command(command.clone()).start();
        let gets = without_userfaultfd();
        serves(&server, gets, user());
        wait_until("the other script has a lane", 30, || {
            server.get("/other.php");
            server.log().contains(&format!("/other.php is booted, isolation {gets}"))
        });
        let (reloaded, said) = server.reload();
        assert!(reloaded, "{said}\n{}", server.log());

        let log = server.log();
        let said = lines(&log);
        let [isolation, hint, ..] = said[..] else { panic!("no two lines of isolation in {log}") };
        assert!(hint.starts_with("hint "), "{log}");
        let words: &[&str] = if is_sanitized() { &["AddressSanitizer"] } else { restriction.words };
        let cost: &[&str] = match gets {
            "fork" => &["4 to 10 ms", "a process for each request"],
            _ => &["rewind (soft-dirty)", "by the size of the process"],
        };
        for word in words.iter().chain(cost) {
            assert!(isolation.contains(word) || hint.contains(word), "no {word:?} in {said:?}");
        }
        for word in ["a process for each request", "userfaultfd"] {
            let count = log.lines().filter(|line| line.contains(word)).count();
            let expected = lines(&log).iter().filter(|line| line.contains(word)).count();
            assert_eq!(count, expected, "{word:?} is said again:\n{log}");
        }

        let mut check = Command::new(&command[0]);
        check.args(&command[1..]).args(["check", "--config"]).arg(server.directory().join("reprise.toml"));
        let output = check.output().expect("reprise check");
        let checked = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{checked}");
        assert_eq!(lines(&checked), said, "{}", restriction.call);
        let would = if gets == "fork" { "fork or classic, measured in use" } else { gets };
        let expected = format!("index.php (it names reprise_snapshot), isolation {would}");
        assert!(checked.contains(&expected), "{checked}");
    }
}

/// Where only a process for each request is left, requests stay with their snapshot if classic mode is not much cheaper. Visitors'
/// requests show that, each of which is answered as before; a reload compares anew.
#[test]
fn fork_and_classic_mode_are_compared_in_use() {
    if without_userfaultfd() != "fork" {
        return;
    }
    const CHEAP: &str = "$count = 0;";
    const DEAR: &str = "$count = 0; for ($i = 0, $hash = ''; $i < 60_000; $i++) { $hash = md5($hash . $i); }";
    for (boot, stays) in [(CHEAP, false), (DEAR, true)] {
        let setup = snapshot(boot, CASES);
        let place = place(&setup);
        let command: Vec<PathBuf> = as_user(&setup).into_iter().chain(place.denying("userfaultfd", EPERM)).collect();
        let server = setup.command(command).start();
        for generation in 1..3 {
            let decided =
                if stays { ": isolation fork stays" } else { ": classic mode runs them until the next reload" };
            wait_until("it is decided", 60, || {
                assert_eq!(server.get("/?do=count").text(), format!("1 {}", user()));
                server.log().matches(decided).count() == generation
            });
            let mode = if stays { "mode=snapshot" } else { "mode=classic" };
            wait_until("requests run as decided", 20, || server.get("/?info").text().contains(mode));
            (0..20).for_each(|_| assert!(server.get("/?info").text().contains(mode), "{}", server.log()));
            let compared = server.log().matches("its next requests run in classic mode, to compare").count();
            assert_eq!(compared, generation, "{}", server.log());
            let shown = server.status(&[]);
            let lane = shown.lines().find(|line| line.contains("/index.php")).unwrap_or_default();
            assert!(lane.contains(if stays { "snapshot" } else { "classic" }), "{shown}");
            assert!(server.reload().0);
        }
    }
}

/// What requests from a snapshot get where userfaultfd is not possible.
fn without_userfaultfd() -> &'static str {
    if has_soft_dirty_bits() && !is_sanitized() { "rewind" } else { "fork" }
}

/// Everybody may watch faults of user space: `vm.unprivileged_userfaultfd`, which is 0 on most systems, forbids others.
#[test]
fn the_start_and_check_say_that_rewinds_are_possible() {
    let setup = snapshot(BOOT, CASES);
    let place = place(&setup);
    let command: Vec<PathBuf> = as_user(&setup).into_iter().chain([place.reprise]).collect();
    let server = setup.command(command.clone()).start();
    let mut check = Command::new(&command[0]);
    check.args(&command[1..]).args(["check", "--config"]).arg(server.directory().join("reprise.toml"));
    let checked = String::from_utf8(check.output().expect("reprise check").stdout).expect("text");
    for text in [&server.log(), &checked] {
        let sysctl = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
        let said = lines(text);
        match is_sanitized() {
            true => assert!(said[0].contains("AddressSanitizer"), "{said:?}"),
            false => {
                let expected = format!("isolation     rewind ({})", best_way());
                assert!(said[0].starts_with(&expected), "vm.unprivileged_userfaultfd is {sysctl:?}\n{text}");
                assert!(said.len() == 1 || !has_userfaultfd(), "{text}");
            }
        }
    }
    serves(&server, best_isolation(), user());
}

/// A reload says it if what snapshots get has changed, and says nothing otherwise.
#[test]
fn a_reload_says_what_has_changed() {
    let server = snapshot(BOOT, CASES).application("isolation = \"fork\"").start();
    assert_eq!(lines(&server.log()), ["isolation     fork, as the configuration says"]);
    assert!(server.reload().0);
    server.reconfigure("isolation = \"fork\"", "isolation = \"auto\"");
    for _ in 0..2 {
        let (reloaded, said) = server.reload();
        assert!(reloaded, "{said}");
    }
    let log = server.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("isolation of snapshots: ")).collect();
    let expected = if is_sanitized() { "AddressSanitizer" } else { ": rewind" };
    assert!(said.len() == 1 && said[0].contains(expected), "{log}");
    serves(&server, best_isolation(), user());
}

/// Root may have the device; if not, it forks too.
#[test]
fn root_without_the_call_finds_another_way_or_forks() {
    let setup = snapshot(BOOT, CASES).flag("--audit");
    let place = place(&setup);
    let server = setup.command(place.denying("userfaultfd", EPERM)).start();
    let info = server.get("/?info").text();
    let isolation = if info.contains("isolation=rewind") { "rewind" } else { "fork" };
    serves(&server, isolation, user());
    assert!(is_root() || isolation == without_userfaultfd());
}

/// Who insists on rewinding is not served by something else: the boot fails, and says why.
#[test]
fn who_insists_on_rewinding_is_told() {
    let setup = snapshot(BOOT, CASES)
        .application("isolation = \"userfaultfd\"")
        .application("mode.\"index.php\" = \"snapshot\"");
    let place = place(&setup);
    let command = as_user(&setup).into_iter().chain(place.denying("userfaultfd", EPERM));
    let mut server = setup.command(command).launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    assert!(server.log().contains(why()), "{}", server.log());
}
