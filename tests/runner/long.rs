//! The long runs of `./test --soak`. What came out is written to the document, with date and commit.
//!
//! Environment variables make them shorter or longer: their names and defaults are in the rows of [`RUNS`]; `FUZZ_SECONDS`
//! (3600; 10 in `--full`) is for each fuzz target.

use std::process::Command;

use tests::server::project;

use crate::build::TestProgram;
use crate::gate::Bounds;
use crate::harness::{self, Plan};
use crate::ran::Ran;
use crate::report::{Counts, Report};
use crate::times::Costs;

/// The document.
const DOCUMENT: &str = "docs/measurements/soak.md";

/// A long run: tests of the black box that read how much they shall do.
struct Run {
    /// What it is; `{}` is the number.
    what: &'static str,
    /// The variable with the number, and the number without it.
    knob: (&'static str, &'static str),
    /// The variable that the tests read it from.
    variable: &'static str,
    /// More variables for the tests.
    environment: &'static [(&'static str, &'static str)],
    /// Tests whose names contain one of these.
    tests: &'static [&'static str],
}

/// The test of audited requests, which says the share of fast rewinds.
const fn audited(what: &'static str, environment: &'static [(&'static str, &'static str)]) -> Run {
    let tests = &["rewind_mixed::thousands_of_audited"];
    Run { what, knob: ("AUDITED", "100000"), variable: "REPRISE_REQUESTS", environment, tests }
}

/// Audited requests.
const AUDITED: [Run; 3] = [
    audited("{} audited requests of a mixed set of scripts, without JIT", &[("REPRISE_JIT", "disable")]),
    audited("{} audited requests of a mixed set of scripts, JIT of functions", &[("REPRISE_JIT", "function")]),
    audited("{} audited requests of a mixed set of scripts, JIT of traces", &[("REPRISE_JIT", "tracing")]),
];

/// All other runs.
const RUNS: [Run; 12] = [
    Run {
        what: "{} interleaved requests of four visitors, no foreign byte",
        knob: ("VISITS", "1000000"),
        variable: "REPRISE_REQUESTS",
        environment: &[("REPRISE_AUDIT", "off")],
        tests: &["rewind_mixed::two_visitors"],
    },
    Run {
        what: "{} interleaved requests of visitors in Slim, Symfony and Laravel, by worker and by snapshot; a tenth in WordPress and MediaWiki",
        knob: ("VISITS", "1000000"),
        variable: "REPRISE_REQUESTS",
        environment: &[],
        tests: &["visitors_are_kept_apart"],
    },
    Run {
        what: "{} requests of visitors to each of Symfony, Laravel and WordPress, in each mode behind the cache: no page of others",
        knob: ("CACHED", "100000"),
        variable: "REPRISE_REQUESTS",
        environment: &[("REPRISE_FULL", "1")],
        tests: &["_s_visitors_get_what_is_for_them"],
    },
    Run {
        what: "{} requests to two applications whose scripts look for each other's entries of the data cache, none found",
        knob: ("VISITS", "1000000"),
        variable: "REPRISE_REQUESTS",
        environment: &[],
        tests: &["data_cache_isolation::two_applications"],
    },
    Run {
        what: "{} requests of four visitors to each of MariaDB, PostgreSQL and Redis who leave their sessions in every way, nothing carried over",
        knob: ("VISITS", "1000000"),
        variable: "REPRISE_REQUESTS",
        environment: &[("REPRISE_AUDIT", "off")],
        tests: &["four_visitors_carry_nothing_over"],
    },
    Run {
        what: "{} restarts of each of these servers, idle and under load: no errors but of queries that ran",
        knob: ("RESTARTS", "100"),
        variable: "REPRISE_RESTARTS",
        environment: &[],
        tests: &["connections::gone::a_restart"],
    },
    Run {
        what: "{} reloads in each mode under load, nothing lost or mixed",
        knob: ("RELOADS", "1000"),
        variable: "REPRISE_RELOADS",
        environment: &[],
        tests: &["reload::reloads_lose_nothing"],
    },
    Run {
        what: "{} complete requests sent with the close, in each mode, all run once",
        knob: ("CLOSES", "10000"),
        variable: "REPRISE_REQUESTS",
        environment: &[],
        tests: &["leaving::complete_requests", "leaving::pipelined"],
    },
    Run {
        what: "{} requests that end by exit or not, of two visitors in a worker script, nothing kept",
        knob: ("CLOSES", "10000"),
        variable: "REPRISE_REQUESTS",
        environment: &[],
        tests: &["worker_exits"],
    },
    Run {
        what: "reprise psd: {} runs beside a random load",
        knob: ("RUNS", "20"),
        variable: "REPRISE_RUNS",
        environment: &[],
        tests: &["measuring::processor_time"],
    },
    Run {
        what: "reprise bench: A/A and A/B with 5 % more, 20 times each, {} min",
        knob: ("MINUTES", "1"),
        variable: "REPRISE_MINUTES",
        environment: &[("REPRISE_RUNS", "20")],
        tests: &["measuring::what_is_alike"],
    },
    Run {
        what: "{} workers killed at random points of a hello load",
        knob: ("KILLS", "10000"),
        variable: "REPRISE_KILLS",
        environment: &[],
        tests: &["faults::killed_workers_lose_only"],
    },
];

/// What a run says of itself that belongs in the document.
const DETAILS: [&str; 7] = [" rewinds fast", " kills:", " requests", "reloads", "both intervals", "turns: ", "sent, "];

/// A number from the environment.
pub fn knob(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Runs all of them and writes the document.
pub fn run(programs: &[TestProgram], report: &Report) -> Counts {
    let (mut counts, lines) = run_all(AUDITED.iter().chain(&RUNS), programs, report);
    if let Err(error) = std::fs::write(project().join(DOCUMENT), document(&lines)) {
        println!("{DOCUMENT}: {error}");
        counts.failed += 1;
    }
    counts
}

/// Runs those with audited requests.
pub fn run_audited(programs: &[TestProgram], report: &Report) -> Counts {
    run_all(AUDITED.iter(), programs, report).0
}

/// Runs them, and returns their lines of the document.
fn run_all<'a>(
    runs: impl Iterator<Item = &'a Run>,
    programs: &[TestProgram],
    report: &Report,
) -> (Counts, Vec<String>) {
    let mut counts = Counts::default();
    let mut lines = Vec::new();
    for Run { what, knob: (name, default), variable, environment, tests } in runs {
        let number = knob(name, default);
        let mut variables = vec![(*variable, number.clone())];
        variables.extend(environment.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let selects = |name: &str| tests.iter().any(|word| name.contains(word));
        let (of_run, ran) = without_limit(programs, variables, &selects);
        // Nothing found is a run under a name that no test has any more.
        let failed = of_run.failed + usize::from(ran.is_empty());
        let took = ran.iter().map(|test| test.took).sum::<std::time::Duration>().as_secs();
        let said = ran.iter().flat_map(|test| test.output.lines());
        let details: Vec<&str> =
            said.filter(|line| DETAILS.iter().any(|word| line.contains(word))).map(str::trim).collect();
        let result = if failed == 0 { "passed" } else { "FAILED" };
        let what = what.replace("{}", &number);
        let details = details.join("; ");
        println!("{result}: {what}, {took} s; {details}");
        lines.push(format!("| {what} | {result} | {took} s | {details} |"));
        counts = counts.and(Counts { failed, ..of_run });
        report.keep(ran);
    }
    (counts, lines)
}

/// One after the other, and no limit but a day.
fn without_limit(
    programs: &[TestProgram],
    environment: Vec<(&'static str, String)>,
    selects: &(dyn Fn(&str) -> bool + Sync),
) -> (Counts, Vec<Ran>) {
    const DAY_S: u64 = 24 * 3600;
    let programs: Vec<&TestProgram> = programs.iter().filter(|program| program.is_black_box()).collect();
    let plan =
        Plan { bounds: Bounds::ONE, environment, selects, alone: &[], costs: &Costs::new(), limit_s: &|_| DAY_S };
    harness::run(&programs, &plan, &|| {})
}

fn document(lines: &[String]) -> String {
    let date = said_by("date", &["-u", "+%Y-%m-%d"]);
    let (commit, kernel) = (said_by("git", &["rev-parse", "--short", "HEAD"]), said_by("uname", &["-r"]));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "# Soak\n\nLast run of `./test --soak`: {date}, commit {commit}, {processors} CPUs, kernel {kernel}.\n\n\
         | run | result | took | |\n|---|---|---|---|\n{}\n",
        lines.join("\n")
    )
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(project()).output();
    output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
