//! What ran, how long it took and how much processor time that was.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::budget::{self, Spent};
use crate::group::interrupted;
use crate::ran::Ran;
use crate::times::{self, Costs};

/// How many of the most expensive tests are listed.
const LISTED: usize = 10;

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

struct Stage {
    name: &'static str,
    took: Duration,
    counts: Counts,
    /// It makes what others run: no part of what tests may cost.
    is_build: bool,
}

/// All stages and tests of this run.
pub struct Report {
    began: Instant,
    /// Where the costs of tests are written, in the target directory.
    table: &'static str,
    stages: Mutex<Vec<Stage>>,
    tests: Mutex<Vec<Ran>>,
    left_out: Mutex<Vec<String>>,
    /// How slow the machine was after each stage.
    slowness: Mutex<Vec<f64>>,
}

impl Report {
    /// A run that begins now.
    pub fn new(table: &'static str) -> Report {
        Report {
            began: Instant::now(),
            table,
            stages: Mutex::default(),
            tests: Mutex::default(),
            left_out: Mutex::default(),
            slowness: Mutex::default(),
        }
    }

    /// Runs a stage and notes what it took. Returns whether nothing failed.
    pub fn stage(&self, name: &'static str, run: impl FnOnce() -> Counts) -> bool {
        self.run(name, false, run)
    }

    /// The same of a stage that makes what others run.
    pub fn build(&self, name: &'static str, run: impl FnOnce() -> Counts) -> bool {
        self.run(name, true, run)
    }

    fn run(&self, name: &'static str, is_build: bool, run: impl FnOnce() -> Counts) -> bool {
        println!("=== {name}");
        let began = Instant::now();
        let counts = run();
        let took = began.elapsed();
        self.slowness.lock().expect("no thread panics with the lock").push(budget::slowness());
        println!("--- {name}: {} passed, {} failed, {:.0} s\n", counts.passed, counts.failed, took.as_secs_f64());
        self.stages.lock().expect("no thread panics with the lock").push(Stage { name, took, counts, is_build });
        counts.failed == 0
    }

    /// Keeps tests for the summary.
    pub fn keep(&self, tests: Vec<Ran>) {
        self.tests.lock().expect("no thread panics with the lock").extend(tests);
    }

    /// Keeps what another runner has run, under names that say where.
    pub fn keep_costs(&self, costs: Costs, place: &str) {
        let ran = |(name, cost): (String, times::Cost)| Ran {
            name: format!("{name} ({place})"),
            took: cost.took,
            processor: cost.processor,
            output: String::new(),
            failure: None,
        };
        self.keep(costs.into_iter().map(ran).collect());
    }

    /// Notes what this machine cannot run: the last line of the run has it.
    pub fn leave_out(&self, what: String) {
        println!("left out: {what}");
        self.left_out.lock().expect("no thread panics with the lock").push(what);
    }

    /// Says what the run has cost, and fails it if that is far too much.
    pub fn hold_to_budget(&self) {
        if interrupted().is_some() {
            return;
        }
        let stages = self.stages.lock().expect("no thread panics with the lock");
        let processor = stages.iter().filter(|stage| !stage.is_build).map(|stage| stage.counts.processor).sum();
        drop(stages);
        let mut slowness = self.slowness.lock().expect("no thread panics with the lock").clone();
        slowness.sort_by(f64::total_cmp);
        let spent = Spent { processor, slowness: slowness.get(slowness.len() / 2).copied().unwrap_or(1.0).max(1.0) };
        let tests = self.tests.lock().expect("no thread panics with the lock");
        let (said, is_failed) = spent.judge(&tests, &times::kept());
        drop(tests);
        self.stage("processor time", || {
            println!("{said}");
            if is_failed { Counts::FAILED } else { Counts::default() }
        });
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
            tests.sort_by_key(|test| std::cmp::Reverse(test.processor));
            println!("\n{:>8} {:>8}  most expensive tests", "s", "CPU s");
            for test in tests.iter().take(LISTED) {
                println!("{:>8.1} {:>8.1}  {}", test.took.as_secs_f64(), test.processor.as_secs_f64(), test.name);
            }
            match times::write(&tests, self.table) {
                Ok(path) => println!("{:>17}  all tests by processor time: {}", "", path.display()),
                Err(error) => println!("the table of processor times: {error}"),
            }
        }
        println!("\n{:>8} {:>8} {:>8} {:>8}  stage", "s", "CPU s", "passed", "failed");
        for Stage { name, took, counts, .. } in &stages {
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
        let left_out = self.left_out.into_inner().expect("no thread panics with the lock");
        let more = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join("; ")) };
        println!("\n{passed} passed, {failed} failed{more}");
        ExitCode::from(u8::from(failed > 0 || passed == 0))
    }
}
