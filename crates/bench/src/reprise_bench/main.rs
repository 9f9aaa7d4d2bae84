//! `reprise-bench`: what `reprise bench` and `reprise psd` run, with the arguments they were given.
//!
//! It is an executable of its own, so that the one that serves, which root may start, has no code that measures.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`comparing`] | `reprise bench` |
//! | [`attributing`] | `reprise psd` |
//! | [`handshakes`] | TLS connections, for `bench/edge` |
//! | [`delay`] | a server that is a round trip away, for `bench/compare` |
//! | [`intervals`] | the statistics, for the programs of `bench/` |
//! | [`worker_states`] | the time that the measured server's workers spend in each state |
//! | [`output`] | progress, files |
//! | [`failure`] | failures and exit codes |

#![forbid(unsafe_code)]

mod attributing;
mod comparing;
mod delay;
mod failure;
mod handshakes;
mod intervals;
mod output;
mod worker_states;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Users know the subcommands as those of `reprise`, so the help has that name.
#[derive(Parser)]
#[command(name = "reprise", bin_name = "reprise", version, disable_help_subcommand = true, max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare servers in turns: throughput, latency at fixed rates, processor time and memory, with confidence intervals
    #[command(after_help = comparing::HELP)]
    Bench(Box<comparing::Options>),
    /// Measure how much processor time each group of processes spends on a request
    #[command(after_help = attributing::HELP)]
    Psd(Box<attributing::Options>),
    #[command(hide = true)]
    MedianIntervals,
    #[command(hide = true)]
    Handshakes(handshakes::Options),
    #[command(hide = true)]
    Delay(delay::Options),
}

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => {
            // Help was asked for and goes to stdout; everything else is a mistake.
            let code = if error.use_stderr() { failure::Code::Usage } else { failure::Code::Success };
            let _ = error.print();
            return code.into();
        }
    };
    let result = match command.verb {
        Verb::Bench(options) => comparing::run(&options),
        Verb::Psd(options) => attributing::run(&options),
        Verb::MedianIntervals => intervals::run(),
        Verb::Handshakes(options) => handshakes::run(&options),
        Verb::Delay(options) => delay::run(&options),
    };
    match result {
        Ok(()) => failure::Code::Success.into(),
        Err(failure) => failure.report(),
    }
}
