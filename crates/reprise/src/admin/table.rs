//! The status for people.

use serde_json::Value;

/// Workers shown of a generation, unless all are asked for.
const SHOWN: usize = 30;

/// What `reprise status` prints.
pub fn status(status: &Value, is_all: bool) -> String {
    let mut text = format!(
        "Reprise {}, {}, up {}, supervisor {}, front {}\n",
        word(&status["version"]),
        word(&status["state"]),
        time(&status["seconds"]),
        word(&status["pid"]),
        word(&status["front"]["pid"]),
    );
    for (name, generations) in status["applications"].as_object().into_iter().flatten() {
        for generation in generations.as_array().into_iter().flatten() {
            let stage = match generation["stage_seconds"] {
                Value::Null => word(&generation["stage"]),
                ref seconds => format!("{} for {}", word(&generation["stage"]), time(seconds)),
            };
            let (ordinal, prototype) = (word(&generation["generation"]), word(&generation["prototype"]));
            text.push_str(&format!("\n{name}, generation {ordinal}, {stage}, prototype {prototype}\n"));
            text.push_str(&lanes(generation));
            text.push_str(&workers(generation, is_all));
        }
    }
    text
}

fn of<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn lane_name(lane: &Value) -> String {
    lane["script"].as_str().map_or("classic".to_owned(), str::to_owned)
}

fn lanes(generation: &Value) -> String {
    let mut rows =
        vec![["LANE", "MODE", "STATE", "WORKERS", "IDLE", "WAITING", "RECYCLED"].map(str::to_owned).to_vec()];
    for lane in of(generation, "lanes") {
        let idle = of(lane, "workers").filter(|worker| worker["state"] == "idle").count();
        let recycles = lane["recycles"].as_object().into_iter().flatten();
        let recycles =
            recycles.filter(|(_, count)| count.as_u64() != Some(0)).map(|(why, count)| format!("{why} {count}"));
        let recycles: Vec<String> = recycles.collect();
        rows.push(vec![
            lane_name(lane),
            word(&lane["mode"]),
            word(&lane["state"]),
            of(lane, "workers").count().to_string(),
            idle.to_string(),
            word(&lane["waiting"]),
            if recycles.is_empty() { "-".to_owned() } else { recycles.join(", ") },
        ]);
    }
    table(&rows)
}

/// Those that have a request first, the longest at it before the others.
fn workers(generation: &Value, is_all: bool) -> String {
    let mut all: Vec<(String, &Value)> = Vec::new();
    for lane in of(generation, "lanes") {
        all.extend(of(lane, "workers").map(|worker| (lane_name(lane), worker)));
    }
    let key = |worker: &Value| (worker["request"].is_null(), worker["state_seconds"].as_f64().unwrap_or(0.0));
    all.sort_by(|(_, a), (_, b)| {
        let ((a_idle, a_time), (b_idle, b_time)) = (key(a), key(b));
        a_idle.cmp(&b_idle).then(b_time.total_cmp(&a_time))
    });
    let shown = if is_all { all.len() } else { SHOWN };
    let mut rows =
        vec![["PID", "LANE", "STATE", "FOR", "REQUESTS", "CPU", "MEMORY", "REQUEST"].map(str::to_owned).to_vec()];
    for (lane, worker) in all.iter().take(shown) {
        rows.push(vec![
            word(&worker["pid"]),
            lane.clone(),
            word(&worker["state"]),
            time(&worker["state_seconds"]),
            word(&worker["requests"]),
            time(&worker["cpu_seconds"]),
            worker["memory_kib"].as_u64().map_or("-".to_owned(), |kib| format!("{:.1}M", kib as f64 / 1024.0)),
            word(&worker["request"]),
        ]);
    }
    let rest = all.len().saturating_sub(shown);
    let more = if rest > 0 { format!("  and {rest} more: --all\n") } else { String::new() };
    format!("{}{more}", table(&rows))
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A time in seconds.
fn time(value: &Value) -> String {
    let Some(seconds) = value.as_f64() else { return "-".to_owned() };
    match seconds {
        ..0.9995 => format!("{:.0}ms", seconds * 1000.0),
        ..99.95 => format!("{seconds:.1}s"),
        ..5940.0 => format!("{:.0}min", seconds / 60.0),
        ..172_800.0 => format!("{:.0}h", seconds / 3600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}

/// Columns as wide as their widest cell; the last as wide as it likes.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text.push_str("  ");
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == columns;
            let padding = if is_last { 0 } else { widths[column] - cell.chars().count() + 2 };
            text.push_str(cell);
            text.push_str(&" ".repeat(padding));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn times_are_short() {
        for (seconds, text) in [
            (0.0, "0ms"),
            (0.0123, "12ms"),
            (0.9999, "1.0s"),
            (7.26, "7.3s"),
            (120.0, "2min"),
            (90_000.0, "25h"),
            (2e6, "23d"),
        ] {
            assert_eq!(super::time(&json!(seconds)), text);
        }
        assert_eq!(super::time(&json!(null)), "-");
    }

    #[test]
    fn the_longest_request_stands_first() {
        let worker = |pid: u32, state: &str, seconds: f64| {
            let request = (state == "running").then_some("GET /x");
            json!({ "pid": pid, "state": state, "state_seconds": seconds, "request": request, "requests": 1 })
        };
        let workers = [worker(1, "idle", 99.0), worker(2, "running", 0.1), worker(3, "running", 5.0)];
        let lane =
            json!({ "script": null, "mode": "classic", "workers": workers, "recycles": { "threads": 2, "size": 0 } });
        let generation = json!({ "generation": 1, "stage": "serving", "lanes": [lane] });
        let text = super::status(&json!({ "applications": { "app": [generation] } }), true);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in\n{text}"));
        assert!(at("\n  3 ") < at("\n  2 ") && at("\n  2 ") < at("\n  1 "));
        assert!(text.contains("threads 2") && !text.contains("size"));
    }
}
