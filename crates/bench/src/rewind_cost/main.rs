//! `rewind-cost`: boots a script in a template of reprise-php, forks clones and sends them requests through the slab,
//! without front, supervisor or HTTP. Prints one JSON object; all times are per request.
//!
//! ```text
//! rewind-cost SCRIPT [--isolation rewind|fork|none] [--clones N] [--warm N] [--requests N] [--depth N] [--uri /a?n={n}]...
//!             [--env NAME=value]... [--ini NAME=value]... [--show] [--audit]
//! ```
//! `--isolation none` runs the script anew for each request, in a classic worker.
//!
//! | field | what |
//! |---|---|
//! | `cpu_us` | processor time of the clones: claim, script, end, rewind; with `--depth 1` sleeping and waking too |
//! | `wall_us` | time between responses |
//! | `rewind_us`, `rewind_p90_us` | one clone: from a complete response until it looks for the next request; median, 90 % |
//! | `timed` | the number of requests whose rewind was measured without disturbance |
//! | `fast`, `scanned`, `pages` | rewinds by kind; pages copied per request |
//! | `idle` | all clones before their first request: median and largest private memory and page tables |
//! | `private_kib`, `page_tables_kib`, `writable_kib` | the clone that has served most, afterwards |
//! | `started_ms` | from the first request for a clone until all clones wait |
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`lane`] | prototype, template, clones and their requests |
//! | [`memory`] | the memory that a clone does not share |

#![forbid(unsafe_code)]

mod lane;
mod memory;

use std::process::ExitCode;

use lane::{Lane, MAX_DEPTH, Plan};
use memory::Memory;

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
    let mut plan = Plan { requests: 2000, clones: 1, depth: 1, isolation: "rewind".to_owned(), ..Plan::default() };
    let mut warm = None;
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>, flag: &str| -> Result<usize, String> {
        text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("{flag} wants a number"))
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--isolation" => plan.isolation = arguments.next().ok_or("--isolation wants a word")?,
            "--requests" => plan.requests = number(arguments.next(), "--requests")?,
            "--warm" => warm = Some(number(arguments.next(), "--warm")?),
            "--depth" => plan.depth = number(arguments.next(), "--depth")?,
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
    if plan.depth == 0 || plan.depth > MAX_DEPTH || (plan.isolation == "fork" && plan.depth > 1) {
        return Err(format!("--depth is 1 to {MAX_DEPTH}, and 1 with --isolation fork"));
    }
    if plan.requests == 0 || plan.clones == 0 {
        return Err("without requests or clones there is nothing to measure".to_owned());
    }
    plan.warm = warm.unwrap_or((plan.requests / 10).max(100));
    Ok(plan)
}

fn measure(plan: &Plan) -> Result<String, String> {
    let mut lane = Lane::start(plan)?;
    let idle = lane.memory()?;
    let show = |number: usize, response: &[u8]| {
        if plan.show && number < plan.uris.len() {
            eprintln!("{}", String::from_utf8_lossy(response));
        }
    };
    lane.run(plan, 0, plan.warm, show)?;
    lane.rewinds_us.clear();
    let before = lane.counters()?;
    let began = std::time::Instant::now();
    lane.run(plan, plan.warm, plan.requests, show)?;
    let wall = began.elapsed().as_secs_f64() * 1e6 / plan.requests as f64;
    let after = lane.counters()?;
    let now = lane.memory()?[lane.busiest()];
    let rewinds = &mut lane.rewinds_us;
    rewinds.sort_by(f64::total_cmp);
    let rewind = |part: f64| {
        let at = (rewinds.len() as f64 * part) as usize;
        rewinds.get(at).map_or("null".to_owned(), |us| format!("{us:.2}"))
    };
    let per = |a: f64, b: f64| (b - a) / plan.requests as f64;
    Ok(format!(
        "{{\"cpu_us\": {:.2}, \"wall_us\": {wall:.2}, \"rewind_us\": {}, \"rewind_p90_us\": {}, \"timed\": {}, \"fast\": {}, \
         \"scanned\": {}, \"pages\": {:.1}, \"idle\": {}, \"private_kib\": {}, \"page_tables_kib\": {}, \
         \"writable_kib\": {}, \"started_ms\": {:.1}}}",
        per(before.cpu_us, after.cpu_us),
        rewind(0.5),
        rewind(0.9),
        rewinds.len(),
        after.fast - before.fast,
        after.scanned - before.scanned,
        per(before.pages as f64, after.pages as f64),
        summary(&idle),
        now.private_kib,
        now.page_tables_kib,
        now.writable_kib,
        lane.started_ms,
    ))
}

fn summary(memories: &[Memory]) -> String {
    let both = |pick: fn(&Memory) -> u64| {
        let mut values: Vec<u64> = memories.iter().map(pick).collect();
        values.sort_unstable();
        (values[values.len() / 2], values[values.len() - 1])
    };
    let (private, private_max) = both(|memory| memory.private_kib);
    let (tables, tables_max) = both(|memory| memory.page_tables_kib);
    format!(
        "{{\"private_kib\": {private}, \"private_max_kib\": {private_max}, \"page_tables_kib\": {tables}, \
         \"page_tables_max_kib\": {tables_max}}}"
    )
}
