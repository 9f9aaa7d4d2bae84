//! `reprise release status`: what is served, and what each node does.

use clap::Args;
use release::node::State;
use release::pool::{Pool, Report, SILENT, Slot};
use release::record::{Kind, Record, Release};
use serde_json::json;

use super::shelving::served;
use super::{Where, print};
use crate::exit::{Code, Failure};

/// What is asked for.
#[derive(Args)]
pub struct Asked {
    #[command(flatten)]
    of: Where,
}

/// The nodes that have said something lately, in the order of their names. Texts of others are left out.
pub(super) fn nodes(pool: &mut dyn Pool, of: &Where) -> Result<Vec<(Report, State)>, Failure> {
    let reports = pool.reports().map_err(of.failed())?;
    let mut nodes: Vec<(Report, State)> = reports
        .into_iter()
        .filter_map(|report| {
            let state = serde_json::from_slice(&report.text).ok()?;
            Some((report, state))
        })
        .collect();
    nodes.sort_by(|one, other| one.0.node.cmp(&other.0.node));
    Ok(nodes)
}

/// A text of the pool, for a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(500).collect()
}

pub fn run(asked: &Asked) -> Result<Code, Failure> {
    let mut pool = asked.of.open()?;
    let record = served(&mut *pool, &asked.of)?;
    let prepared = pool.read(Slot::Prepare).map_err(asked.of.failed())?;
    let prepared = prepared.and_then(|bytes| Record::show(&bytes, &asked.of.name).ok());
    let pending = prepared
        .filter(|one| one.kind == Kind::Prepare && record.as_ref().is_none_or(|record| record.number < one.number));
    let nodes = nodes(&mut *pool, &asked.of)?;
    let name = |release: Option<&Release>| release.map_or_else(|| "nothing".to_owned(), Release::name);
    let mut lines = vec![match &record {
        Some(record) => format!("{}: {} by record {}", asked.of.name, record.release.name(), record.number),
        None => format!("{}: nothing is served yet", asked.of.name),
    }];
    lines.extend(record.as_ref().map(|record| format!("rollback leads to {}", name(record.previous.as_ref()))));
    lines
        .extend(pending.as_ref().map(|one| format!("being prepared: {} by record {}", one.release.name(), one.number)));
    for (report, state) in &nodes {
        let age = report.age.as_secs();
        let gone = if report.age > SILENT { format!(", silent for {age} s") } else { String::new() };
        let unready = if state.is_ready { "" } else { ", unready" };
        let why = state.why.as_ref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
        lines.push(format!(
            "{}: {}, serves {}{unready}{gone}{why}",
            report.node,
            plain(&state.state),
            name(state.serving.as_ref())
        ));
    }
    let all: Vec<_> = nodes
        .iter()
        .map(|(report, state)| json!({ "node": report.node, "silent_s": report.age.as_secs(), "is_there": report.age <= SILENT, "state": state }))
        .collect();
    let value = json!({ "name": asked.of.name, "served": record, "pending": pending, "nodes": all });
    print(asked.of.json, &value, &lines.join("\n"));
    Ok(Code::Success)
}
