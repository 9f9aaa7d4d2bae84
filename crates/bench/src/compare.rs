//! `reprise bench`: targets measured by turns.
//!
//! | step | what |
//! |---|---|
//! | check | each target answers, always alike, and all of them alike |
//! | knee | closed loops with 1, 2, 4 … connections: the fewest that reach 95 % of the most |
//! | rounds | closed loops with the knee's connections, each target once a round, in balanced order |
//! | open | fixed rates below the lowest knee: latency as users see it |
//!
//! Any failure ends the run without a result.

use std::time::Duration;

use crate::check::{self, Checked};
use crate::generator;
use crate::groups::{Group, Reading, Spec, Time, memory_kib, spent};
use crate::load::{Load, Outcome, Shape};
use crate::machine;
use crate::report;
use crate::report::{Curve, Measured, Open, Ratio, Report, Spent};
use crate::scenario::{Request, Target};
use crate::stats;

/// Connections that are tried to find the knee.
const STEPS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// The knee has this share of the highest rate.
const KNEE: f64 = 0.95;
/// Rates of the open loop, as shares of the lowest target's knee.
const SHARES: [f64; 3] = [0.5, 0.8, 0.95];
/// Responses that each connection of a closed loop needs: with fewer the rate could only have a few values.
const ENOUGH: u64 = 8;
/// The search for the knee needs this many times as many, because a round may be slower.
const MARGIN: u64 = 4;
/// If the generator uses more of a processor than this, it is the limit.
const BUSY: f64 = 0.9;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers.
    pub targets: Vec<Target>,
    /// The requests that each of them gets.
    pub requests: Vec<Request>,
    /// The processes of each target, by its label.
    pub groups: Vec<(String, Group)>,
    /// Whether processor time and memory are left out.
    pub is_blind: bool,
    /// Connections of the closed loop; `None`: those of the knee.
    pub connections: Option<usize>,
    /// Rounds of the closed loop; 0: none.
    pub rounds: usize,
    /// How long a closed loop of a round lasts.
    pub span: Duration,
    /// Rates of the open loop; `None`: shares of the knee.
    pub rates: Option<Vec<f64>>,
    /// How long an open loop lasts; 0: there is none.
    pub open_span: Duration,
    /// Connections of the open loop at most.
    pub open_connections: usize,
    /// Whether connections are used again.
    pub keep_alive: bool,
    /// A request without a response after this time is an error.
    pub timeout: Duration,
}

struct Bench<'a> {
    plan: &'a Plan,
    checked: Vec<Checked>,
    groups: Vec<Vec<Group>>,
    report: Report,
    progress: &'a dyn Fn(&str),
}

/// Measures.
///
/// # Errors
///
/// Anything that makes a comparison worthless: a target does not respond, or wrongly, or not alike; it dies; or its
/// processes may not be read.
pub fn run(plan: &Plan, progress: &dyn Fn(&str)) -> Result<Report, String> {
    if plan.rounds > 0 && plan.rounds < stats::MINIMUM_ROUNDS {
        return Err(format!(
            "{} rounds: fewer than {} say nothing of how sure a ratio is",
            plan.rounds,
            stats::MINIMUM_ROUNDS
        ));
    }
    let mut checked = Vec::new();
    for target in &plan.targets {
        progress(&format!("check {}", target.label));
        checked.push(check::target(target, &plan.requests, plan.keep_alive, plan.timeout)?);
    }
    check::alike(&plan.targets, &checked)?;
    let groups = groups(plan)?;
    let targets = plan.targets.iter().zip(&checked).zip(&groups).map(|((target, checked), groups)| Measured {
        label: target.label.clone(),
        url: target.url.clone(),
        checked: checked
            .classes
            .iter()
            .zip(&checked.how)
            .map(|(class, how)| format!("{}: {how}", class.name))
            .collect(),
        command: groups
            .first()
            .and_then(|group| group.members().ok()?.first().copied())
            .map_or(String::new(), machine::command_of),
        knee: Vec::new(),
        rates: Vec::new(),
        rate: None,
        closed: Vec::new(),
        cpu: Vec::new(),
        memory_kib: None,
        open: Vec::new(),
        retries: 0,
    });
    let report = Report {
        targets: targets.collect(),
        ratios: Vec::new(),
        connections: plan.connections.unwrap_or(0),
        span: plan.span.as_secs_f64(),
        notes: Vec::new(),
        machine: machine::describe(),
    };
    let mut bench = Bench { plan, checked, groups, report, progress };
    bench.warm()?;
    bench.find_knee()?;
    bench.rounds()?;
    bench.open()?;
    bench.weigh();
    Ok(bench.report)
}

/// The processes of each target: those that were named for it, else those that listen on its port.
fn groups(plan: &Plan) -> Result<Vec<Vec<Group>>, String> {
    let of = |target: &Target| {
        let named: Vec<Group> =
            plan.groups.iter().filter(|(label, _)| *label == target.label).map(|(_, group)| group.clone()).collect();
        match (named.is_empty(), target.address.ip().is_loopback()) {
            (_, _) if plan.is_blind => Vec::new(),
            (true, true) => vec![Group { name: "server".to_owned(), spec: Spec::Port(target.address.port()) }],
            // Nothing is known of processes on another machine.
            _ => named,
        }
    };
    let all: Vec<Vec<Group>> = plan.targets.iter().map(of).collect();
    for group in all.iter().flatten() {
        group.read().map_err(|wrong| format!("{wrong}; --no-processes measures without processor time and memory"))?;
    }
    Ok(all)
}

impl Bench<'_> {
    fn load(&self, number: usize, shape: Shape, duration: Duration, seed: u64) -> Load {
        Load {
            address: self.plan.targets[number].address,
            classes: self.checked[number].classes.clone(),
            shape,
            duration,
            keep_alive: self.plan.keep_alive,
            timeout: self.plan.timeout,
            seed,
        }
    }

    fn make(&mut self, number: usize, load: &Load) -> Result<Outcome, String> {
        let label = &self.plan.targets[number].label;
        let outcome = generator::run(load).map_err(|error| format!("the generator: {error}"))?;
        if let Some(failure) = outcome.failure() {
            return Err(format!("{label}: {failure}"));
        }
        if outcome.total == 0 {
            return Err(format!("{label}: no response in {:?}", load.duration));
        }
        if outcome.retries * 100 > outcome.total {
            return Err(format!(
                "{label}: {} of {} requests found their connection closed: it ends connections that are in use",
                outcome.retries, outcome.total
            ));
        }
        self.report.targets[number].retries += outcome.retries;
        Ok(outcome)
    }

    /// A closed loop leaves out requests that hang: they would hold its connections.
    fn closed(
        &mut self,
        number: usize,
        connections: usize,
        span: Duration,
        seed: u64,
    ) -> Result<(Load, Outcome), String> {
        let mut load = self.load(number, Shape::Closed { connections }, span, seed);
        load.classes.retain(|class| !class.hangs);
        let outcome = self.make(number, &load)?;
        Ok((load, outcome))
    }

    fn warm(&mut self) -> Result<(), String> {
        for number in 0..self.plan.targets.len() {
            (self.progress)(&format!("warm-up of {}", self.plan.targets[number].label));
            self.closed(number, 8, self.plan.span.min(Duration::from_secs(1)), 0)?;
        }
        Ok(())
    }

    fn find_knee(&mut self) -> Result<(), String> {
        if self.plan.connections.is_some() || self.plan.rounds == 0 {
            self.report.connections = self.plan.connections.unwrap_or(16);
            return Ok(());
        }
        let mut usable = 1;
        for (step, connections) in STEPS.into_iter().enumerate() {
            let mut is_enough = true;
            for number in stats::orders(self.plan.targets.len(), step + 1).pop().unwrap_or_default() {
                (self.progress)(&format!("knee: {connections} connections to {}", self.plan.targets[number].label));
                let (_, outcome) = self.closed(number, connections, self.plan.span, step as u64)?;
                is_enough &= outcome.answered >= MARGIN * ENOUGH * connections as u64;
                self.report.targets[number].knee.push((connections, outcome.rate()));
            }
            // With more connections each would get only a few responses, and the rate could only have a few values.
            if !is_enough {
                break;
            }
            usable = step + 1;
        }
        let knee = |target: &Measured| {
            let steps = &target.knee[..usable];
            let most = steps.iter().map(|step| step.1).fold(0.0, f64::max);
            steps.iter().find(|step| step.1 >= KNEE * most).map_or(1, |step| step.0)
        };
        self.report.connections = self.report.targets.iter().map(knee).max().unwrap_or(1);
        Ok(())
    }

    fn rounds(&mut self) -> Result<(), String> {
        let (plan, count) = (self.plan, self.plan.targets.len());
        if plan.rounds == 0 {
            return Ok(());
        }
        let mut latencies: Vec<_> = (0..count).map(|_| crate::load::histogram()).collect();
        for number in 0..count {
            self.report.targets[number].cpu = self.groups[number]
                .iter()
                .map(|group| Spent { group: group.name.clone(), rounds: Vec::new(), system: Vec::new(), ended: 0 })
                .collect();
        }
        let (mut own_cpu, mut refused) = (0.0_f64, vec![0; count]);
        for (round, order) in stats::orders(count, plan.rounds).into_iter().enumerate() {
            for number in order {
                (self.progress)(&format!("round {} of {}: {}", round + 1, plan.rounds, plan.targets[number].label));
                let before = self.read(number)?;
                let (load, outcome) = self.closed(number, self.report.connections, plan.span, 1000 + round as u64)?;
                let after = self.read(number)?;
                if outcome.answered < ENOUGH * self.report.connections as u64 {
                    return Err(format!(
                        "{}: {} responses in {:?} over {} connections are too few for a rate: --seconds has to be longer",
                        plan.targets[number].label, outcome.answered, plan.span, self.report.connections
                    ));
                }
                refused[number] += outcome.refused.len();
                self.note_cpu(number, &before, &after, outcome.total);
                let _ = latencies[number].add(outcome.latencies(&load.classes).latency);
                self.report.targets[number].rates.push(outcome.rate());
                own_cpu = own_cpu.max(outcome.own_cpu / outcome.seconds);
                self.note_pause(number, &outcome, latencies[number].value_at_quantile(0.99));
            }
        }
        for (target, refused) in self.report.targets.iter().zip(&refused).filter(|(_, refused)| **refused > 0) {
            self.report.notes.push(format!(
                "{} refused {refused} requests of the closed loops: they are in no rate and no latency, their processor time is.",
                target.label
            ));
        }
        for (target, latency) in self.report.targets.iter_mut().zip(&latencies) {
            target.rate = Some(stats::median_interval(&target.rates));
            target.closed = curve(latency);
        }
        if own_cpu > BUSY {
            self.report.notes.push(format!(
                "The generator itself was the limit: it used {:.0} % of its processor. The rates are its own.",
                own_cpu * 100.0
            ));
        }
        self.form_ratios();
        Ok(())
    }

    fn form_ratios(&mut self) {
        let Some((first, others)) = self.report.targets.split_first() else { return };
        let cpu = |target: &Measured| -> Vec<f64> {
            let rounds = target.cpu.first().map_or(0, |spent| spent.rounds.len());
            (0..rounds).map(|round| target.cpu.iter().map(|spent| spent.rounds[round]).sum()).collect()
        };
        for other in others {
            for (of, ratio) in [
                ("requests per second", stats::ratio(&first.rates, &other.rates)),
                ("CPU per request", stats::ratio(&cpu(first), &cpu(other))),
            ] {
                self.report.ratios.extend(ratio.map(|ratio| Ratio {
                    first: first.label.clone(),
                    second: other.label.clone(),
                    of: of.to_owned(),
                    ratio,
                    verdict: ratio.verdict(),
                }));
            }
        }
    }

    fn read(&self, number: usize) -> Result<Vec<Reading>, String> {
        self.groups[number].iter().map(Group::read).collect()
    }

    fn note_cpu(&mut self, number: usize, before: &[Reading], after: &[Reading], requests: u64) {
        let all = spent(before, after);
        for (spent, (Time { total, system }, ended)) in self.report.targets[number].cpu.iter_mut().zip(all) {
            spent.rounds.push(total / 1e6 / requests as f64);
            spent.system.push(system / 1e6 / requests as f64);
            spent.ended += ended;
        }
    }

    /// A closed loop hides a standstill, so a note reports it.
    fn note_pause(&mut self, number: usize, outcome: &Outcome, p99: u64) {
        let label = &self.plan.targets[number].label;
        if outcome.pause < 0.5 || outcome.pause * 1e9 < 20.0 * p99 as f64 {
            return;
        }
        let lost = outcome.rate() / (1.0 - outcome.pause / outcome.seconds).max(0.01) * outcome.pause;
        self.report.notes.push(format!(
            "{label} stood still for {:.1} s. A closed loop asks nothing in such a time: {} slow responses are in its \
             percentiles, and the {lost:.0} requests that would have come meanwhile are not. The open loop has them.",
            outcome.pause, self.report.connections
        ));
    }

    fn open(&mut self) -> Result<(), String> {
        let plan = self.plan;
        if plan.open_span.is_zero() {
            return Ok(());
        }
        let lowest = self
            .report
            .targets
            .iter()
            .filter_map(|target| target.rate)
            .map(|rate| rate.value)
            .fold(f64::INFINITY, f64::min);
        let rates = match &plan.rates {
            Some(rates) => rates.clone(),
            None if lowest.is_finite() => SHARES.iter().map(|share| (share * lowest).max(1.0)).collect(),
            None => return Err("without rounds there is no knee: give the rates of the open loop, --rate N".to_owned()),
        };
        for (turn, rate) in rates.into_iter().enumerate() {
            for number in stats::orders(plan.targets.len(), turn + 1).pop().unwrap_or_default() {
                (self.progress)(&format!("{rate:.0}/s to {}", plan.targets[number].label));
                let shape = Shape::Open { rate, connections: plan.open_connections };
                let load = self.load(number, shape, plan.open_span, 5000 + turn as u64);
                let before = self.read(number)?;
                let outcome = self.make(number, &load)?;
                let after = self.read(number)?;
                self.note_open(number, rate, &load, &outcome);
                let spent = spent(&before, &after);
                let seconds = |(group, (time, _)): (&Group, (Time, usize))| (group.name.clone(), time.total / 1e9);
                let groups = self.groups[number].iter().zip(spent).map(seconds).collect();
                if let Some(open) = self.report.targets[number].open.last_mut() {
                    open.cpu_seconds = groups;
                }
            }
        }
        Ok(())
    }

    fn note_open(&mut self, number: usize, rate: f64, load: &Load, outcome: &Outcome) {
        let label = &self.plan.targets[number].label;
        let all = outcome.latencies(&load.classes);
        let (due, sent) = (all.latency.value_at_quantile(0.99), all.service.value_at_quantile(0.99));
        let mut hanging = crate::load::histogram();
        for (responses, _) in outcome.classes.iter().zip(&load.classes).filter(|(_, class)| class.hangs) {
            let _ = hanging.add(&responses.latency);
        }
        let open = Open {
            rate,
            answered: outcome.rate(),
            latency: curve(&all.latency),
            service: curve(&all.service),
            late_ms: outcome.late.value_at_quantile(0.99) as f64 / 1e6,
            pause: outcome.pause,
            total: outcome.total,
            refused: outcome.refused.len(),
            refused_within: if outcome.refused.is_empty() { Vec::new() } else { curve(&outcome.refused) },
            cpu_seconds: Vec::new(),
            own_cpu: outcome.own_cpu / outcome.seconds,
            hanging: if hanging.is_empty() { Vec::new() } else { curve(&hanging) },
        };
        let mut notes = Vec::new();
        if outcome.unsent > 0 {
            notes.push(format!(
                "{label} does not reach {rate:.0}/s: {} requests never found one of the {} connections, or had no response at the end.",
                outcome.unsent, self.plan.open_connections
            ));
        }
        if due > 2 * sent && due > 10_000_000 {
            notes.push(format!(
                "{label} at {rate:.0}/s: 99 % within {:.1} ms of the time they were due, {:.1} ms of the time they were sent: they \
                 waited for a connection.",
                due as f64 / 1e6,
                sent as f64 / 1e6
            ));
        }
        if outcome.pause > 0.5 && outcome.pause > 20.0 / rate {
            notes.push(format!(
                "{label} at {rate:.0}/s stood still for {:.1} s: what was due meanwhile is in the percentiles, from the time it was due.",
                outcome.pause
            ));
        }
        let late = outcome.late.value_at_quantile(0.99);
        if late > 1_000_000 && late > due / 10 {
            notes.push(format!(
                "The generator itself was late at {rate:.0}/s to {label}: 1 % of the requests by more than {:.1} ms. This machine is \
                 too busy for such latencies.",
                late as f64 / 1e6
            ));
        }
        if open.own_cpu > BUSY {
            notes.push(format!(
                "The generator itself was the limit at {rate:.0}/s to {label}: {:.0} % of its processor.",
                open.own_cpu * 100.0
            ));
        }
        self.report.targets[number].open.push(open);
        self.report.notes.extend(notes);
    }

    fn weigh(&mut self) {
        for (target, groups) in self.report.targets.iter_mut().zip(&self.groups) {
            target.memory_kib = if groups.is_empty() { None } else { memory_kib(groups) };
        }
        for target in &self.report.targets {
            let ended: usize = target.cpu.iter().map(|spent| spent.ended).sum();
            if ended > 0 {
                self.report.notes.push(format!(
                    "{ended} processes of {} ended between two readings: their processor time is counted as far as their parents, in \
                     the group, have reaped them.",
                    target.label
                ));
            }
        }
    }
}

fn curve(latency: &hdrhistogram::Histogram<u64>) -> Curve {
    let value = |point: f64| if point == 0.0 { latency.min() } else { latency.value_at_quantile(point) };
    report::POINTS
        .into_iter()
        // A percentile that no response exceeds says nothing.
        .filter(|point| (1.0 - point) * latency.len() as f64 >= 1.0)
        .map(|point| (point, value(point) as f64 / 1e6))
        .collect()
}
