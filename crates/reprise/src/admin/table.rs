//! The status for people.

use std::fmt::Display;

use control::status::{
    CacheRule, Crashes, DataCache, DataStore, Generation, Lane, Opcache, Spool, Stage, Status, Worker,
};
use ipc::layout::Activity;

/// Workers shown of a generation, and rules of a cache, unless all are asked for.
const SHOWN: usize = 30;

/// What `reprise status` prints.
pub fn status(status: &Status, is_all: bool) -> String {
    let mut text = format!(
        "Reprise {}, {}, up {}, supervisor {}, front {}\n",
        status.version,
        status.state.word(),
        time(Some(status.seconds)),
        status.pid,
        or_dash(status.front.as_ref().map(|front| front.pid)),
    );
    if let Some(spool) = status.front.as_ref().map(|front| &front.spool).filter(|spool| **spool != Spool::default()) {
        text.push_str(&format!(
            "spool: {} in memory, {} on disk; {} responses so far, {} reached a limit, {} failures\n",
            megabytes(spool.memory),
            megabytes(spool.disk),
            spool.responses,
            spool.full,
            spool.errors,
        ));
    }
    for (name, generations) in &status.applications {
        for generation in generations {
            let stage = stage(generation.stage, generation.stage_seconds);
            let (ordinal, prototype) = (generation.generation, or_dash(generation.prototype));
            text.push_str(&format!("\n{name}, generation {ordinal}, {stage}, prototype {prototype}\n"));
            text.extend(generation.opcache.as_ref().map(opcache));
            text.extend(generation.crashes.as_ref().map(crashes));
            text.push_str(&lanes(generation));
            text.push_str(&workers(generation, is_all));
        }
    }
    for (name, rules) in status.caches.iter().flatten() {
        text.push_str(&format!("\n{name}, cache of responses\n{}", cache(rules, is_all)));
    }
    for (name, cache) in status.data_caches.iter().flatten() {
        text.push_str(&format!("\n{name}, data cache\n{}", data_cache(cache)));
    }
    text
}

fn opcache(opcache: &Opcache) -> String {
    format!(
        "  opcache: {} scripts in {} of {}, {} wasted; names and texts {} of {}\n",
        opcache.scripts,
        megabytes(opcache.used),
        megabytes(opcache.memory),
        megabytes(opcache.wasted),
        megabytes(opcache.strings),
        megabytes(opcache.strings_memory),
    )
}

fn crashes(crashes: &Crashes) -> String {
    format!("  crashes: {}, the last {} ago: {}\n", crashes.count, time(Some(crashes.seconds)), crashes.last)
}

/// The rules with most requests first.
fn cache(rules: &[CacheRule], is_all: bool) -> String {
    let counts = |rule: &CacheRule| [rule.hit, rule.stale, rule.collapsed, rule.stored, rule.miss, rule.bypass];
    let requests = |rule: &CacheRule| counts(rule).into_iter().fold(0, u64::saturating_add);
    let mut sorted: Vec<&CacheRule> = rules.iter().collect();
    sorted.sort_by_key(|rule| std::cmp::Reverse(requests(rule)));
    let mut rows = vec![
        ["REQUESTS", "RATIO", "HIT", "STALE", "COLLAPSED", "STORED", "MISS", "BYPASS", "WAITING", "RULE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let shown = if is_all { rules.len() } else { SHOWN };
    for rule in sorted.into_iter().take(shown) {
        let mut row = vec![requests(rule).to_string(), format!("{:.1}%", rule.ratio * 100.0)];
        row.extend(counts(rule).map(|count| count.to_string()));
        row.extend([rule.waiting.to_string(), rule.rule.clone()]);
        rows.push(row);
    }
    format!("{}{}", table(&rows), more(rules.len().saturating_sub(shown)))
}

/// What a data cache has done and holds.
pub fn data_cache(cache: &DataCache) -> String {
    let fetches = [cache.hits, cache.stale, cache.misses].into_iter().fold(0, u64::saturating_add);
    let ready = cache.hits.saturating_add(cache.stale) as f64 / fetches.max(1) as f64;
    let mut text = format!(
        "  {} values, {} of {}; {:.1}% of {fetches} fetches found one, {} of them stale\n  {} stored, {} computed, {} waits for another; {} evicted, {} refused, {} processes swept\n",
        cache.entries,
        kilobytes(cache.bytes),
        kilobytes(cache.memory),
        ready * 100.0,
        cache.stale,
        cache.stores,
        cache.computed,
        cache.waits,
        cache.evicted,
        cache.refused,
        cache.swept,
    );
    if cache.held > 0 {
        let by = cache.holder.as_ref().map_or(String::new(), |holder| {
            let place = holder.lane.iter().zip(holder.slot).map(|(lane, slot)| format!(" ({lane}, slot {slot})"));
            let request = holder.request.iter().map(|request| format!(": {request}"));
            let more: String = place.chain(request).collect();
            format!(", longest by process {} for {}{more}", holder.pid, time(Some(holder.seconds)))
        });
        text.push_str(&format!("  {} of removed values are held{by}\n", kilobytes(cache.held)));
    }
    text.extend(cache.store.as_ref().map(data_store));
    text
}

fn data_store(store: &DataStore) -> String {
    let state = if store.ready { "ready" } else { "away" };
    let heard = match store.heard_seconds {
        Some(seconds) => format!(", all changes of other nodes known {} ago", time(Some(seconds))),
        None => String::new(),
    };
    format!(
        "  store {state}{heard}; {} requests, {} without a reply; {} changes not told yet, {} wrong signatures\n",
        store.requests, store.failures, store.untold, store.forged
    )
}

fn more(rest: usize) -> String {
    if rest > 0 { format!("  and {rest} more: --all\n") } else { String::new() }
}

fn stage(stage: Stage, seconds: Option<f64>) -> String {
    match seconds {
        None => stage.word().to_owned(),
        seconds => format!("{} for {}", stage.word(), time(seconds)),
    }
}

fn lane_name(lane: &Lane) -> String {
    lane.script.clone().unwrap_or_else(|| "classic".to_owned())
}

fn workers_of(lane: &Lane) -> &[Worker] {
    lane.workers.as_deref().unwrap_or_default()
}

fn lanes(generation: &Generation) -> String {
    let kept = |lane: &Lane| workers_of(lane).iter().filter_map(|worker| worker.kept_connections).sum::<u32>();
    let has_kept = generation.lanes.iter().any(|lane| kept(lane) > 0);
    let columns = ["LANE", "MODE", "STATE", "WORKERS", "IDLE", "WAITING"];
    let row = |lane: &Lane| {
        let workers = workers_of(lane);
        let recycles = lane.recycles.iter().flatten().filter(|(_, count)| **count != Some(0));
        let recycles: Vec<String> = recycles.map(|(why, count)| format!("{why} {}", or_dash(*count))).collect();
        let mut row = vec![
            lane_name(lane),
            lane.mode.word().to_owned(),
            format!("{}{}", lane.state.word(), if lane.outdated == Some(true) { " (files changed)" } else { "" }),
            workers.len().to_string(),
            workers.iter().filter(|worker| worker.state == Activity::Idle.word()).count().to_string(),
            or_dash(lane.waiting.flatten()),
        ];
        row.extend(has_kept.then(|| kept(lane).to_string()));
        row.push(if recycles.is_empty() { "-".to_owned() } else { recycles.join(", ") });
        row
    };
    let head = columns.into_iter().chain(has_kept.then_some("KEPT")).chain(["RECYCLED"]).map(str::to_owned).collect();
    table(&[head].into_iter().chain(generation.lanes.iter().map(row)).collect::<Vec<_>>())
}

/// Workers with a request first, the longest request before the others.
fn workers(generation: &Generation, is_all: bool) -> String {
    let of_lane = |lane| workers_of(lane).iter().map(move |worker| (lane_name(lane), worker));
    let mut all: Vec<(String, &Worker)> = generation.lanes.iter().flat_map(of_lane).collect();
    all.sort_by(|(_, a), (_, b)| {
        let seconds = |worker: &Worker| worker.state_seconds.unwrap_or(0.0);
        a.request.is_none().cmp(&b.request.is_none()).then(seconds(b).total_cmp(&seconds(a)))
    });
    let shown = if is_all { all.len() } else { SHOWN };
    let mut rows =
        vec![["PID", "LANE", "STATE", "FOR", "REQUESTS", "CPU", "MEMORY", "REQUEST"].map(str::to_owned).to_vec()];
    for (lane, worker) in all.iter().take(shown) {
        rows.push(vec![
            worker.pid.to_string(),
            lane.clone(),
            worker.state.clone(),
            time(worker.state_seconds),
            or_dash(worker.requests),
            time(worker.cpu_seconds),
            or_dash(worker.memory_kib.map(|kib| megabytes(kib.saturating_mul(1024)))),
            or_dash(worker.request.as_ref()),
        ]);
    }
    format!("{}{}", table(&rows), more(all.len().saturating_sub(shown)))
}

/// Bytes, in the unit that leaves few digits.
pub fn kilobytes(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{:.1}K", bytes as f64 / 1024.0) } else { megabytes(bytes) }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}M", bytes as f64 / f64::from(1 << 20))
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// A time in seconds.
pub fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    match seconds {
        ..0.9995 => format!("{:.0}ms", seconds * 1000.0),
        ..99.95 => format!("{seconds:.1}s"),
        ..5940.0 => format!("{:.0}min", seconds / 60.0),
        ..172_800.0 => format!("{:.0}h", seconds / 3600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}

/// Columns as wide as their widest cell. The last column has no padding.
pub fn table(rows: &[Vec<String>]) -> String {
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
    use control::response;

    /// A time has one unit, and at most one digit behind the point.
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
            assert_eq!(super::time(Some(seconds)), text);
        }
        assert_eq!(super::time(None), "-");
    }

    /// Workers are ordered by how long they have had their request, and only reasons that occurred are shown.
    #[test]
    fn the_longest_request_stands_first() {
        let worker = |pid: u32, state: &str, seconds: f64| {
            let request = if state == "running" { "\"GET /x\"" } else { "null" };
            format!(
                r#"{{"slot": 0, "pid": {pid}, "state": "{state}", "state_seconds": {seconds}, "request": {request},
                "requests": 1, "spent_seconds": {{}}, "rewinds": {{"fast": 0, "scanned": null, "pages": 0}}, "kept_connections": 3,
                "cpu_seconds": 0.5, "memory_kib": null}}"#
            )
        };
        let workers = [worker(1, "idle", 99.0), worker(2, "running", 0.1), worker(3, "running", 5.0)].join(", ");
        let lane = format!(
            r#"{{"script": null, "mode": "classic", "state": "up", "template": null, "waiting": 0, "workers": [{workers}],
            "recycles": {{"threads": 2, "size": 0}}}}"#
        );
        let status = format!(
            r#"{{"version": "1.2.3", "pid": 9, "seconds": 1, "state": "serving", "front": null, "applications": {{"app":
            [{{"generation": 1, "stage": "serving", "stage_seconds": null, "prototype": 8, "lanes": [{lane}]}}]}}}}"#
        );
        let text = super::status(&response::read(&status).expect("a status"), true);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in\n{text}"));
        assert!(at("\n  3 ") < at("\n  2 ") && at("\n  2 ") < at("\n  1 "));
        assert!(text.contains("threads 2") && !text.contains("size"));
        assert!(text.contains("WAITING  KEPT  RECYCLED\n") && text.contains("  0        9     threads 2\n"), "{text}");
    }
}
