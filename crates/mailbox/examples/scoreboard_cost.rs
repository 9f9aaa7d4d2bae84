//! What the scoreboard and the metrics cost a request: all that is written for them, a million times.
//!
//! The first state of a request begins when it is claimed, whose time is read for the queue too.
//!
//! `cargo run --release -p mailbox --example scoreboard_cost`

use std::hint::black_box;
use std::time::Duration;

use ipc::layout::{Activity, Geometry};
use ipc::worker::Worker;
use mailbox::durations::Durations;

const REQUESTS: u32 = 1_000_000;
const TURNS: usize = 15;

/// Nanoseconds of processor time of this thread.
fn spent() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn main() {
    let geometry = Geometry::new(64, 2, 1);
    let slab = ipc::slab::create(geometry).expect("a slab");
    let worker = Worker::attach(slab, geometry, 0, 1, [-1; ipc::layout::MAX_DOORS]).expect("a worker");
    let durations = Durations::default();
    let mut nanoseconds: Vec<f64> = (0..TURNS)
        .map(|_| {
            let began = spent();
            for number in 0..REQUESTS {
                // As a clone does for a request without a body, and the front for its response.
                for activity in
                    [Activity::Starting, Activity::Running, Activity::Finishing, Activity::Rewinding, Activity::Idle]
                {
                    black_box(&worker).show(activity);
                }
                black_box(&worker).rewound(true, 42);
                black_box(&durations).note(Duration::from_micros(u64::from(number % 500)));
            }
            (spent() - began) / f64::from(REQUESTS)
        })
        .collect();
    nanoseconds.sort_by(f64::total_cmp);
    println!(
        "scoreboard and metrics: {:.0} ns a request (median of {TURNS}; least {:.0})",
        nanoseconds[TURNS / 2],
        nanoseconds[0]
    );
}
