//! Loads, and their outcomes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::response::Expected;

/// One kind of request.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name in reports.
    pub name: String,
    /// The bytes that are sent.
    pub bytes: Vec<u8>,
    /// Whether the method is HEAD: the response has no body.
    pub is_head: bool,
    /// What the bodies of its responses have to be.
    pub expected: Expected,
    /// The status that its responses have to have.
    pub status: u16,
    /// Its weight among the classes.
    pub weight: f64,
    /// Whether 503 is a refusal, which is counted separately, and not an error.
    pub refusable: bool,
    /// Whether it is only to occupy the server: it is not in the throughput, and has percentiles of its own.
    pub hangs: bool,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A number of connections, each of which sends its next request when the response has come.
    Closed {
        /// Connections.
        connections: usize,
    },
    /// A number of requests per second.
    Open {
        /// Requests per second.
        rate: f64,
        /// Most connections. A request that finds none waits, and its latency grows.
        connections: usize,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// The classes of requests.
    pub classes: Vec<Class>,
    /// When requests are sent.
    pub shape: Shape,
    /// How long requests are sent.
    pub duration: Duration,
    /// Whether connections are used again.
    pub keep_alive: bool,
    /// A request without a response after this time is an error.
    pub timeout: Duration,
    /// The seed for the order of the classes, the same for all targets.
    pub seed: u64,
}

/// Latencies of a class.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Nanoseconds from the time at which a request was due.
    pub latency: Histogram<u64>,
    /// Nanoseconds from the time at which a request was sent.
    pub service: Histogram<u64>,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long requests were sent, in seconds.
    pub seconds: f64,
    /// Responses in that time, without those of classes that hang.
    pub answered: u64,
    /// All responses, also those that came later.
    pub total: u64,
    /// Latencies by class.
    pub classes: Vec<Latencies>,
    /// Failures, and how often each occurred.
    pub errors: BTreeMap<String, u64>,
    /// Nanoseconds from sending a request to its refusal.
    pub refused: Histogram<u64>,
    /// Requests that were sent again because the server had closed the idle connection at that moment.
    pub retries: u64,
    /// Requests of an open loop that never found a connection, or had no response when it ended.
    pub unsent: u64,
    /// The longest time without any response while some were due, in seconds.
    pub pause: f64,
    /// Nanoseconds by which an open loop was late though a connection was free.
    pub late: Histogram<u64>,
    /// Responses in each second.
    pub per_second: Vec<u64>,
    /// The generator's own processor time, in seconds.
    pub own_cpu: f64,
}

/// Nanoseconds up to an hour, to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that make sense")
}

impl Outcome {
    pub(crate) fn none(load: &Load) -> Outcome {
        let responses = || Latencies { latency: histogram(), service: histogram() };
        Outcome {
            seconds: load.duration.as_secs_f64(),
            answered: 0,
            total: 0,
            classes: load.classes.iter().map(|_| responses()).collect(),
            errors: BTreeMap::new(),
            refused: histogram(),
            retries: 0,
            unsent: 0,
            pause: 0.0,
            late: histogram(),
            per_second: vec![0; load.duration.as_secs_f64().ceil() as usize],
            own_cpu: 0.0,
        }
    }

    /// Responses per second, in the time in which requests were sent.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    /// Latencies of all classes that do not hang, from the due time and from the time of sending.
    pub fn latencies(&self, load: &[Class]) -> Latencies {
        let mut all = Latencies { latency: histogram(), service: histogram() };
        for (responses, _) in self.classes.iter().zip(load).filter(|(_, class)| !class.hangs) {
            let _ = all.latency.add(&responses.latency);
            let _ = all.service.add(&responses.service);
        }
        all
    }

    /// The failures in words, the most frequent first; empty if there was none.
    pub fn failure(&self) -> Option<String> {
        let mut errors: Vec<(&String, &u64)> = self.errors.iter().collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown: Vec<String> = errors.iter().take(5).map(|(what, count)| format!("{count} x {what}")).collect();
        let of = self.total + self.errors.values().sum::<u64>();
        (!shown.is_empty()).then(|| format!("of {of} requests: {}", shown.join("; ")))
    }
}
