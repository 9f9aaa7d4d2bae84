//! The front's side of an exchange. All positions that matter live in [`Posting`], which is private to the front; what
//! comes out of shared memory is compared with it and refused if it cannot be.

use crate::atomics::{Ordering, fence};
use crate::bell;
use crate::layout::*;
use crate::owner::{Owner, State, step};
use crate::queue::{self, Full};
use crate::ring::{self, Corrupt};
use crate::slab::Slab;
use crate::sys::Kernel;

/// One request in one exchange, as the front knows it.
#[derive(Debug)]
pub struct Posting {
    /// The exchange.
    pub exchange: u32,
    /// The submission.
    pub sequence: u32,
    /// Where its entry is in the queue.
    pub position: u64,
    head_size: u32,
    body_tail: u64,
    response_head: u64,
}

/// What the owner word says of a posting.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Progress {
    /// Nobody has it.
    Queued,
    /// That slot's worker has it; PHP was not entered.
    Claimed(u16),
    /// PHP runs it in that slot's worker.
    Running(u16),
    /// The response is complete.
    Done,
}

impl Posting {
    /// Puts a request into a free exchange: head and the `prefix` of its body (no longer than the ring) stored, words
    /// reset, owner `Queued`. It still has to be queued. `has_more` says whether more of the body will follow.
    pub fn new(slab: &Slab, exchange: u32, sequence: u32, head: &[u8], prefix: &[u8], has_more: bool) -> Posting {
        let control = slab.control(exchange);
        ring::put(&slab.head(exchange), 0, head);
        ring::put(&slab.body(exchange), 0, prefix);
        let (front, worker) = (&control.front.0, &control.worker.0);
        front.body_tail.store(prefix.len() as u64, Ordering::Relaxed);
        front.response_head.store(0, Ordering::Relaxed);
        front.flags.store(if has_more { 0 } else { BODY_ENDED }, Ordering::Relaxed);
        front.head_size.store(head.len() as u32, Ordering::Relaxed);
        worker.body_head.store(0, Ordering::Relaxed);
        worker.response_tail.store(0, Ordering::Relaxed);
        worker.waiting.store(0, Ordering::Relaxed);
        worker.wants_space.store(0, Ordering::Relaxed);
        worker.notes.store(0, Ordering::Relaxed);
        worker.processor_us.store(0, Ordering::Relaxed);
        worker.peak_kib.store(0, Ordering::Relaxed);
        control.owner.0.store(Owner::pack(sequence, 0, State::Queued), Ordering::Release);
        Posting {
            exchange,
            sequence,
            position: 0,
            head_size: head.len() as u32,
            body_tail: prefix.len() as u64,
            response_head: 0,
        }
    }

    /// Puts the entry into the queue; `tail` is the front's private position, under the front's lock.
    pub fn enqueue(&mut self, slab: &Slab, tail: &mut u64) -> Result<(), Full> {
        self.position = *tail;
        slab.queue().push(tail, queue::entry(self.exchange, self.sequence))
    }

    /// Makes a claimed request, whose worker was reaped, claimable again; only before PHP was entered. It still has to be
    /// queued.
    pub fn offer_again(&mut self, slab: &Slab, sequence: u32) {
        self.sequence = sequence;
        let word = &slab.control(self.exchange).owner.0;
        word.store(Owner::pack(sequence, 0, State::Queued), Ordering::Release);
    }

    /// Whether its queue entry was taken although nobody claimed it: the taker may be dead.
    pub fn is_lost(&self, slab: &Slab) -> bool {
        let head = slab.queue().head.load(Ordering::SeqCst);
        self.progress(slab) == Ok(Progress::Queued) && head.wrapping_sub(self.position) as i64 > 0
    }

    /// What has become of it.
    pub fn progress(&self, slab: &Slab) -> Result<Progress, Corrupt> {
        let owner = Owner::unpack(slab.control(self.exchange).owner.0.load(Ordering::Acquire)).ok_or(Corrupt)?;
        if owner.sequence != self.sequence || u32::from(owner.slot) >= slab.geometry().slots {
            return Err(Corrupt);
        }
        match owner.state {
            State::Free => Err(Corrupt),
            State::Queued => Ok(Progress::Queued),
            State::Claimed => Ok(Progress::Claimed(owner.slot)),
            State::Running => Ok(Progress::Running(owner.slot)),
            State::Done => Ok(Progress::Done),
        }
    }

    /// [`crate::sys::ticks`] when a worker claimed the request, as that worker says.
    pub fn claimed(&self, slab: &Slab) -> u64 {
        slab.control(self.exchange).worker.0.claimed.load(Ordering::Relaxed)
    }

    /// What the worker noted about the script: [`NOTE_SNAPSHOT`], perhaps with [`NOTE_HOST`], [`NOTE_WORKER_MODE`] or
    /// nothing. The worker may have written anything: the caller has to check it.
    pub fn notes(&self, slab: &Slab) -> u32 {
        slab.control(self.exchange).worker.0.notes.load(Ordering::Relaxed)
    }

    /// What a finished request has used, as the worker says. It may be logged; nothing may rely on it.
    pub fn usage(&self, slab: &Slab) -> Usage {
        let worker = &slab.control(self.exchange).worker.0;
        Usage {
            processor_us: worker.processor_us.load(Ordering::Relaxed),
            peak_kib: worker.peak_kib.load(Ordering::Relaxed),
        }
    }

    /// Takes the request back if no worker has claimed it. The exchange may then be released.
    pub fn withdraw(&self, slab: &Slab) -> bool {
        let word = &slab.control(self.exchange).owner.0;
        step(word, Owner::pack(self.sequence, 0, State::Queued), Owner::pack(self.sequence, 0, State::Free))
    }

    /// Puts as much of `bytes` into the body's ring as fits and says how much that was.
    pub fn send_body(&mut self, slab: &Slab, bytes: &[u8]) -> Result<usize, Corrupt> {
        let control = slab.control(self.exchange);
        let room = ring::writable(self.body_tail, &control.worker.0.body_head, BODY_RING)?;
        let count = room.min(bytes.len());
        if count > 0 {
            ring::put(&slab.body(self.exchange), self.body_tail, &bytes[..count]);
            self.body_tail += count as u64;
            control.front.0.body_tail.store(self.body_tail, Ordering::Release);
            self.ring_bell(slab);
        }
        Ok(count)
    }

    /// Asks to be told when there is room in the body's ring. True if there is some already.
    pub fn wait_for_room(&self, slab: &Slab) -> Result<bool, Corrupt> {
        let worker = &slab.control(self.exchange).worker.0;
        worker.wants_space.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Ok(ring::writable(self.body_tail, &worker.body_head, BODY_RING)? > 0)
    }

    /// Says that the body is complete.
    pub fn end_body(&self, slab: &Slab) {
        self.raise(slab, BODY_ENDED);
    }

    /// Says that the client is gone. The exchange stays the worker's until it is done or reaped.
    pub fn abort(&self, slab: &Slab) {
        self.raise(slab, ABORTED);
    }

    /// Says that nobody takes the rest of the response. The exchange stays the worker's until it is done or reaped.
    pub fn end_response(&self, slab: &Slab) {
        self.raise(slab, RESPONSE_ENDED);
    }

    fn raise(&self, slab: &Slab, flag: u32) {
        slab.control(self.exchange).front.0.flags.fetch_or(flag, Ordering::Release);
        self.ring_bell(slab);
    }

    /// Bytes of the response that can be received now.
    pub fn receivable(&self, slab: &Slab) -> Result<usize, Corrupt> {
        ring::readable(self.response_head, &slab.control(self.exchange).worker.0.response_tail, RESPONSE_RING)
    }

    /// Copies bytes of the response out of the ring; `target` is no longer than [`Posting::receivable`] said.
    pub fn receive(&mut self, slab: &Slab, target: &mut [u8]) {
        ring::get(&slab.response(self.exchange), self.response_head, target);
        self.response_head += target.len() as u64;
        slab.control(self.exchange).front.0.response_head.store(self.response_head, Ordering::Release);
        self.ring_bell(slab);
    }

    /// Bytes of the request head.
    pub fn head_size(&self) -> usize {
        self.head_size as usize
    }

    /// Bytes of the response received so far.
    pub fn received(&self) -> u64 {
        self.response_head
    }

    fn ring_bell(&self, slab: &Slab) {
        let control = slab.control(self.exchange);
        bell::ring(&Kernel, &control.front.0.bell, &control.worker.0.waiting);
    }

    /// Zeroes what was used and frees the exchange. Call it when the request is done or withdrawn (`published`: the worker wrote
    /// no more than it published), or when its worker was reaped: nobody else touches the exchange then.
    pub fn release(self, slab: &Slab, published: bool) {
        let control = slab.control(self.exchange);
        // The worker says how far it wrote. If that is impossible, the whole ring is zeroed (wipe clamps).
        let written = control.worker.0.response_tail.load(Ordering::Acquire).max(self.response_head);
        slab.head(self.exchange).wipe(self.head_size.into());
        slab.body(self.exchange).wipe(self.body_tail);
        slab.response(self.exchange).wipe(if published { written } else { u64::MAX });
        control.owner.0.store(Owner::pack(self.sequence, 0, State::Free), Ordering::Release);
    }
}

/// Wakes one sleeping worker, after a request was queued. False if nobody sleeps.
pub fn wake_one(slab: &Slab) -> bool {
    fence(Ordering::SeqCst);
    let Some(slot) = bell::take_lowest(slab.sleepers()).and_then(|index| slab.slot(index)) else { return false };
    slot.bell.fetch_add(1, Ordering::Release);
    bell::Futex::wake(&Kernel, &slot.bell);
    true
}

/// Sets how many workers are to end (`surplus`), if it is still `before`. The workers that next have no request end; as many of
/// the `idle` slots are woken. False if workers have begun to end meanwhile: the caller has to count them anew.
pub fn dismiss(slab: &Slab, before: u32, surplus: u32, idle: impl Iterator<Item = usize>) -> bool {
    if slab.surplus().compare_exchange(before, surplus, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return false;
    }
    for slot in idle.take(surplus as usize).filter_map(|number| slab.slot(number)) {
        // The worker reads the bell before it looks whether it is to end.
        slot.bell.fetch_add(1, Ordering::Release);
        bell::Futex::wake(&Kernel, &slot.bell);
    }
    true
}

/// Removes a dead worker from the scoreboard and from those that could be woken.
pub fn forget_slot(slab: &Slab, number: usize) {
    if let Some(slot) = slab.slot(number) {
        bell::clear_bit(slab.sleepers(), number);
        slot.activity.store(Activity::Empty as u32, Ordering::Release);
        slot.pid.store(0, Ordering::Release);
    }
}

/// Says that a front thread is about to sleep. False if it must not: something is ready.
pub fn may_sleep(slab: &Slab, door: usize) -> bool {
    bell::may_sleep(&slab.marks(door), &slab.door(door).sleeping)
}

/// Says that a front thread is awake.
pub fn awake(slab: &Slab, door: usize) {
    bell::awake(&slab.door(door).sleeping);
}

/// Calls `each` with exchanges of one front thread that have news, `most` of them at most. Cheap when there are none.
pub fn collect(slab: &Slab, door: usize, most: usize, mut each: impl FnMut(u32)) {
    let first = (door * slab.geometry().per_door()) as u32;
    slab.marks(door).take(most, |index| each(first + index as u32));
}
