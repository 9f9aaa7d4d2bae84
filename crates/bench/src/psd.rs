//! `reprise psd`: phase-sensitive attribution of processor time.
//!
//! Phases with load alternate with phases of the same length without load, in balanced order. Other programs run in both
//! kinds of phases alike, so the load causes what a group of processes uses more in the phases with load. Counters are read
//! before a phase, and a guard time after its load has ended, so that work after the responses is included. Then the next
//! phase begins.
//!
//! ```text
//! load  guard | idle  guard | idle  guard | load  guard | …
//! ```
//! Of each pair of phases: (time with load - time without) / requests. The result is the mean over pairs, its standard
//! error, and the 95 % interval by Student's t.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::check;
use crate::generator;
use crate::groups::{Group, Process, Spec, Time, machine_busy, spent};
use crate::load::{Class, Load, Shape};
use crate::machine;
use crate::page::{Chart, Page, Part, Section, Stack, Table};
use crate::scenario::{Request, Target};
use crate::stats::{self, Mean};

/// With fewer pairs nothing can be said about the error.
pub const MINIMUM_PAIRS: usize = 4;
/// Names of processes by their task. The web server is the process that listens.
const KNOWN: [(&str, &[&str]); 3] = [
    ("php", &["php-fpm", "reprise-php", "php-cgi", "frankenphp", "rr"]),
    ("database", &["mariadbd", "mysqld", "postgres"]),
    ("cache", &["redis-server", "memcached", "valkey-server", "varnishd"]),
];

/// How to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The page.
    pub target: Target,
    /// A page that ends when it has loaded its libraries.
    pub until_exit: Option<String>,
    /// The request, except its path.
    pub request: Request,
    /// The groups. A process that is in two counts for the first.
    pub groups: Vec<Group>,
    /// Pairs of phases.
    pub pairs: usize,
    /// How long requests are sent in a phase.
    pub span: Duration,
    /// The time from the end of the load until the counters are read.
    pub guard: Duration,
    /// How requests are sent.
    pub shape: Shape,
    /// Whether connections are used again.
    pub keep_alive: bool,
    /// A request without a response after this time is an error.
    pub timeout: Duration,
}

/// Processor time per request, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// The group; `not accounted for` is the time that belongs to none.
    pub group: String,
    /// Which processes.
    pub spec: String,
    /// All processor time.
    pub total: Mean,
    /// Whether the number says something: what is not accounted for is not known where other programs were busy.
    pub is_known: bool,
    /// In user mode.
    pub user: Mean,
    /// In the kernel.
    pub system: Mean,
    /// Processes that ended in a phase. Their time is included if their parent is in the group and has reaped them.
    pub ended: usize,
}

/// The result for one page.
#[derive(Clone, Debug, Serialize)]
pub struct Attributed {
    /// Its path.
    pub page: String,
    /// Requests in all.
    pub requests: u64,
    /// The time by group, and the time that no group accounts for.
    pub shares: Vec<Share>,
    /// All groups together, in milliseconds per request.
    pub sum: Mean,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The address.
    pub url: String,
    /// The page, and the one that exits early, if it was named.
    pub pages: Vec<Attributed>,
    /// Pairs of phases.
    pub pairs: usize,
    /// Seconds of load and of guard in a phase.
    pub seconds: (f64, f64),
    /// Wall-clock time of Reprise's workers per request by state, in milliseconds, from its scoreboard.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, f64>,
    /// What it was measured on.
    pub machine: BTreeMap<String, String>,
}

/// The groups that `--auto` finds by the names of processes, for a target on this machine.
///
/// # Errors
///
/// No process is seen to listen on the target's port.
pub fn discover(target: &Target) -> Result<Vec<Group>, String> {
    let all = Process::all();
    let mut groups = Vec::new();
    for (name, words) in KNOWN {
        let mut names: Vec<&str> = all
            .iter()
            .map(|one| one.name.as_str())
            .filter(|name| words.iter().any(|word| name.starts_with(word)))
            .collect();
        names.sort_unstable();
        names.dedup();
        let many = names.len() > 1;
        groups.extend(names.into_iter().map(|found| Group {
            name: if many { format!("{name} ({found})") } else { name.to_owned() },
            spec: Spec::Comm(found.to_owned()),
        }));
    }
    let web = Group { name: "web server".to_owned(), spec: Spec::Port(target.address.port()) };
    web.members()?;
    groups.push(web);
    Ok(groups)
}

/// What one phase has used.
struct Phase {
    groups: Vec<(Time, usize)>,
    rest: f64,
    seconds: f64,
    requests: u64,
}

struct Psd<'a> {
    plan: &'a Plan,
    classes: Vec<Class>,
}

/// Measures. `states` reads the scoreboard if the target is a Reprise: nanoseconds by state so far.
///
/// # Errors
///
/// The target does not respond, or wrongly, or counters cannot be read.
pub fn run(
    plan: &Plan,
    states: &dyn Fn() -> Option<BTreeMap<String, f64>>,
    progress: &dyn Fn(&str),
) -> Result<Report, String> {
    if plan.pairs < MINIMUM_PAIRS {
        return Err(format!("{} pairs of phases: fewer than {MINIMUM_PAIRS} say nothing of the error", plan.pairs));
    }
    let paths = std::iter::once(plan.target.path.clone()).chain(plan.until_exit.clone());
    let mut psd = Psd { plan, classes: Vec::new() };
    for path in paths {
        let target = Target { path, ..plan.target.clone() };
        progress(&format!("check {}", target.path));
        let checked = check::target(&target, std::slice::from_ref(&plan.request), plan.keep_alive, plan.timeout)?;
        psd.classes.extend(checked.classes);
    }
    for group in &plan.groups {
        group.read()?;
    }
    progress("warm-up");
    for page in 0..psd.classes.len() {
        psd.load(page, Duration::from_secs(1).min(plan.span))?;
    }
    let mut pairs: Vec<Vec<(Phase, Phase)>> = psd.classes.iter().map(|_| Vec::new()).collect();
    let before = states();
    for pair in 0..plan.pairs {
        for page in stats::orders(psd.classes.len(), pair + 1).pop().unwrap_or_default() {
            progress(&format!("pair {} of {}: {}", pair + 1, plan.pairs, psd.classes[page].name));
            let is_first = stats::orders(2, pair + 1).pop().is_some_and(|order| order[0] == 0);
            let (loaded, idle) = if is_first {
                let loaded = psd.phase(Some(page))?;
                (loaded, psd.phase(None)?)
            } else {
                let idle = psd.phase(None)?;
                (psd.phase(Some(page))?, idle)
            };
            pairs[page].push((loaded, idle));
        }
    }
    let requests: u64 = pairs.iter().flatten().map(|(loaded, _)| loaded.requests).sum();
    let states = match (before, states()) {
        // With two pages the time could not be divided between them.
        (Some(before), Some(after)) if psd.classes.len() == 1 => spent_by_state(&before, &after, requests),
        _ => BTreeMap::new(),
    };
    let pages = pairs.iter().zip(&psd.classes).map(|(pairs, class)| attribute(plan, &class.name, pairs));
    Ok(Report {
        url: plan.target.url.clone(),
        pages: pages.collect(),
        pairs: plan.pairs,
        seconds: (plan.span.as_secs_f64(), plan.guard.as_secs_f64()),
        states,
        machine: machine::describe(),
    })
}

fn spent_by_state(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    requests: u64,
) -> BTreeMap<String, f64> {
    let per_request = |(state, now): (&String, &f64)| {
        let spent = (now - before.get(state).copied().unwrap_or(0.0)) / 1e6 / requests as f64;
        (state.clone(), spent.max(0.0))
    };
    after.iter().map(per_request).collect()
}

impl Psd<'_> {
    fn load(&self, page: usize, duration: Duration) -> Result<u64, String> {
        let plan = self.plan;
        let load = Load {
            address: plan.target.address,
            classes: vec![self.classes[page].clone()],
            shape: plan.shape,
            duration,
            keep_alive: plan.keep_alive,
            timeout: plan.timeout,
            seed: 1,
        };
        let outcome = generator::run(&load).map_err(|error| format!("the generator: {error}"))?;
        match outcome.failure() {
            Some(failure) => Err(format!("{}: {failure}", self.classes[page].name)),
            None if outcome.total == 0 => Err(format!("{}: no response in {duration:?}", self.classes[page].name)),
            None => Ok(outcome.total),
        }
    }

    /// Runs one phase, with the load of a page or without load.
    fn phase(&self, page: Option<usize>) -> Result<Phase, String> {
        let began = Instant::now();
        let (busy, own) = (machine_busy(), own_time());
        let before = self.plan.groups.iter().map(Group::read).collect::<Result<Vec<_>, _>>()?;
        let requests = page.map(|page| self.load(page, self.plan.span)).transpose()?.unwrap_or(0);
        // A phase without load lasts as long as one with load, which ends with its last response.
        let rest = if page.is_some() { self.plan.guard } else { self.plan.span + self.plan.guard };
        std::thread::sleep(rest);
        let after = self.plan.groups.iter().map(Group::read).collect::<Result<Vec<_>, _>>()?;
        let groups = spent(&before, &after);
        let counted: f64 = groups.iter().map(|(time, _)| time.total).sum();
        let rest = machine_busy() - busy - (own_time() - own) - counted;
        Ok(Phase { groups, rest, seconds: began.elapsed().as_secs_f64(), requests })
    }
}

/// Processor time of this process, in nanoseconds.
fn own_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn attribute(plan: &Plan, name: &str, pairs: &[(Phase, Phase)]) -> Attributed {
    let per_request = |of: &dyn Fn(&Phase) -> f64| -> Mean {
        let values: Vec<f64> = pairs
            .iter()
            .map(|(loaded, idle)| {
                (of(loaded) - of(idle) * loaded.seconds / idle.seconds) / 1e6 / loaded.requests as f64
            })
            .collect();
        stats::mean(&values)
    };
    let mut shares: Vec<Share> = plan
        .groups
        .iter()
        .enumerate()
        .map(|(number, group)| Share {
            group: group.name.clone(),
            spec: group.spec.to_string(),
            total: per_request(&|phase| phase.groups[number].0.total),
            is_known: true,
            user: per_request(&|phase| phase.groups[number].0.total - phase.groups[number].0.system),
            system: per_request(&|phase| phase.groups[number].0.system),
            ended: pairs.iter().map(|(loaded, idle)| loaded.groups[number].1 + idle.groups[number].1).sum(),
        })
        .collect();
    let nothing = Mean { value: 0.0, error: 0.0, half: 0.0 };
    let (rest, sum) =
        (per_request(&|phase| phase.rest), per_request(&|phase| phase.groups.iter().map(|(time, _)| time.total).sum()));
    shares.push(Share {
        group: "not accounted for".to_owned(),
        spec: String::new(),
        is_known: is_known(&rest, &sum),
        total: rest,
        user: nothing,
        system: nothing,
        ended: 0,
    });
    Attributed { page: name.to_owned(), requests: pairs.iter().map(|(loaded, _)| loaded.requests).sum(), shares, sum }
}

/// Whether the time of no group is known beside that of all groups. It is what the machine was busy less what is accounted for, so the work of
/// other programs is in it: where that has varied by more than half of the groups' own time, or leaves less than nothing, it says nothing.
fn is_known(rest: &Mean, sum: &Mean) -> bool {
    rest.half <= sum.value / 2.0 && rest.value >= -rest.half.max(sum.value / 20.0)
}

fn shown(mean: &Mean) -> String {
    format!("{:.3} ± {:.3}", mean.value, mean.half)
}

impl Report {
    /// The report for people.
    pub fn page(&self) -> Page {
        let mut page = Page { title: format!("CPU of {}", self.url), machine: self.machine.clone(), ..Page::default() };
        let method = format!(
            "{} pairs of phases, {} s of load and {} s of guard each; milliseconds per request, ± half of the 95 % interval.",
            self.pairs, self.seconds.0, self.seconds.1
        );
        if let [whole, exit] = self.pages.as_slice() {
            page.summary.push(format!(
                "{} takes {} ms of processor time, {} of it until {} exits: {:.0} %.",
                whole.page,
                shown(&whole.sum),
                shown(&exit.sum),
                exit.page,
                exit.sum.value / whole.sum.value * 100.0
            ));
        } else if let [only] = self.pages.as_slice() {
            page.summary.push(format!("{} takes {} ms of processor time.", only.page, shown(&only.sum)));
        }
        page.summary.push(method);
        let stack = |one: &Attributed| {
            let of_group = |share: &Share| {
                let part =
                    |what: &str, mean: &Mean| Part { series: format!("{} {what}", share.group), value: mean.value };
                if !share.is_known {
                    Vec::new()
                } else if share.spec.is_empty() {
                    vec![Part { series: share.group.clone(), value: share.total.value }]
                } else {
                    vec![part("user", &share.user), part("system", &share.system)]
                }
            };
            Stack { label: one.page.clone(), parts: one.shares.iter().flat_map(of_group).collect() }
        };
        for (number, one) in self.pages.iter().enumerate() {
            page.sections.push(Section {
                title: format!("{}: {} requests", one.page, one.requests),
                text: Vec::new(),
                table: Some(one.table()),
                // One chart for all pages, with one scale.
                chart: (number == 0)
                    .then(|| Chart::Stacked { unit: "ms".to_owned(), rows: self.pages.iter().map(stack).collect() }),
            });
        }
        if !self.states.is_empty() {
            let row = |(state, ms): (&String, &f64)| vec![state.clone(), format!("{ms:.4}")];
            page.sections.push(Section {
                title: "Workers by state".to_owned(),
                text: vec![
                    "Wall-clock milliseconds per request in which workers of Reprise ran PHP, ended the request after its \
                     response, waited for a body, or had their memory put back."
                        .to_owned(),
                ],
                table: Some(Table { columns: vec!["state".to_owned(), "ms".to_owned()], rows: self.states.iter().map(row).collect() }),
                chart: None,
            });
        }
        page
    }
}

impl Attributed {
    fn table(&self) -> Table {
        let row = |share: &Share| {
            let ended = if share.ended > 0 { format!("; {} ended", share.ended) } else { String::new() };
            let (user, system) = match share.spec.is_empty() {
                true => (String::new(), String::new()),
                false => (shown(&share.user), shown(&share.system)),
            };
            let (total, error) = match share.is_known {
                true => (shown(&share.total), format!("{:.4}", share.total.error)),
                false => ("not known: other programs were busy".to_owned(), String::new()),
            };
            vec![share.group.clone(), total, error, user, system, format!("{}{ended}", share.spec)]
        };
        let mut rows: Vec<Vec<String>> = self.shares.iter().map(row).collect();
        let sum = vec![
            "all groups".to_owned(),
            shown(&self.sum),
            format!("{:.4}", self.sum.error),
            String::new(),
            String::new(),
            String::new(),
        ];
        rows.insert(rows.len() - 1, sum);
        let columns = ["group", "ms per request", "standard error", "user", "system", "processes"];
        Table { columns: columns.map(str::to_owned).to_vec(), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_accounted_for_is_not_known_on_a_busy_machine() {
        let mean = |value: f64, half: f64| Mean { value, error: half / 2.0, half };
        let sum = mean(2.0, 0.1);
        for (rest, expected) in [
            (mean(0.05, 0.04), true),
            (mean(-0.02, 0.05), true),
            (mean(-6.0, 1.0), false),
            (mean(-6.0, 20.0), false),
            (mean(3.0, 9.0), false),
        ] {
            assert_eq!(is_known(&rest, &sum), expected, "{} ± {}", rest.value, rest.half);
        }
    }
}
