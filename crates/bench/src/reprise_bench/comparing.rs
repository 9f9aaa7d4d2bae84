//! `reprise bench`: servers compared, and reports made of documents.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bench::compare::{self, Plan};
use bench::groups::Group;
use bench::page::Page;
use bench::scenario::{self, Request, Target};
use clap::Args;

use crate::failure::{AGAIN, Code, Failure};
use crate::output::{Progress, write};

/// What `--help` says at its end.
pub const HELP: &str = "Examples:
  reprise bench http://127.0.0.1:8080/
  reprise bench new=http://127.0.0.1:8080/ old=http://127.0.0.1:8081/ --html report.html
  reprise bench new=http://127.0.0.1:8080/ fpm=http://127.0.0.1:8081/ \\
      --group fpm/nginx=comm:nginx --group fpm/php=comm:php-fpm8.4
  reprise bench http://127.0.0.1:8080/ --rounds 0 --rate 500 --rate 1000 --open-seconds 30

First each target gets three requests: all responses must be alike, on all targets. Then bench searches the knee (closed
loops with 1 to 256 connections), runs rounds of closed loops at the knee, with the targets in turns, and runs open loops
at 50, 80 and 95 % of the lowest knee. An open loop sends at the times of a fixed rate, and latency counts from those times.
A ratio compares the first target with another one, within each round; its interval is a bootstrap over rounds. If the
interval contains 1, the two are not distinguishable. Any error or wrong body ends the run without a result.

Processor time and memory are those of the processes that listen on the target's port, with their descendants, or of the
groups that are named: LABEL/NAME=pid:N, user:U, comm:C, port:N or cgroup:PATH.

Exit status: 0 measured, 3 a target failed or cannot be measured, 64 usage.";

/// Options of `reprise bench`.
#[derive(Args)]
pub struct Options {
    /// Targets, such as http://127.0.0.1:8080/ or new=http://127.0.0.1:8080/
    #[arg(required_unless_present = "render", value_name = "[LABEL=]URL")]
    urls: Vec<String>,
    /// Requests by weight, from a TOML file
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Text that has to be in each body, instead of bodies being alike
    #[arg(long, value_name = "TEXT", conflicts_with = "scenario")]
    contains: Option<String>,
    /// A header of each request; may be repeated
    #[arg(long, value_name = "NAME: VALUE", conflicts_with = "scenario")]
    header: Vec<String>,
    /// Rounds of closed loops, 6 at least; 0 for none
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// Seconds of each target in a round
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Connections of closed loops, instead of those of the knee
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Requests per second of an open loop; may be repeated
    #[arg(long, value_name = "N")]
    rate: Vec<f64>,
    /// Seconds of each open loop; 0 for none
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    open_seconds: f64,
    /// Connections of open loops at most
    #[arg(long, value_name = "N", default_value = "4000")]
    open_connections: NonZeroUsize,
    /// A new connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Seconds after which a request without a response is an error
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    timeout: f64,
    /// Processes of a target; may be repeated
    #[arg(long, value_name = "LABEL/NAME=KIND:WHAT")]
    group: Vec<String>,
    /// Leave away processor time and memory
    #[arg(long)]
    no_processes: bool,
    /// Processors the generator runs on, such as 1 or 0,1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Make a page of a document that another tool has written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "json", "csv"], requires = "html")]
    render: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the tables as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Measures, or makes a page.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(file) = &options.render {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(Code::Usage, file.display().to_string(), error))?;
        let page = Page::parse(&text).map_err(|why| Failure::new(Code::Usage, file.display().to_string(), why))?;
        return write(options.html.as_deref(), &page.html());
    }
    let plan = plan(options).map_err(|why| Failure::new(Code::Usage, "bench", why))?;
    pin(&options.cpus)?;
    // If the server stands still, an open loop needs a connection for each request that is due meanwhile.
    let _ = supervisor::os::sys::raise_file_limit();
    let progress = Progress::begin();
    let report = compare::run(&plan, &|step| progress.show(step));
    progress.end();
    let report = report.map_err(|why| Failure::new(Code::NotMeasured, "bench", why).hint(AGAIN))?;
    let page = report.page();
    write(options.csv.as_deref(), &page.csv())?;
    write(options.html.as_deref(), &page.html())?;
    if options.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| Failure::new(Code::Internal, "bench", error))?;
        println!("{text}");
    } else {
        print!("{}", page.text());
    }
    Ok(())
}

fn plan(options: &Options) -> Result<Plan, String> {
    let targets = Target::parse_all(&options.urls)?;
    let requests = match &options.scenario {
        Some(file) => scenario::read(file)?,
        None => vec![single(options)?],
    };
    let groups = options.group.iter().map(|text| {
        let wrong = || format!("'{text}': write LABEL/NAME=pid:N, user:U, comm:C, port:N or cgroup:PATH");
        let (label, rest) = text
            .split_once('=')
            .and_then(|(name, _)| name.rsplit_once('/'))
            .map(|(label, _)| (label, &text[label.len() + 1..]))
            .ok_or_else(wrong)?;
        Ok((label.to_owned(), Group::parse(rest)?))
    });
    let seconds = |name: &str, value: f64, least: f64| match value {
        _ if value.is_finite() && (least..=86400.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err(format!("--{name} {value}: {least} to 86400 seconds")),
    };
    if let Some(rate) = options.rate.iter().find(|rate| !rate.is_finite() || !(0.1..=1e6).contains(*rate)) {
        return Err(format!("--rate {rate}: 0.1 to 1,000,000 requests a second"));
    }
    let groups: Vec<(String, Group)> = groups.collect::<Result<_, String>>()?;
    if let Some((label, _)) = groups.iter().find(|(label, _)| !targets.iter().any(|target| target.label == *label)) {
        return Err(format!("--group {label}/…: no target has that name"));
    }
    Ok(Plan {
        targets,
        requests,
        groups,
        is_blind: options.no_processes,
        connections: options.connections.map(NonZeroUsize::get),
        rounds: options.rounds,
        span: seconds("seconds", options.seconds, 0.05)?,
        rates: (!options.rate.is_empty()).then(|| options.rate.clone()),
        open_span: seconds("open-seconds", options.open_seconds, 0.0)?,
        open_connections: options.open_connections.get(),
        keep_alive: !options.no_keep_alive,
        timeout: seconds("timeout", options.timeout, 0.1)?,
    })
}

fn single(options: &Options) -> Result<Request, String> {
    let mut request = Request { contains: options.contains.clone(), ..Request::default() };
    for header in &options.header {
        let (name, value) = header.split_once(':').ok_or_else(|| format!("--header '{header}': write NAME: VALUE"))?;
        request.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    scenario::check(&request)?;
    Ok(request)
}

fn pin(cpus: &[usize]) -> Result<(), Failure> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    let most = rustix::thread::CpuSet::MAX_CPU;
    cpus.iter().filter(|cpu| **cpu < most).for_each(|cpu| set.set(*cpu));
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| Failure::new(Code::Usage, "bench", format!("--cpus {cpus:?}: {error}")))
}
