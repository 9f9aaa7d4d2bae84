//! A limit of processes that is too low for the workers: said once, with the limit and what to set, and nothing counts as ready.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};
use tests::{Setup, modes, process, wait_until};

/// Each test has a user of its own: the kernel counts a user's processes.
fn limited(user: &str, workers: usize) -> String {
    let user = if Uid::effective().is_root() { format!("\nuser = \"{user}\"") } else { String::new() };
    format!("workers = {workers}\nrlimit_processes = 16{user}")
}

const SCRIPT: &str = "<?php
    $handle = function () { echo 'served'; };
";

#[test]
fn a_server_whose_workers_cannot_be_forked_does_not_start() {
    for (mode, end, lines) in modes::modes() {
        let setup = Setup::empty().file("index.php", format!("{SCRIPT}{end}")).application(&limited("uucp", 40));
        let mut server = lines.iter().fold(setup, |setup, line| setup.application(line)).launch();
        assert_eq!(server.wait(20), 70, "{mode}: {}", server.log());
        let log = server.log();
        let said: Vec<&str> = log.lines().filter(|line| line.contains("could not be forked")).collect();
        assert!(!log.contains("ready after") && (1..=2).contains(&said.len()), "{mode}: {log}");
        for word in ["limited to 16 processes", "RLIMIT_NPROC", "hint: raise rlimit_processes", "LimitNPROC="] {
            assert!(said[0].contains(word), "{mode}: {log}");
        }
        assert!(log.lines().all(|line| !line.contains("Success")), "{mode}: {log}");
    }
}

/// A reload that cannot have its workers is refused, and the generation before it goes on.
#[test]
fn a_reload_whose_workers_cannot_be_forked_is_refused() {
    let server =
        Setup::empty().file("index.php", format!("{SCRIPT}$handle();")).application(&limited("proxy", 4)).start();
    server.reconfigure("workers = 4", "workers = 30");
    let (is_done, said) = server.reload();
    assert!(!is_done && said.contains("RLIMIT_NPROC") && said.contains("hint: raise"), "{said}\n{}", server.log());
    assert_eq!(server.get("/").text(), "served");
}

/// While it serves: the same error is logged when it comes first, and when its number has doubled. Without the cause all goes on.
#[test]
fn forks_that_fail_again_and_again_are_few_lines() {
    let server =
        Setup::empty().file("index.php", format!("{SCRIPT}$handle();")).application(&limited("list", 3)).start();
    let user = User::from_name("list").unwrap().unwrap().uid.as_raw();
    let sleep = || Command::new("sleep").arg("60").uid(user).spawn().unwrap();
    let mut others: Vec<Child> = (0..16).map(|_| sleep()).collect();
    server.workers().into_iter().for_each(|pid| process::kill(pid, Signal::SIGKILL));
    wait_until("forks fail", 20, || server.log().contains("(4 times by now)"));
    let failed = server.log().lines().filter(|line| line.contains("could not be forked")).count();
    assert!((3..=4).contains(&failed), "{}", server.log());
    others.iter_mut().for_each(|one| {
        one.kill().unwrap();
        one.wait().unwrap();
    });
    assert_eq!(server.get("/").text(), "served");
    assert!(!server.log().contains("(3 times"), "{}", server.log());
}
