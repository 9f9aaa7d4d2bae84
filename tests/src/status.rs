//! Numbers from what `reprise status --json` prints, wherever they are in it.

/// Workers of the lanes of a mode, in what `reprise status --json` says.
pub fn workers_in(status: &str, mode: &str) -> usize {
    let lanes = status.split("\"mode\":").skip(1);
    let of_mode = lanes.filter(|lane| lane.starts_with(&format!("\"{mode}\"")));
    of_mode.map(|lane| lane.matches("\"slot\":").count()).sum()
}

/// A number behind a name in the status as JSON, summed over all that have it.
pub fn sum(status: &str, name: &str) -> u64 {
    let name = format!("\"{name}\":");
    let pieces = status.split(&name).skip(1);
    pieces.map(|piece| piece.split([',', '}']).next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)).sum()
}
