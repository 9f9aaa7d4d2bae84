//! Whoever runs the server, and whatever the kernel lets him: the best isolation that is possible, and a line that says why.

use std::path::PathBuf;
use std::process::Command;

use tests::snapshot::{best_isolation, is_sanitized, snapshot};
use tests::{Server, Setup, process};

const CASES: &str = "case 'count': echo ++$count, ' ', posix_geteuid(); break;\n";
const BOOT: &str = "$count = 0; $held = range(1, 5000);";

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Executes a command in which userfaultfd(2) fails.
const DENY: &str = r#"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments)
{
	struct sock_filter rules[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = rules};
	if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 1;
	}
	execv(arguments[1], arguments + 1);
	perror(arguments[1]);
	return 1;
}
"#;

/// The helper, and the executables where an ordinary user can reach them.
struct Place {
    deny: PathBuf,
    reprise: PathBuf,
}

fn place(setup: &Setup) -> Place {
    let home = setup.directory().join("home");
    std::fs::create_dir(&home).unwrap();
    for name in ["reprise", "reprise-php"] {
        std::fs::copy(tests::server::program().with_file_name(name), home.join(name)).unwrap();
    }
    let (source, deny) = (home.join("deny.c"), home.join("deny"));
    std::fs::write(&source, DENY).unwrap();
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

/// Without userfaultfd the isolation is fork, and the log says why.
#[test]
fn without_userfaultfd_it_forks_and_says_so() {
    let setup = snapshot(BOOT, CASES).flag("--audit");
    let place = place(&setup);
    let command = as_user(&setup).into_iter().chain([place.deny, place.reprise]);
    let server = setup.command(command).start();
    serves(&server, "fork", user());
    let log = server.log();
    assert!(log.lines().any(|line| line.contains("fork") && line.contains(why())), "{log}");
}

/// Root may have the device; if not, it forks too.
#[test]
fn root_without_the_call_finds_another_way_or_forks() {
    let setup = snapshot(BOOT, CASES).flag("--audit");
    let place = place(&setup);
    let server = setup.command([place.deny, place.reprise]).start();
    let info = server.get("/?info").text();
    let isolation = if info.contains("isolation=rewind") { "rewind" } else { "fork" };
    serves(&server, isolation, user());
    assert!(is_root() || isolation == "fork");
}

/// Who insists on rewinding is not served by something else: the boot fails, and says why.
#[test]
fn who_insists_on_rewinding_is_told() {
    let setup =
        snapshot(BOOT, CASES).application("isolation = \"rewind\"").application("mode.\"index.php\" = \"snapshot\"");
    let place = place(&setup);
    let command = as_user(&setup).into_iter().chain([place.deny, place.reprise]);
    let mut server = setup.command(command).launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    assert!(server.log().contains(why()), "{}", server.log());
}
