//! Runs tests of libtest programs, each in a process and a process group of its own: a test that hangs is ended with all it
//! started, one that crashes takes no other with it, and what each of them costs is known.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tests::server::Directory;

use crate::build::TestProgram;
use crate::report::{Counts, Ran};

/// In what /proc says of processor time; the kernel's USER_HZ.
const TICKS_PER_SECOND: u64 = 100;

/// How a set of tests is run.
pub struct Plan<'a> {
    /// How many at once.
    pub threads: usize,
    /// Environment variables for them.
    pub environment: Vec<(&'static str, String)>,
    /// Which of them are run.
    pub selects: &'a (dyn Fn(&str) -> bool + Sync),
    /// Which want the machine for themselves: one after the other, when the others have ended.
    pub alone: &'a [&'a str],
    /// Which take longest, and so are begun first. By the beginning of their names.
    pub first: &'a [&'a str],
    /// How long a test may take, in seconds of a quiet machine.
    pub limit_s: &'a (dyn Fn(&str) -> u64 + Sync),
}

struct Test<'a> {
    program: &'a TestProgram,
    name: String,
}

/// Runs the tests of these programs.
pub fn run(programs: &[&TestProgram], plan: &Plan) -> (Counts, Vec<Ran>) {
    let mut tests = Vec::new();
    for program in programs {
        match names(program) {
            Ok(names) => {
                tests.extend(names.into_iter().filter(|name| (plan.selects)(name)).map(|name| Test { program, name }));
            }
            Err(why) => {
                return (Counts { passed: 0, failed: 1 }, vec![Ran::never(program.name.clone(), why)]);
            }
        }
    }
    let begins = |words: &[&str], name: &str| words.iter().position(|word| name.starts_with(word));
    let (alone, mut together): (Vec<Test>, Vec<Test>) =
        tests.into_iter().partition(|test| begins(plan.alone, &test.name).is_some());
    together.sort_by_key(|test| begins(plan.first, &test.name).unwrap_or(usize::MAX));
    let mut ran = run_queue(together, plan, plan.threads);
    ran.extend(run_queue(alone, plan, 1));
    let failed = ran.iter().filter(|test| test.failure.is_some()).count();
    (Counts { passed: ran.len() - failed, failed }, ran)
}

/// Beginnings of names that no test of these programs has: what was to be chosen by them would be left out in silence.
pub fn unknown<'a>(words: impl Iterator<Item = &'a str>, programs: &[&TestProgram]) -> Result<Vec<&'a str>, String> {
    let known: Vec<Vec<String>> = programs.iter().map(|program| names(program)).collect::<Result<_, _>>()?;
    Ok(words.filter(|word| !known.iter().flatten().any(|name| name.starts_with(word))).collect())
}

/// All names that a program knows.
fn names(program: &TestProgram) -> Result<Vec<String>, String> {
    let output = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.directory)
        .output()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    if !output.status.success() {
        return Err(format!("{} --list: {}", program.path.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
}

fn run_queue(tests: Vec<Test>, plan: &Plan, threads: usize) -> Vec<Ran> {
    let queue = Mutex::new(VecDeque::from(tests));
    let ran = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let directory = Directory::new();
                let next = || queue.lock().expect("no thread panics with the lock").pop_front();
                while let Some(test) = next() {
                    let one = run_one(&test, plan, &directory.0.join("output"));
                    let word = if one.failure.is_some() { "FAILED" } else { "ok" };
                    println!("{word:>6} {:>6.1} s  {}", one.took.as_secs_f64(), one.name);
                    ran.lock().expect("no thread panics with the lock").push(one);
                }
            });
        }
    });
    ran.into_inner().expect("no thread panics with the lock")
}

fn run_one(test: &Test, plan: &Plan, output: &Path) -> Ran {
    let began = Instant::now();
    let name = format!("{}{}", prefix(test.program), test.name);
    match start(test, plan, output) {
        Ok(child) => {
            let limit = tests::seconds((plan.limit_s)(&test.name));
            let (processor, failure) = watch(child, began + limit, limit);
            let output = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
            Ran { name, took: began.elapsed(), processor, output, failure }
        }
        Err(error) => Ran::never(name, error.to_string()),
    }
}

/// The black box is what most tests are of: their names stand by themselves.
fn prefix(program: &TestProgram) -> String {
    if program.name == "tests/black_box" { String::new() } else { format!("{} ", program.name) }
}

fn start(test: &Test, plan: &Plan, output: &Path) -> std::io::Result<Child> {
    let file = File::create(output)?;
    Command::new(&test.program.path)
        .args(["--exact", &test.name, "--nocapture", "--test-threads", "1"])
        .current_dir(&test.program.directory)
        .envs(plan.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
}

/// Waits for its end, or ends it when its time is over. Returns its processor time and why it failed.
fn watch(mut child: Child, deadline: Instant, limit: Duration) -> (Duration, Option<String>) {
    let pid = Pid::from_raw(child.id() as i32);
    let looks = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let mut is_late = false;
    // Its processor time can be read until it is reaped.
    while matches!(waitid(Id::Pid(pid), looks), Ok(WaitStatus::StillAlive)) {
        if Instant::now() > deadline && !is_late {
            is_late = true;
            let _ = killpg(pid, Signal::SIGKILL);
        }
        std::thread::park_timeout(Duration::from_millis(4));
    }
    let processor = processor_time(pid);
    // What it left behind goes with it.
    let _ = killpg(pid, Signal::SIGKILL);
    let failure = match child.wait() {
        _ if is_late => Some(format!("ended: it may take {limit:?}")),
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(format!("wait: {error}")),
    };
    (processor, failure)
}

/// The time of a process and of all that it has waited for.
fn processor_time(pid: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The first behind the name is the third field; utime, stime, cutime and cstime are 14 to 17.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}
