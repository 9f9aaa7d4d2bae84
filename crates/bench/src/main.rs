//! `rewind-cost`: boots a script in a template of reprise-php, forks clones and sends them requests through the slab,
//! without front, supervisor or HTTP. Prints one JSON object: processor time per request in the clone, rewinds by kind,
//! pages copied, memory.
//!
//! ```text
//! rewind-cost SCRIPT [--isolation rewind|fork|none] [--requests N] [--clones N] [--uri /a]... [--show] [--audit]
//! ```
//! `--isolation none` runs the script anew for each request, in a classic worker.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`lane`] | prototype, template, clones and one request after the other |

#![forbid(unsafe_code)]

mod lane;

use std::process::ExitCode;

use lane::{Lane, Plan};

fn main() -> ExitCode {
    match plan().and_then(|plan| measure(&plan)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("rewind-cost: {why}");
            ExitCode::FAILURE
        }
    }
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan { requests: 2000, clones: 1, isolation: "rewind".to_owned(), ..Plan::default() };
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>, flag: &str| -> Result<usize, String> {
        text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("{flag} wants a number"))
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--isolation" => plan.isolation = arguments.next().ok_or("--isolation wants a word")?,
            "--requests" => plan.requests = number(arguments.next(), "--requests")?,
            "--clones" => plan.clones = number(arguments.next(), "--clones")?,
            "--uri" => plan.uris.push(arguments.next().ok_or("--uri wants a path")?),
            "--env" => plan.environment.push(arguments.next().ok_or("--env wants NAME=value")?),
            "--ini" => plan.ini.push(arguments.next().ok_or("--ini wants NAME=value")?),
            "--show" => plan.show = true,
            "--audit" => plan.audit = true,
            script if plan.script.is_empty() && !script.starts_with('-') => plan.script = script.to_owned(),
            other => return Err(format!("there is no flag {other}")),
        }
    }
    if plan.script.is_empty() {
        return Err("wants a script; its path must be absolute".to_owned());
    }
    if plan.uris.is_empty() {
        plan.uris.push("/".to_owned());
    }
    Ok(plan)
}

fn measure(plan: &Plan) -> Result<String, String> {
    let mut lane = Lane::start(plan)?;
    let warm = (plan.requests / 10).max(100);
    for number in 0..warm {
        let answer = lane.request(&plan.uris[number % plan.uris.len()])?;
        if plan.show && number < plan.uris.len() {
            eprintln!("{}", String::from_utf8_lossy(&answer));
        }
    }
    let before = lane.counters()?;
    let began = std::time::Instant::now();
    for number in 0..plan.requests {
        lane.request(&plan.uris[number % plan.uris.len()])?;
    }
    let wall = began.elapsed().as_secs_f64() * 1e6 / plan.requests as f64;
    let after = lane.counters()?;
    let per = |a: f64, b: f64| (b - a) / plan.requests as f64;
    Ok(format!(
        "{{\"cpu_us\": {:.2}, \"wall_us\": {wall:.2}, \"fast\": {}, \"scanned\": {}, \"pages\": {:.1}, \
         \"private_kib\": {}, \"page_tables_kib\": {}, \"started_ms\": {:.1}}}",
        per(before.cpu_us, after.cpu_us),
        after.fast - before.fast,
        after.scanned - before.scanned,
        per(before.pages as f64, after.pages as f64),
        after.private_kib,
        after.page_tables_kib,
        lane.started_ms,
    ))
}
