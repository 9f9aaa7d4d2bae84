//! Groups of processes, and the processor time and memory that they have used.
//!
//! | spec | members |
//! |---|---|
//! | `pid:N` | process N and its descendants |
//! | `user:U` | processes of that user, by name or number |
//! | `comm:C` | processes of that name, as in /proc/PID/comm |
//! | `cgroup:PATH` | all processes of that control group, v1 or v2, also those that have ended in between |
//! | `port:N` | the processes that listen on TCP port N, their descendants, and their parent if it has the socket too |
//!
//! The time of a process is that of its CPU clock, in nanoseconds: the scheduler's sum over all threads, also ended ones
//! (schedstat has only the living). If a process has ended in between, its time is in its parent's sum of reaped children,
//! if the parent is in the group. The kernel's share follows from the ticks of /proc/PID/stat. If a process ends between
//! two readings, its last part is lost; the report has the number of such processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// All processor time.
    pub total: f64,
    /// The part that was spent in the kernel.
    pub system: f64,
}

/// Which processes belong to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A process and its descendants.
    Pid(i32),
    /// The processes of a user, by id.
    User(u32),
    /// The processes with that name.
    Comm(String),
    /// The processes of the control group with that directory.
    Cgroup(PathBuf),
    /// The processes that listen on that port.
    Port(u16),
}

/// A named group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// Which processes belong to it.
    pub spec: Spec,
}

/// What a group has used so far.
#[derive(Clone, Debug)]
pub enum Reading {
    /// Of each process.
    Processes(BTreeMap<i32, Clock>),
    /// Of a whole control group.
    Whole(Time),
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Nanoseconds of all its threads.
    own: u64,
    /// Ticks in user mode and in the kernel.
    ticks: (u64, u64),
    /// Nanoseconds of the children that it has reaped, and of their children.
    reaped: u64,
}

/// Why something cannot be read, or is impossible.
pub type Wrong = String;

impl Group {
    /// From `NAME=KIND:WHAT`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Group, Wrong> {
        let form = "write NAME=pid:N, user:U, comm:C, port:N or cgroup:PATH";
        let (name, rest) = text.split_once('=').ok_or_else(|| format!("'{text}' names no group: {form}"))?;
        let (kind, what) = rest.split_once(':').ok_or_else(|| format!("'{rest}' says not which processes: {form}"))?;
        let number = || what.parse::<u32>().map_err(|_| format!("'{what}' in '{text}' is no number"));
        let spec = match kind {
            "pid" => Spec::Pid(number()? as i32),
            "user" => Spec::User(user_id(what)?),
            "comm" if !what.is_empty() => Spec::Comm(what.to_owned()),
            "cgroup" => Spec::Cgroup(find_cgroup(what)?),
            "port" => Spec::Port(number()?.try_into().map_err(|_| format!("'{what}' in '{text}' is no port"))?),
            _ => return Err(format!("'{kind}' in '{text}' is no kind of group: {form}")),
        };
        if name.is_empty() {
            return Err(format!("'{text}' has no name: {form}"));
        }
        Ok(Group { name: name.to_owned(), spec })
    }

    /// Its current processes.
    ///
    /// # Errors
    ///
    /// There are none, or this user may not see them.
    pub fn members(&self) -> Result<Vec<i32>, Wrong> {
        let all = Process::all();
        let members: Vec<i32> = match &self.spec {
            Spec::Pid(pid) => descendants(&all, &[*pid]),
            Spec::User(user) => all.iter().filter(|one| one.user == Some(*user)).map(|one| one.pid).collect(),
            Spec::Comm(name) => all.iter().filter(|one| one.name == *name).map(|one| one.pid).collect(),
            Spec::Cgroup(path) => {
                read(&path.join("cgroup.procs"))?.lines().filter_map(|line| line.parse().ok()).collect()
            }
            Spec::Port(port) => descendants(&all, &listeners(&all, *port)?),
        };
        if members.is_empty() && !matches!(self.spec, Spec::Cgroup(_)) {
            return Err(format!("group '{}': there is no such process ({})", self.name, self.spec));
        }
        Ok(members)
    }

    /// What the group has used so far.
    ///
    /// # Errors
    ///
    /// The counters cannot be read.
    pub fn read(&self) -> Result<Reading, Wrong> {
        if let Spec::Cgroup(path) = &self.spec {
            return cgroup_time(path).map(Reading::Whole);
        }
        let members = self.members()?;
        let read: BTreeMap<i32, Clock> = members.iter().filter_map(|pid| Some((*pid, process_time(*pid)?))).collect();
        if read.is_empty() {
            return Err(format!(
                "group '{}': the counters of its {} processes cannot be read; run as their user or as root",
                self.name,
                members.len()
            ));
        }
        Ok(Reading::Processes(read))
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spec::Pid(pid) => write!(to, "pid:{pid}"),
            Spec::User(user) => write!(to, "user:{user}"),
            Spec::Comm(name) => write!(to, "comm:{name}"),
            Spec::Cgroup(path) => write!(to, "cgroup:{}", path.display()),
            Spec::Port(port) => write!(to, "port:{port}"),
        }
    }
}

impl Reading {
    /// What was used since an earlier reading, and how many processes have ended in between.
    pub fn since(&self, before: &Reading) -> (Time, usize) {
        match (self, before) {
            (Reading::Whole(now), Reading::Whole(then)) => {
                (Time { total: now.total - then.total, system: now.system - then.system }, 0)
            }
            (Reading::Processes(now), Reading::Processes(then)) => {
                let (mut sum, mut reaped) = (Time::default(), 0.0);
                for (pid, clock) in now {
                    let old = then.get(pid).copied().unwrap_or_default();
                    let more = |now: u64, then: u64| now.saturating_sub(then) as f64;
                    let total = more(clock.own, old.own);
                    let (user, system) = (more(clock.ticks.0, old.ticks.0), more(clock.ticks.1, old.ticks.1));
                    let share = if user + system > 0.0 { system / (user + system) } else { 0.0 };
                    sum.total += total;
                    sum.system += total * share;
                    reaped += more(clock.reaped, old.reaped);
                }
                let ended = || then.iter().filter(|(pid, _)| !now.contains_key(pid));
                // The parent's sum of reaped children includes what they had used before.
                let before: u64 = ended().map(|(_, clock)| clock.own).sum();
                sum.total += (reaped - before as f64).max(0.0);
                (sum, ended().count())
            }
            _ => (Time::default(), 0),
        }
    }
}

/// A process as /proc shows it to every user.
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// The process id of its parent.
    pub parent: i32,
    /// Its name, as in /proc/PID/comm.
    pub name: String,
    /// The user id that it runs as.
    pub user: Option<u32>,
}

impl Process {
    /// All processes that this user can see.
    pub fn all() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries.flatten().filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    fn of(pid: i32) -> Option<Process> {
        let (name, fields) = stat(pid)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok());
        Some(Process { pid, parent: fields.get(1)?.parse().ok()?, name, user })
    }
}

/// Name and the fields from the third on of /proc/PID/stat.
fn stat(pid: i32) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, fields) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    Some((name, fields.split_whitespace().map(str::to_owned).collect()))
}

fn descendants(all: &[Process], roots: &[i32]) -> Vec<i32> {
    let mut found: BTreeSet<i32> =
        roots.iter().copied().filter(|root| all.iter().any(|one| one.pid == *root)).collect();
    loop {
        let more: Vec<i32> = all
            .iter()
            .filter(|one| found.contains(&one.parent) && !found.contains(&one.pid))
            .map(|one| one.pid)
            .collect();
        if more.is_empty() {
            return found.into_iter().collect();
        }
        found.extend(more);
    }
}

/// The eldest of the processes that have the listening socket of a port open.
fn listeners(all: &[Process], port: u16) -> Result<Vec<i32>, Wrong> {
    let mut inodes = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_there =
                fields.get(1).and_then(|local| local.rsplit_once(':')).map(|(_, port)| u16::from_str_radix(port, 16));
            if is_there == Some(Ok(port)) && fields.get(3) == Some(&"0A") {
                inodes.extend(fields.get(9).map(|inode| format!("socket:[{inode}]")));
            }
        }
    }
    if inodes.is_empty() {
        return Err(format!("nothing listens on TCP port {port} of this machine"));
    }
    let holds = |pid: i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let holds = files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|to| inodes.contains(to.to_string_lossy().as_ref())));
        holds.then_some(pid)
    };
    let found: Vec<i32> = all.iter().filter_map(|one| holds(one.pid)).collect();
    if found.is_empty() {
        return Err(format!(
            "who listens on port {port} may not be seen; run as root, or name the processes (NAME=pid:N, user:U, comm:C)"
        ));
    }
    Ok(found)
}

fn process_time(pid: i32) -> Option<Clock> {
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid)).ok()?;
    let time = clock.now().ok()?;
    let (_, fields) = stat(pid)?;
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let of_children = ticks(13)? + ticks(14)?;
    Some(Clock {
        own: time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
        ticks: (ticks(11)?, ticks(12)?),
        reaped: of_children * 1_000_000_000 / rustix::param::clock_ticks_per_second(),
    })
}

/// What each group has used. A process that is in several groups counts for the first.
pub fn spent(before: &[Reading], after: &[Reading]) -> Vec<(Time, usize)> {
    let mut taken: BTreeSet<i32> = BTreeSet::new();
    let mut spent = Vec::new();
    for (before, after) in before.iter().zip(after) {
        let (before, after) = (without(before, &taken), without(after, &taken));
        spent.push(after.since(&before));
        for reading in [&before, &after] {
            if let Reading::Processes(all) = reading {
                taken.extend(all.keys().copied());
            }
        }
    }
    spent
}

fn without(reading: &Reading, taken: &BTreeSet<i32>) -> Reading {
    match reading {
        Reading::Processes(all) => {
            let left = all.iter().filter(|(pid, _)| !taken.contains(*pid));
            Reading::Processes(left.map(|(pid, clock)| (*pid, *clock)).collect())
        }
        Reading::Whole(time) => Reading::Whole(*time),
    }
}

/// Proportional memory of all processes of groups in KiB, if all of them may be read.
pub fn memory_kib(groups: &[Group]) -> Option<u64> {
    let members = groups.iter().map(|group| group.members().ok()).collect::<Option<Vec<_>>>()?;
    members.into_iter().flatten().collect::<BTreeSet<i32>>().into_iter().map(pss_kib).sum()
}

fn pss_kib(pid: i32) -> Option<u64> {
    let text = match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => text,
        // The process has ended.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(0),
        Err(_) => return None,
    };
    text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok()).or(Some(0))
}

fn read(path: &Path) -> Result<String, Wrong> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn user_id(name: &str) -> Result<u32, Wrong> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let users = read(Path::new("/etc/passwd"))?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| format!("there is no user '{name}'"))
}

/// The directory of a control group, given as a path there or below the mount.
fn find_cgroup(path: &str) -> Result<PathBuf, Wrong> {
    let below = path.trim_start_matches('/');
    let places = [
        path.to_owned(),
        format!("/sys/fs/cgroup/{below}"),
        format!("/sys/fs/cgroup/cpuacct/{below}"),
        format!("/sys/fs/cgroup/cpu,cpuacct/{below}"),
    ];
    let is_one =
        |place: &PathBuf| place.join("cpu.stat").is_file() && has_usage(place) || place.join("cpuacct.usage").is_file();
    places.into_iter().map(PathBuf::from).find(is_one).ok_or_else(|| {
        format!("there is no control group '{path}' with CPU accounting (cpu.stat of v2 or cpuacct.usage of v1)")
    })
}

fn has_usage(place: &Path) -> bool {
    fs::read_to_string(place.join("cpu.stat")).is_ok_and(|text| text.contains("usage_usec"))
}

fn cgroup_time(path: &Path) -> Result<Time, Wrong> {
    if path.join("cpuacct.usage").is_file() {
        let number = |file: &str| {
            let file = path.join(file);
            read(&file)?.trim().parse::<f64>().map_err(|_| format!("{}: no number", file.display()))
        };
        return Ok(Time { total: number("cpuacct.usage")?, system: number("cpuacct.usage_sys").unwrap_or(0.0) });
    }
    let text = read(&path.join("cpu.stat"))?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<f64>().ok()).map(|usec| usec * 1000.0)
    };
    let total = value("usage_usec ").ok_or_else(|| format!("{}: no usage_usec", path.join("cpu.stat").display()))?;
    Ok(Time { total, system: value("system_usec ").unwrap_or(0.0) })
}

/// Nanoseconds that all processors together have been busy since the machine started.
pub fn machine_busy() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    // The columns are user, nice, system, idle, iowait, irq, softirq. idle and iowait do not count.
    [0, 1, 2, 5, 6].iter().filter_map(|field| fields.get(*field)).sum::<f64>() * 1e9 / ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs() {
        assert_eq!(Group::parse("php=pid:12").expect("a group").spec, Spec::Pid(12));
        assert_eq!(Group::parse("me=user:root").expect("a group").spec, Spec::User(0));
        assert_eq!(Group::parse("db=comm:mariadbd").expect("a group").spec, Spec::Comm("mariadbd".into()));
        assert_eq!(Group::parse("web=port:80").expect("a group").spec, Spec::Port(80));
        for (text, words) in [
            ("php", "names no group"),
            ("php=12", "says not which processes"),
            ("php=pid:x", "is no number"),
            ("php=port:70000", "is no port"),
            ("php=user:nobody-of-that-name", "there is no user"),
            ("php=cgroup:/no/such", "no control group"),
            ("php=exe:/bin/x", "is no kind of group"),
            ("=pid:1", "has no name"),
        ] {
            let wrong = Group::parse(text).expect_err(text);
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
        let gone = Group::parse("x=comm:no-such-process-runs").expect("a group").members().expect_err("nobody");
        assert!(gone.contains("no such process"), "{gone}");
    }

    #[test]
    fn this_process_is_measured() {
        let group = Group { name: "self".into(), spec: Spec::Pid(std::process::id() as i32) };
        let before = group.read().expect("counters");
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let until = used().tv_nsec + used().tv_sec * 1_000_000_000 + 60_000_000;
        while used().tv_nsec + used().tv_sec * 1_000_000_000 < until {}
        let (time, ended) = group.read().expect("counters").since(&before);
        assert!(time.total > 50e6 && ended == 0, "{time:?}");
        assert!(memory_kib(&[group]).is_some_and(|kib| kib > 500));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let found = Group { name: "port".into(), spec: Spec::Port(port) }.members().expect("us");
        assert!(found.contains(&(std::process::id() as i32)), "{found:?}");
    }
}
