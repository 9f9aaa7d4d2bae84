//! Evictions of lanes. A generation has few lanes. A key that finds none left waits, and gets the lane that has had no request for
//! longest, if that is long enough: by a new generation, which is made without the evicted lane and with the waiting keys.

use std::time::{Duration, Instant};

use super::lane::{CLASSIC, Lane, LaneUse};
use super::service::{Application, Entry};

/// How often lanes are looked at.
const TURN: Duration = Duration::from_secs(1);
/// Keys that wait for a lane, at most.
const MAX_WAITING: usize = 8;

/// The keys of a generation that wait for a lane, and the lane that is to be evicted.
#[derive(Default)]
pub(super) struct LaneEviction {
    waiting: Vec<Entry>,
    /// The next generation is made without this lane, unless a request has come for it since.
    evicted: Option<Evicted>,
    next: Option<Instant>,
}

struct Evicted {
    key: String,
    /// What [`Lane::begun`] was then.
    begun: u64,
}

impl LaneEviction {
    /// Whether the next generation is to be made without that lane.
    pub(super) fn evicts(&self, lane: &Lane) -> bool {
        let is_it = |one: &Evicted| lane.entry.as_ref() == Some(&one.key) && lane.begun() == Some(one.begun);
        self.evicted.as_ref().is_some_and(is_it)
    }

    /// Keys that the next generation gets lanes for.
    pub(super) fn waiting(&self) -> &[Entry] {
        &self.waiting
    }

    /// A key for which there is no lane.
    pub(super) fn wait(&mut self, key: &str, is_worker_mode: bool) {
        if self.waiting.len() < MAX_WAITING && !self.waiting.iter().any(|one| one.script == key) {
            self.waiting.push(Entry { script: key.to_owned(), is_required: false, is_worker_mode });
        }
    }

    /// Notes which lanes have had requests and, if `may_evict`, chooses one that has had none for `lane_timeout` while a key
    /// waits. Returns why a new generation is needed then.
    pub(super) fn look(
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
        for lane in lanes.iter_mut() {
            if let Some(begun) = lane.begun().filter(|begun| *begun != lane.used.begun) {
                lane.used = LaneUse { begun, at: now };
            }
        }
        let gets = &self.waiting.first().filter(|_| may_evict)?.script;
        let patience = application.lane_timeout;
        let unused = least_used(lanes, application, now).filter(|lane| now - lane.used.at >= patience)?;
        let (key, begun) = (unused.entry.clone()?, unused.used.begun);
        let why = format!("{key} had no request for {patience:?}; its place goes to {gets}");
        self.evicted = Some(Evicted { key, begun });
        Some(why)
    }
}

/// The lane whose last request is longest ago, of those that the configuration does not want.
fn least_used<'a>(lanes: &'a [Lane], application: &Application, now: Instant) -> Option<&'a Lane> {
    let wanted: Vec<Lane> = application.entries.iter().map(|entry| Lane::of(entry, now)).collect();
    let is_wanted = |key: &String| wanted.iter().any(|lane| lane.boots(key, application));
    let is_found = |lane: &&Lane| !lane.entry.as_ref().is_some_and(is_wanted);
    lanes.get(CLASSIC + 1..)?.iter().filter(is_found).min_by_key(|lane| lane.used.at)
}

#[cfg(test)]
mod tests {
    use wire::atomics::Ordering;

    use super::super::starting::new_mailbox;
    use super::*;

    /// An application with a required entry, and two lanes that were found; each lane has a slab.
    fn lanes(now: Instant) -> (Application, Vec<Lane>) {
        let entry = |script: &str| Entry { script: script.to_owned(), is_required: false, is_worker_mode: false };
        let mut application = Application::for_test("app");
        application.entries = vec![entry("/wanted.php")];
        let found = ["/wanted.php", "/a.php", "/b.php"].map(|script| Lane::of(&entry(script), now));
        let mut lanes: Vec<Lane> = std::iter::once(Lane::classic(now)).chain(found).collect();
        for lane in &mut lanes {
            lane.mailbox = Some(new_mailbox(&application, 1, 1).unwrap());
        }
        (application, lanes)
    }

    fn has_request(lane: &Lane) {
        lane.mailbox.as_ref().unwrap().slab.queue().head.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn the_lane_that_had_no_request_for_longest_is_evicted_if_a_key_waits() {
        let now = Instant::now();
        let (application, mut lanes) = lanes(now);
        let (patience, mut eviction) = (application.lane_timeout, LaneEviction::default());
        // Nothing waits: nothing is evicted, but uses are noted.
        has_request(&lanes[2]);
        assert_eq!(eviction.look(&mut lanes, &application, true, now + patience / 2), None);
        eviction.wait("/new.php", false);
        eviction.wait("/new.php", false);
        assert_eq!(eviction.waiting().len(), 1);
        let almost = now + patience - TURN;
        assert_eq!(eviction.look(&mut lanes, &application, true, almost), None);
        // It is looked at once in a turn, and chosen only if a new generation may be asked for.
        let later = now + patience;
        assert_eq!(eviction.look(&mut lanes, &application, true, later - Duration::from_nanos(1)), None);
        assert_eq!(eviction.look(&mut lanes, &application, false, later), None);
        let why = eviction.look(&mut lanes, &application, true, later + TURN);
        assert!(why.is_some_and(|why| why.starts_with("/b.php had no request") && why.ends_with("/new.php")));
        let evicted: Vec<bool> = lanes.iter().map(|lane| eviction.evicts(lane)).collect();
        assert_eq!(evicted, [false, false, false, true]);
        // A request that comes before the next generation is made saves it.
        has_request(&lanes[3]);
        assert!(!eviction.evicts(&lanes[3]));
    }

    #[test]
    fn the_keys_that_wait_are_few() {
        let mut eviction = LaneEviction::default();
        (0..2 * MAX_WAITING).for_each(|number| eviction.wait(&format!("/{number}.php"), true));
        assert_eq!(eviction.waiting().len(), MAX_WAITING);
    }
}
