//! Workers that come and go with the load: see [`crate::plan::next_target`] for how many, and [`share_out`] for how lanes share them.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;

use super::Supervisor;
use super::generation::GenerationId;
use super::lane::{CLASSIC, Lane};
use super::mailbox::Mailbox;
use super::service::Application;
use super::worker_target::{keep, load};
use crate::plan::{Want, classic_workers, share_out};

/// Lanes that share workers.
struct Pool {
    lanes: Vec<usize>,
    /// So many at most.
    all: usize,
    /// Those that each lane keeps, if there are enough.
    least: usize,
}

impl Supervisor {
    /// Whom a lane shares workers with. With `max_workers` all lanes share; without, those that the configuration does not name:
    /// one line in a file that many scripts include makes as many lanes as there may be.
    fn pool(&self, id: GenerationId, lane: usize) -> Option<Pool> {
        let generation = &self.generations[id];
        let Application { workers, min_workers, max_workers, .. } = *generation.application;
        if let Some(all) = max_workers {
            return Some(Pool { lanes: (0..generation.lanes.len()).collect(), all, least: min_workers });
        }
        let found: Vec<usize> = (0..generation.lanes.len()).filter(|lane| generation.is_found(*lane)).collect();
        let least = if min_workers < workers { min_workers } else { 1 };
        (found.len() > 1 && found.contains(&lane)).then_some(Pool { lanes: found, all: workers, least })
    }

    /// The least and the most workers of a lane.
    fn bounds(&self, id: GenerationId, lane: usize) -> (usize, usize) {
        let generation = &self.generations[id];
        let application = &generation.application;
        if let Some(pool) = self.pool(id, lane) {
            return (pool.least.min(pool.all / pool.lanes.len()).max(1), application.workers.min(pool.all));
        }
        let is_beside = generation.lanes[1..].iter().any(|lane| !lane.has_failed);
        let most = match lane {
            CLASSIC => classic_workers(application.workers, is_beside, self.service.cpus),
            _ => application.workers,
        };
        (application.min_workers.min(most), most)
    }

    /// How many workers a lane is to have now.
    pub(super) fn wanted_workers(&mut self, id: GenerationId, lane: usize, now: Instant) -> usize {
        let (least, most) = self.bounds(id, lane);
        let shared = self.pool(id, lane);
        let Lane { target, mailbox: Some(mailbox), .. } = &mut self.generations[id].lanes[lane] else { return 0 };
        if least == most {
            // They do not come and go. Whatever was said before there was another configuration, or lane.
            mailbox.slab.surplus().store(0, Ordering::SeqCst);
            return most;
        }
        let is_due = now >= target.next;
        if is_due {
            target.judge(mailbox, least, most, now);
        }
        match shared {
            None => {
                keep(mailbox, target.workers);
                target.workers
            }
            Some(pool) => {
                match is_due {
                    true => self.share_out(id, &pool, now),
                    // Some may have ended by themselves.
                    false => keep(mailbox, target.share),
                }
                self.share_of(id, lane, &pool)
            }
        }
    }

    /// Shares workers out among the lanes that share them. What a lane has and others are to have ends, if it is idle at
    /// once, else after its request.
    fn share_out(&mut self, id: GenerationId, pool: &Pool, now: Instant) {
        let (able, others): (Vec<usize>, Vec<usize>) =
            pool.lanes.iter().partition(|lane| self.may_fork(id, **lane, now));
        let least = pool.least.min(pool.all / pool.lanes.len()).max(1);
        let lanes = &mut self.generations[id].lanes;
        let kept: usize = others.into_iter().filter_map(|lane| Some(lanes[lane].mailbox.as_ref()?.live())).sum();
        let want = |lane: &usize| {
            let Lane { target, mailbox, .. } = &mut lanes[*lane];
            let load = load(mailbox.as_ref()?, Duration::ZERO);
            Some(target.need.want(load, least, target.workers, now))
        };
        let wants: Vec<Want> = able.iter().filter_map(want).collect();
        for (lane, share) in able.into_iter().zip(share_out(&wants, pool.all.saturating_sub(kept))) {
            let Lane { target, mailbox, .. } = &mut lanes[lane];
            target.share = share;
            mailbox.iter().for_each(|mailbox| keep(mailbox, share));
        }
    }

    /// A lane's share, as far as others have let go of it. One that stays it has in any case.
    fn share_of(&self, id: GenerationId, lane: usize, pool: &Pool) -> usize {
        let held = |lane: &Lane| lane.mailbox.as_ref().map_or(0, Mailbox::live) + lane.retired.len();
        let lanes = &self.generations[id].lanes;
        let Lane { target, mailbox: Some(mailbox), .. } = &lanes[lane] else { return 0 };
        if !(0..mailbox.slots.len()).any(|id| mailbox.stays(id)) {
            return mailbox.live() + 1;
        }
        let room = pool.all.saturating_sub(pool.lanes.iter().filter_map(|lane| lanes.get(*lane)).map(held).sum());
        target.share.min(mailbox.live() + room)
    }

    /// Requests wait in a lane: it is judged at once.
    pub(super) fn lane_is_busy(&mut self, id: GenerationId, lane: usize) {
        let lane = self.generations.get_mut(id).and_then(|generation| generation.lanes.get_mut(lane));
        let now = Instant::now();
        lane.into_iter().for_each(|lane| lane.target.is_busy(now));
    }

    /// When a lane is to be judged next, if its number of workers can change now.
    pub(super) fn next_judgement(&self, id: GenerationId, lane: usize) -> Option<Instant> {
        let (least, most) = self.bounds(id, lane);
        (least < most && self.may_fork(id, lane, Instant::now())).then(|| self.generations[id].lanes[lane].target.next)
    }
}
