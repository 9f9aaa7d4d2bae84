//! Runs tests of libtest programs, each in a process and a process group of its own: a test that hangs is ended with all it
//! started, one that crashes takes no other with it, and what each of them costs is known.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tests::server::Directory;

use crate::build::TestProgram;
use crate::gate::{Bounds, Gate};
use crate::group::{Group, interrupted};
use crate::ran::Ran;
use crate::report::Counts;
use crate::times::Costs;

/// Whether a name begins with one of these.
pub fn begins(words: &[&str], name: &str) -> bool {
    words.iter().any(|word| name.starts_with(word))
}

/// How a set of tests is run.
pub struct Plan<'a> {
    /// How many at once.
    pub bounds: Bounds,
    /// Environment variables for them.
    pub environment: Vec<(&'static str, String)>,
    /// Which of them are run.
    pub selects: &'a (dyn Fn(&str) -> bool + Sync),
    /// Which want the machine for themselves: one after the other, when the others have ended.
    pub alone: &'a [&'a str],
    /// What they have cost before: those that took longest begin first.
    pub costs: &'a Costs,
    /// How long a test may take, in seconds of a quiet machine.
    pub limit_s: &'a (dyn Fn(&str) -> u64 + Sync),
}

struct Test<'a> {
    program: &'a TestProgram,
    name: String,
}

impl Test<'_> {
    /// The black box is what most tests are of: their names stand by themselves.
    fn full_name(&self) -> String {
        if self.program.is_black_box() { self.name.clone() } else { format!("{} {}", self.program.name, self.name) }
    }
}

/// What a test takes that no table has.
const UNKNOWN: Duration = Duration::from_secs(2);

/// Runs the tests of these programs. Before those that want the machine for themselves, `quiet` waits for what else runs.
pub fn run(programs: &[&TestProgram], plan: &Plan, quiet: &dyn Fn()) -> (Counts, Vec<Ran>) {
    let mut tests = Vec::new();
    for program in programs {
        match names(program) {
            Ok(names) => {
                tests.extend(names.into_iter().filter(|name| (plan.selects)(name)).map(|name| Test { program, name }));
            }
            Err(why) => {
                return (Counts::FAILED, vec![Ran::never(program.name.clone(), why)]);
            }
        }
    }
    let (alone, mut together): (Vec<Test>, Vec<Test>) =
        tests.into_iter().partition(|test| begins(plan.alone, &test.name));
    let took = |test: &Test| plan.costs.get(&test.full_name()).map_or(UNKNOWN, |cost| cost.took);
    together.sort_by_key(|test| std::cmp::Reverse(took(test)));
    let mut ran = run_queue(together, plan, plan.bounds);
    quiet();
    ran.extend(run_queue(alone, plan, Bounds::ONE));
    let failed = ran.iter().filter(|test| test.failure.is_some()).count();
    let processor = ran.iter().map(|test| test.processor).sum();
    (Counts { passed: ran.len() - failed, failed, processor }, ran)
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

fn run_queue(tests: Vec<Test>, plan: &Plan, bounds: Bounds) -> Vec<Ran> {
    let (queue, gate) = (Mutex::new(VecDeque::from(tests)), Gate::new(bounds));
    let ran = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..bounds.most.max(1) {
            scope.spawn(|| {
                let directory = Directory::new();
                let next = || queue.lock().expect("no thread panics with the lock").pop_front();
                while let Some(test) = next() {
                    let one = gate.pass(|| run_one(&test, plan, &directory.0.join("output")));
                    if interrupted().is_some() {
                        return;
                    }
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
    let name = test.full_name();
    match start(test, plan, output) {
        Ok(group) => {
            let limit = tests::seconds((plan.limit_s)(&test.name));
            let (processor, failure) = watch(group, began + limit, limit);
            let output = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
            Ran { name, took: began.elapsed(), processor, output, failure }
        }
        Err(error) => Ran::never(name, error.to_string()),
    }
}

fn start(test: &Test, plan: &Plan, output: &Path) -> std::io::Result<Group> {
    let file = File::create(output)?;
    let mut command = Command::new(&test.program.path);
    command
        .args(["--exact", &test.name, "--nocapture", "--test-threads", "1"])
        .current_dir(&test.program.directory)
        .envs(plan.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    Group::start(&mut command)
}

/// Waits for its end, or ends it when its time is over. Returns its processor time and why it failed.
fn watch(group: Group, deadline: Instant, limit: Duration) -> (Duration, Option<String>) {
    let pid = group.pid();
    let mut is_late = false;
    while group.is_running() {
        if Instant::now() > deadline && !is_late {
            is_late = true;
            group.kill();
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let (processor, failure) = match group.finish() {
        Ok((_, processor)) if is_late => (processor, Some(format!("ended: it may take {limit:?}"))),
        Ok((status, processor)) if status.success() => (processor, None),
        Ok((status, processor)) => (processor, Some(status.to_string())),
        Err(error) => (Duration::ZERO, Some(format!("wait: {error}"))),
    };
    if failure.is_some() {
        Directory::remove_all_of(pid);
    }
    (processor, failure)
}
