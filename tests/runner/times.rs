//! What tests cost in an earlier run: the queue begins with those that take longest, and a run that costs too much names those that
//! have grown.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::server::project;

use crate::build;
use crate::ran::Ran;

/// A run's tests, below the target directory.
pub const LAST: &str = "test-times.tsv";

/// The same of a run of some tests or stages.
pub const OF_PART: &str = "test-times.part.tsv";

/// The same of a runner that another one has started.
pub const OF_BUILT: &str = "test-times.built.tsv";

/// Those of a run that was kept: `./test --keep-times` writes it, and it is committed.
const KEPT: &str = "tests/runner/times.tsv";

/// Tests that cost less are not kept.
const LEAST: Duration = Duration::from_millis(500);

/// Processor time and time of a test.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Of all processes that it waited for.
    pub processor: Duration,
    /// From its start to its end.
    pub took: Duration,
}

/// Costs by the names of tests.
pub type Costs = HashMap<String, Cost>;

/// Of the last run in this checkout, where a test was in it, else of the kept one.
pub fn known() -> Costs {
    let mut costs = kept();
    costs.extend([LAST, OF_BUILT].iter().flat_map(|name| read(&build::target().join(name))));
    costs
}

/// Of the run that was kept.
pub fn kept() -> Costs {
    read(&project().join(KEPT))
}

/// Of a runner that this one has started, with that target directory; none if it wrote no table.
pub fn of_built(target: &Path) -> Costs {
    read(&target.join(OF_BUILT))
}

fn read(path: &Path) -> Costs {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let mut seconds = || fields.next()?.parse::<f64>().ok().map(Duration::from_secs_f64);
        let (processor, took) = (seconds()?, seconds()?);
        Some((fields.next()?.to_owned(), Cost { processor, took }))
    };
    text.lines().filter_map(row).collect()
}

/// Writes the tests of this run, by processor time: whoever shortens the run begins at the top.
pub fn write(tests: &[Ran], name: &str) -> std::io::Result<PathBuf> {
    let mut rows: Vec<(&str, Cost)> =
        tests.iter().map(|test| (test.name.as_str(), Cost { processor: test.processor, took: test.took })).collect();
    rows.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.processor));
    let path = build::target().join(name);
    std::fs::write(&path, table(&rows))?;
    Ok(path)
}

/// Keeps the last run.
pub fn keep() -> std::io::Result<String> {
    let costs = read(&build::target().join(LAST));
    let mut rows: Vec<(&str, Cost)> =
        costs.iter().map(|(name, cost)| (name.as_str(), *cost)).filter(|(_, cost)| cost.processor >= LEAST).collect();
    rows.sort_unstable_by_key(|(name, _)| *name);
    std::fs::write(project().join(KEPT), table(&rows))?;
    Ok(format!("{KEPT} has the {} tests of the last run that cost {LEAST:?} or more", rows.len()))
}

fn table(rows: &[(&str, Cost)]) -> String {
    let mut text = "CPU s\ts\ttest\n".to_owned();
    for (name, Cost { processor, took }) in rows {
        let _ = writeln!(text, "{:.2}\t{:.2}\t{name}", processor.as_secs_f64(), took.as_secs_f64());
    }
    text
}
