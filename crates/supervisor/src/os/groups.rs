//! Control groups (cgroups 1 and 2): what this process may take of the machine.
//!
//! Files are read by a function, so that a caller can read those of another system.

/// The directories of the control groups of a process for a controller ("memory", "pids"), from its own to the outermost. `groups`
/// is its /proc/PID/cgroup. In a container the inner ones may not be there, because the file has the host's names for them.
pub fn directories(groups: &str, controller: &str) -> Vec<String> {
    groups
        .lines()
        .filter_map(|line| directory_of(line, controller))
        .flat_map(|(root, path)| upwards(root, path))
        .collect()
}

/// Where the groups of a line lie, and its group there: `0::/a/b`, or `7:cpu,pids:/a/b` with cgroups of version 1.
fn directory_of<'a>(line: &'a str, controller: &str) -> Option<(String, &'a str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    match controllers {
        "" => Some(("/sys/fs/cgroup".to_owned(), path)),
        _ => {
            controllers.split(',').any(|one| one == controller).then(|| (format!("/sys/fs/cgroup/{controller}"), path))
        }
    }
}

/// A group and all around it.
fn upwards(root: String, path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    let ends = path.match_indices('/').map(|(at, _)| at).chain((!path.is_empty()).then_some(path.len()));
    let mut all: Vec<String> = ends.map(|end| format!("{root}/{}", &path[..end])).collect();
    all.insert(0, root);
    all.reverse();
    all
}

/// Memory that this process may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// The file that says so.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// What it has there.
    pub text: String,
}

/// The lowest of the machine's memory and the limits of this process's control groups. `None`: /proc is not there.
pub fn memory(read: &dyn Fn(&str) -> Option<String>) -> Option<Memory> {
    let machine = of_machine(&read("/proc/meminfo")?)?;
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let files = directories(&groups, "memory")
        .into_iter()
        .flat_map(|directory| [format!("{directory}/memory.max"), format!("{directory}/memory.limit_in_bytes")]);
    let limits = files.filter_map(|file| {
        let text = read(&file)?.trim().to_owned();
        Some(Memory { bytes: text.parse().ok()?, file, line: 1, text })
    });
    limits.chain([machine]).min_by_key(|limit| limit.bytes)
}

fn of_machine(text: &str) -> Option<Memory> {
    let (number, line) = text.lines().enumerate().find(|(_, line)| line.starts_with("MemTotal:"))?;
    let bytes = line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10;
    Some(Memory { bytes, file: "/proc/meminfo".to_owned(), line: number as u32 + 1, text: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "HugePages: 0\nMemTotal:    1024 kB\n";

    #[test]
    fn a_group_and_all_around_it_are_found_in_both_versions() {
        assert_eq!(directories("0::/a/b\n", "memory"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert_eq!(
            directories("7:cpu,memory:/docker/1\n3:pids:/docker/1\n0::/\n", "memory"),
            [
                "/sys/fs/cgroup/memory/docker/1",
                "/sys/fs/cgroup/memory/docker",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup"
            ]
        );
        assert!(directories("7:cpu:/docker/1\nnonsense\n", "memory").is_empty());
    }

    #[test]
    fn the_lowest_limit_counts_and_names_its_file() {
        let found = |files: &[(&str, &str)]| {
            let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
            memory(&read).map(|memory| (memory.bytes, memory.file))
        };
        let machine = ("/proc/meminfo", MACHINE);
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[machine]), Some((1 << 20, "/proc/meminfo".to_owned())));
        let two = ("/proc/self/cgroup", "0::/a/b\n");
        let (inner, outer) = (("/sys/fs/cgroup/a/b/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.max", "4096\n"));
        assert_eq!(found(&[machine, two, inner, outer]), Some((4096, outer.0.to_owned())));
        // In a container: the host's name of the group, which is not there, and the limit at the root.
        let one = ("/proc/self/cgroup", "7:memory:/docker/1\n");
        let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n");
        assert_eq!(found(&[machine, one, limit]), Some((8192, limit.0.to_owned())));
        let none = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found(&[machine, one, none]), Some((1 << 20, "/proc/meminfo".to_owned())));
    }
}
