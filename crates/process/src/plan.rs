//! The supervisor's decisions, without clocks, processes or descriptors, so that each can be tested by itself.

use std::time::Duration;

/// First delay after a failed start.
pub const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay between starts.
pub const LAST_DELAY: Duration = Duration::from_secs(25);
/// A process that lived this long has started well.
pub const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// Delays between starts of something that keeps failing.
#[derive(Debug, Default)]
pub struct BackOff {
    failures: u32,
}

impl BackOff {
    /// Notes a death: after `lived`, having done any work or not. Returns how long to wait before the next start.
    pub fn died(&mut self, lived: Duration, worked: bool) -> Duration {
        if worked || lived >= HEALTHY_AFTER {
            self.failures = 0;
            return Duration::ZERO;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(LAST_DELAY);
        self.failures += 1;
        delay
    }

    /// Notes that it works.
    pub fn works(&mut self) {
        self.failures = 0;
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit code.
    Exited(i32),
    /// Signal, and whether it dumped core.
    Killed(i32, bool),
}

impl Ending {
    /// From a wait status as the kernel gives it.
    pub fn from_status(status: i32) -> Ending {
        if status & 0x7f == 0 {
            Ending::Exited(status >> 8 & 0xff)
        } else {
            Ending::Killed(status & 0x7f, status & 0x80 != 0)
        }
    }

    /// Whether a worker that ends so has done what it should: drained, or left its place to a fresh clone, having said why.
    pub fn is_regular(self) -> bool {
        matches!(self, Ending::Exited(0 | 88))
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Ending::Exited(code) => write!(text, "exited with code {code}{}", meaning(code)),
            Ending::Killed(signal, core) => {
                let name = nix::sys::signal::Signal::try_from(signal).map_or("unknown signal", |known| known.as_str());
                write!(text, "was killed by {name}{}", if core { " (core dumped)" } else { "" })
            }
        }
    }
}

fn meaning(code: i32) -> &'static str {
    match code {
        0 => " (drained)",
        70 => " (did not boot)",
        77 => " (permission)",
        88 => " (recycle)",
        89 => " (unhealthy)",
        _ => "",
    }
}

/// What is in a slot of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing; may be filled.
    Empty,
    /// The prototype was asked for a worker.
    Asked,
    /// A worker.
    Live(i32),
    /// Its worker is dead and reaped; the front still has to let go of it.
    Leaving,
}

/// The slots to fill so that `wanted` workers live, lowest first. Slots that are leaving are not counted as workers and
/// not reused.
pub fn slots_to_fill(slots: &[Slot], wanted: usize) -> Vec<usize> {
    let alive = slots.iter().filter(|slot| matches!(slot, Slot::Asked | Slot::Live(_))).count();
    let empty = slots.iter().enumerate().filter(|(_, slot)| **slot == Slot::Empty).map(|(number, _)| number);
    empty.take(wanted.saturating_sub(alive)).collect()
}

/// Bytes of a script's name at most.
pub const MAX_NAME: usize = 1024;

/// A script's name below the root, as the front reports it. Judged by itself; whether there is such a file is another
/// question.
pub fn script_name(bytes: &[u8]) -> Result<&str, &'static str> {
    let name = std::str::from_utf8(bytes).map_err(|_| "its name is not UTF-8")?;
    if name.len() > MAX_NAME {
        Err("its name is too long")
    } else if !name.starts_with('/') || name.contains("..") || name.contains(['\0', '\n']) {
        Err("its name is no path below the root")
    } else if !name.ends_with(".php") {
        Err("its name does not end in .php")
    } else {
        Ok(name)
    }
}

/// Workers of a classic lane. Beside a snapshot lane, which has most of the work, it needs no more than the CPUs can run.
pub fn classic_workers(configured: usize, is_beside: bool, cpus: usize) -> usize {
    if is_beside { configured.min(4 * cpus) } else { configured }
}

/// Requests before a lane is judged by what became of them.
const MIN_REQUESTS: u64 = 200;

/// Whether threads that requests leave running have ended so many workers (more than one request in twenty) that a
/// process for each request is the better way.
pub fn is_fork_better(ended_by_threads: u64, requests: u64) -> bool {
    requests >= MIN_REQUESTS && ended_by_threads > requests / 20
}

/// How a server that was asked to stop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// It was not asked.
    No,
    /// The front finishes what it has.
    Draining,
    /// No more patience.
    Now,
}

impl Stopping {
    /// The next stage after another request to stop, or after the deadline.
    pub fn further(self) -> Stopping {
        match self {
            Stopping::No => Stopping::Draining,
            Stopping::Draining | Stopping::Now => Stopping::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_a_limit_and_end_with_health() {
        let mut back_off = BackOff::default();
        let delays: Vec<_> = (0..10).map(|_| back_off.died(Duration::from_millis(5), false).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25000, 25000]);
        assert_eq!(back_off.died(HEALTHY_AFTER, false), Duration::ZERO);
        assert_eq!(back_off.died(Duration::ZERO, false), FIRST_DELAY);
        assert_eq!(back_off.died(Duration::ZERO, true), Duration::ZERO);
    }

    #[test]
    fn empty_slots_are_filled_and_leaving_ones_left_alone() {
        let slots = [Slot::Live(5), Slot::Leaving, Slot::Empty, Slot::Asked, Slot::Empty];
        assert_eq!(slots_to_fill(&slots, 3), [2]);
        assert_eq!(slots_to_fill(&slots, 9), [2, 4]);
        assert_eq!(slots_to_fill(&slots, 1), Vec::<usize>::new());
    }

    #[test]
    fn names_of_scripts_are_checked() {
        for good in ["/index.php", "/a b/ü.php"] {
            assert_eq!(script_name(good.as_bytes()), Ok(good));
        }
        let long = format!("/{}.php", "x".repeat(MAX_NAME));
        for bad in ["", "index.php", "/../a.php", "/a\0.php", "/a\n.php", "/a.phtml", "/", &long] {
            assert!(script_name(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(script_name(b"/\xff.php").is_err());
    }

    #[test]
    fn a_classic_lane_beside_another_is_small() {
        assert_eq!(classic_workers(300, false, 2), 300);
        assert_eq!(classic_workers(300, true, 2), 8);
        assert_eq!(classic_workers(3, true, 2), 3);
    }

    #[test]
    fn threads_in_one_of_twenty_requests_are_too_many() {
        assert!(!is_fork_better(199, 199));
        assert!(!is_fork_better(10, 200));
        assert!(is_fork_better(11, 200));
        assert!(!is_fork_better(11, 1_000_000));
    }

    #[test]
    fn endings_read_well() {
        assert!(Ending::from_status(88 << 8).is_regular() && !Ending::from_status(89 << 8).is_regular());
        assert_eq!(Ending::from_status(9).to_string(), "was killed by SIGKILL");
        assert_eq!(Ending::from_status(11 | 0x80).to_string(), "was killed by SIGSEGV (core dumped)");
        assert_eq!(Ending::from_status(70 << 8).to_string(), "exited with code 70 (did not boot)");
    }
}
