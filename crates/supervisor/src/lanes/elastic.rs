//! Workers that come and go with the load: see [`crate::plan::next_target`] for how many, and [`share_out`] for how lanes share
//! them.

use std::time::{Duration, Instant};

use ipc::atomics::Ordering;

use crate::lanes::generation::Generation;
use crate::lanes::lane::{CLASSIC, Lane};
use crate::lanes::mailbox::Mailbox;
use crate::lanes::worker_target::{dismiss_surplus, load};
use crate::plan::{Want, classic_workers, share_out, slots_to_fill};
use crate::settings::service::Application;

/// What the number of workers depends on beside the load.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances {
    /// CPUs this server may use.
    pub(crate) cpus: usize,
    /// The front is ready for workers.
    pub(crate) is_front_open: bool,
    pub(crate) now: Instant,
}

/// Lanes that share workers.
struct Pool {
    lanes: Vec<usize>,
    /// How many workers they may have together.
    all: usize,
    /// How many each lane keeps, if there are enough.
    least: usize,
}

impl Pool {
    /// How many each lane keeps in any case.
    fn least_of_each(&self) -> usize {
        self.all.checked_div(self.lanes.len()).unwrap_or(0).min(self.least).max(1)
    }
}

impl Generation {
    /// Whether workers of a lane can be forked now.
    fn may_fork(&self, lane: usize, around: Circumstances) -> bool {
        let is_due = |lane: &Lane| lane.restart.is_due(around.now) && lane.mailbox.is_some();
        let has_forker = || self.working_forker(lane).is_some();
        around.is_front_open && !self.is_ending() && self.lanes.get(lane).is_some_and(is_due) && has_forker()
    }

    /// Marks the slots of a lane that workers are missing in as asked for, and returns them.
    pub(crate) fn ask_for_workers(&mut self, lane: usize, around: Circumstances) -> Vec<u32> {
        if !self.may_fork(lane, around) {
            return Vec::new();
        }
        let wanted = self.wanted_workers(lane, around);
        let Some(mailbox) = self.lanes.get_mut(lane).and_then(|lane| lane.mailbox.as_mut()) else { return Vec::new() };
        let slots = slots_to_fill(&mailbox.slots, wanted);
        slots.iter().for_each(|slot| mailbox.ask(*slot, around.now));
        slots.into_iter().map(|slot| slot as u32).collect()
    }

    /// Requests wait in a lane: how many workers it needs is decided at once.
    pub(crate) fn lane_is_busy(&mut self, lane: usize, now: Instant) {
        self.lanes.get_mut(lane).into_iter().for_each(|lane| lane.target.mark_busy(now));
    }

    /// When the number of a lane's workers is decided next, if it can change now.
    pub(crate) fn next_judgement(&self, lane: usize, around: Circumstances) -> Option<Instant> {
        let (least, most) = self.bounds(lane, around.cpus);
        let may_change = least < most && self.may_fork(lane, around);
        self.lanes.get(lane).filter(|_| may_change).map(|lane| lane.target.next)
    }

    /// The lanes that a lane shares workers with. With `max_workers` all lanes share. Without it, lanes share that the configuration
    /// does not name: one line in a file that many scripts include makes as many of those as there may be.
    fn pool(&self, lane: usize) -> Option<Pool> {
        let Application { workers, min_workers, max_workers, .. } = *self.application;
        if let Some(all) = max_workers {
            return Some(Pool { lanes: (0..self.lanes.len()).collect(), all, least: min_workers });
        }
        let found: Vec<usize> = (0..self.lanes.len()).filter(|lane| self.is_found(*lane)).collect();
        let least = if min_workers < workers { min_workers } else { 1 };
        (found.len() > 1 && found.contains(&lane)).then_some(Pool { lanes: found, all: workers, least })
    }

    /// The least and the most workers of a lane.
    fn bounds(&self, lane: usize, cpus: usize) -> (usize, usize) {
        let application = &self.application;
        if let Some(pool) = self.pool(lane) {
            return (pool.least_of_each(), application.workers.min(pool.all));
        }
        let is_beside = self.lanes.iter().skip(CLASSIC + 1).any(|lane| !lane.has_failed && !lane.prefers_classic());
        let most = match lane {
            CLASSIC => classic_workers(application.workers, is_beside, cpus),
            _ => application.workers,
        };
        (application.min_workers.min(most), most)
    }

    /// How many workers a lane is to have now.
    fn wanted_workers(&mut self, lane: usize, around: Circumstances) -> usize {
        let (least, most) = self.bounds(lane, around.cpus);
        let shared = self.pool(lane);
        let Some(Lane { target, mailbox: Some(mailbox), .. }) = self.lanes.get_mut(lane) else { return 0 };
        if least == most {
            // The number is fixed. A surplus from before the bounds changed does not count any more.
            mailbox.slab.surplus().store(0, Ordering::SeqCst);
            return most;
        }
        let is_due = around.now >= target.next;
        if is_due {
            target.judge(mailbox, least, most, around.now);
        }
        let Some(pool) = shared else {
            dismiss_surplus(mailbox, target.workers);
            return target.workers;
        };
        match is_due {
            true => self.share_out(&pool, around),
            // Some workers may have ended by themselves.
            false => dismiss_surplus(mailbox, target.share),
        }
        self.share_of(lane, &pool)
    }

    /// Shares workers out among the lanes of a pool. Where a lane has more workers than its share, an idle one ends at once, a busy
    /// one after its request.
    fn share_out(&mut self, pool: &Pool, around: Circumstances) {
        let (able, others): (Vec<usize>, Vec<usize>) =
            pool.lanes.iter().partition(|lane| self.may_fork(**lane, around));
        let least = pool.least_of_each();
        let kept: usize =
            others.into_iter().filter_map(|lane| Some(self.lanes.get(lane)?.mailbox.as_ref()?.live())).sum();
        let want = |lane: &usize| {
            let Lane { target, mailbox, .. } = self.lanes.get_mut(*lane)?;
            let load = load(mailbox.as_ref()?, Duration::ZERO);
            Some(target.need.want(load, least, target.workers, around.now))
        };
        let wants: Vec<Want> = able.iter().filter_map(want).collect();
        for (lane, share) in able.into_iter().zip(share_out(&wants, pool.all.saturating_sub(kept))) {
            let Some(Lane { target, mailbox, .. }) = self.lanes.get_mut(lane) else { continue };
            target.share = share;
            mailbox.iter().for_each(|mailbox| dismiss_surplus(mailbox, share));
        }
    }

    /// A lane's share, as far as other lanes have given up workers for it. A lane always has one worker that stays.
    fn share_of(&self, lane: usize, pool: &Pool) -> usize {
        let held = |lane: &Lane| lane.mailbox.as_ref().map_or(0, Mailbox::live) + lane.retired.len();
        let Some(Lane { target, mailbox: Some(mailbox), .. }) = self.lanes.get(lane) else { return 0 };
        if !(0..mailbox.slots.len()).any(|slot| mailbox.stays(slot)) {
            return mailbox.live() + 1;
        }
        let all_held = pool.lanes.iter().filter_map(|lane| self.lanes.get(*lane)).map(held).sum();
        let room = pool.all.saturating_sub(all_held);
        target.share.min(mailbox.live() + room)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::lanes::generation::Stage;
    use crate::peers::channel::Channel;
    use crate::peers::child::{Child, Forker};
    use crate::plan::Slot;
    use crate::settings::service::Programs;
    use crate::supervisor::workers::starting::new_mailbox;

    /// A generation with a classic lane of `workers`, and a prototype that could fork.
    fn generation(workers: usize) -> Generation {
        let mut application = Application::for_test("app");
        (application.workers, application.min_workers) = (workers, workers);
        let php = Rc::new(std::fs::File::open("/dev/null").unwrap().into());
        let (application, programs) = (Rc::new(application), Programs { php, phar: None });
        let mut generation = Generation::new(&application, programs, 1, Stage::Serving).unwrap();
        let (ours, _) = Channel::pair().unwrap();
        generation.prototype = Some(Forker { ready: true, ..Child::new(1, ours) });
        generation.lanes[CLASSIC].mailbox = Some(new_mailbox(&application, CLASSIC, 1).unwrap());
        generation
    }

    #[test]
    fn workers_that_are_missing_are_asked_for_once() {
        let mut generation = generation(3);
        let around = Circumstances { cpus: 2, is_front_open: true, now: Instant::now() };
        assert_eq!(generation.ask_for_workers(CLASSIC, around), [0, 1, 2]);
        assert_eq!(generation.ask_for_workers(CLASSIC, around), [0; 0]);
        let mailbox = generation.lanes[CLASSIC].mailbox.as_mut().unwrap();
        (mailbox.slots[0], mailbox.slots[1]) = (Slot::Empty, Slot::Leaving);
        assert_eq!(generation.ask_for_workers(CLASSIC, around), [0]);
    }

    #[test]
    fn nobody_is_asked_for_who_could_not_serve() {
        type Change = fn(&mut Generation);
        let rows: [(&str, Change, &[u32]); 6] = [
            ("could serve", |_| {}, &[0, 1]),
            ("no forker", |one| one.prototype = None, &[]),
            ("not ready", |one| one.prototype.as_mut().unwrap().ready = false, &[]),
            ("no slab", |one| one.lanes[CLASSIC].mailbox = None, &[]),
            ("ends", |one| one.stage = Stage::Ending(Instant::now()), &[]),
            (
                "delayed",
                |one| {
                    one.lanes[CLASSIC].restart.failed(Some(Duration::from_secs(60)), Instant::now());
                },
                &[],
            ),
        ];
        let around = || Circumstances { cpus: 2, is_front_open: true, now: Instant::now() };
        for (what, change, slots) in rows {
            let mut generation = generation(2);
            change(&mut generation);
            assert_eq!(generation.ask_for_workers(CLASSIC, around()), slots, "{what}");
        }
        let mut generation = generation(2);
        assert_eq!(generation.ask_for_workers(7, around()), [0; 0], "there is no such lane");
        assert_eq!(generation.ask_for_workers(CLASSIC, Circumstances { is_front_open: false, ..around() }), [0; 0]);
    }
}
