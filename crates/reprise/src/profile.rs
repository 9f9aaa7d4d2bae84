//! `reprise profile`: where the workers of an application spend their time, by PHP function and by route.

mod flame;
mod looks;
mod receive;
mod show;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use control::command::Command;
use control::which::Which;

use crate::admin;
use crate::exit::{Code, Failure};
use looks::Looks;
use receive::{Packets, Received};

pub const HELP: &str = "Examples:
  reprise profile --seconds 30 --html profile.html      and open the file in a browser: it needs no network
  reprise profile --application shop --sort self --json
  reprise profile --route 'GET /cart' --collapsed cart.txt

Workers are looked at while they run; nothing is stopped. Looking takes at most a hundredth of a processor for each lane: with many workers, or deep
stacks, there are fewer looks than --rate says. Waiting is time in which a worker has a request and does not run: it waits for a database, a file, a
lock, or sleeps. Time in which it could run but has no processor is
given to the functions that run in the same route.";

/// Microseconds of a second.
const SECOND: u32 = 1_000_000;

/// By what functions are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function and in all that it calls
    Total,
    /// Time in the function itself, with PHP's internal functions apart
    #[value(name = "self")]
    Own,
}

/// What is asked for.
#[derive(Args)]
pub struct Asked {
    /// The application; without it, the only one
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    /// How long to look
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Looks a second
    #[arg(long, value_name = "N", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Only requests whose method and path begin so, such as 'GET /blog'
    #[arg(long, value_name = "TEXT", default_value = "")]
    route: String,
    /// Leave out the time in which workers wait
    #[arg(long)]
    busy: bool,
    /// The order of the functions
    #[arg(long, value_enum, default_value_t = Sort::Total)]
    sort: Sort,
    /// How many functions and routes to show
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Write a page with a flame graph, which needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write collapsed stacks, one a line with its microseconds, as other tools for flame graphs read them
    #[arg(long, value_name = "FILE")]
    collapsed: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Looks and prints what was seen.
pub fn run(asked: &Asked) -> Result<Code, Failure> {
    // Before the time is spent.
    for file in asked.html.iter().chain(&asked.collapsed) {
        write(file, "")?;
    }
    let command = Command::Profile {
        application: asked.application.clone().unwrap_or_default(),
        duration_ms: asked.seconds * 1000,
        interval_us: SECOND / asked.rate,
    };
    let Received { lanes, packets } = receive::ask(&admin::directory(&asked.which)?, &command)?;
    let looks = collect(asked, &packets)?;
    if let Some(file) = &asked.html {
        write(file, &flame::page(&looks, &title(asked)))?;
    }
    if let Some(file) = &asked.collapsed {
        write(file, &show::collapsed(&looks))?;
    }
    let text = if asked.json {
        format!("{}\n", show::json(&looks, &lanes, asked.sort))
    } else {
        show::table(&looks, asked.sort, asked.top)
    };
    admin::print(&text);
    Ok(Code::Success)
}

fn title(asked: &Asked) -> String {
    let mut text = asked.application.clone().unwrap_or_else(|| "reprise profile".to_owned());
    if !asked.route.is_empty() {
        text.push_str(&format!(", {}", asked.route));
    }
    text
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| Failure::new(Code::Usage, file.display().to_string(), error))
}

/// Takes packets until the forkers have ended.
fn collect(asked: &Asked, packets: &Packets) -> Result<Looks, Failure> {
    let (began, mut looks) = (Instant::now(), Looks::new(&asked.route, asked.busy));
    let is_seen = std::io::stderr().is_terminal();
    let (mut told, mut buffer) = (Duration::ZERO, vec![0; receive::PACKET]);
    while let Some(packet) = packets.next(&mut buffer)? {
        looks.take(&String::from_utf8_lossy(packet));
        let passed = began.elapsed();
        if is_seen && passed - told > Duration::from_millis(500) {
            told = passed;
            eprint!("\r{} of {} s, {} samples", passed.as_secs(), asked.seconds, looks.samples);
            let _ = std::io::stderr().flush();
        }
    }
    if is_seen {
        eprint!("\r\x1b[K");
    }
    looks.end();
    looks.seconds = began.elapsed().as_secs_f64();
    Ok(looks)
}
