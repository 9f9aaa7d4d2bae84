//! The machine: its kernel, memory, limits, file systems, clock and other programs, and PHP's settings. Nothing here is changed by
//! `--fix` but settings of PHP in Reprise's own configuration.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`kernel`] | settings of the kernel, limits, file systems, the clock |
//! | [`php_settings`] | php.ini with the lines that set each value |
//! | [`measured`] | opcache's sizes against what a running server measured |
//! | [`services`] | other programs, and who listens where |

mod kernel;
mod measured;
mod php_settings;
mod services;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::status::Opcache;

use super::findings::{Check, Finding, Place, Severity};
use crate::installed::Php;
use crate::isolation;
use crate::options::{Application, Config};
pub use measured::{ask as ask_server, described};
pub use php_settings::{Tuned, look as look_at_settings};

/// Where /proc, /sys and /etc are.
pub struct System(PathBuf);

impl System {
    /// That of this machine, or what lies below a directory.
    pub fn new(base: Option<&Path>) -> System {
        System(base.map_or_else(|| PathBuf::from("/"), Path::to_owned))
    }

    /// A path of it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A short file without the white space around it.
    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The first line of a file of settings that begins with a name, in one of several files or directories of files.
    pub fn line(&self, places: &[&str], is_it: impl Fn(&str) -> bool) -> Option<Place> {
        for place in places {
            let path = self.path(place);
            let mut files: Vec<PathBuf> = match std::fs::read_dir(&path) {
                Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
                Err(_) => vec![path],
            };
            // The last one that says something wins.
            files.sort();
            for file in files.iter().rev() {
                let Ok(text) = std::fs::read_to_string(file) else { continue };
                let found = text.lines().enumerate().filter(|(_, line)| is_it(line.trim())).last();
                if let Some((number, line)) = found {
                    return Some(Place::new(file, number as u32 + 1, line.trim()));
                }
            }
        }
        None
    }
}

/// What is known of the server.
pub struct Server<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// Whether it can rewind, and why not.
    pub isolation: Option<&'a isolation::Finding>,
    /// The tree of the first application.
    pub tree: &'a Path,
    /// Settings of PHP, and where they are set, for each application.
    pub settings: &'a [Tuned],
}

/// All findings about the machine.
pub fn judge(system: &System, server: &Server<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(isolation) = server.isolation.filter(|found| found.ways.is_empty() && found.needs.is_some()) {
        let action = isolation.hint.clone().unwrap_or_else(|| "see the documentation".to_owned());
        let place =
            Place::new("/proc/sys/kernel/osrelease", 1, system.read("/proc/sys/kernel/osrelease").unwrap_or_default());
        findings.push(Finding::new(Check::Rewind, isolation.text.clone(), action).at([place]));
    }
    findings.extend(memory(system, server));
    findings.extend(kernel::judge(system, server.tree));
    findings.extend(services::judge(system, server.config));
    findings
}

/// The memory of all workers, against what there is.
fn memory(system: &System, server: &Server<'_>) -> Option<Finding> {
    let (there, place) = kernel::memory(system)?;
    let mut places = vec![place];
    let (mut most, mut usual) = (0u64, 0u64);
    for (application, settings) in server.config.applications.iter().zip(server.settings) {
        let workers = application.workers() as u64;
        let limit = settings.bytes("memory_limit");
        most = most.saturating_add(workers.saturating_mul(limit));
        usual = usual.saturating_add(workers.saturating_mul(limit.min(32 << 20)));
        places.push(settings.place("memory_limit"));
        let is_most = application.workers.is_none() && application.max_workers.is_some();
        let option = if is_most { "max_workers" } else { "workers" };
        places.push(of_option(application, option, &format!("{workers} workers")));
    }
    if most <= there {
        return None;
    }
    let megabytes =
        |bytes: u64| if bytes >= u64::MAX >> 2 { "any number of".to_owned() } else { (bytes >> 20).to_string() };
    let what = format!(
        "all workers together may take {} MB (workers × memory_limit), and there are {} MB",
        megabytes(most),
        megabytes(there)
    );
    let severity = if usual > there { Severity::Warning } else { Severity::Notice };
    let action =
        "lower workers or max_workers, or memory_limit (ini); request_memory ends a request that takes too much";
    Some(Finding::new(Check::Memory, what, action).but(severity).at(places))
}

/// Where an option is set: by a flag, which wins, or in the file. An option that neither sets is at its default.
pub fn of_option(application: &Application, option: &str, text: &str) -> Place {
    if let Some(flag) = application.places.flag(option) {
        return Place::new(flag, 0, text);
    }
    let option = option.split('.').next().unwrap_or(option);
    let text = if application.places.has(option) { text.to_owned() } else { format!("{text} by default") };
    let place = application.places.of(option);
    let parts = place.as_deref().and_then(|place| place.rsplit_once(':'));
    match parts.and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => Place::new(file, line, text),
        None => Place::new(option, 0, text),
    }
}

/// Findings about PHP's settings for one application. `opcache`: what the running server says.
pub fn judge_settings(
    tuned: &Tuned,
    application: usize,
    scripts: (usize, u64),
    extensions: Option<&BTreeSet<String>>,
    php: &Php,
    opcache: Option<&Opcache>,
) -> Vec<Finding> {
    let has_measured = opcache.is_some_and(|opcache| opcache.scripts >= scripts.0 as u64 / 2);
    let mut findings = php_settings::judge(tuned, application, scripts, extensions, php, has_measured);
    let measured: Vec<Finding> =
        opcache.iter().flat_map(|opcache| measured::judge(tuned, application, opcache)).collect();
    // What was measured says more than what follows from the scripts.
    let option = |finding: &Finding| finding.fix.as_ref().map(|fix| fix.option.clone());
    findings.retain(|one| option(one).is_none() || measured.iter().all(|other| option(other) != option(one)));
    findings.extend(measured);
    findings
}
