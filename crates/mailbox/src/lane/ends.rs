//! Requests that end otherwise than by PHP's response: by dead workers, limits, or a generation that is given up.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ipc::control::{FromFront, RequestId};
use ipc::front::{self, Progress};

use super::{Call, Lane, lock};
use routing::refusal::Refusal;

/// The memory of requests that PHP has had for less time is not checked.
const WEIGHED_AFTER_MS: u64 = 100;

impl Lane {
    /// Refuses the requests that wait, and all that would be posted from now on: no worker will come for them.
    pub fn give_up(&self) {
        let desk = lock(&self.desk);
        self.is_given_up.store(true, Ordering::Relaxed);
        let mut orphans = Vec::new();
        for place in &self.calls {
            let mut place = lock(place);
            let Some(call) = place.as_mut() else { continue };
            if call.posting.progress(&self.slab) == Ok(Progress::Queued)
                && !call.detached
                && call.posting.withdraw(&self.slab)
            {
                call.detached = true;
                call.fail(Refusal::QueueTimeout);
                if call.abandoned {
                    orphans.extend(place.take());
                }
            }
        }
        drop(desk);
        orphans.into_iter().for_each(|call| self.free(call));
    }

    /// A worker was reaped. A request that it had claimed but not entered is queued again, once. A request that it ran is
    /// lost. A request that it had taken from the queue without claiming is found and queued again. Then its slot is free.
    pub fn worker_died(&self, slot: u32) {
        let mut desk = lock(&self.desk);
        let mut orphans = Vec::new();
        for place in &self.calls {
            let mut place = lock(place);
            let Some(call) = place.as_mut() else { continue };
            if call.detached {
                continue;
            }
            let progress = call.posting.progress(&self.slab);
            let is_its = match progress {
                Ok(Progress::Claimed(holder) | Progress::Running(holder)) => u32::from(holder) == slot,
                Ok(Progress::Queued) => {
                    // Not if another worker, which was only slow, has claimed it just now.
                    if call.posting.is_lost(&self.slab)
                        && !self.enqueue(&mut desk, &mut call.posting)
                        && call.posting.withdraw(&self.slab)
                    {
                        call.detached = true;
                        call.fail(Refusal::QueueFull);
                    }
                    false
                }
                // The response is complete, but the worker may have died before it could tell the front.
                Ok(Progress::Done) => {
                    call.wake();
                    if call.abandoned {
                        orphans.extend(place.take());
                    }
                    false
                }
                Err(_) => call.slot.is_none_or(|seen| u32::from(seen) == slot),
            };
            if !is_its {
                continue;
            }
            let Some(call) = place.as_mut() else { continue };
            let may_wait = !call.retried && !self.is_given_up.load(Ordering::Relaxed);
            if matches!(progress, Ok(Progress::Claimed(_))) && may_wait && call.verdict.is_none() {
                call.retried = true;
                let exchange = call.posting.exchange as usize;
                let sequence = desk.sequences[exchange].wrapping_add(1);
                desk.sequences[exchange] = sequence;
                call.posting.offer_again(&self.slab, sequence);
                if self.enqueue(&mut desk, &mut call.posting) || !call.posting.withdraw(&self.slab) {
                    continue;
                }
            }
            call.detached = true;
            call.bereft = true;
            call.fail(Refusal::WorkerDied);
            if call.abandoned {
                orphans.extend(place.take());
            }
        }
        drop(desk);
        orphans.into_iter().for_each(|call| self.free(call));
        front::forget_slot(&self.slab, slot as usize);
        self.slab.wake_all();
        self.link.send(&FromFront::SlotFree { lane: self.id, slot });
    }

    /// Asks the supervisor to check how much memory the worker of a request holds.
    fn have_weighed(&self, slot: u16, call: &Call) {
        let (running, limit_kib) = (self.running_request(slot, &call.posting), call.limits.memory_kib);
        self.link.send(&FromFront::Weigh { running, limit_kib });
    }

    /// The worker of a request is being killed because it held too much memory. The response goes out when the worker is
    /// reaped.
    pub fn was_too_heavy(&self, RequestId { exchange, sequence }: RequestId) {
        let Some(place) = self.calls.get(exchange as usize) else { return };
        if let Some(call) = lock(place).as_mut().filter(|call| call.posting.sequence == sequence && !call.detached) {
            call.verdict.get_or_insert(Refusal::RequestMemory);
        }
    }

    /// Looks for requests of this front thread that have waited or run too long, and for what workers ask for. Called a few
    /// times a second.
    pub fn sweep(&self, door: usize) {
        if door == 0 {
            self.allow_reports();
        }
        if door == 0 && self.slab.renewal().load(Ordering::Relaxed) != 0 {
            let why = self.slab.renewal().swap(0, Ordering::Relaxed);
            self.link.send(&FromFront::Renew { lane: self.id, why });
        }
        if self.in_flight() == 0 {
            return;
        }
        let now = Instant::now();
        let per_door = self.slab.geometry().per_door();
        for place in &self.calls[door * per_door..(door + 1) * per_door] {
            let mut place = lock(place);
            let Some(call) = place.as_mut() else { continue };
            match call.posting.progress(&self.slab) {
                Ok(Progress::Queued)
                    if now - call.since > Duration::from_millis(call.limits.queue_ms)
                        && !call.detached
                        && call.posting.withdraw(&self.slab) =>
                {
                    call.detached = true;
                    call.fail(Refusal::QueueTimeout);
                    if call.abandoned {
                        let call = place.take();
                        drop(place);
                        call.into_iter().for_each(|call| self.free(call));
                    }
                }
                Ok(Progress::Claimed(slot) | Progress::Running(slot)) => {
                    call.slot = Some(slot);
                    let taken = (now - *call.entered.get_or_insert(now)).as_millis() as u64;
                    let over = |limit: u64| limit > 0 && taken > limit;
                    if over(self.slow_ms) && !call.is_slow {
                        call.is_slow = true;
                        self.slow.fetch_add(1, Ordering::Relaxed);
                        self.link.send(&FromFront::Slow { running: self.running_request(slot, &call.posting) });
                    }
                    if over(call.limits.soft_ms) && !call.is_told {
                        call.is_told = true;
                        self.link.send(&FromFront::Overtime { running: self.running_request(slot, &call.posting) });
                    }
                    if over(call.limits.hard_ms) && !call.verdict.is_some_and(Refusal::is_of_limit) {
                        // The response goes out when the worker is reaped; until then the worker may still write.
                        call.verdict = Some(Refusal::RequestTimeout);
                        self.kill(slot, &call.posting);
                    }
                    if call.limits.memory_kib > 0
                        && taken >= WEIGHED_AFTER_MS
                        && !call.verdict.is_some_and(Refusal::is_of_limit)
                    {
                        self.have_weighed(slot, call);
                    }
                }
                Ok(Progress::Done) if call.abandoned => {
                    let call = place.take();
                    drop(place);
                    call.into_iter().for_each(|call| self.free(call));
                }
                Ok(Progress::Done) => {
                    call.wake();
                    if !std::mem::replace(&mut call.is_ended, true) {
                        self.ends();
                    }
                }
                _ => {}
            }
        }
    }
}
