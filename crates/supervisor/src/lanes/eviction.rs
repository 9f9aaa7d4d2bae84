//! Evictions of lanes. A generation has few lanes, and the scripts that ask first get them. A key that finds none left waits. Every
//! `lane_timeout` the requests of lanes and of waiting keys are compared: a key that was asked for much more often takes the place of a
//! lane, by a new generation, which is made without the evicted lanes and with those keys.
//!
//! What keeps it from changing all the time: there is one comparison in `lane_timeout`, one new generation for all that it finds, and
//! a lane only gives way to more than [`FACTOR`] times as many requests, and to [`LEAST`] of them.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use ipc::control::MAX_LANES;

use crate::lanes::lane::{CLASSIC, Lane};
use crate::settings::service::{Application, Entry};

/// How often requests of lanes are counted.
const TURN: Duration = Duration::from_secs(1);
/// Keys that wait for a lane, at most.
const MAX_WAITING: usize = 64;
/// A lane gives way to a key that was asked for more than so many times as often.
const FACTOR: u64 = 2;
/// Requests that are worth a new generation.
const LEAST: u64 = 10;

/// The keys of a generation that wait for a lane, and the lanes that are to be evicted for the first of them.
#[derive(Default)]
pub(crate) struct LaneEviction {
    waiting: Vec<Waiting>,
    /// Keys of lanes without which the next generation is made.
    evicted: Vec<String>,
    /// Since when requests are counted.
    since: Option<Instant>,
    next: Option<Instant>,
}

#[derive(Clone)]
struct Waiting {
    entry: Entry,
    /// How often it was asked for since lanes were last compared.
    times: u64,
}

impl LaneEviction {
    /// Whether the next generation is to be made without that lane.
    pub(crate) fn evicts(&self, lane: &Lane) -> bool {
        lane.entry.as_ref().is_some_and(|key| self.evicted.contains(key))
    }

    /// Keys that the next generation gets lanes for, as far as it has room: those that have been chosen, then those that are asked
    /// for most.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Entry> {
        let (chosen, others) = self.waiting.split_at(self.evicted.len().min(self.waiting.len()));
        let mut others: Vec<&Waiting> = others.iter().collect();
        others.sort_by_key(|one| Reverse(one.times));
        chosen.iter().chain(others).take(MAX_LANES).map(|one| one.entry.clone())
    }

    /// The next generation goes on counting where the last one was, but for the keys that have lanes in it.
    pub(crate) fn inherit(&mut self, other: &LaneEviction, has_lane: impl Fn(&str) -> bool) {
        self.since = other.since;
        self.waiting = other.waiting.iter().filter(|one| !has_lane(&one.entry.script)).cloned().collect();
    }

    /// A key for which there is no lane was asked for so many times. True: for the first time. If too many wait, it takes the place of one
    /// that was asked for less often.
    pub(crate) fn wait(&mut self, key: &str, is_worker_mode: bool, times: u64) -> bool {
        if let Some(known) = self.waiting.iter_mut().find(|one| one.entry.script == key) {
            known.times += times;
            return false;
        }
        let entry = Entry { script: key.to_owned(), is_required: false, is_worker_mode };
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(Waiting { entry, times });
            return true;
        }
        let least = self.waiting.iter_mut().skip(self.evicted.len()).min_by_key(|one| one.times);
        let least = least.filter(|least| least.times < times);
        least.into_iter().for_each(|least| *least = Waiting { entry: entry.clone(), times });
        false
    }

    /// Counts the requests of lanes and, every `lane_timeout`, chooses lanes that give way to keys that wait, if `may_evict`. Returns why
    /// a new generation is needed then.
    pub(crate) fn look(
        &mut self,
        lanes: &mut [Lane],
        application: &Application,
        may_evict: bool,
        now: Instant,
    ) -> Option<String> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + TURN);
        lanes.iter_mut().for_each(Lane::note_use);
        let (period, since) = (application.lane_timeout, *self.since.get_or_insert(now));
        if now - since < period || !may_evict {
            return None;
        }
        self.since = Some(now);
        self.waiting.sort_by_key(|one| Reverse(one.times));
        let mut found: Vec<(&String, u64)> = found(lanes, application, now).collect();
        found.sort_by_key(|(_, times)| *times);
        let gives_way = |((_, had), one): &(_, &Waiting)| one.times >= LEAST && one.times > FACTOR * had;
        let exchanged: Vec<_> = found.into_iter().zip(&self.waiting).take_while(gives_way).collect();
        let each = exchanged.iter().map(|((key, had), one)| {
            let (gets, times) = (&one.entry.script, one.times);
            format!("{gets} had {times} requests in {period:?} and takes the lane of {key}, which had {had}")
        });
        let why = each.collect::<Vec<_>>().join("; ");
        self.evicted = exchanged.iter().map(|((key, _), _)| (*key).clone()).collect();
        self.waiting.iter_mut().for_each(|one| one.times = 0);
        lanes.iter_mut().for_each(|lane| lane.used.times = 0);
        (!why.is_empty()).then_some(why)
    }
}

/// The lanes that the configuration does not want, and how many requests each has had.
fn found<'a>(lanes: &'a [Lane], application: &Application, now: Instant) -> impl Iterator<Item = (&'a String, u64)> {
    let wanted: Vec<Lane> = application.entries.iter().map(|entry| Lane::of(entry, now)).collect();
    let of = |lane: &'a Lane| Some((lane.entry.as_ref()?, lane.used.times));
    let all = lanes.iter().skip(CLASSIC + 1).filter_map(of);
    all.filter(move |(key, _)| !wanted.iter().any(|lane| lane.boots(key, application)))
}

#[cfg(test)]
mod tests {
    use ipc::atomics::Ordering;

    use super::*;
    use crate::supervisor::workers::starting::new_mailbox;

    fn entry(script: &str) -> Entry {
        Entry { script: script.to_owned(), is_required: false, is_worker_mode: false }
    }

    /// An application with a required entry, and two lanes that were found; each lane has a slab.
    fn lanes(now: Instant) -> (Application, Vec<Lane>) {
        let mut application = Application::for_test("app");
        application.entries = vec![entry("/wanted.php")];
        let found = ["/wanted.php", "/a.php", "/b.php"].map(|script| Lane::of(&entry(script), now));
        let mut lanes: Vec<Lane> = std::iter::once(Lane::classic(now)).chain(found).collect();
        for lane in &mut lanes {
            lane.mailbox = Some(new_mailbox(&application, 1, 1).unwrap());
        }
        (application, lanes)
    }

    fn has_requests(lane: &Lane, times: u64) {
        lane.mailbox.as_ref().unwrap().slab.queue().head.fetch_add(times, Ordering::Relaxed);
    }

    fn next(eviction: &LaneEviction) -> Vec<String> {
        eviction.waiting().map(|entry| entry.script).collect()
    }

    #[test]
    fn the_keys_that_are_asked_for_most_get_the_lanes() {
        let began = Instant::now();
        let (application, mut lanes) = lanes(began);
        let (period, mut eviction) = (application.lane_timeout, LaneEviction::default());
        assert_eq!(eviction.look(&mut lanes, &application, true, began), None);
        has_requests(&lanes[2], 20);
        has_requests(&lanes[3], 30);
        assert!(eviction.wait("/seldom.php", false, 9) && eviction.wait("/often.php", false, 20));
        assert!(!eviction.wait("/often.php", false, 21), "it waits already");
        let almost = began + period - TURN;
        assert_eq!(eviction.look(&mut lanes, &application, true, almost), None);
        // It is looked at once in a turn, and chosen only if a new generation may be asked for.
        let over = began + period;
        assert_eq!(eviction.look(&mut lanes, &application, true, over - Duration::from_nanos(1)), None);
        assert_eq!(eviction.look(&mut lanes, &application, false, over), None);
        let why = eviction.look(&mut lanes, &application, true, over + TURN);
        let text = format!("/often.php had 41 requests in {period:?} and takes the lane of /a.php, which had 20");
        assert_eq!(why, Some(text));
        let evicted: Vec<bool> = lanes.iter().map(|lane| eviction.evicts(lane)).collect();
        assert_eq!(evicted, [false, false, true, false], "the configuration wants one, and another is asked for more");
        assert_eq!(next(&eviction), ["/often.php", "/seldom.php"]);
    }

    /// Twice as many requests, or few, change nothing; counts begin anew each time, and with a front.
    #[test]
    fn lanes_do_not_change_all_the_time() {
        let mut now = Instant::now();
        let (application, mut lanes) = lanes(now);
        let mut eviction = LaneEviction::default();
        assert_eq!(eviction.look(&mut lanes, &application, true, now), None);
        let mut after = |eviction: &mut LaneEviction, lanes: &mut [Lane], counts: [u64; 3]| {
            now += application.lane_timeout;
            has_requests(&lanes[2], counts[0]);
            has_requests(&lanes[3], counts[1]);
            eviction.wait("/new.php", false, counts[2]);
            eviction.look(lanes, &application, true, now)
        };
        for counts in [[0, 0, LEAST - 1], [50, 60, 100], [0, 0, 0], [1000, 1000, 500]] {
            assert_eq!(after(&mut eviction, &mut lanes, counts), None, "{counts:?}");
        }
        lanes[2].mailbox = Some(new_mailbox(&application, 1, 1).unwrap());
        let why = after(&mut eviction, &mut lanes, [5, 6, 11]);
        assert!(why.is_some_and(|why| why.ends_with("of /a.php, which had 5")));
        let mut successor = LaneEviction::default();
        successor.inherit(&eviction, |key| key == "/new.php");
        assert_eq!(next(&successor), Vec::<String>::new(), "it has a lane now");
    }

    #[test]
    fn the_keys_that_wait_are_few_and_those_that_are_asked_for_most() {
        let mut eviction = LaneEviction::default();
        let names: Vec<String> = (0..2 * MAX_WAITING).map(|number| format!("/{number}.php")).collect();
        let new = names.iter().filter(|name| eviction.wait(name, true, 1)).count();
        assert_eq!((new, eviction.waiting.len()), (MAX_WAITING, MAX_WAITING));
        assert!(!eviction.wait("/often.php", true, 2), "there was no room");
        assert_eq!((next(&eviction)[0].as_str(), eviction.waiting.len()), ("/often.php", MAX_WAITING));
    }
}
