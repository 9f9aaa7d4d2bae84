//! Faults of the machine: what /proc, /sys and /etc of another one say, in a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::server::{Directory, free_port, program};
use tests::{Setup, wait_until};

use super::{Fault, Report, Site, fault, report};

/// A machine on which nothing is wrong.
struct Machine(Directory);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(Directory::new());
        for (name, text) in [
            ("proc/meminfo", "MemTotal:       16000000 kB\nSwapTotal:       2000000 kB\n"),
            ("proc/sys/vm/swappiness", "10\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/kernel/osrelease", "6.12.0\n"),
            (
                "proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 1048576              files\n",
            ),
            ("proc/self/cgroup", "0::/\n"),
            (
                "proc/self/mountinfo",
                "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n23 22 0:21 / /run rw,nosuid - tmpfs tmpfs rw\n",
            ),
            ("proc/1/comm", "systemd\n"),
            ("proc/400/comm", "chronyd\n"),
            ("proc/net/tcp", "  sl  local_address rem_address   st\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ] {
            machine.write(name, text);
        }
        machine
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn path(&self) -> PathBuf {
        self.0.0.clone()
    }
}

fn look(site: &Site, machine: &Path) -> Report {
    site.look(&["--only", "host", "--system", machine.to_str().expect("a plain path")])
}

/// A fault, and the file of the machine that has it. The line is that which sets the value.
const FAULTS: [(&str, Fault); 13] = [
    (
        "etc/sysctl.d/10-swap.conf",
        fault("host.swappiness", "notice", "10-swap.conf", 2, "# swap\nvm.swappiness = 60\n"),
    ),
    ("proc/sys/net/core/somaxconn", fault("host.somaxconn", "warning", "somaxconn", 1, "128\n")),
    ("etc/sysctl.conf", fault("host.somaxconn", "warning", "sysctl.conf", 1, "net.core.somaxconn=128\n")),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        fault("host.huge-pages", "notice", "enabled", 1, "[always] madvise never\n"),
    ),
    (
        "proc/self/limits",
        fault(
            "host.open-files",
            "warning",
            "limits",
            1,
            "Max open files            1024                 4096                 files\n",
        ),
    ),
    ("proc/self/mountinfo", fault("host.noatime", "notice", "mountinfo", 0, "22 1 0:20 / / rw - ext4 /dev/vda1 rw\n")),
    ("etc/fstab", fault("host.noatime", "notice", "etc/fstab", 2, "# table\n/dev/vda1 / ext4 strictatime 0 1\n")),
    (
        "proc/self/mountinfo",
        fault("host.tmpfs", "notice", "mountinfo", 0, "22 1 0:20 / / rw,relatime - ext4 /dev/vda1 rw\n"),
    ),
    ("proc/400/comm", fault("host.time", "warning", "timesync", 0, "cron\n")),
    ("proc/500/comm", fault("host.services", "notice", "proc/500", 0, "php-fpm8.2\n")),
    ("proc/501/comm", fault("host.services", "notice", "proc/501", 0, "apache2\n")),
    ("proc/meminfo", fault("host.memory", "warning", "meminfo", 1, "MemTotal:         100000 kB\n")),
    ("sys/fs/cgroup/memory.max", fault("host.memory", "warning", "memory.max", 1, "100000000\n")),
];

#[test]
fn faults_of_the_machine_are_found() {
    let site = Site::new().option("workers = 8");
    let machine = Machine::new();
    let clean = look(&site, &machine.path());
    let expected: Vec<&str> = clean.findings().iter().filter_map(|finding| finding["id"].as_str()).collect();
    // Whether this kernel can rewind is tried, not read.
    assert!(expected.iter().all(|id| *id == "host.rewind"), "{expected:?}");
    let mut found = 0;
    for (file, fault) in FAULTS {
        let machine = Machine::new();
        machine.write(file, fault.text);
        match file {
            "etc/sysctl.d/10-swap.conf" => machine.write("proc/sys/vm/swappiness", "60\n"),
            "etc/sysctl.conf" => machine.write("proc/sys/net/core/somaxconn", "128\n"),
            "etc/fstab" => machine.write("proc/self/mountinfo", "22 1 0:20 / / rw - ext4 /dev/vda1 rw\n"),
            _ => {}
        }
        let report = look(&site, &machine.path());
        assert!(report.has(&fault), "{} at {}: {:#}", fault.id, fault.file, report.json);
        assert_eq!(report.code, 0, "{}", fault.id);
        found += 1;
    }
    println!("{found} of {} found", FAULTS.len());
}

/// Another program's port is found by the kernel's table.
#[test]
fn a_port_of_another_program_is_found() {
    let port = free_port();
    let machine = Machine::new();
    machine.write(
        "proc/net/tcp",
        &format!("  sl  local_address rem_address   st\n   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"),
    );
    machine.write("proc/600/comm", "gunicorn\n");
    fs::create_dir_all(machine.path().join("proc/600/fd")).expect("a directory");
    std::os::unix::fs::symlink("socket:[4711]", machine.path().join("proc/600/fd/3")).expect("a link");
    let site = Site::new();
    let path = site.config();
    let text = fs::read_to_string(&path).expect("a configuration");
    fs::write(&path, format!("listen = [\"127.0.0.1:{port}\"]\n{text}")).expect("a configuration");
    let report = look(&site, &machine.path());
    assert!(report.has(&fault("host.port", "warning", "proc/net/tcp", 0, "")), "{:#}", report.json);
    let what = report.of("host.port")[0]["what"].as_str().expect("a text").to_owned();
    assert!(what.starts_with("gunicorn listens"), "{what}");
}

/// Settings of PHP that do not fit, each with the line of the configuration that sets it.
#[test]
fn settings_of_php_that_do_not_fit_are_found() {
    for (line, id, severity) in [
        ("ini.\"opcache.enable\" = \"0\"", "host.opcache", "warning"),
        ("ini.\"opcache.max_accelerated_files\" = \"3\"", "host.opcache", "warning"),
        ("ini.\"opcache.memory_consumption\" = \"8\"", "host.opcache", "notice"),
        ("ini.\"opcache.interned_strings_buffer\" = \"1\"", "host.opcache", "notice"),
        ("ini.realpath_cache_size = \"1K\"", "host.realpath-cache", "notice"),
        ("ini.\"opcache.jit\" = \"tracing\"\nini.\"opcache.jit_buffer_size\" = \"0\"", "host.jit", "notice"),
    ] {
        let site = Site::new().option(line);
        for number in 0..9 {
            site.write(&format!("src/{number}.php"), "<?php\n");
        }
        site.write("src/large.php", format!("<?php\n// {}\n", "x".repeat(5 << 20)));
        let report = look(&site, &Machine::new().path());
        assert!(report.has(&fault(id, severity, "reprise.toml", 0, "")), "{line}: {:#}", report.json);
    }
}

/// What a running server measured is held against opcache's sizes: the request includes more files than opcache has paths for.
#[test]
fn an_opcache_that_a_running_server_has_filled_is_found() {
    let include = "<?php foreach (glob(__DIR__ . '/part/*.php') as $part) { include $part; } echo 'done';";
    let mut setup = Setup::empty().file("index.php", include).application("workers = 1");
    for number in 0..300 {
        setup = setup.file(&format!("part/{number}.php"), format!("<?php\n$name{number} = 'text {number}';\n"));
    }
    let server = setup.application("ini.\"opcache.max_accelerated_files\" = \"200\"").start();
    let seen = || -> Value {
        let status: Value = serde_json::from_str(&server.status(&["--json"])).expect("a status");
        status["applications"]["app"][0]["opcache"].clone()
    };
    // opcache keeps no file that was written in the last two seconds, and a worker looks every five seconds.
    wait_until("a worker has seen opcache full of paths", 30, || {
        assert_eq!(server.get("/").text(), "done");
        seen()["keys"].as_u64() > Some(200)
    });
    let opcache = seen();
    assert_eq!(opcache["most_keys"], 223, "{opcache}");
    let config = server.directory().join("reprise.toml");
    let report = report(Command::new(program()).args(["doctor", "--json", "--only", "host", "--config"]).arg(config));
    assert_eq!(report.json["applications"][0]["opcache"]["most_keys"], 223, "{:#}", report.json);
    let found: Vec<_> = report.of("host.opcache").into_iter().map(|found| found["what"].to_string()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("% of its paths, as the running server measured"), "{found:?}");
    let said = server.status(&[]);
    assert!(said.contains("\n  opcache: 2") && said.contains(" scripts in "), "{said}");
}

/// Values that flags set are said to come from them, values of the file have its lines, and what neither sets is a default.
#[test]
fn values_have_the_place_that_sets_them() {
    let site = Site::new().option("max_workers = 90");
    let machine = Machine::new();
    machine.write("proc/meminfo", "MemTotal:         100000 kB\n");
    let places = |flags: &[&str]| -> Vec<(String, String)> {
        let machine = machine.path();
        let all = ["--only", "host", "--system", machine.to_str().expect("a plain path")];
        let report = site.look(&[&all, flags].concat());
        let found = report.of("host.memory");
        let evidence = found.first().and_then(|found| found["evidence"].as_array()).cloned().unwrap_or_default();
        let text = |place: &Value, key: &str| place[key].as_str().unwrap_or("").to_owned();
        evidence.iter().map(|place| (text(place, "file"), text(place, "text"))).collect()
    };
    let has = |places: &[(String, String)], file: &str, text: &str| {
        let is_there = places.iter().any(|place| place.0.ends_with(file) && place.1 == text);
        assert!(is_there, "no {text:?} at {file}: {places:#?}");
    };
    let written = places(&[]);
    has(&written, "reprise.toml", "90 workers");
    let given = places(&["--workers", "80", "--ini", "memory_limit=77M"]);
    has(&given, "--workers", "80 workers");
    has(&given, "--ini", "memory_limit = 77M");
    let application = Directory::new();
    fs::write(application.0.join("index.php"), "<?php").expect("a script");
    let system = machine.path();
    let flags = ["--only", "host", "--ini", "memory_limit=99G", "--system", system.to_str().expect("a plain path")];
    let text = super::report_of(&application.0, &flags).of("host.memory")[0].to_string();
    assert!(text.contains("workers by default") && !text.contains("99G by default"), "{text}");
}

/// What was looked at and is right is listed with its value, once each, if it is asked for.
#[test]
fn checks_that_passed_have_their_values() {
    let site = Site::new().option("workers = 8");
    let machine = Machine::new();
    let path = machine.path();
    let flags = ["--system", path.to_str().expect("a plain path")];
    let report = site.look(&flags);
    let passed = report.json["passed"].as_array().expect("a list");
    let value =
        |id: &str| passed.iter().find(|one| one["id"] == id).and_then(|one| one["value"].as_str()).unwrap_or("");
    for (id, expected) in [
        ("host.swappiness", "vm.swappiness = 10, SwapTotal: 2000000 kB"),
        ("host.somaxconn", "net.core.somaxconn = 4096"),
        ("host.open-files", "Max open files 1024 1048576 files"),
        ("deployment.denials", "default_denials = true"),
        ("worker.exit", "1 script"),
    ] {
        assert_eq!(value(id), expected, "{id}");
    }
    assert!(value("version.syntax").starts_with("1 script, compiled by PHP "), "{passed:#?}");
    for finding in report.findings() {
        assert!(passed.iter().all(|one| one["id"] != finding["id"]), "{finding}");
    }
    let run = |more: &[&str]| {
        let output = super::output(
            Command::new(program()).args(["doctor", "--config"]).arg(site.config()).args(flags).args(more),
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&["--verbose"]).contains("  passed  host.somaxconn  net.core.somaxconn = 4096\n"));
    assert!(!run(&[]).contains("passed"));
}
