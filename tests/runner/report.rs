//! What ran, how long it took and how much processor time that was.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

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
    /// Processor time of all that the stage started and waited for.
    pub processor: Duration,
}

impl Counts {
    /// A stage that could not run.
    pub const FAILED: Counts = Counts { passed: 0, failed: 1, processor: Duration::ZERO };

    /// Both together.
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            processor: self.processor + other.processor,
        }
    }
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
    counts: Counts,
}

/// All stages and tests of this run.
pub struct Report {
    began: Instant,
    stages: Mutex<Vec<Stage>>,
    tests: Mutex<Vec<Ran>>,
}

impl Report {
    /// A run that begins now.
    pub fn new() -> Report {
        Report { began: Instant::now(), stages: Mutex::default(), tests: Mutex::default() }
    }

    /// Runs a stage and notes what it took. Returns whether nothing failed.
    pub fn stage(&self, name: &'static str, run: impl FnOnce() -> Counts) -> bool {
        println!("=== {name}");
        let began = Instant::now();
        let counts = run();
        let took = began.elapsed();
        println!("--- {name}: {} passed, {} failed, {:.0} s\n", counts.passed, counts.failed, took.as_secs_f64());
        self.stages.lock().expect("no thread panics with the lock").push(Stage { name, took, counts });
        counts.failed == 0
    }

    /// Keeps tests for the summary.
    pub fn keep(&self, tests: Vec<Ran>) {
        self.tests.lock().expect("no thread panics with the lock").extend(tests);
    }

    /// Writes all tests to [`TIMES`], by processor time: whoever shortens the run begins at the top.
    fn write_times(tests: &[Ran]) -> std::io::Result<()> {
        let mut tests: Vec<&Ran> = tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.processor));
        let mut text = "CPU s\ts\ttest\n".to_owned();
        for test in tests {
            let (took, processor) = (test.took.as_secs_f64(), test.processor.as_secs_f64());
            let _ = writeln!(text, "{processor:.2}\t{took:.2}\t{}", test.name);
        }
        std::fs::write(project().join(TIMES), text)
    }

    /// Prints the summary; failed tests are the last before it.
    pub fn finish(self) -> ExitCode {
        let took = self.began.elapsed().as_secs_f64();
        let stages = self.stages.into_inner().expect("no thread panics with the lock");
        let mut tests = self.tests.into_inner().expect("no thread panics with the lock");
        for test in &tests {
            if let Some(why) = &test.failure {
                println!("=== failed: {}\n{}\n{why}", test.name, test.output.trim_end());
            }
        }
        if tests.len() > 1 {
            tests.sort_by_key(|test| std::cmp::Reverse(test.took));
            println!("\n{:>8} {:>8}  slowest tests", "s", "CPU s");
            for test in tests.iter().take(SLOWEST) {
                println!("{:>8.1} {:>8.1}  {}", test.took.as_secs_f64(), test.processor.as_secs_f64(), test.name);
            }
            match Report::write_times(&tests) {
                Ok(()) => println!("{:>17}  all tests by processor time: {TIMES}", ""),
                Err(error) => println!("{TIMES}: {error}"),
            }
        }
        println!("\n{:>8} {:>8} {:>8} {:>8}  stage", "s", "CPU s", "passed", "failed");
        for Stage { name, took, counts } in &stages {
            let (took, processor) = (took.as_secs_f64(), counts.processor.as_secs_f64());
            println!("{took:>8.1} {processor:>8.1} {:>8} {:>8}  {name}", counts.passed, counts.failed);
        }
        // Stages run at the same time too, so that the whole takes less than their sum.
        let processor = stages.iter().map(|stage| stage.counts.processor).sum::<Duration>().as_secs_f64();
        println!("{took:>8.1} {processor:>8.1} {:>8} {:>8}  all", "", "");
        let failed: Vec<&Ran> = tests.iter().filter(|test| test.failure.is_some()).collect();
        failed.iter().for_each(|test| println!("failed: {}", test.name));
        let count = |of: fn(&Counts) -> usize| stages.iter().map(|stage| of(&stage.counts)).sum::<usize>();
        let (passed, failed) = (count(|counts| counts.passed), count(|counts| counts.failed));
        if let Some(signal) = interrupted() {
            println!("\ninterrupted by signal {signal}: {passed} passed, {failed} failed, the others did not run");
            return ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
        }
        println!("\n{passed} passed, {failed} failed");
        ExitCode::from(u8::from(failed > 0 || passed == 0))
    }
}
