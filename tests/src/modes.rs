//! An entry script in each mode.

use crate::snapshot::isolations;

/// What an application ends with, and what its configuration says, by the name of the mode.
pub fn modes() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let lines = |mode: &str| vec![format!("mode.\"index.php\" = \"{mode}\"")];
    let mut modes = vec![
        ("classic", "$handle();", lines("classic")),
        ("worker", "while (reprise_handle_request($handle)) {}", lines("worker")),
    ];
    for isolation in isolations() {
        let mut configured = lines("snapshot");
        configured.push(format!("isolation = \"{isolation}\""));
        modes.push(("snapshot", "reprise_snapshot(); $handle();", configured));
    }
    modes
}
