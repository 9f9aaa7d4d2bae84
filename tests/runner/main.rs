//! What `./test` runs: builds the programs once, runs the stages one after the other, and ends with what each of them took
//! and with "N passed, N failed".
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`stages`] | the stages in their order, and how each of them runs |
//! | [`selection`] | which tests of the black box a stage runs, and how long each may take |
//! | [`platform`] | another Debian release with another version of PHP |
//! | [`long`] | the long runs of `--soak`; they write docs/measurements/soak.md |
//! | [`build`] | what Cargo builds, and which programs hold tests |
//! | [`harness`] | each test in a process of its own, with a time limit |
//! | [`gate`] | how many tests run at once |
//! | [`group`] | process groups, which end as a whole; Ctrl-C |
//! | [`command`] | a stage that is another program, which counts in lines "check: ok …" |
//! | [`ran`] | a test of a run |
//! | [`report`] | times, processor time and counts |
//! | [`budget`] | how much processor time the default run may take |
//! | [`times`] | what tests cost in an earlier run |

#![forbid(unsafe_code)]

mod budget;
mod build;
mod command;
mod gate;
mod group;
mod harness;
mod long;
mod platform;
mod ran;
mod report;
mod selection;
mod stages;
mod times;

use std::process::ExitCode;

use build::TestProgram;
use report::Report;

const USAGE: &str = "\
./test                  Builds and runs every stage, trimmed; ends with \"N passed, N failed\".
./test --full           The same untrimmed, and all of it on every platform and with all sanitizers; ten seconds for each fuzz target.
./test --soak           The long runs, and an hour for each fuzz target; writes docs/measurements/soak.md.
./test NAME…            Only the black-box tests whose names contain a NAME.
./test --kernel VERSION NAME…  Black-box tests whose names begin so, on another kernel (6.1, 6.12, newest) in qemu, as root.
./test --stage STAGE…   Only these stages.
./test --stages         Prints the names of the stages.
./test --keep-times     Keeps what the tests of the last run cost, in tests/runner/times.tsv, which is committed.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = group::end_all_on_signals() {
        eprintln!("./test: signals: {error}");
        return ExitCode::FAILURE;
    }
    let report = Report::new(match words[..] {
        [] | ["--full"] => times::LAST,
        ["--built", ..] => times::OF_BUILT,
        _ => times::OF_PART,
    });
    match words[..] {
        [] => {
            stages::run(&stages::DEFAULT, &report);
            report.hold_to_budget();
        }
        ["--full"] => stages::run(&stages::FULL, &report),
        ["--soak"] => stages::run(&stages::SOAK, &report),
        ["--keep-times"] => return keep_times(),
        ["--stages"] => {
            stages::names().for_each(|name| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        ["--stage", ref names @ ..] if !names.is_empty() => match stages::by_name(names) {
            Ok(chosen) => stages::run(&chosen, &report),
            Err(unknown) => return misused(&format!("there is no stage '{unknown}'")),
        },
        ["--kernel", version, ref names @ ..] if !names.is_empty() => stages::run_on_kernel(version, names, &report),
        ["--built", programs, ref names @ ..] => {
            let programs: Vec<TestProgram> = std::env::split_paths(programs).map(TestProgram::black_box).collect();
            stages::run_built(&programs, names, &report);
        }
        [first, ..] if first.starts_with('-') => return misused(&format!("unknown option {first}")),
        ref names => stages::run_named(names, &report),
    }
    report.finish()
}

fn misused(what: &str) -> ExitCode {
    eprintln!("./test: {what}\n{USAGE}");
    ExitCode::from(64)
}

fn keep_times() -> ExitCode {
    match times::keep() {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("./test: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
