//! What the running front cannot do, whatever its clients make of it, and what PHP's programs cannot do where the configuration
//! says so. What each of it forbids is tried in the unit tests of `process::confine`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tests::process::needs_root;
use tests::server::{program, project};
use tests::{Server, Setup, process, wait_for};

/// Fields of /proc/PID/status of each thread.
fn threads(pid: i32, field: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let read = |path: std::path::PathBuf| fs::read_to_string(path.join("status")).expect("a thread");
    let value = |text: String| {
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect(field).trim().to_owned()
    };
    tasks.map(|task| value(read(task.expect("a thread").path()))).collect()
}

fn assert_confined(server: &Server, front: i32) {
    let none = "0000000000000000";
    let fields =
        [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapPrm", none), ("CapEff", none), ("CapInh", none), ("CapAmb", none)];
    // Without root nobody may empty it; without new privileges it means nothing.
    let bounding = Uid::effective().is_root().then_some(("CapBnd", none));
    for (field, expected) in fields.into_iter().chain(bounding) {
        let found = threads(front, field);
        assert!(found.len() >= 3, "the main thread and two that serve: {found:?}");
        assert!(found.iter().all(|value| value == expected), "{field}: {found:?}");
    }
    assert!(!server.log().contains("not confined"), "{}", server.log());
    assert!(!server.log().contains("is forbidden"), "the front needs more than it may:\n{}", server.log());
}

/// The first, and one that takes the place of another.
#[test]
fn the_front_has_no_rights_and_few_system_calls() {
    let server = Setup::app("plain").file("a.txt", "file").server("front_threads = 2").start();
    let first = server.front().expect("a front");
    assert_confined(&server, first);
    process::kill(first, Signal::SIGKILL);
    let second = wait_for("another front", 20, || server.front().filter(|&pid| pid != first));
    wait_for("it serves", 20, || {
        let answer = tests::client::connect(server.port).ok().map(|stream| tests::Client::over(stream, "a"));
        answer?.try_request("GET", "/a.txt", &[], b"").ok().filter(|answer| answer.text() == "file")
    });
    assert_confined(&server, second);
}

/// A kernel without Landlock: the front says so in one line of the log, and serves.
#[test]
fn what_a_kernel_lacks_is_a_line_of_the_log() {
    let setup = Setup::empty().file("a.txt", "file");
    let deny = setup.directory().join("deny");
    tests::peer::run_to_end(Command::new("gcc").arg("-o").arg(&deny).arg(project().join("tests/src/deny.c")));
    let server = setup.command([deny, "landlock_create_ruleset".into(), "38".into(), program()]).start();
    assert_eq!(server.get("/a.txt").text(), "file");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("not confined")).collect();
    let [line] = lines[..] else { panic!("{log}") };
    let (time, text) = line.split_once(' ').expect("a time");
    assert!(time.ends_with('Z'), "{line}");
    assert_eq!(text, "warning front: the front is not confined by Landlock: this kernel does not have it");
}

/// Files, bodies both ways, a reload to another root, a log that is opened again.
#[test]
fn a_confined_front_does_all_that_it_should() {
    let server = Setup::empty()
        .file("index.php", "<?php echo strlen(file_get_contents('php://input')), ' ', str_repeat('x', 300000);")
        .file("one/a.txt", "one")
        .file("two/a.txt", "two")
        .file("two/index.php", "<?php echo 'second root';")
        .application("warmup = [\"/\"]")
        .server("front_threads = 2")
        .start();
    let mut client = server.client();
    assert_eq!(client.get("/one/a.txt").text(), "one");
    let answer = client.request("POST", "/", &[], &vec![b'y'; 500_000]);
    assert!(answer.text().starts_with("500000 xxx") && answer.body.len() > 300_000);
    let root = server.root.display().to_string();
    server.reconfigure(&format!("root = \"{root}\""), &format!("root = \"{root}/two\""));
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(server.get("/a.txt").text(), "two");
    assert_eq!(server.get("/").text(), "second root");
    let log = server.directory().join("access.log");
    fs::rename(&log, server.directory().join("old.log")).expect("renamed");
    server.signal(Signal::SIGUSR1);
    wait_for("a new log", 10, || log.exists().then_some(()));
    wait_for("its line", 10, || {
        server.get("/a.txt?after");
        server.access_log().contains("/a.txt?after").then_some(())
    });
    assert_confined(&server, server.front().expect("a front"));
}

const PROGRAM: &str = "<?php echo file_get_contents('/proc/self/status'), '--', shell_exec(__DIR__ . '/../status');";

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect(name).trim()
}

/// A copy of `cat` that is set-user-ID root shows what a mailer or sudo would have.
fn with_program(lines: &str) -> (String, String) {
    let setup = Setup::empty().file("index.php", PROGRAM).application(lines);
    let place = setup.document_root().join("..");
    fs::copy("/bin/cat", place.join("cat")).expect("a program");
    fs::set_permissions(place.join("cat"), fs::Permissions::from_mode(0o4755)).expect("permissions");
    fs::write(place.join("status"), "#!/bin/sh\nexec \"$(dirname \"$0\")/cat\" /proc/self/status\n").expect("a script");
    fs::set_permissions(place.join("status"), fs::Permissions::from_mode(0o755)).expect("permissions");
    let server = setup.start();
    let text = server.get("/").text();
    let (php, program) = text.split_once("--").expect("two parts");
    (php.to_owned(), program.to_owned())
}

/// Programs that PHP starts keep their capabilities, unless `capabilities = "none"` empties the bounding set.
#[test]
fn programs_of_php_keep_their_rights_unless_the_configuration_takes_them() {
    needs_root();
    let all = process::status(std::process::id() as i32, "CapBnd").expect("our own");
    for lines in ["", "capabilities = \"keep\""] {
        let (php, program) = with_program(lines);
        assert_eq!((field(&php, "CapBnd"), field(&program, "CapBnd")), (all.as_str(), all.as_str()), "{lines}");
        assert_eq!(field(&program, "CapEff"), all, "{lines}");
        assert!(field(&program, "Uid").split_whitespace().nth(1) == Some("0"), "{program}");
    }
    let none = "0000000000000000";
    let (php, program) = with_program("capabilities = \"none\"");
    for text in [&php, &program] {
        for name in ["CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(field(text, name), none, "{name}");
        }
    }
    assert!(field(&program, "Uid").split_whitespace().nth(1) == Some("0"), "it is root without rights: {program}");
}

/// A clone of a snapshot and a worker script's process come from the same prototype.
#[test]
fn snapshot_and_worker_have_none_either() {
    let show = "preg_match('/CapBnd:\\s*(\\w+)/', file_get_contents('/proc/self/status'), $m); echo $m[1];";
    let none = "0000000000000000";
    for isolation in ["auto", "fork"] {
        let server = Setup::empty()
            .file("index.php", format!("<?php reprise_snapshot(); {show}"))
            .application(&format!("capabilities = \"none\"\nisolation = \"{isolation}\""))
            .start();
        assert_eq!(server.get("/").text(), none, "{isolation}");
    }
    let server = Setup::empty()
        .file("index.php", format!("<?php while (reprise_handle_request(function () {{ {show} }}));"))
        .application("capabilities = \"none\"")
        .start();
    assert_eq!(server.get("/").text(), none);
}

/// As in a container that has taken it away.
#[test]
fn without_the_right_to_take_rights_the_server_says_so() {
    needs_root();
    let with = |line: &str| {
        let command = ["setpriv", "--bounding-set=-setpcap", "--"].map(std::path::PathBuf::from);
        let command = command.into_iter().chain([tests::server::program()]);
        Setup::empty().file("index.php", "<?php echo 1;").application(line).command(command)
    };
    let server = with("capabilities = \"keep\"").start();
    assert!(server.log().contains("without CAP_SETPCAP the front keeps a bounding set"), "{}", server.log());
    assert_eq!(server.get("/").text(), "1");
    let front = server.front().expect("a front");
    assert_eq!(threads(front, "CapPrm")[0], "0000000000000000");
    assert_eq!(threads(front, "Seccomp")[0], "2");
    let mut server = with("capabilities = \"none\"").launch();
    assert_eq!(server.wait(20), 77, "{}", server.log());
    assert!(server.log().contains("capabilities: \"none\" needs root with CAP_SETPCAP"), "{}", server.log());
}
