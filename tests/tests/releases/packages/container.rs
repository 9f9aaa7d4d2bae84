//! The container file, in a bare Debian 13, and the seccomp profile.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::client::{Client, connect};
use tests::server::{Directory, free_port};
use tests::{process, wait_for};

use super::place::Place;
use super::*;

/// What a container file says, line by line; continued lines are one.
fn instructions() -> Vec<(String, String)> {
    let text =
        std::fs::read_to_string(project().join("packaging/container/Containerfile")).expect("the container file");
    let text = text.replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(verb, rest)| (verb.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// The lines that tests/packages/seccomp.c reads, of a profile; without a call, as if the profile did not name it.
fn rules(without: Option<&str>) -> String {
    let text = std::fs::read_to_string(project().join("packaging/seccomp.json")).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    for call in ["bpf", "keyctl", "mount", "perf_event_open", "ptrace", "reboot", "setns", "unshare"] {
        assert!(!text.contains(&format!("\"{call}\"")), "the profile names {call}");
    }
    let mut lines = vec![profile["defaultErrnoRet"].to_string()];
    for rule in profile["syscalls"].as_array().expect("rules") {
        let names = rule["names"].as_array().expect("names").iter().map(|name| name.as_str().expect("a name"));
        for name in names.filter(|name| without != Some(name)) {
            let arguments = rule["args"].as_array().map_or(&[][..], Vec::as_slice);
            lines.push(match (rule["action"].as_str(), arguments) {
                (Some("SCMP_ACT_ALLOW"), []) => format!("ALLOW {name}"),
                (Some("SCMP_ACT_ERRNO"), []) => format!("ERRNO {name} {}", rule["errnoRet"]),
                (Some("SCMP_ACT_ALLOW"), [one]) if one["op"] == "SCMP_CMP_EQ" => {
                    format!("EQUAL {name} {} {}", one["index"], one["value"])
                }
                (Some("SCMP_ACT_ALLOW"), [one]) if one["op"] == "SCMP_CMP_MASKED_EQ" => {
                    format!("MASKED {name} {} {} {}", one["index"], one["value"], one["valueTwo"])
                }
                _ => panic!("the test knows no such rule: {rule}"),
            });
        }
    }
    lines.join("\n") + "\n"
}

/// Starts what the container file says: as process 1, by its user, with a read-only root and a filter.
fn start(place: &Place, port: u16, rules: &str, log: &Path) -> Child {
    let find = |verb: &str| instructions().into_iter().find(|(name, _)| name == verb).expect("an instruction").1;
    let command: Vec<String> = serde_json::from_str(&find("CMD")).expect("a list");
    let command: Vec<String> =
        command.iter().map(|word| word.replace("0.0.0.0:8080", &format!("127.0.0.1:{port}"))).collect();
    // Beneath these mounts nothing can be written but /tmp. A bare Debian has no mount: it is this system's.
    let script = "root=$1 user=$2; shift 2; mount -t proc proc \"$root/proc\"; mount -t tmpfs tmpfs \"$root/tmp\"; \
        mount -o remount,bind,ro \"$root/run\"; mount -o remount,bind,ro \"$root\"; exec chroot \"$root\" setpriv --reuid \"$user\" \
        --regid \"$user\" --clear-groups --inh-caps=-all --bounding-set=-all /usr/local/bin/with-seccomp \"$@\"";
    let log = || std::fs::File::options().create(true).append(true).open(log).expect("a log");
    let mut child = Command::new("nsenter")
        .args(["--target", &place.holder().to_string(), "--mount", "unshare", "--mount", "--pid", "--fork"])
        .args(["--kill-child=KILL", "sh", "-euc", script, "sh"])
        .arg(&place.root)
        .arg(find("USER"))
        .args(command)
        .stdin(Stdio::piped())
        .stdout(log())
        .stderr(log())
        .spawn()
        .expect("nsenter");
    child.stdin.take().expect("a pipe").write_all(rules.as_bytes()).expect("the rules");
    child
}

/// The page, when the server is there.
fn page(child: &mut Child, port: u16, log: &Path) -> String {
    wait_for("the server listens", 30, || {
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        assert!(child.try_wait().expect("a child").is_none(), "{}", said());
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    Client::over(connect(port).expect("a connection"), "app.example").get("/").text()
}

/// Ends process 1 of the container by SIGTERM, which it gets as a runtime sends it; its exit code.
fn stop(mut child: Child) -> Option<i32> {
    let first = process::children(child.id() as i32);
    assert_eq!(first.len(), 1, "unshare has one child");
    process::kill(first[0], Signal::SIGTERM);
    child.wait().expect("a child").code()
}

/// The image that the container file describes serves as process 1, without root and with a read-only root; with the profile memory
/// is rewound, without userfaultfd each request gets a process, and the log says why.
#[test]
fn the_container_file_serves_and_the_profile_lets_rewinds_through() {
    let (directory, place) = (Directory::new(), Place::new("trixie"));
    let packages = install::packages_of_debian_13(&directory.0, "1");
    for (verb, rest) in instructions() {
        match verb.as_str() {
            "COPY" => {
                let target =
                    place.root.join(rest.split_whitespace().next_back().expect("a directory").trim_start_matches('/'));
                std::fs::create_dir_all(&target).expect("a directory");
                for package in &packages {
                    std::fs::copy(package, target.join(package.file_name().expect("a file"))).expect("a package");
                }
            }
            "RUN" => drop(place.run("sh", &["-ec", &rest])),
            "FROM" => assert_eq!(rest, "debian:trixie-slim"),
            "USER" => assert_ne!(rest, "root"),
            "EXPOSE" | "STOPSIGNAL" | "CMD" => (),
            other => panic!("the test knows no {other}"),
        }
    }
    assert!(!place.has("/packages"));
    let loader = place.root.join("usr/local/bin/with-seccomp");
    // Without a library that the image would have to have.
    run(Command::new("cc")
        .args(["-Wall", "-O1", "-o"])
        .arg(&loader)
        .arg(project().join("tests/tests/releases/packages/seccomp.c"))
        .arg("-l:libseccomp.a"));
    place.write("/srv/app/index.php", "<?php reprise_snapshot(); $i = reprise_info(); echo $i['mode'], ' ', $i['isolation'], ' ', getmypid() > 1, posix_getuid() > 0;");
    place.write(
        "/etc/reprise/conf.d/app.toml",
        "[[application]]\nname = \"app\"\nroot = \"/srv/app\"\nmode.\"index.php\" = \"snapshot\"\n",
    );

    for (without, expected, words) in [
        (None, "snapshot rewind 11", &[][..]),
        (Some("userfaultfd"), "snapshot fork 11", &["userfaultfd", "seccomp"][..]),
    ] {
        let (port, log) = (free_port(), directory.0.join(format!("{}.log", expected.replace(' ', "-"))));
        let mut child = start(&place, port, &rules(without), &log);
        let found = page(&mut child, port, &log);
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        assert_eq!(found, expected, "{}", said());
        for word in words {
            assert!(said().contains(word), "no {word} in {}", said());
        }
        assert_eq!(stop(child), Some(0), "{}", said());
    }
}
