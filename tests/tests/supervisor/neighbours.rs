//! Two applications of two users: what a script of one can reach of the other, and of Reprise's own processes. It has FFI, so
//! it tries by every system call it likes. Whatever it tries works on its own: on a child, on its own files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, chown};
use serde_json::Value;
use tests::server::{copy, program};
use tests::{Server, Setup, process};

/// Users that each Debian has and nobody uses.
const USERS: [(&str, &str); 2] = [("own", "games"), ("other", "irc")];

/// A directory with a secret and a script that its user alone can read.
fn private(place: &Path, who: &str, user: &str) {
    let directory = place.join(who);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("script.php"), "<?php return true;").unwrap();
    fs::set_permissions(directory.join("script.php"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    let user = User::from_name(user).unwrap().expect("a user of the system");
    for path in [directory.join("script.php"), directory] {
        chown(&path, Some(user.uid), Some(user.gid)).unwrap();
    }
}

fn start() -> Server {
    let setup = Setup::app("neighbours");
    let root = setup.directory().join("other/public");
    fs::create_dir_all(&root).unwrap();
    copy(setup.document_root(), &root);
    let (place, sessions) = (setup.directory().join("place"), setup.directory().join("sessions"));
    fs::create_dir(&place).unwrap();
    fs::create_dir(&sessions).unwrap();
    // As Debian's: everybody may make files there and nobody list them.
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o1733)).unwrap();
    USERS.iter().for_each(|(who, user)| private(&place, who, user));
    let lines = |who: &str, user: &str| {
        format!(
            "hosts = [\"{who}.example\"]\nuser = \"{user}\"\nmode.\"index.php\" = \"snapshot\"\nenv.PLACE = \"{}\"\n\
             ini.\"ffi.enable\" = \"1\"\nini.\"apc.enabled\" = \"1\"\nini.\"session.save_path\" = \"{}\"\n\
             ini.\"opcache.file_update_protection\" = 0\nini.\"opcache.validate_permission\" = 0",
            place.display(),
            sessions.display()
        )
    };
    // With a session keyring, as a server has that was started from a login: it must not become everybody's.
    let join = "FFI::cdef('long syscall(long, ...);')->syscall(250, 1, null); pcntl_exec($argv[1], array_slice($argv, 2), getenv());";
    let command =
        ["/usr/bin/php", "-d", "ffi.enable=1", "-r", join, "--"].map(PathBuf::from).into_iter().chain([program()]);
    let other = format!("[[application]]\nname = \"other\"\nroot = \"{}\"\nworkers = 2\n", root.display());
    let setup = setup.command(command).application("workers = 2").application(&lines("own", USERS[0].1));
    setup.application(&other).application(&lines("other", USERS[1].1)).start()
}

/// Every process there is of an application, but for children of requests.
fn processes(server: &Server, application: &str) -> Vec<(String, i64)> {
    let status: Value = serde_json::from_str(&server.status(&["--json"])).expect("a status");
    let generation = &status["applications"][application][0];
    let mut all = vec![(format!("{application} prototype"), generation["prototype"].as_i64().unwrap())];
    for lane in generation["lanes"].as_array().unwrap() {
        let mode = lane["mode"].as_str().unwrap();
        all.extend(lane["template"].as_i64().map(|pid| (format!("{application} template"), pid)));
        let workers = lane["workers"].as_array().unwrap().iter();
        all.extend(workers.map(|worker| (format!("{application} {mode} worker"), worker["pid"].as_i64().unwrap())));
    }
    all
}

fn ask(server: &Server, who: &str, path: &str) -> String {
    let answer = server.client().request("GET", path, &[("Host", &format!("{who}.example"))], b"");
    assert_eq!(answer.status, 200, "{path}: {}\n{}", answer.text(), server.log());
    answer.text()
}

/// What worked: attempt and target.
fn attack(server: &Server, script: &str, pids: &[(String, i64)], things: &str) -> (Value, BTreeSet<String>) {
    let pids: Vec<String> = pids.iter().map(|(name, pid)| format!("{}:{pid}", name.replace(' ', "+"))).collect();
    let text = ask(server, "own", &format!("{script}?pids={}&things={things}", pids.join(",")));
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let worked = answer["worked"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    (answer, worked)
}

/// A script reaches no process, file or memory of another user's application, nor of Reprise.
#[test]
fn an_application_reaches_nothing_of_another_users() {
    if !Uid::effective().is_root() {
        // Without root there are no two users: asking for another is refused.
        let mut server = Setup::app("neighbours").application("user = \"games\"").launch();
        assert_eq!(server.wait(20), 77, "{}", server.log());
        return;
    }
    let server = start();
    let child = |who: &str| {
        let made = ask(&server, who, &format!("/things.php?who={who}"));
        made.strip_prefix("made ").unwrap_or_else(|| panic!("{made}")).parse::<i64>().unwrap()
    };
    let (own, other) = (child("own"), child("other"));
    let key_of_own = ask(&server, "own", "/keys.php?who=own");
    let key_of_other = ask(&server, "own", "/keys.php?who=other");
    // Twice, so that the script is in opcache when it is asked for.
    for _ in 0..2 {
        ask(&server, "other", "/attack.php?things=other");
    }
    let mut strangers = processes(&server, "other");
    strangers.push(("other child".to_owned(), other));
    strangers.push(("front".to_owned(), server.front().unwrap().into()));
    strangers.push(("supervisor".to_owned(), server.pid().into()));
    let names: BTreeSet<&str> = strangers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 7, "prototype, template, two kinds of workers, child, front and supervisor: {strangers:?}");
    let forkers: Vec<_> = processes(&server, "app").into_iter().filter(|(name, _)| !name.contains("worker")).collect();
    assert_eq!(forkers.len(), 2);

    let by_classic = attack(&server, "/attack.php", &strangers, "other");
    let by_snapshot = attack(&server, "/", &strangers, "other");
    let on_forkers = attack(&server, "/attack.php", &forkers, "").1;
    let (control, on_own) = attack(&server, "/attack.php", &[("own child".to_owned(), own)], "own");
    for who in ["own", "other"] {
        assert_eq!(ask(&server, who, &format!("/things.php?who={who}&remove")), "removed");
    }

    // What is tried works.
    let list =
        |kind: &str| control["tried"][kind].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned());
    let could = list("process").map(|what| format!("{what}: own child"));
    let could: BTreeSet<String> = could.chain(list("things").map(|what| format!("{what}: things"))).collect();
    assert!(could.len() > 40, "{could:?}");
    let failed: Vec<_> = could.difference(&on_own).collect();
    assert!(failed.is_empty(), "these attempts fail on one's own: they prove nothing: {failed:?}\n{control}");
    // Containers hide the kernel's keys.
    let has_keys = fs::read_to_string("/proc/keys").is_ok_and(|keys| !keys.is_empty());
    assert_eq!(key_of_own == "found", has_keys, "a key of one's own");

    for (answer, worked) in [&by_classic, &by_snapshot] {
        assert!(worked.is_empty(), "in {} mode these worked: {worked:#?}", answer["mode"]);
    }
    assert_eq!((&by_classic.0["mode"], &by_snapshot.0["mode"]), (&"classic".into(), &"snapshot".into()));
    assert_eq!(key_of_other, "none", "the session keyring is shared");
    // Who has the same user may signal; memory, descriptors and what else tells secrets are closed.
    let harmless =
        ["signal", "signal by pidfd", "nice value", "affinity", "scheduler", "limits", "priority of input and output"];
    let reached: Vec<_> =
        on_forkers.iter().filter(|one| !harmless.contains(&one.split(": ").next().unwrap())).collect();
    assert!(reached.is_empty(), "of its own prototype and template: {reached:?}");

    slabs_are_apart(&server);
    // Nobody has been killed by any of it.
    for (_, pid) in strangers.iter().filter(|(name, _)| !name.ends_with("child") && !name.ends_with("worker")) {
        assert!(process::is_alive(*pid as i32), "{strangers:?}");
    }
}

/// Memory that is shared to be written belongs to one application's processes and the front.
fn slabs_are_apart(server: &Server) {
    let slabs = |application: &str| -> BTreeSet<String> {
        let maps = processes(server, application)
            .into_iter()
            .map(|(_, pid)| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default());
        let lines: Vec<String> = maps.flat_map(|maps| maps.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let shared = lines.iter().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode == "rw-s"));
        shared.map(|line| line.split_whitespace().skip(3).take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    let (own, other) = (slabs("app"), slabs("other"));
    assert!(own.len() >= 3 && other.len() >= 3, "two lanes and opcache: {own:?} {other:?}");
    assert!(own.is_disjoint(&other), "{own:?} {other:?}");
}
