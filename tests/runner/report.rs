//! What ran, how long it took and how much processor time that was.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tests::server::project;

use crate::group::interrupted;

/// How many of the slowest tests are listed.
const SLOWEST: usize = 15;

/// Where all tests of a run are listed, below the project.
const TIMES: &str = "target/test-times.tsv";

/// What a stage counted.
#[derive(Default, Clone, Copy)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that did not.
    pub failed: usize,
}

/// A test that ran.
pub struct Ran {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Its processor time, with that of all processes it waited for.
    pub processor: Duration,
    /// What it printed.
    pub output: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl Ran {
    /// One that could not be started.
    pub fn never(name: String, why: String) -> Ran {
        Ran { name, took: Duration::ZERO, processor: Duration::ZERO, output: String::new(), failure: Some(why) }
    }
}

struct Stage {
    name: &'static str,
    took: Duration,
    processor: Duration,
    counts: Counts,
}

/// All stages and tests of this run.
#[derive(Default)]
pub struct Report {
    stages: Vec<Stage>,
    tests: Vec<Ran>,
}

impl Report {
    /// Runs a stage and notes what it took. Returns whether nothing failed.
    pub fn stage(&mut self, name: &'static str, run: impl FnOnce(&mut Report) -> Counts) -> bool {
        println!("=== {name}");
        let (began, before) = (Instant::now(), processor_time());
        let counts = run(self);
        let (took, processor) = (began.elapsed(), processor_time().saturating_sub(before));
        println!("--- {name}: {} passed, {} failed, {:.0} s\n", counts.passed, counts.failed, took.as_secs_f64());
        self.stages.push(Stage { name, took, processor, counts });
        counts.failed == 0
    }

    /// Keeps tests for the summary.
    pub fn keep(&mut self, tests: Vec<Ran>) {
        self.tests.extend(tests);
    }

    /// Writes all tests to [`TIMES`], by processor time: whoever shortens the run begins at the top.
    fn write_times(&self) -> std::io::Result<()> {
        let mut tests: Vec<&Ran> = self.tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.processor));
        let mut text = "CPU s\ts\ttest\n".to_owned();
        for test in tests {
            let (took, processor) = (test.took.as_secs_f64(), test.processor.as_secs_f64());
            let _ = writeln!(text, "{processor:.2}\t{took:.2}\t{}", test.name);
        }
        std::fs::write(project().join(TIMES), text)
    }

    /// Prints the summary; failed tests are the last before it.
    pub fn finish(mut self) -> ExitCode {
        for test in &self.tests {
            if let Some(why) = &test.failure {
                println!("=== failed: {}\n{}\n{why}", test.name, test.output.trim_end());
            }
        }
        if self.tests.len() > 1 {
            self.tests.sort_by_key(|test| std::cmp::Reverse(test.took));
            println!("\n{:>8} {:>8}  slowest tests", "s", "CPU s");
            for test in self.tests.iter().take(SLOWEST) {
                println!("{:>8.1} {:>8.1}  {}", test.took.as_secs_f64(), test.processor.as_secs_f64(), test.name);
            }
            match self.write_times() {
                Ok(()) => println!("{:>17}  all tests by processor time: {TIMES}", ""),
                Err(error) => println!("{TIMES}: {error}"),
            }
        }
        println!("\n{:>8} {:>8} {:>8} {:>8}  stage", "s", "CPU s", "passed", "failed");
        for Stage { name, took, processor, counts } in &self.stages {
            let (took, processor) = (took.as_secs_f64(), processor.as_secs_f64());
            println!("{took:>8.1} {processor:>8.1} {:>8} {:>8}  {name}", counts.passed, counts.failed);
        }
        let all = |of: fn(&Stage) -> Duration| self.stages.iter().map(of).sum::<Duration>().as_secs_f64();
        println!("{:>8.1} {:>8.1} {:>8} {:>8}  all", all(|stage| stage.took), all(|stage| stage.processor), "", "");
        let failed: Vec<&Ran> = self.tests.iter().filter(|test| test.failure.is_some()).collect();
        failed.iter().for_each(|test| println!("failed: {}", test.name));
        let count = |of: fn(&Counts) -> usize| self.stages.iter().map(|stage| of(&stage.counts)).sum::<usize>();
        let (passed, failed) = (count(|counts| counts.passed), count(|counts| counts.failed));
        if let Some(signal) = interrupted() {
            println!("\ninterrupted by signal {signal}: {passed} passed, {failed} failed, the others did not run");
            return ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
        }
        println!("\n{passed} passed, {failed} failed");
        ExitCode::from(u8::from(failed > 0 || passed == 0))
    }
}

/// The processor time of all processes that were waited for.
fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage of the children cannot fail");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}
