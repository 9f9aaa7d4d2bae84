//! Owners and modes: code that can be changed by who runs it, scripts that cannot be read, passwords that everybody can read.

use std::collections::HashMap;

use supervisor::os::user::{self, Identity};

use super::findings::{Check, Finding, Place, Severity, counted};
use super::secrets::Secret;
use super::tree::{Entry, Tree};

/// Bit of a mode: the file may be written.
const WRITE: u32 = 2;
/// Directories that applications write to.
const DATA: [&str; 14] = [
    "uploads", "cache", "caches", "var", "storage", "tmp", "temp", "logs", "log", "data", "files", "sessions",
    "upgrade", "config",
];
/// All findings about the tree, for the application's user; else for this process's user.
pub fn judge(tree: &Tree, user: Option<&Identity>, secrets: &HashMap<String, Secret>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let may = |entry: &Entry, wanted: u32| user.is_none_or(|user| user::permits(user, entry.rights, wanted));
    let (mut writable, mut by_all, mut closed, mut secret) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for entry in &tree.entries {
        let mode = entry.rights.2 & 0o7777;
        let text = || format!("mode {mode:o}, owner {}", entry.rights.0);
        let name = entry.name();
        // A directory with the sticky bit lets nobody replace what is another's.
        let is_open = mode & 0o002 != 0 && mode & 0o1000 == 0;
        let is_code = entry.is_script() || (entry.is_directory && holds_code(tree, entry));
        if is_code && is_open {
            by_all.push(Place::new(&name, 0, text()));
        } else if entry.is_script() && user.is_some() && may(entry, WRITE) && !is_data(&name) {
            writable.push(Place::new(&name, 0, text()));
        }
        if entry.is_script() && !may(entry, user::READ) {
            closed.push(Place::new(&name, 0, text()));
        }
        if let Some(found) = secrets.get(&name).filter(|_| mode & 0o004 != 0 && is_open_to_all(tree, entry)) {
            secret.push(Place::new(&name, found.line, format!("{}, {}", found.what, text())));
        }
    }
    let name = user.map_or("the application's user", |user| user.name.as_str());
    if !by_all.is_empty() {
        let what = format!("every user of this machine can change code, in {}", counted(by_all.len(), "place"));
        findings.push(Finding::new(Check::Writable, what, "chmod -R o-w").but(Severity::Error).at(by_all));
    }
    if !writable.is_empty() {
        let what = format!(
            "{} can be changed by {name}, who runs them: a fault in the application can then change its code",
            counted(writable.len(), "script")
        );
        let action = "let another user own the code (chown -R root), and give the application's user directories for its data alone";
        findings.push(Finding::new(Check::Writable, what, action).at(writable));
    }
    if !closed.is_empty() {
        let what = format!("{} cannot be read by {name}, who runs them", counted(closed.len(), "script"));
        findings.push(Finding::new(Check::Closed, what, "chmod or chown the files, or name another user").at(closed));
    }
    let places: Vec<Place> = tree.closed.iter().map(|(path, why)| Place::new(path, 0, why.clone())).collect();
    if !places.is_empty() {
        let what = format!("{} could not be read, so nothing in it was looked at", counted(places.len(), "directory"));
        findings.push(
            Finding::new(Check::Closed, what, "run doctor as root, or as the application's user")
                .but(Severity::Warning)
                .at(places),
        );
    }
    if !secret.is_empty() {
        let what = format!("{} with secrets can be read by every user of this machine", counted(secret.len(), "file"));
        let action = "chmod o-r, with the application's user as owner or group";
        findings.push(Finding::new(Check::Secret, what, action).at(secret));
    }
    findings
}

/// Whether every user of the machine reaches an entry: each directory on its way can be entered by all.
fn is_open_to_all(tree: &Tree, entry: &Entry) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let whole = tree.whole(entry);
    whole
        .ancestors()
        .skip(1)
        .all(|directory| std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

/// Whether scripts lie in a directory.
fn holds_code(tree: &Tree, directory: &Entry) -> bool {
    let from = tree.entries.partition_point(|entry| entry.path <= directory.path);
    let inside = tree.entries[from..].iter().take_while(|entry| entry.path.starts_with(&directory.path));
    inside.take(1000).any(|entry| entry.is_script() && entry.path.parent() == Some(&directory.path))
}

/// Whether a file lies where applications write.
fn is_data(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(directories, _)| directories.split('/').any(|part| DATA.contains(&part)))
}
