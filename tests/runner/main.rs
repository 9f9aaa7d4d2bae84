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
//! | [`long`] | the long runs of `--full`; they write docs/measurements/soak.md |
//! | [`build`] | what Cargo builds, and which programs hold tests |
//! | [`harness`] | each test in a process of its own, with a time limit |
//! | [`gate`] | how many tests run at once |
//! | [`group`] | process groups, which end as a whole; Ctrl-C |
//! | [`command`] | a stage that is another program, which counts in lines "check: ok …" |
//! | [`report`] | times, processor time and counts |

#![forbid(unsafe_code)]

mod build;
mod command;
mod gate;
mod group;
mod harness;
mod long;
mod platform;
mod report;
mod selection;
mod stages;

use std::process::ExitCode;

use build::TestProgram;
use report::Report;

const USAGE: &str = "\
./test                  Builds and runs every stage, trimmed; ends with \"N passed, N failed\".
./test --full           The same untrimmed, with the long runs and with fuzzing by time; writes docs/measurements/soak.md.
./test NAME…            Only the black-box tests whose names contain a NAME.
./test --stage STAGE…   Only these stages.
./test --stages         Prints the names of the stages.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = group::end_all_on_signals() {
        eprintln!("./test: signals: {error}");
        return ExitCode::FAILURE;
    }
    let report = Report::new();
    match words[..] {
        [] => stages::run(&stages::DEFAULT, &report),
        ["--full"] => stages::run(&stages::FULL, &report),
        ["--stages"] => {
            stages::names().for_each(|name| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        ["--stage", ref names @ ..] if !names.is_empty() => match stages::by_name(names) {
            Ok(chosen) => stages::run(&chosen, &report),
            Err(unknown) => return misused(&format!("there is no stage '{unknown}'")),
        },
        ["--built", program, directory, ref names @ ..] => {
            stages::run_built(TestProgram::black_box(program.into(), directory.into()), names, &report);
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
