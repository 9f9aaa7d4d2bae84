//! Which limit keeps a process from being forked: the kernel says EAGAIN for all of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// The most control groups that one may lie in.
const MAX_DEPTH: usize = 64;

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

/// The control groups that a process lies in.
fn full_group(pid: i32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let root = Path::new("/sys/fs/cgroup");
    full_one(&groups.lines().find_map(|line| directory_of(line, root))?, root)
}

/// The first of a group and those around it that has as many processes as it may have.
fn full_one(directory: &Path, root: &Path) -> Option<String> {
    let number = |directory: &Path, name: &str| -> Option<u64> {
        fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok()
    };
    directory.ancestors().take_while(|one| one.starts_with(root)).take(MAX_DEPTH).find_map(|one| {
        let most = number(one, "pids.max")?;
        (number(one, "pids.current")? >= most).then(|| {
            let name = one.strip_prefix(root).unwrap_or(one).display();
            format!(
                "the control group /{name} is limited to {most} processes and threads (pids.max); hint: raise TasksMax= of the unit, or \
                 --pids-limit of the container; or lower `workers`"
            )
        })
    })
}

/// Where the group of a line of /proc/PID/cgroup counts processes: `0::/a/b`, or `7:pids:/a/b` with cgroups of version 1.
fn directory_of(line: &str, root: &Path) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    match controllers {
        "" => Some(root.join(path)).filter(|directory| directory.is_dir()),
        _ => controllers.split(',').any(|one| one == "pids").then(|| root.join("pids").join(path)),
    }
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
        let root = Path::new("/sys/fs/cgroup");
        assert_eq!(directory_of("7:cpu,pids:/docker/1", root), Some(root.join("pids/docker/1")));
        assert_eq!(directory_of("7:cpu:/docker/1", root), None);
        assert_eq!(directory_of("0::/no such group", root), None);
        let other = io::Error::from_raw_os_error(Errno::ENOMEM as i32);
        assert_eq!(explain(&other, 1), other.to_string());
    }

    #[test]
    fn a_full_group_is_found_around_one_that_has_room() {
        let root = std::env::temp_dir().join(format!("reprise-groups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let group = |directory: &Path, most: &str, current: &str| {
            fs::write(directory.join("pids.max"), most).unwrap();
            fs::write(directory.join("pids.current"), current).unwrap();
        };
        group(&inner, "max\n", "20\n");
        group(&root.join("a"), "21\n", "20\n");
        assert_eq!(full_one(&inner, &root), None);
        group(&root.join("a"), "20\n", "20\n");
        let said = full_one(&inner, &root).unwrap();
        assert!(
            said.starts_with("the control group /a is limited to 20 processes") && said.contains("TasksMax="),
            "{said}"
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
