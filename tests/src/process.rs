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

/// Whether it is one of PHP's: `reprise-php`, or `reprise-php8.4` where packages are installed.
pub fn is_php(pid: i32) -> bool {
    name(pid).is_some_and(|name| name.starts_with("reprise-php"))
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
    // A child that ends meanwhile may hide another from the kernel's list: two that are alike hide none.
    let mut before = listed_children(pid);
    loop {
        let now = listed_children(pid);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// What the kernel lists (`CONFIG_PROC_CHILDREN`): all of /proc takes a hundred times as long on a busy machine.
fn listed_children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut children: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect::<Vec<_>>())
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

/// KiB of a process' mappings whose name has `name`, each page divided by the number of processes that have it.
pub fn share_of(pid: i32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut is_it, mut sum) = (false, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Pss:") {
            sum +=
                if is_it { size.split_whitespace().next().and_then(|size| size.parse().ok()).unwrap_or(0) } else { 0 };
        } else if !line.split(' ').next().is_some_and(|word| word.ends_with(':')) {
            is_it = line.contains(name);
        }
    }
    sum
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// For tests that change owners, users or namespaces.
#[track_caller]
pub fn needs_root() {
    assert!(is_root(), "run this test as root: it changes owners, users or namespaces");
}
