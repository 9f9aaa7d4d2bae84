//! The results of `reprise bench`, and the page that shows them.

use serde::Serialize;

use crate::page::{Axis, Bar, Bars, Chart, Page, Part, Section, Series, Stack, Table};
use crate::stats::{self, Interval, Verdict};

/// Percentiles that are reported.
pub const POINTS: [f64; 9] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
/// Percentiles, in milliseconds.
pub type Curve = Vec<(f64, f64)>;

/// The results of a target.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Its label.
    pub label: String,
    /// The URL as it was given.
    pub url: String,
    /// How its bodies were checked, by request.
    pub checked: Vec<String>,
    /// Command line of its eldest process.
    pub command: String,
    /// Connections and requests per second of closed loops.
    pub knee: Vec<(usize, f64)>,
    /// Requests per second of each round.
    pub rates: Vec<f64>,
    /// The median of the rounds.
    pub rate: Option<Interval>,
    /// Latency of the closed loop.
    pub closed: Curve,
    /// Processor time per request, in milliseconds, by group.
    pub cpu: Vec<Spent>,
    /// Proportional memory of its processes at the end, KiB.
    pub memory_kib: Option<u64>,
    /// Open loops with fixed rates.
    pub open: Vec<Open>,
    /// Requests that were sent again, because the server had closed an idle connection.
    pub retries: u64,
}

/// Processor time of a group.
#[derive(Clone, Debug, Serialize)]
pub struct Spent {
    /// Its name.
    pub group: String,
    /// Milliseconds per request, of each round.
    pub rounds: Vec<f64>,
    /// The part of that in the kernel.
    pub system: Vec<f64>,
    /// Processes that ended in a round. Their time is included if their parent is in the group and has reaped them.
    pub ended: usize,
}

/// An open loop.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// Requests per second that were due.
    pub rate: f64,
    /// Requests per second that got a response.
    pub answered: f64,
    /// Latency from the time a request was due.
    pub latency: Curve,
    /// Latency from the time a request was sent.
    pub service: Curve,
    /// The generator's own lateness, 99 %, in milliseconds.
    pub late_ms: f64,
    /// The longest time without a response, in seconds.
    pub pause: f64,
    /// Requests that got a response.
    pub total: u64,
    /// Requests that were refused, where that is no error.
    pub refused: u64,
    /// Time from sending these requests to the refusal.
    pub refused_within: Curve,
    /// Processor time of each group in all, in seconds.
    pub cpu_seconds: Vec<(String, f64)>,
    /// Share of a processor that the generator used.
    pub own_cpu: f64,
    /// Latency of requests that hang.
    pub hanging: Curve,
}

/// The first target compared with another.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The target in the numerator.
    pub first: String,
    /// The target in the denominator.
    pub second: String,
    /// What is compared: `requests per second` or `CPU per request`.
    pub of: String,
    /// The ratio.
    pub ratio: Interval,
    /// The verdict in words.
    pub verdict: Verdict,
}

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The targets, in the order in which they were given.
    pub targets: Vec<Measured>,
    /// The first target compared with each other one.
    pub ratios: Vec<Ratio>,
    /// Connections of the closed loop.
    pub connections: usize,
    /// Seconds of each round of the closed loop.
    pub span: f64,
    /// Notes that a reader of the results needs.
    pub notes: Vec<String>,
    /// The machine of the measurement.
    pub machine: std::collections::BTreeMap<String, String>,
}

fn interval(found: &Interval, digits: usize) -> String {
    format!("{:.digits$} [{:.digits$}, {:.digits$}]", found.value, found.low, found.high)
}

/// The value of a percentile, in milliseconds.
fn at(curve: &Curve, point: f64) -> String {
    let found = curve.iter().find(|(percentile, _)| (percentile - point).abs() < 1e-9);
    found.map_or("-".to_owned(), |(_, value)| format!("{value:.2}"))
}

fn series(label: &str, points: Vec<(f64, f64)>) -> Series {
    Series { label: label.to_owned(), points }
}

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log, percentiles: false }
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> Option<Table> {
    Some(Table { columns: columns.iter().map(|one| (*one).to_owned()).collect(), rows })
}

fn percentiles() -> Axis {
    Axis { label: "percentile".to_owned(), log: false, percentiles: true }
}

impl Report {
    /// The report for people.
    pub fn page(&self) -> Page {
        let labels: Vec<&str> = self.targets.iter().map(|target| target.label.as_str()).collect();
        let mut page = Page { title: labels.join(" and "), machine: self.machine.clone(), ..Page::default() };
        page.summary = self.ratios.iter().map(Ratio::sentence).collect();
        page.summary.extend(self.notes.iter().cloned());
        page.sections.extend(self.throughput());
        page.sections.extend(self.processor());
        page.sections.extend(self.closed_latency());
        page.sections.extend(self.open_loops());
        page.sections.extend(self.knees());
        page.sections.push(self.method());
        page
    }

    fn throughput(&self) -> Option<Section> {
        let bar = |target: &Measured| {
            let rate = target.rate?;
            Some(Bar { series: target.label.clone(), value: rate.value, low: Some(rate.low), high: Some(rate.high) })
        };
        let bars: Vec<Bar> = self.targets.iter().filter_map(bar).collect();
        let row = |target: &Measured| {
            let rate = target.rate?;
            let memory = target.memory_kib.map_or("-".to_owned(), |kib| format!("{:.1}", kib as f64 / 1024.0));
            let cpu = target.cpu_per_thousand().map_or("-".to_owned(), |seconds| format!("{seconds:.3}"));
            let cells = [interval(&rate, 0), at(&target.closed, 0.5), at(&target.closed, 0.99), cpu, memory];
            Some(std::iter::once(target.label.clone()).chain(cells).collect())
        };
        let rows: Vec<Vec<String>> = self.targets.iter().filter_map(row).collect();
        (!bars.is_empty()).then(|| Section {
            title: "Throughput, closed loop".to_owned(),
            text: vec![format!(
                "{} connections, each asking again when it is answered; {} rounds of {} s by turns; median and 95 % interval.",
                self.connections,
                self.targets.first().map_or(0, |target| target.rates.len()),
                self.span
            )],
            table: table(&["target", "requests/s", "p50 ms", "p99 ms", "CPU s per 1,000", "memory MiB (PSS)"], rows),
            chart: Some(Chart::Bars { unit: "/s".to_owned(), groups: vec![Bars { label: String::new(), bars }] }),
        })
    }

    fn processor(&self) -> Option<Section> {
        let spent = || self.targets.iter().flat_map(|target| target.cpu.iter().map(move |spent| (target, spent)));
        spent().next()?;
        let stack = |target: &Measured| {
            let part = |spent: &Spent, system: bool| {
                let values = if system { &spent.system } else { &spent.rounds };
                let value = stats::median(values);
                Part {
                    series: format!("{} {}", spent.group, if system { "system" } else { "user" }),
                    value: if system { value } else { value - stats::median(&spent.system) },
                }
            };
            let parts = target.cpu.iter().flat_map(|spent| [part(spent, false), part(spent, true)]).collect();
            Stack { label: target.label.clone(), parts }
        };
        let rows = spent()
            .map(|(target, spent)| {
                let (all, system) = (stats::median_interval(&spent.rounds), stats::median(&spent.system));
                vec![
                    target.label.clone(),
                    spent.group.clone(),
                    interval(&all, 4),
                    format!("{:.4}", all.value - system),
                    format!("{system:.4}"),
                ]
            })
            .collect();
        Some(Section {
            title: "CPU per request".to_owned(),
            text: vec!["Processor time of each group of processes by the requests of a round.".to_owned()],
            table: table(&["target", "group", "ms", "user", "system"], rows),
            chart: Some(Chart::Stacked { unit: "ms".to_owned(), rows: self.targets.iter().map(stack).collect() }),
        })
    }

    fn closed_latency(&self) -> Option<Section> {
        let curves: Vec<Series> = self
            .targets
            .iter()
            .filter(|target| !target.closed.is_empty())
            .map(|target| series(&target.label, target.closed.clone()))
            .collect();
        (!curves.is_empty()).then(|| Section {
            title: "Latency, closed loop".to_owned(),
            text: vec![
                "From sending a request to the end of its response, at the most the server does. A closed loop asks nothing while \
                 it waits: what a standstill would have delayed is not in here."
                    .to_owned(),
            ],
            table: None,
            chart: Some(Chart::Lines { x: percentiles(), y: axis("ms", true), series: curves }),
        })
    }

    fn open_loops(&self) -> Vec<Section> {
        let all = || self.targets.iter().flat_map(|target| target.open.iter().map(move |open| (target, open)));
        let Some((_, last)) = all().max_by(|a, b| a.1.rate.total_cmp(&b.1.rate)) else { return Vec::new() };
        let rows = all()
            .map(|(target, open)| {
                let mut row = vec![target.label.clone(), format!("{:.0}", open.rate), format!("{:.0}", open.answered)];
                row.extend([0.5, 0.9, 0.99, 0.999].map(|point| at(&open.latency, point)));
                row.extend([at(&open.service, 0.99), format!("{:.2}", open.late_ms)]);
                let spent: f64 = open.cpu_seconds.iter().map(|one| one.1).sum();
                let has_cpu = !open.cpu_seconds.is_empty() && open.total > 0;
                row.push(if has_cpu { format!("{:.3}", spent * 1000.0 / open.total as f64) } else { "-".to_owned() });
                row
            })
            .collect();
        let by_rate = self.targets.iter().map(|target| {
            let p99 = |open: &Open| Some((open.rate, open.latency.iter().find(|one| one.0 == 0.99)?.1));
            series(&target.label, target.open.iter().filter_map(p99).collect())
        });
        let at_most = self.targets.iter().map(|target| {
            let open = target.open.iter().find(|open| open.rate == last.rate);
            series(&target.label, open.map_or(Vec::new(), |open| open.latency.clone()))
        });
        let columns = [
            "target",
            "due/s",
            "answered/s",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "p99.9 ms",
            "p99 from sending",
            "own lateness p99",
            "CPU ms per response",
        ];
        let mut sections = vec![
            Section {
                title: "Latency at fixed rates, open loop".to_owned(),
                text: vec![
                    "Requests are due at the times of a fixed rate, whether or not earlier ones are answered; latency counts from then."
                        .to_owned(),
                ],
                table: table(&columns, rows),
                chart: Some(Chart::Lines { x: axis("requests per second", false), y: axis("p99, ms", true), series: by_rate.collect() }),
            },
            Section {
                title: format!("Latency at {:.0} requests per second", last.rate),
                chart: Some(Chart::Lines { x: percentiles(), y: axis("ms", true), series: at_most.collect() }),
                ..Section::default()
            },
        ];
        let hanging: Vec<Vec<String>> = all()
            .filter(|(_, open)| !open.hanging.is_empty())
            .map(|(target, open)| {
                let mut row = vec![target.label.clone(), format!("{:.0}", open.rate)];
                row.extend([0.5, 0.99].map(|point| at(&open.hanging, point)));
                row
            })
            .collect();
        let refused: Vec<Vec<String>> = all()
            .filter(|(_, open)| open.refused > 0)
            .map(|(target, open)| {
                let mut row = vec![
                    target.label.clone(),
                    format!("{:.0}", open.rate),
                    open.total.to_string(),
                    open.refused.to_string(),
                ];
                row.extend([0.5, 0.99].map(|point| at(&open.refused_within, point)));
                row
            })
            .collect();
        if !refused.is_empty() {
            sections.push(Section {
                title: "Refused requests".to_owned(),
                text: vec!["Answered with 503, from sending to the response.".to_owned()],
                table: table(&["target", "due/s", "answered", "refused", "p50 ms", "p99 ms"], refused),
                ..Section::default()
            });
        }
        if !hanging.is_empty() {
            sections.push(Section {
                title: "Requests that hang".to_owned(),
                table: table(&["target", "rate", "p50 ms", "p99 ms"], hanging),
                ..Section::default()
            });
        }
        sections
    }

    fn knees(&self) -> Option<Section> {
        let curve =
            |target: &Measured| series(&target.label, target.knee.iter().map(|step| (step.0 as f64, step.1)).collect());
        let curves: Vec<Series> = self.targets.iter().filter(|target| !target.knee.is_empty()).map(curve).collect();
        (!curves.is_empty()).then(|| Section {
            title: "Throughput by connections".to_owned(),
            text: vec![format!(
                "The knee is the fewest connections with 95 % of the most; {} were used for all.",
                self.connections
            )],
            table: None,
            chart: Some(Chart::Lines {
                x: axis("connections", true),
                y: axis("requests per second", false),
                series: curves,
            }),
        })
    }

    fn method(&self) -> Section {
        let mut rows = Vec::new();
        for target in &self.targets {
            rows.push(vec![target.label.clone(), "URL".to_owned(), target.url.clone()]);
            if !target.command.is_empty() {
                rows.push(vec![target.label.clone(), "command".to_owned(), target.command.clone()]);
            }
            rows.extend(
                target.checked.iter().map(|how| vec![target.label.clone(), "body checked by".to_owned(), how.clone()]),
            );
            if target.retries > 0 {
                rows.push(vec![
                    target.label.clone(),
                    "sent anew".to_owned(),
                    format!("{} (an idle connection was closed)", target.retries),
                ]);
            }
        }
        Section {
            title: "Targets".to_owned(),
            text: Vec::new(),
            table: table(&["target", "what", ""], rows),
            chart: None,
        }
    }
}

impl Measured {
    /// Processor seconds of all its groups per 1,000 requests.
    pub fn cpu_per_thousand(&self) -> Option<f64> {
        (!self.cpu.is_empty()).then(|| self.cpu.iter().map(|spent| stats::median(&spent.rounds)).sum())
    }
}

impl Ratio {
    fn sentence(&self) -> String {
        format!(
            "{}: {} / {} = {}: {}.",
            self.of,
            self.first,
            self.second,
            interval(&self.ratio, 3),
            self.verdict.word()
        )
    }
}
