//! How many tests run at once: many tests wait most of the time, so another one begins as long as the processors idle.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bounds for the number of tests that run at once.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// So many run in any case.
    pub least: usize,
    /// No more than these, however idle the processors are: each takes memory too.
    pub most: usize,
}

impl Bounds {
    /// One after the other.
    pub const ONE: Bounds = Bounds { least: 1, most: 1 };
}

/// The share of the processors' time, in percent, that has to be idle before a test more begins.
const IDLE_PERCENT: u64 = 15;

/// What a test does at its beginning says nothing yet: so long the processors are watched before the next one begins.
const WATCHED: Duration = Duration::from_millis(250);

/// How often a test that waits at the gate asks.
const PAUSE: Duration = Duration::from_millis(25);

/// Lets tests in.
pub struct Gate {
    bounds: Bounds,
    state: Mutex<State>,
}

struct State {
    running: usize,
    since: Instant,
    before: Times,
}

impl Gate {
    /// A gate that nobody has passed yet.
    pub fn new(bounds: Bounds) -> Gate {
        let state = State { running: 0, since: Instant::now(), before: Times::now() };
        Gate { bounds, state: Mutex::new(state) }
    }

    /// Runs a test as soon as there is room for it.
    pub fn pass<T>(&self, test: impl FnOnce() -> T) -> T {
        while !self.admits() {
            std::thread::park_timeout(PAUSE);
        }
        let result = test();
        self.state.lock().expect("no thread panics with the lock").running -= 1;
        result
    }

    fn admits(&self) -> bool {
        let mut state = self.state.lock().expect("no thread panics with the lock");
        let is_room = match state.running {
            running if running < self.bounds.least => true,
            running if running >= self.bounds.most => false,
            _ => state.is_idle(),
        };
        if is_room {
            *state = State { running: state.running + 1, since: Instant::now(), before: Times::now() };
        }
        is_room
    }
}

impl State {
    /// Whether the processors have idled since the last test began, or of late.
    fn is_idle(&mut self) -> bool {
        if self.since.elapsed() < WATCHED {
            return false;
        }
        let now = Times::now();
        let (idle, all) = (now.idle.saturating_sub(self.before.idle), now.all.saturating_sub(self.before.all));
        (self.since, self.before) = (Instant::now(), now);
        idle * 100 >= all * IDLE_PERCENT && all > 0
    }
}

/// What the processors have done since the machine was started, in ticks.
struct Times {
    idle: u64,
    all: u64,
}

impl Times {
    /// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; what guests do is in `user`.
    fn now() -> Times {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let fields: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
        Times { idle: fields.iter().skip(3).take(2).sum(), all: fields.iter().sum() }
    }
}
