//! Which limit keeps a process from being forked: the kernel says EAGAIN for all of them.

use std::fs;
use std::io;

use nix::errno::Errno;

use crate::os::groups;

/// An error of a fork by that process; of a limit: what it is, how high it is, and what to set.
pub fn explain(error: &io::Error, forker: i32) -> String {
    if error.raw_os_error() != Some(Errno::EAGAIN as i32) {
        return error.to_string();
    }
    full_group(forker).or_else(|| of_user(forker)).unwrap_or_else(|| {
        "the machine has no room for another process; hint: raise kernel.threads-max and kernel.pid_max".to_owned()
    })
}

/// The same of this process: it could not start another, or a program as its user.
pub fn explain_own(error: &io::Error) -> String {
    explain(error, std::process::id() as i32)
}

/// What the user of a process may have.
fn of_user(pid: i32) -> Option<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let most = soft_limit(&limits)?;
    Some(format!(
        "its user is limited to {most} processes and threads in all programs together (RLIMIT_NPROC); hint: raise rlimit_processes if it is \
         configured, else `ulimit -u` before the start, or LimitNPROC= of the unit; or lower `workers`"
    ))
}

/// `Max processes  SOFT  HARD  processes` of /proc/PID/limits, unless it is unlimited.
fn soft_limit(limits: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix("Max processes"))?.split_whitespace().next()?.parse().ok()
}

/// The first of a process's control groups, from its own outwards, that has as many processes as it may have.
fn full_group(pid: i32) -> Option<String> {
    full_one(&|path| fs::read_to_string(path).ok(), pid)
}

fn full_one(read: &dyn Fn(&str) -> Option<String>, pid: i32) -> Option<String> {
    let number =
        |directory: &str, name: &str| -> Option<u64> { read(&format!("{directory}/{name}"))?.trim().parse().ok() };
    groups::directories(&read(&format!("/proc/{pid}/cgroup"))?, "pids").iter().find_map(|one| {
        let most = number(one, "pids.max")?;
        (number(one, "pids.current")? >= most).then(|| {
            let name = one.trim_start_matches("/sys/fs/cgroup/").trim_start_matches("pids/");
            format!(
                "the control group /{name} is limited to {most} processes and threads (pids.max); hint: raise TasksMax= of the unit, or \
                 --pids-limit of the container; or lower `workers`"
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_what_the_kernel_shows() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax processes             16                   99      processes \n";
        assert_eq!(soft_limit(limits), Some(16));
        assert_eq!(soft_limit(&limits.replace("16", "unlimited")), None);
        let other = io::Error::from_raw_os_error(Errno::ENOMEM as i32);
        assert_eq!(explain(&other, 1), other.to_string());
    }

    #[test]
    fn a_full_group_is_found_around_one_that_has_room() {
        let full = |most: &str| {
            let read = |path: &str| {
                let text = match path {
                    "/proc/7/cgroup" => "0::/a/b\n",
                    "/sys/fs/cgroup/a/b/pids.max" => "max\n",
                    "/sys/fs/cgroup/a/pids.max" => most,
                    path if path.ends_with("pids.current") => "20\n",
                    _ => return None,
                };
                Some(text.to_owned())
            };
            full_one(&read, 7)
        };
        assert_eq!(full("21\n"), None);
        let said = full("20\n").unwrap();
        assert!(
            said.starts_with("the control group /a is limited to 20 processes") && said.contains("TasksMax="),
            "{said}"
        );
    }
}
