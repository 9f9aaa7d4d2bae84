//! One worker, described as PHP-FPM describes its processes.

use std::time::SystemTime;

use ipc::layout::Activity;
use serde_json::{Value, json};

use crate::lane::{Running, Worker};

/// A worker and what it runs.
pub struct Process<'a> {
    /// Key of its lane, or `classic`.
    pub lane: &'a str,
    /// What the worker says of itself.
    pub worker: &'a Worker,
    /// Its request, if it has one.
    pub running: Option<&'a Running>,
}

impl Process<'_> {
    /// The states as PHP-FPM spells them.
    pub fn state(&self) -> &'static str {
        match self.worker.activity {
            activity if activity == Activity::Idle as u32 => "Idle",
            activity if activity == Activity::Running as u32 => "Running",
            activity if activity == Activity::Finishing as u32 => "Finishing",
            _ => "Starting",
        }
    }

    /// Second since 1970 in which it began, and seconds since then.
    pub fn began(&self) -> (u64, u64) {
        let now = seconds(SystemTime::now());
        let began = self.worker.began.min(now);
        (began, now - began)
    }

    /// Microseconds that its request has taken so far, or that its last request took.
    pub fn duration(&self) -> u64 {
        self.running.map_or(self.worker.last, |running| running.duration).as_micros() as u64
    }

    /// Processor time of the last request in per cent of its time; 0 while there is one, as with PHP-FPM.
    pub fn processor(&self) -> f64 {
        let last = self.worker.last.as_secs_f64() * 1e6;
        if self.running.is_some() || last == 0.0 {
            return 0.0;
        }
        f64::from(self.worker.used.processor_us) / last * 100.0
    }

    /// Bytes of memory of the last request; 0 while there is one, as with PHP-FPM.
    pub fn memory(&self) -> u64 {
        if self.running.is_some() { 0 } else { u64::from(self.worker.used.peak_kib) * 1024 }
    }

    /// What the full status says of the worker after process id and state, in PHP-FPM's order and with its names. A worker
    /// without a request is described as PHP-FPM describes one that has had none.
    pub fn facts(&self) -> [(&'static str, Value); 12] {
        let text =
            |of: fn(&Running) -> &str| json!(self.running.map(of).filter(|text| !text.is_empty()).unwrap_or("-"));
        let (began, since) = self.began();
        [
            ("start time", json!(began)),
            ("start since", json!(since)),
            ("requests", json!(self.worker.requests)),
            ("request duration", json!(self.duration())),
            ("request method", text(|one| &one.method)),
            ("request uri", text(|one| &one.target)),
            ("content length", json!(self.running.map_or(0, |one| one.content_length))),
            ("user", text(|one| &one.user)),
            ("script", text(|one| &one.script)),
            ("last request cpu", json!((self.processor() * 100.0).round() / 100.0)),
            ("last request memory", json!(self.memory())),
            ("lane", json!(self.lane)),
        ]
    }
}

/// Seconds since 1970.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
