//! What the Reprise that is measured says of its workers' time, by `reprise status --json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench::groups::{Group, Spec};
use process::state;
use serde_json::Value;

/// Which server's status says where the time of its workers goes.
#[derive(clap::Args)]
pub struct Which {
    /// The server that this configuration file describes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "state_dir"])]
    config: Option<PathBuf>,
    /// The server of this name; without one, the only one there is
    #[arg(long, value_name = "NAME", conflicts_with = "state_dir")]
    name: Option<String>,
    /// The server with this state directory
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// Nanoseconds by state of all workers of the Reprise that listens there, if there is one and it answers.
pub fn of_server(which: &Which, port: u16) -> Option<BTreeMap<String, f64>> {
    let fronts = Group { name: String::new(), spec: Spec::Port(port) }.members().ok()?;
    let sums = sums(&status_of(which, &fronts)?);
    Some(sums).filter(|sums| !sums.is_empty())
}

/// The status of the server whose front is one of these processes: the one that was named, or any of this user's.
fn status_of(which: &Which, fronts: &[i32]) -> Option<Value> {
    let is_it = |status: &Value| {
        status["front"]["pid"].as_i64().is_some_and(|pid| fronts.iter().any(|one| i64::from(*one) == pid))
    };
    let named = match which {
        Which { config: Some(file), .. } => ask("--config", file),
        Which { name: Some(name), .. } => ask("--name", Path::new(name)),
        Which { state_dir: Some(directory), .. } => ask("--state-dir", directory),
        _ => None,
    };
    if named.is_some() {
        return named.filter(is_it);
    }
    let directories = std::fs::read_dir(state::default_path("")).ok()?.flatten().map(|entry| entry.path());
    directories.filter_map(|directory| ask("--state-dir", &directory)).find(is_it)
}

/// `None`: no such server runs, or it is another user's.
fn ask(flag: &str, value: &Path) -> Option<Value> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("reprise")).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("reprise"));
    let output = Command::new(program).args(["status", "--json", flag]).arg(value).output().ok()?;
    serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
}

fn sums(status: &Value) -> BTreeMap<String, f64> {
    let applications = status["applications"].as_object().into_iter().flat_map(|all| all.values());
    let generations = applications.filter_map(Value::as_array).flatten();
    let lanes = generations.filter_map(|one| one["lanes"].as_array()).flatten();
    let mut sums = BTreeMap::new();
    for worker in lanes.filter_map(|lane| lane["workers"].as_array()).flatten() {
        for (state, seconds) in worker["spent_seconds"].as_object().into_iter().flatten() {
            *sums.entry(state.clone()).or_insert(0.0) += seconds.as_f64().unwrap_or(0.0) * 1e9;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workers_of_all_lanes_and_generations_are_added_up() {
        let worker = |running: f64| serde_json::json!({"spent_seconds": {"running": running, "idle": 1.0}});
        let lanes = serde_json::json!([{"workers": [worker(0.25), worker(0.5)]}, {"workers": [worker(1.0)]}]);
        let status = serde_json::json!({"applications": {"/": [{"lanes": lanes}], "/blog": [{"lanes": [{}]}, {}]}});
        assert_eq!(
            super::sums(&status).into_iter().collect::<Vec<_>>(),
            [("idle".to_owned(), 3e9), ("running".to_owned(), 1.75e9)]
        );
        assert!(super::sums(&serde_json::json!({})).is_empty());
    }
}
