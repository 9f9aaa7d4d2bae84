//! The time that the workers of the measured server have spent in each state, from `reprise status --json`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use bench::groups::{Group, Spec};
use control::response;
use control::status::Status;
use control::which::Which;
use supervisor::os::state;

/// Nanoseconds by state of all workers of the Reprise that listens on the port, if there is one.
pub fn of_server(which: &Which, port: u16) -> Option<BTreeMap<String, f64>> {
    let fronts = Group { name: String::new(), spec: Spec::Port(port) }.members().ok()?;
    let sums = sums(&status_of(which, &fronts)?);
    Some(sums).filter(|sums| !sums.is_empty())
}

/// The status of the server whose front is one of these processes: of the server that was named, or of any server of this
/// user.
fn status_of(which: &Which, fronts: &[i32]) -> Option<Status> {
    let is_it = |status: &Status| status.front.as_ref().is_some_and(|front| fronts.contains(&front.pid));
    if let Some(named) = which.flag().and_then(|(flag, value)| ask(flag, value)) {
        return Some(named).filter(is_it);
    }
    let directories = std::fs::read_dir(state::default_path("")).ok()?.flatten().map(|entry| entry.path());
    directories.filter_map(|directory| ask("--state-dir", directory.as_os_str())).find(is_it)
}

/// `None`: no such server runs, or it belongs to another user. If its response cannot be read, a message says why.
fn ask(flag: &str, value: &OsStr) -> Option<Status> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("reprise")).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("reprise"));
    let output = Command::new(program).args(["status", "--json", flag]).arg(value).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let status = response::read(&String::from_utf8_lossy(&output.stdout));
    status.inspect_err(|why| eprintln!("reprise: server of {flag} {}: {why}", value.to_string_lossy())).ok()
}

fn sums(status: &Status) -> BTreeMap<String, f64> {
    let lanes = status.applications.values().flatten().flat_map(|generation| &generation.lanes);
    let mut sums = BTreeMap::new();
    for worker in lanes.flat_map(|lane| lane.workers.iter().flatten()) {
        for (state, seconds) in &worker.spent_seconds {
            *sums.entry(state.clone()).or_insert(0.0) += seconds.unwrap_or(0.0) * 1e9;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use control::status::{Generation, Lane, LaneState, Mode, Rewinds, ServerState, Stage, Status, Worker};

    fn worker(running: f64) -> Worker {
        Worker {
            slot: 0,
            pid: 1,
            state: "idle".to_owned(),
            state_seconds: None,
            request: None,
            requests: None,
            spent_seconds: [("running".to_owned(), Some(running)), ("idle".to_owned(), Some(1.0))].into(),
            rewinds: Rewinds { fast: None, scanned: None, pages: None },
            kept_connections: None,
            cpu_seconds: None,
            memory_kib: None,
        }
    }

    fn generation(lanes: Vec<Option<Vec<Worker>>>) -> Generation {
        let lane = |workers| Lane {
            script: None,
            mode: Mode::Classic,
            state: LaneState::Up,
            outdated: None,
            template: None,
            waiting: None,
            recycles: None,
            workers,
        };
        let lanes = lanes.into_iter().map(lane).collect();
        Generation {
            generation: 1,
            stage: Stage::Serving,
            stage_seconds: None,
            prototype: None,
            opcache: None,
            crashes: None,
            lanes,
        }
    }

    fn status(applications: Vec<(&str, Vec<Generation>)>) -> Status {
        let applications = applications.into_iter().map(|(name, all)| (name.to_owned(), all)).collect();
        let version = "1.2.3".to_owned();
        Status {
            version,
            pid: 1,
            seconds: 1.0,
            state: ServerState::Serving,
            front: None,
            applications,
            caches: None,
            data_caches: None,
        }
    }

    /// Each worker counts once, whatever its lane, generation and application.
    #[test]
    fn the_workers_of_all_lanes_and_generations_are_added_up() {
        let lanes = vec![Some(vec![worker(0.25), worker(0.5)]), Some(vec![worker(1.0)])];
        let status_of_two =
            status(vec![("/", vec![generation(lanes)]), ("/blog", vec![generation(vec![None]), generation(vec![])])]);
        assert_eq!(
            super::sums(&status_of_two).into_iter().collect::<Vec<_>>(),
            [("idle".to_owned(), 3e9), ("running".to_owned(), 1.75e9)]
        );
        assert!(super::sums(&status(vec![])).is_empty());
    }
}
