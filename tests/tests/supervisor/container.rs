//! As process 1 of a container: signals reach it, and what PHP leaves behind is reaped.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use tests::memory_group::MemoryGroup;
use tests::server::{Directory, program};
use tests::{Setup, process, wait_for, wait_until};

/// The command that makes what follows process 1 of a namespace of its own.
const AS_FIRST: [&str; 6] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--"];

fn assert_namespaces() {
    let output = Command::new(AS_FIRST[0]).args(&AS_FIRST[1..]).args(["sh", "-c", "echo $$"]).output();
    let said = output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    );
    assert_eq!(
        said.trim(),
        "1",
        "{} does not work here. Run the tests as root, in a container with --privileged or \
        --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
        AS_FIRST.join(" ")
    );
}

/// The process that the namespace began with, as seen from here.
fn first_of(unshare: i32) -> i32 {
    wait_for("process 1 of the namespace", 20, || {
        let child = process::children(unshare).first().copied()?;
        let ids = process::status(child, "NSpid")?;
        (ids.ends_with("\t1") && process::name(child)? == "reprise").then_some(child)
    })
}

/// As process 1 of a PID namespace the server reaps what PHP leaves behind, and ends in order on a signal.
#[test]
fn process_1_hears_signals_and_reaps() {
    assert_namespaces();
    const SCRIPT: &str = "<?php if (isset($_GET['slow'])) { usleep(700_000); echo 'slow'; exit; }\n\
        exec('nohup sh -c \"sleep 1000 & sleep 1000 & wait\" > /dev/null 2>&1 &'); echo 'left';";
    let setup = Setup::empty().file("index.php", SCRIPT);
    let command: Vec<PathBuf> = AS_FIRST.iter().map(PathBuf::from).chain([program()]).collect();
    let mut server = setup.command(command).start();
    let first = first_of(server.pid());

    // What PHP leaves behind comes to process 1, which takes it away when it ends.
    assert_eq!(server.get("/").text(), "left");
    let named = |name: &'static str| move |pid: &i32| process::name(*pid).as_deref() == Some(name);
    let shell = wait_for("the shell is process 1's", 20, || process::children(first).into_iter().find(named("sh")));
    wait_until("its children run", 20, || process::children(shell).into_iter().filter(named("sleep")).count() == 2);
    process::kill(shell, Signal::SIGKILL);
    let is_gone = |pid: i32| !Path::new(&format!("/proc/{pid}")).exists();
    wait_until("the shell is reaped", 20, || is_gone(shell));
    let sleepers: Vec<i32> = wait_for("orphans of orphans", 20, || {
        let all: Vec<i32> = process::children(first).into_iter().filter(named("sleep")).collect();
        (all.len() == 2).then_some(all)
    });
    process::kill(sleepers[0], Signal::SIGTERM);
    wait_until("an orphan is reaped", 20, || is_gone(sleepers[0]));
    let is_zombie = |pid: &i32| process::status(*pid, "State").is_some_and(|state| state.starts_with('Z'));
    assert_eq!(server.processes().iter().filter(|pid| is_zombie(pid)).count(), 0);

    process::kill(first, Signal::SIGHUP);
    wait_until("a reload", 20, || server.log().contains("reloaded: app generation 2"));

    // What runs is finished within the grace period; the orphan that still sleeps keeps nobody waiting.
    let mut slow = server.client();
    slow.send(b"GET /?slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    wait_until("it runs", 20, || server.status(&[]).contains("GET /?slow"));
    process::kill(first, Signal::SIGTERM);
    assert_eq!(slow.read(false).unwrap().text(), "slow");
    assert_eq!(server.wait(20), 0, "{}", server.log());
    wait_until("all are gone", 20, || is_gone(first) && is_gone(sleepers[1]));
}

/// Whether a process takes that signal, by a handler or a descriptor.
fn hears(pid: i32, signal: Signal) -> bool {
    let mask = |name: &str| process::status(pid, name).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let heard = mask("SigCgt").unwrap_or(0) | mask("SigBlk").unwrap_or(0);
    heard & 1 << (signal as i32 - 1) != 0
}

/// As process 1 the server ends on a signal even if the signal comes before it is ready.
#[test]
fn process_1_hears_a_signal_from_its_first_moment() {
    assert_namespaces();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let directory = Directory::new();
        let config = directory.0.join("reprise.toml");
        let place = directory.0.display();
        fs::create_dir(directory.0.join("public")).unwrap();
        let text = format!(
            "listen = [\"unix:{place}/web.sock\"]\nstate_dir = \"{place}/state\"\n[[application]]\nroot = \"{place}/public\"\n"
        );
        fs::write(&config, text).unwrap();
        let mut unshare = Command::new(AS_FIRST[0])
            .args(&AS_FIRST[1..])
            .arg(program())
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let first = first_of(unshare.id() as i32);
        // Process 1 does not hear of what it has not asked for. That it has asked is the first thing that can be seen of it.
        wait_until("it hears of signals", 20, || hears(first, signal));
        process::kill(first, signal);
        let ended = wait_for("it ends", 30, || unshare.try_wait().unwrap());
        let mut said = String::new();
        unshare.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(ended.success() && said.contains(&format!("{signal}: draining")), "{ended}: {said}");
    }
}

/// The kernel ends the worker that has exhausted the container's memory, and nobody else.
#[test]
fn a_container_s_memory_limit_costs_one_request() {
    const EAT: &str =
        "if (isset($_GET['eat'])) { $all = []; for (;;) $all[] = str_repeat('x', 4 << 20); } echo getmypid();";
    let scripts = [
        ("classic", format!("<?php {EAT}")),
        ("snapshot", format!("<?php reprise_snapshot(); {EAT}")),
        ("worker", format!("<?php while (reprise_handle_request(function () {{ {EAT} }})) {{}}")),
    ];
    let group = MemoryGroup::with_limit(1500);
    for (mode, script) in scripts {
        let server = Setup::empty()
            .file("index.php", script)
            .application("workers = 2")
            .application(&format!("mode.\"index.php\" = \"{mode}\""))
            .ini("memory_limit", "8G")
            .command(group.command(&program()))
            .start();
        let (supervisor, front, prototype) = (server.pid(), server.front(), server.prototype());
        for _ in 0..2 {
            let answer = server.get("/?eat");
            assert_eq!((answer.status, answer.header("reprise-refused")), (502, Some("worker-died")), "{mode}");
            assert_eq!(server.get("/").status, 200, "{mode}");
        }
        assert_eq!((server.front(), server.prototype()), (front, prototype), "{mode}: {}", server.log());
        assert!(process::is_alive(supervisor), "{mode}");
        wait_until("the log says so", 10, || {
            server.log().matches("was killed by SIGKILL while it ran GET /?eat").count() >= 2
        });
    }
}
