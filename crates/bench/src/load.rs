//! Loads, and what they have shown.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::response::Expected;

/// One kind of request.
#[derive(Clone, Debug)]
pub struct Class {
    /// For reports.
    pub name: String,
    /// As it is sent.
    pub bytes: Vec<u8>,
    /// HEAD: there is no body.
    pub is_head: bool,
    /// What its responses have to be.
    pub expected: Expected,
    /// And their status.
    pub status: u16,
    /// Its share beside those of the others.
    pub weight: f64,
    /// 503 is a refusal, counted by itself, and no error.
    pub refusable: bool,
    /// It is there to occupy the server: in no throughput, and in percentiles of its own.
    pub hangs: bool,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// So many connections, each as fast as it is answered.
    Closed {
        /// Connections.
        connections: usize,
    },
    /// So many requests a second.
    Open {
        /// Requests per second.
        rate: f64,
        /// Connections at most; what finds none waits, and its latency grows.
        connections: usize,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// What is asked, by weight.
    pub classes: Vec<Class>,
    /// When.
    pub shape: Shape,
    /// How long requests are sent.
    pub duration: Duration,
    /// Connections are used again.
    pub keep_alive: bool,
    /// A request without a response after that is an error.
    pub timeout: Duration,
    /// Which class comes when; alike for all targets.
    pub seed: u64,
}

/// What is known of the responses of a class.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Nanoseconds from the time it was to be sent.
    pub latency: Histogram<u64>,
    /// Nanoseconds from the time it was sent.
    pub service: Histogram<u64>,
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long requests were sent, in seconds.
    pub seconds: f64,
    /// Latencies in that time, without those of classes that hang.
    pub answered: u64,
    /// All responses, also those that came later.
    pub total: u64,
    /// By class.
    pub classes: Vec<Latencies>,
    /// What went wrong, and how often.
    pub errors: BTreeMap<String, u64>,
    /// Nanoseconds from the time a refused request was sent until it was refused.
    pub refused: Histogram<u64>,
    /// Requests sent anew because an idle connection was closed by the server at that moment.
    pub retries: u64,
    /// Requests of an open loop that never found a connection, or had no response when it ended.
    pub unsent: u64,
    /// The longest time without any response while some were due, in seconds.
    pub pause: f64,
    /// Nanoseconds by which an open loop itself was late, with a connection at hand.
    pub late: Histogram<u64>,
    /// Latencies in each second.
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

    /// Latencies per second, in the time in which requests were sent.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    /// Latencies of all classes that do not hang, from the time each was to be sent and from the time it was.
    pub fn latencies(&self, load: &[Class]) -> Latencies {
        let mut all = Latencies { latency: histogram(), service: histogram() };
        for (responses, _) in self.classes.iter().zip(load).filter(|(_, class)| !class.hangs) {
            let _ = all.latency.add(&responses.latency);
            let _ = all.service.add(&responses.service);
        }
        all
    }

    /// The most frequent failure first, in words; nothing if there was none.
    pub fn failure(&self) -> Option<String> {
        let mut errors: Vec<(&String, &u64)> = self.errors.iter().collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown: Vec<String> = errors.iter().take(5).map(|(what, count)| format!("{count} x {what}")).collect();
        let of = self.total + self.errors.values().sum::<u64>();
        (!shown.is_empty()).then(|| format!("of {of} requests: {}", shown.join("; ")))
    }
}
