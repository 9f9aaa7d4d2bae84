//! `reprise psd`: which group of processes spends how much processor time on a request.

use std::path::PathBuf;
use std::time::Duration;

use bench::groups::Group;
use bench::load::Shape;
use bench::psd::{self, Plan};
use bench::scenario::{self, Request, Target};
use clap::Args;
use control::which::Which;

use crate::failure::{AGAIN, Code, Failure};
use crate::output::{Progress, write};
use crate::worker_states;

/// What `--help` says at its end.
pub const HELP: &str = "Examples:
  reprise psd http://127.0.0.1:8080/ --auto
  reprise psd http://127.0.0.1:8081/ --group nginx=comm:nginx --group php=user:www-data --group db=comm:mariadbd
  reprise psd http://127.0.0.1:8080/ --auto --until-exit includes.php

Phases with load alternate with phases of the same length without load, in balanced order. Other programs run in both
phases, so the difference does not contain them. Times come from CPU clocks of processes and from cgroups, in nanoseconds.
They contain the server's work in the guard time after its responses. The time of no group is the machine's busy time without all groups and
this program. It contains the kernel's own work, is counted in ticks of 10 ms, and is not exact.

--auto finds PHP, database and cache by the names of their processes, and the web server by the port. A process that is in
several groups counts for the first.

--until-exit names a page of the same server that includes the application's libraries and exits: it costs what a request
costs before the application does anything. It is measured in turns with the page itself.

For Reprise the report has the wall-clock time of the workers by state too (run psd as the server's user or root).

Exit status: 0 measured, 3 the target failed or cannot be measured, 64 usage.";

/// Options of `reprise psd`.
#[derive(Args)]
pub struct Options {
    /// The page, such as http://127.0.0.1:8080/
    url: String,
    /// Processes; may be repeated
    #[arg(long, value_name = "NAME=KIND:WHAT", required_unless_present = "auto")]
    group: Vec<String>,
    /// Find PHP, database, cache and web server by themselves
    #[arg(long)]
    auto: bool,
    /// A page that includes the libraries and exits
    #[arg(long, value_name = "FILE")]
    until_exit: Option<String>,
    /// Pairs of phases
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: usize,
    /// Seconds of load in a phase
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Seconds after it until the counters are read
    #[arg(long, value_name = "S", default_value_t = 0.25)]
    guard: f64,
    /// Connections, each sending its next request when the response has come
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "rate")]
    connections: usize,
    /// Requests per second, instead
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Text that has to be in each body, instead of bodies being alike
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// A header of each request; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// A new connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Seconds after which a request without a response is an error
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    timeout: f64,
    #[command(flatten)]
    which: Which,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Measures.
pub fn run(options: &Options) -> Result<(), Failure> {
    let plan = plan(options).map_err(|why| Failure::new(Code::Usage, "psd", why))?;
    let found = || plan.groups.iter().map(|group| format!("{} = {}", group.name, group.spec)).collect::<Vec<_>>();
    eprintln!("{}", found().join(", "));
    // If the server stands still, an open loop needs a connection for each request that is due meanwhile.
    let _ = supervisor::os::sys::raise_file_limit();
    let progress = Progress::begin();
    let report = psd::run(&plan, &|| worker_states::of_server(&options.which, plan.target.address.port()), &|step| {
        progress.show(step)
    });
    progress.end();
    let report = report.map_err(|why| Failure::new(Code::NotMeasured, "psd", why).hint(AGAIN))?;
    let page = report.page();
    write(options.html.as_deref(), &page.html())?;
    if options.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| Failure::new(Code::Internal, "psd", error))?;
        println!("{text}");
    } else {
        print!("{}", page.text());
    }
    Ok(())
}

fn plan(options: &Options) -> Result<Plan, String> {
    let target = Target::parse(&options.url)?;
    let mut request = Request { contains: options.contains.clone(), ..Request::default() };
    for header in &options.header {
        let (name, value) = header.split_once(':').ok_or_else(|| format!("--header '{header}': write NAME: VALUE"))?;
        request.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    scenario::check(&request)?;
    let mut groups = options.group.iter().map(|text| Group::parse(text)).collect::<Result<Vec<_>, _>>()?;
    if options.auto {
        groups.extend(psd::discover(&target)?);
    }
    let seconds = |name: &str, value: f64, least: f64| match value {
        _ if value.is_finite() && (least..=3600.0).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err(format!("--{name} {value}: {least} to 3600 seconds")),
    };
    let shape = match options.rate {
        Some(rate) if rate.is_finite() && (0.1..=1e6).contains(&rate) => Shape::Open { rate, connections: 4000 },
        Some(rate) => return Err(format!("--rate {rate}: 0.1 to 1,000,000 requests a second")),
        None => Shape::Closed { connections: options.connections.clamp(1, 10_000) },
    };
    let until_exit = options.until_exit.as_ref().map(|file| match file.strip_prefix('/') {
        Some(_) => file.clone(),
        None => format!("/{file}"),
    });
    Ok(Plan {
        target,
        until_exit,
        request,
        groups,
        pairs: options.pairs,
        span: seconds("seconds", options.seconds, 0.1)?,
        guard: seconds("guard", options.guard, 0.0)?,
        shape,
        keep_alive: !options.no_keep_alive,
        timeout: seconds("timeout", options.timeout, 0.1)?,
    })
}
