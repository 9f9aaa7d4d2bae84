//! What /proc says of processes.

use std::fs;

/// A process' parent.
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A process' name.
pub fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// Whether it runs (a zombie does not).
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| Some(stat.rsplit_once(')')?.1.split_whitespace().next()? != "Z"))
        .unwrap_or(false)
}

/// Children, in order of their ids.
pub fn children(pid: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").expect("/proc");
    let mut children: Vec<i32> = all
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&child| parent(child) == Some(pid))
        .collect();
    children.sort_unstable();
    children
}

/// A line of /proc/PID/status.
pub fn status(pid: i32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?.trim().to_owned())
}

/// Anonymous memory in KiB: what grows when something leaks; shared memory and files are not counted.
pub fn anonymous_kib(pid: i32) -> u64 {
    status(pid, "RssAnon").and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Sends a signal to one process.
pub fn kill(pid: i32, signal: nix::sys::signal::Signal) {
    assert!(pid > 1);
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}
