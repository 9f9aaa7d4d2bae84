//! Settings of the kernel, limits, file systems and the clock.

use std::path::Path;

use supervisor::os::groups;

use super::System;
use crate::doctor::findings::{Check, Finding, Place, Severity};

/// Where sysctl's settings are.
const SYSCTL: [&str; 5] =
    ["/etc/sysctl.conf", "/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];
/// A shorter queue of connections drops them in a moment of many.
const LEAST_BACKLOG: u64 = 1024;
/// Fewer open files do not suffice for a thousand connections with their files.
const LEAST_FILES: u64 = 8192;
const MOST_SWAPPINESS: u64 = 30;
/// Programs that set the clock.
const CLOCKS: [&str; 6] = ["systemd-timesyn", "chronyd", "ntpd", "ntpsec", "openntpd", "ptp4l"];

/// All findings.
pub fn judge(system: &System, tree: &Path) -> Vec<Finding> {
    let found = [
        swappiness(system),
        huge_pages(system),
        backlog(system),
        files(system),
        atime(system, tree),
        state(system),
        clock(system),
    ];
    found.into_iter().flatten().collect()
}

/// The memory that the server may take, and what says so.
pub fn memory(system: &System) -> Option<(u64, Place)> {
    let memory = groups::memory(&|path| system.read(path))?;
    Some((memory.bytes, Place::new(memory.file, memory.line, memory.text)))
}

/// Where a setting of sysctl is made; else where its value is.
fn set_at(system: &System, name: &str, value: &str) -> Place {
    let slashes = name.replace('.', "/");
    let is_it = |line: &str| {
        line.split_once('=').is_some_and(|(known, _)| {
            let known = known.trim().trim_start_matches('-');
            known == name || known == slashes
        })
    };
    system.line(&SYSCTL, is_it).unwrap_or_else(|| Place::new(format!("/proc/sys/{slashes}"), 1, value))
}

fn sysctl(name: &str, value: &str) -> String {
    format!("sysctl -w {name}={value}; to keep it, the line {name} = {value} in /etc/sysctl.d/60-reprise.conf")
}

fn swappiness(system: &System) -> Option<Finding> {
    let value: u64 = system.read("/proc/sys/vm/swappiness")?.parse().ok()?;
    let swap = system.read("/proc/meminfo")?;
    let swap =
        swap.lines().find_map(|line| line.strip_prefix("SwapTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    if swap.unwrap_or(0) == 0 || value <= MOST_SWAPPINESS {
        return None;
    }
    let what = format!(
        "vm.swappiness is {value}: the kernel swaps memory of idle workers out, and requests wait for the disk"
    );
    let place = set_at(system, "vm.swappiness", &value.to_string());
    Some(Finding::new(Check::Swappiness, what, sysctl("vm.swappiness", "10")).at([place]))
}

fn huge_pages(system: &System) -> Option<Finding> {
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    let value = system.read(file)?;
    if !value.contains("[always]") {
        return None;
    }
    let what = "transparent huge pages are always used: a worker that writes to one page may take 2 MB";
    let action = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; to keep it, transparent_hugepage=madvise on the kernel's command line";
    Some(Finding::new(Check::HugePages, what, action).at([Place::new(file, 1, value)]))
}

fn backlog(system: &System) -> Option<Finding> {
    let value: u64 = system.read("/proc/sys/net/core/somaxconn")?.parse().ok()?;
    if value >= LEAST_BACKLOG {
        return None;
    }
    let what =
        format!("net.core.somaxconn is {value}: of more connections that come at once, some wait a second or fail");
    let place = set_at(system, "net.core.somaxconn", &value.to_string());
    Some(Finding::new(Check::Backlog, what, sysctl("net.core.somaxconn", "4096")).at([place]))
}

fn files(system: &System) -> Option<Finding> {
    let text = system.read("/proc/self/limits")?;
    let (number, line) = text.lines().enumerate().find(|(_, line)| line.starts_with("Max open files"))?;
    let hard: u64 = line.split_whitespace().nth(4)?.parse().ok()?;
    if hard >= LEAST_FILES {
        return None;
    }
    let what = format!("a process may have {hard} open files here: connections and their files take two each");
    let is_it = |line: &str| !line.starts_with('#') && line.contains("nofile");
    let place = system
        .line(&["/etc/security/limits.d", "/etc/security/limits.conf"], is_it)
        .unwrap_or_else(|| Place::new("/proc/self/limits", number as u32 + 1, line));
    let action = "LimitNOFILE=65536 in the unit (systemctl edit reprise); in a shell the line `* hard nofile 65536` in /etc/security/limits.conf";
    Some(Finding::new(Check::Files, what, action).at([place]))
}

/// Mount point, type and options of a path.
fn mount(system: &System, path: &Path) -> Option<(String, String, String)> {
    let text = system.read("/proc/self/mountinfo")?;
    let mut found: Option<(String, String, String)> = None;
    for line in text.lines() {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let (Some(point), Some(options)) = (left.get(4), left.get(5)) else { continue };
        let is_longer = found.as_ref().is_none_or(|(known, _, _)| known.len() <= point.len());
        if path.starts_with(point) && is_longer {
            found = Some(((*point).to_owned(), right.split(' ').next()?.to_owned(), (*options).to_owned()));
        }
    }
    found
}

fn atime(system: &System, tree: &Path) -> Option<Finding> {
    let (point, kind, options) = mount(system, tree)?;
    let has = |option: &str| options.split(',').any(|one| one == option);
    if has("noatime") || has("relatime") || has("ro") || kind == "tmpfs" {
        return None;
    }
    let what = format!("the file system at {point} writes the time of each read (neither noatime nor relatime)");
    let is_it = |line: &str| !line.starts_with('#') && line.split_whitespace().nth(1) == Some(point.as_str());
    let place = system
        .line(&["/etc/fstab"], is_it)
        .unwrap_or_else(|| Place::new("/proc/self/mountinfo", 0, format!("{point} {kind} {options}")));
    let action = format!("mount -o remount,noatime {point}; to keep it, noatime among the options in /etc/fstab");
    Some(Finding::new(Check::Atime, what, action).at([place]))
}

fn state(system: &System) -> Option<Finding> {
    let (point, kind, _) = mount(system, Path::new("/run/reprise"))?;
    // In a container everything is of one kind, and ends with it.
    if ["tmpfs", "ramfs", "overlay"].contains(&kind.as_str()) || is_contained(system) {
        return None;
    }
    let what = format!("/run lies on {kind} ({point}), not in memory: sockets and state are written to a disk");
    let action = "mount -t tmpfs tmpfs /run at boot, as distributions do; or another state_dir in memory";
    Some(Finding::new(Check::Tmpfs, what, action).at([Place::new(
        "/proc/self/mountinfo",
        0,
        format!("{point} {kind}"),
    )]))
}

/// Whether this is a container, whose clock is its host's.
fn is_contained(system: &System) -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    let init = system.read("/proc/1/comm");
    marks.iter().any(|mark| system.path(mark).exists())
        || !init.is_some_and(|init| ["systemd", "init"].contains(&init.as_str()))
}

fn clock(system: &System) -> Option<Finding> {
    if is_contained(system) || system.path("/run/systemd/timesync/synchronized").exists() {
        return None;
    }
    let mut programs = super::services::programs(system);
    if programs.any(|(_, program)| CLOCKS.contains(&program.as_str())) {
        return None;
    }
    let what =
        "nothing sets the clock: sessions, certificates, caches and signed URLs compare times with those of others";
    let action = "apt-get install systemd-timesyncd (or chrony), and timedatectl set-ntp true";
    Some(Finding::new(Check::Time, what, action).but(Severity::Warning).at([Place::new(
        "/run/systemd/timesync",
        0,
        "no synchronized",
    )]))
}
