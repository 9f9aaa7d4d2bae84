//! What a worker script would keep from one request to the next, and what a snapshot refuses or repeats.

use std::collections::BTreeMap;

use super::findings::{Check, Finding, Place, Severity, counted, is_test};
use super::reading::Told;

/// Calls that set what stays in a worker script (docs/guides/worker.md), with the call that puts it back.
const STAYING: [(&str, &str); 19] = [
    ("set_error_handler", "restore_error_handler"),
    ("set_exception_handler", "restore_exception_handler"),
    ("spl_autoload_register", "spl_autoload_unregister"),
    ("stream_wrapper_register", "stream_wrapper_unregister"),
    ("stream_wrapper_unregister", "stream_wrapper_restore"),
    ("register_shutdown_function", ""),
    ("pcntl_signal", ""),
    ("libxml_set_external_entity_loader", ""),
    ("libxml_set_streams_context", ""),
    ("libxml_disable_entity_loader", ""),
    ("mysqli_report", ""),
    ("assert_options", ""),
    ("setlocale", ""),
    ("date_default_timezone_set", ""),
    ("mb_internal_encoding", ""),
    ("mb_regex_encoding", ""),
    ("mb_substitute_character", ""),
    ("mb_detect_order", ""),
    ("bcscale", ""),
];
/// What Reprise itself puts back between requests, though other servers may not.
const PUT_BACK: [&str; 5] = [
    "set_error_handler",
    "set_exception_handler",
    "stream_wrapper_register",
    "register_shutdown_function",
    "pcntl_signal",
];
/// Calls whose result a snapshot refuses while it is open.
const HELD: [&str; 21] = [
    "mysqli_connect",
    "mysql_connect",
    "mysqli_init",
    "pg_connect",
    "pg_pconnect",
    "fsockopen",
    "pfsockopen",
    "stream_socket_client",
    "stream_socket_server",
    "socket_create",
    "session_start",
    "sem_get",
    "sem_acquire",
    "flock",
    "popen",
    "proc_open",
    "pcntl_fork",
    "ftp_connect",
    "ldap_connect",
    "imap_open",
    "fopen for writing",
];
const SEEDS: [&str; 2] = ["mt_srand", "srand"];
const SNAPSHOT: &str = "reprise_snapshot";
/// Where the boot of a script ends.
const ENDS_OF_BOOT: [&str; 3] = [SNAPSHOT, "reprise_handle_request", "frankenphp_handle_request"];

/// How the application runs.
pub struct Modes {
    /// Whether a script runs in a loop.
    pub has_worker: bool,
    /// Whether one takes a snapshot.
    pub has_snapshot: bool,
}

/// All findings.
pub fn judge(names: &[String], told: &[Told], modes: &Modes) -> Vec<Finding> {
    let mut found: BTreeMap<Check, Vec<Place>> = BTreeMap::new();
    let (mut at_boot, mut seeds, mut captured) = (Vec::new(), Vec::new(), Vec::new());
    let mut elsewhere: BTreeMap<Check, Vec<Place>> = BTreeMap::new();
    for (name, told) in names.iter().zip(told).filter(|(name, _)| !is_test(name)) {
        let calls = |function: &str| told.facts.iter().any(|(what, _, _, detail)| what == "call" && detail == function);
        let snapshot = told.facts.iter().find(|(what, _, _, detail)| what == "call" && detail == SNAPSHOT);
        let end =
            told.facts.iter().find(|(what, _, _, detail)| what == "call" && ENDS_OF_BOOT.contains(&detail.as_str()));
        for (what, line, scope, detail) in &told.facts {
            if what == "request" && *scope == 0 && end.is_some_and(|(_, at, _, _)| line < at) {
                captured.push(Place::new(name, *line, detail.clone()));
            }
            let mut add =
                |check: Check, text: String| found.entry(check).or_default().push(Place::new(name, *line, text));
            match what.as_str() {
                "exit" => add(Check::Exit, detail.clone()),
                "static" => add(Check::Statics, format!("static {detail}")),
                "static-property" => add(Check::StaticProperties, detail.clone()),
                "global" => add(Check::Globals, format!("global {detail}")),
                "globals" => add(Check::Globals, "$GLOBALS[…] = …".to_owned()),
                "call" => {
                    let staying = STAYING.iter().find(|(set, _)| set == detail);
                    if let Some((_, back)) = staying.filter(|(_, back)| back.is_empty() || !calls(back)) {
                        let back = if back.is_empty() { String::new() } else { format!(", and no {back}()") };
                        add(Check::Handlers, format!("{detail}(){back}"));
                    }
                }
                _ => {}
            }
            // What runs before the snapshot: in the file that takes it, what stands above; in others, what runs when they are included.
            let is_boot = *scope == 0 && snapshot.is_none_or(|(_, at, _, _)| line < at);
            let is_engine = what == "new" && is_random(detail);
            let is_seed = what == "call" && SEEDS.contains(&detail.as_str());
            let is_held = (what == "call" && HELD.contains(&detail.as_str())) || (what == "new" && !is_engine);
            let place = |text: String| Place::new(name, *line, text);
            if is_seed || is_engine {
                let text = if is_engine { format!("new {detail}") } else { format!("{detail}()") };
                match is_boot && snapshot.is_some() {
                    true => seeds.push(place(text)),
                    false => elsewhere.entry(Check::Random).or_default().push(place(text)),
                }
            } else if is_held && is_boot {
                let text = if what == "new" { format!("new {detail}") } else { detail.clone() };
                match snapshot.is_some() {
                    true => at_boot.push(place(text)),
                    false => elsewhere.entry(Check::Held).or_default().push(place(text)),
                }
            }
        }
    }
    let severity = if modes.has_worker { Severity::Warning } else { Severity::Notice };
    let mut findings: Vec<Finding> =
        found.into_iter().map(|(check, places)| of_worker(check, places, modes).but(severity)).collect();
    if !at_boot.is_empty() {
        let what = format!(
            "{} above reprise_snapshot(), which refuses what is still open there",
            counted(at_boot.len(), "call")
        );
        let action = "close them before the call, or open them below it";
        findings.push(Finding::new(Check::Held, what, action).at(at_boot));
    }
    if !seeds.is_empty() {
        let what = format!(
            "{} above reprise_snapshot(): every request would go on from the same state",
            counted(seeds.len(), "random engine")
        );
        let action = "make or seed them below the call; random_int() and unseeded mt_rand() are safe";
        findings.push(Finding::new(Check::Random, what, action).at(seeds));
    }
    if !captured.is_empty() {
        let what = format!(
            "{} of the boot's own request is kept by the boot: all visitors would get it",
            counted(captured.len(), "value")
        );
        let action = "read it below reprise_snapshot(), or in the callable of reprise_handle_request()";
        findings.push(Finding::new(Check::Captured, what, action).at(captured));
    }
    for (check, places) in elsewhere {
        let (what, action) = match check {
            Check::Held => (
                format!(
                    "{} when a file is included; a snapshot refuses what is still open there",
                    counted(places.len(), "call")
                ),
                "if the file is included before reprise_snapshot(), close them before the call",
            ),
            _ => (
                format!(
                    "{} of its own: made before a snapshot, one gives every request the same numbers",
                    counted(places.len(), "random engine")
                ),
                "make them anew in each request; random_int() and unseeded mt_rand() are safe",
            ),
        };
        findings.push(Finding::new(check, what, action).but(Severity::Notice).at(places));
    }
    findings
}

fn is_random(class: &str) -> bool {
    class.to_ascii_lowercase().starts_with("random\\")
}

fn of_worker(check: Check, places: Vec<Place>, modes: &Modes) -> Finding {
    let count = places.len();
    let (what, action) = match check {
        Check::Exit => (
            format!("exit or die in {} ends a worker script, which then boots again", counted(count, "place")),
            "return from the request instead, or use a snapshot, in which exit() costs nothing",
        ),
        Check::Statics => (
            format!("{} of functions stay in a worker script", counted(count, "static variable")),
            "keep nothing of a request in them, or use a snapshot",
        ),
        Check::StaticProperties => (
            format!("functions write static properties in {}, and a worker script keeps them", counted(count, "place")),
            "reset them between requests, or use a snapshot",
        ),
        Check::Globals => (
            format!("global variables in {} stay in a worker script", counted(count, "place")),
            "pass values as arguments, or use a snapshot",
        ),
        _ => (
            format!("handlers and settings are set in {} and not put back", counted(count, "place")),
            "set them before the loop, or put them back in the request",
        ),
    };
    let only = if check == Check::Handlers
        && places.iter().all(|place| PUT_BACK.iter().any(|name| place.text.starts_with(name)))
    {
        "; Reprise itself puts these back after each request, other servers may not"
    } else {
        ""
    };
    let unused =
        if modes.has_worker { "" } else { ". No script of this application runs in a loop: it matters if one shall" };
    let snapshot = if modes.has_snapshot && !modes.has_worker { "; a snapshot keeps none of it" } else { "" };
    Finding::new(check, format!("{what}{only}{unused}{snapshot}"), action).at(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(facts: &[(&str, u32, u8, &str)]) -> Told {
        let facts =
            facts.iter().map(|(what, line, scope, detail)| ((*what).to_owned(), *line, *scope, (*detail).to_owned()));
        Told { facts: facts.collect(), ..Told::default() }
    }

    fn found(facts: &[(&str, u32, u8, &str)], has_worker: bool) -> Vec<(&'static str, Severity, Vec<u32>)> {
        let findings = judge(&["a.php".to_owned()], &[told(facts)], &Modes { has_worker, has_snapshot: !has_worker });
        findings
            .iter()
            .map(|one| (one.id, one.severity, one.evidence.iter().map(|place| place.line).collect()))
            .collect()
    }

    #[test]
    fn what_stands_above_the_snapshot_counts() {
        let facts = [("new", 3, 0, "PDO"), ("call", 5, 0, SNAPSHOT), ("new", 7, 0, "PDO"), ("call", 4, 0, "mt_srand")];
        let expected = [("snapshot.held", Severity::Warning, vec![3]), ("snapshot.random", Severity::Warning, vec![4])];
        assert_eq!(found(&facts, false), expected);
        // In a function it may run at any time.
        assert_eq!(found(&[("new", 3, 1, "PDO"), ("call", 5, 0, SNAPSHOT)], false), []);
    }

    #[test]
    fn a_handler_that_is_put_back_is_no_finding() {
        let set = ("call", 3, 1, "set_error_handler");
        assert_eq!(found(&[set, ("call", 9, 1, "restore_error_handler")], true), []);
        assert_eq!(found(&[set], true), [("worker.handler", Severity::Warning, vec![3])]);
        assert_eq!(found(&[set], false), [("worker.handler", Severity::Notice, vec![3])]);
    }
}
