//! A steady load of good requests, each of which has to be answered, rightly and soon.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tests::{Client, wait_until};

/// Clients, each with a connection that is kept. With the faulty request there is a worker for everybody.
pub const CLIENTS: usize = 3;
/// No good request takes longer: less than a request may run, so that one that waited for a faulty one is seen.
pub const SLOWEST: Duration = Duration::from_millis(5500);
/// Seconds for whatever has to come about, on a busy machine too.
pub const PATIENCE: u64 = 60;

/// What became of the requests.
#[derive(Default)]
pub struct Load {
    answered: [AtomicU64; CLIENTS],
    slowest_us: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Load {
    /// Runs the load as long as `during` runs, with that time between a client's answer and its next request. Each
    /// answer names its request and the mode it ran in.
    pub fn run(port: u16, mode: &str, pause: Duration, during: impl FnOnce(&Load)) {
        let (load, stop, next) = (Load::default(), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for answered in &load.answered {
                let (load, stop, next) = (&load, &stop, &next);
                scope.spawn(move || {
                    let mut client = Client::new(port);
                    while !stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if load.ask(&mut client, number, mode) {
                            answered.fetch_add(1, Ordering::Relaxed);
                        } else {
                            client = Client::new(port);
                        }
                        // Steady, not as much as the machine can take.
                        std::thread::park_timeout(pause);
                    }
                });
            }
            let _stopped = Stopped(&stop);
            during(&load);
        });
    }

    fn ask(&self, client: &mut Client, number: u64, mode: &str) -> bool {
        let began = Instant::now();
        let answer = client.try_request("GET", &format!("/?n={number}"), &[], b"");
        let took = began.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        self.slowest_us.fetch_max(took, Ordering::Relaxed);
        match answer {
            Ok(answer) if answer.status == 200 && answer.text() == format!("good {number} {mode}") => true,
            other => {
                self.wrong.lock().unwrap().push(format!("{number}: {other:?}"));
                false
            }
        }
    }

    /// Each client has had more answers since then, none was wrong, none took longer than [`SLOWEST`].
    pub fn assert_goes_on(&self, what: &str) {
        let slowest = self.slowest_of_some(what);
        assert!(slowest < SLOWEST, "{what}: a good request took {slowest:?}");
    }

    /// As [`Load::assert_goes_on`], where requests wait for as long as the fault lasts.
    pub fn assert_comes_back(&self, what: &str) {
        wait_until(&format!("{what}: nobody waits any more"), PATIENCE, || self.slowest_of_some(what) < SLOWEST);
    }

    fn slowest_of_some(&self, what: &str) -> Duration {
        let answered = || self.answered.each_ref().map(|count| count.load(Ordering::Relaxed));
        let from = answered();
        wait_until(what, PATIENCE, || {
            let wrong = self.wrong.lock().unwrap();
            assert!(wrong.is_empty(), "{what}: {} good requests lost: {:?}", wrong.len(), &wrong[..1]);
            answered().iter().zip(&from).all(|(now, then)| *now >= then + 4)
        });
        Duration::from_micros(self.slowest_us.swap(0, Ordering::Relaxed))
    }
}

/// Also if the test has failed: the clients are waited for.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
