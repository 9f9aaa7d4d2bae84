//! A worker's side of the slab: leaf functions that never call back, never allocate and never unwind.

use crate::atomics::{AtomicU64, Ordering, fence};
use crate::bell::{self, Futex};
use crate::front;
use crate::layout::*;
use crate::owner::{Owner, State, step};
use crate::purge;
use crate::report;
use crate::response;
use crate::ring::{self, Memory};
use crate::slab::Slab;
use crate::sys::{self, Errno, Kernel};

/// How long a worker sleeps before it looks again, even if its wake-up was lost.
const PATIENCE_MS: u32 = 1000;
/// Unpublished bytes of a response that make a worker publish by itself.
const PUBLISH_AT: u64 = RESPONSE_RING as u64 / 2;
/// Seconds for which a script may write what nobody takes before it learns of it, unless it flushes: an ordinary page has come to
/// its end by then.
const UNREAD_FOR: u64 = 1;

/// The worker's private state.
pub struct Worker {
    slab: Slab,
    slot: u16,
    eventfds: [i32; MAX_DOORS],
    current: Option<Current>,
}

/// The exchange a worker has.
struct Current {
    exchange: u32,
    sequence: u32,
    /// When the exchange was claimed, in ticks.
    claimed: u64,
    body_head: u64,
    response_tail: u64,
    published: u64,
    /// When it first wrote what nobody took.
    unread_since: Option<u64>,
}

/// What [`Worker::claim_next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Next {
    /// A request is claimed.
    Request = 1,
    /// Nothing within the worker's patience: look at signals and ask again.
    Nothing = 0,
    /// The lane is draining or closed: end.
    Drained = -1,
}

/// Why bytes could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client left, or the front did, or it has ended the response.
    Aborted,
    /// There is no request: finished, or never claimed.
    NoRequest,
}

impl Worker {
    /// Maps the slab and takes a slot. Negative eventfds are not used.
    pub fn attach(
        slab: i32,
        geometry: Geometry,
        slot: u16,
        pid: u32,
        eventfds: [i32; MAX_DOORS],
    ) -> Result<Worker, Errno> {
        let slab = Slab::map(slab, geometry)?;
        let line = slab.slot(slot.into()).ok_or(Errno(22))?;
        for counter in [&line.requests, &line.fast_rewinds, &line.scanned_rewinds, &line.pages, &line.last_ticks] {
            counter.store(0, Ordering::Relaxed);
        }
        line.last_processor_us.store(0, Ordering::Relaxed);
        line.last_peak_kib.store(0, Ordering::Relaxed);
        line.kept_connections.store(0, Ordering::Relaxed);
        line.began.store(sys::seconds(), Ordering::Relaxed);
        line.activity.store(Activity::Booting as u32, Ordering::Relaxed);
        line.since.store(sys::ticks(), Ordering::Relaxed);
        line.pid.store(pid, Ordering::Release);
        Ok(Worker { slab, slot, eventfds, current: None })
    }

    fn line(&self) -> &Slot {
        self.slab.slot(self.slot.into()).expect("the slot was checked by attach")
    }

    /// Says what the worker does.
    pub fn show(&self, activity: Activity) {
        self.show_as(activity as u32);
    }

    fn show_as(&self, activity: u32) {
        self.show_since(activity, sys::ticks());
    }

    fn show_since(&self, activity: u32, now: u64) {
        let line = self.line();
        let before = now.saturating_sub(line.since.load(Ordering::Relaxed));
        if let Some(spent) = line.spent.get(line.activity.load(Ordering::Relaxed) as usize) {
            add(spent, before);
        }
        line.since.store(now, Ordering::Relaxed);
        line.activity.store(activity, Ordering::Relaxed);
    }

    /// Leaves a note about the script of the current request for the front.
    pub fn note(&self, note: u32) {
        if let Some(current) = &self.current {
            self.slab.control(current.exchange).worker.0.notes.fetch_or(note, Ordering::Relaxed);
        }
    }

    /// Says what the current request has used.
    pub fn used(&self, usage: Usage) {
        if let Some(current) = &self.current {
            let words = &self.slab.control(current.exchange).worker.0;
            words.processor_us.store(usage.processor_us, Ordering::Relaxed);
            words.peak_kib.store(usage.peak_kib, Ordering::Relaxed);
            let line = self.line();
            line.last_processor_us.store(usage.processor_us, Ordering::Relaxed);
            line.last_peak_kib.store(usage.peak_kib, Ordering::Relaxed);
        }
    }

    /// Says how many connections to other servers it keeps open.
    pub fn keeps(&self, connections: u32) {
        self.line().kept_connections.store(connections, Ordering::Relaxed);
    }

    /// Counts a rewind.
    pub fn rewound(&self, is_fast: bool, pages: u64) {
        let line = self.line();
        add(if is_fast { &line.fast_rewinds } else { &line.scanned_rewinds }, 1);
        add(&line.pages, pages);
    }

    /// Says what it has seen of opcache, by [`crate::layout::Opcache`].
    pub fn saw_opcache(&self, numbers: &[u64; OPCACHES]) {
        let words = self.slab.opcache();
        words.iter().zip(numbers).for_each(|(word, number)| word.store(*number, Ordering::Relaxed));
    }

    /// Counts this worker's end.
    pub fn recycled(&self, why: Recycle) {
        self.slab.recycles()[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Asks for code to be loaded anew, for one of the reasons `RENEW_`.
    pub fn renew(&self, why: u32) {
        self.slab.renewal().store(why, Ordering::Relaxed);
    }

    /// Ends of the lane's workers so far for one reason.
    pub fn recycles(&self, why: Recycle) -> u64 {
        self.slab.recycles()[why as usize].load(Ordering::Relaxed)
    }

    /// Fast rewinds, scanned rewinds, pages copied of this worker so far.
    pub fn rewinds(&self) -> [u64; 3] {
        let line = self.line();
        [&line.fast_rewinds, &line.scanned_rewinds, &line.pages].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Asks the front for the report about the application, waits for it and copies it to `target`. Returns its size, and
    /// copies nothing if that is more than there is room for; 0: there is none, the front is gone.
    pub fn report(&self, target: &mut [u8]) -> usize {
        let asked = report::ask(&self.slab);
        self.tell_any();
        report::receive(&self.slab, asked, target)
    }

    /// Has the front purge what a text says, and waits until it has. False: it has not.
    pub fn purge(&self, text: &[u8]) -> bool {
        let slot = usize::from(self.slot);
        let Some(number) = purge::ask(&self.slab, slot, text) else { return false };
        self.tell_any();
        purge::await_done(&self.slab, slot, number)
    }

    /// Wakes a thread of the front: that which has this worker's request, or any. Without a request it looks a few times a second.
    fn tell_any(&self) {
        let geometry = self.slab.geometry();
        let any = u32::from(self.slot) % geometry.doors * geometry.per_door() as u32;
        self.tell(self.current.as_ref().map_or(any, |current| current.exchange));
    }

    /// Where the slab is mapped: first byte and number of bytes.
    pub fn extent(&self) -> (usize, usize) {
        self.slab.extent()
    }

    /// Claims the next request, sleeping for at most a second if there is none.
    pub fn claim_next(&mut self) -> Next {
        if self.leaves() {
            // The code of a worker script behind its loop may run as long as the code before the loop.
            self.show(Activity::Booting);
            // Other workers take the requests that wait. The wake-up for them may have gone to this worker, so it passes it on.
            fence(Ordering::SeqCst);
            if !self.slab.queue().is_empty() {
                front::wake_one(&self.slab);
            }
            return Next::Drained;
        }
        // A worker looks again each second. It has been idle since the first look, so the time is kept.
        if self.line().activity.load(Ordering::Relaxed) != Activity::Idle as u32 {
            self.show(Activity::Idle);
        }
        if self.claim() {
            return Next::Request;
        }
        if self.slab.phase() != Phase::Open {
            // Look once more: a request that was queued before the phase changed is still to be run.
            return if self.claim() { Next::Request } else { Next::Drained };
        }
        // Under load the front is about to post more; a wake-up would cost both sides more than this.
        sys::let_others_run();
        if self.claim() {
            return Next::Request;
        }
        let bell = self.slab.bell(self.slot.into());
        let seen = bell.load(Ordering::Acquire);
        bell::set_bit(self.slab.sleepers(), self.slot.into());
        fence(Ordering::SeqCst);
        if self.slab.queue().is_empty()
            && self.slab.phase() == Phase::Open
            && self.slab.surplus().load(Ordering::SeqCst) == 0
        {
            Kernel.wait(bell, seen, PATIENCE_MS);
        }
        bell::clear_bit(self.slab.sleepers(), self.slot.into());
        if self.claim() { Next::Request } else { Next::Nothing }
    }

    /// Whether this worker is one of those that are to end.
    fn leaves(&self) -> bool {
        let (surplus, leaves) = (self.slab.surplus(), &self.line().leaves);
        if surplus.load(Ordering::Relaxed) == 0 {
            return leaves.load(Ordering::Relaxed) != 0;
        }
        // Announced before the count changes: the workers that stay count those that end.
        let before = leaves.swap(1, Ordering::SeqCst);
        let is_taken = before != 0
            || surplus.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok();
        if !is_taken {
            leaves.store(0, Ordering::SeqCst);
        }
        is_taken
    }

    fn claim(&mut self) -> bool {
        if self.slab.phase() == Phase::Closed {
            return false;
        }
        let Some((exchange, sequence)) = self.slab.queue().claim(self.slot, |number| self.slab.owner(number)) else {
            return false;
        };
        let claimed = sys::ticks();
        self.slab.control(exchange).worker.0.claimed.store(claimed, Ordering::Relaxed);
        self.current = Some(Current {
            exchange,
            sequence,
            claimed,
            body_head: 0,
            response_tail: 0,
            published: 0,
            unread_since: None,
        });
        let line = self.line();
        line.exchange.store(exchange, Ordering::Relaxed);
        add(&line.requests, 1);
        true
    }

    /// Copies the request head to `target` and returns its size; 0 if there is none or it does not fit.
    pub fn head(&self, target: &mut [u8]) -> usize {
        let Some(current) = &self.current else { return 0 };
        let size = self.slab.control(current.exchange).front.0.head_size.load(Ordering::Acquire) as usize;
        match target.get_mut(..size) {
            Some(target) if size <= HEAD_SIZE => {
                self.slab.head(current.exchange).load(0, target);
                size
            }
            _ => 0,
        }
    }

    /// Marks the request as entered: from here on it is never given to another worker.
    pub fn enter(&mut self) -> bool {
        let Some(current) = &self.current else { return false };
        let (word, claimed) = (&self.slab.control(current.exchange).owner.0, current.claimed);
        let entered = step(
            word,
            Owner::pack(current.sequence, self.slot, State::Claimed),
            Owner::pack(current.sequence, self.slot, State::Running),
        );
        if entered {
            self.show_since(Activity::Starting as u32, claimed);
        } else {
            self.current = None;
        }
        entered
    }

    /// Whether the client has left or the front is gone.
    fn is_aborted(&self) -> bool {
        self.has_flag(ABORTED)
    }

    /// Whether nobody takes the response any more.
    pub fn is_unread(&self) -> bool {
        self.has_flag(ABORTED | RESPONSE_ENDED)
    }

    fn has_flag(&self, flag: u32) -> bool {
        self.current.as_ref().is_some_and(|current| {
            let flags = self.slab.control(current.exchange).front.0.flags.load(Ordering::Acquire);
            flags & flag != 0 || self.slab.phase() == Phase::Closed
        })
    }

    /// Reads bytes of the body, waiting until there are some. 0 is its end.
    pub fn read(&mut self, target: &mut [u8]) -> Result<usize, Gone> {
        loop {
            let aborted = self.is_aborted();
            let current = self.current.as_mut().ok_or(Gone::NoRequest)?;
            let control = self.slab.control(current.exchange);
            // The flag first: once it is seen, no byte follows the tail read after it.
            let ended = control.front.0.flags.load(Ordering::Acquire) & BODY_ENDED != 0;
            let (body_head, exchange) = (current.body_head, current.exchange);
            let available =
                ring::readable(body_head, &control.front.0.body_tail, BODY_RING).map_err(|_| Gone::Aborted)?;
            if available > 0 && !target.is_empty() {
                let count = available.min(target.len());
                ring::get(&self.slab.body(current.exchange), body_head, &mut target[..count]);
                current.body_head += count as u64;
                control.worker.0.body_head.store(current.body_head, Ordering::Release);
                fence(Ordering::SeqCst);
                if control.worker.0.wants_space.load(Ordering::SeqCst) != 0
                    && control.worker.0.wants_space.swap(0, Ordering::SeqCst) != 0
                {
                    self.tell(exchange);
                }
                return Ok(count);
            }
            if ended || target.is_empty() {
                return Ok(0);
            }
            if aborted {
                return Err(Gone::Aborted);
            }
            // PHP reads a form before the script runs, and php://input while it runs.
            let before = self.line().activity.load(Ordering::Relaxed);
            self.show(Activity::Reading);
            let control = self.slab.control(exchange);
            bell::wait_until(&Kernel, &control.front.0.bell, &control.worker.0.waiting, PATIENCE_MS, || {
                ring::readable(body_head, &control.front.0.body_tail, BODY_RING) != Ok(0)
                    || control.front.0.flags.load(Ordering::Acquire) & (BODY_ENDED | ABORTED) != 0
            });
            self.show_as(before);
        }
    }

    /// Puts bytes into the response's ring, waiting while it is full. The bytes are published when half the ring is
    /// unpublished, by [`Worker::flush`], or by [`Worker::finish`]. What the front does not take any more is dropped, for
    /// [`UNREAD_FOR`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            if self.is_unread() {
                return self.drop_unread();
            }
            let current = self.current.as_mut().ok_or(Gone::NoRequest)?;
            let (tail, exchange) = (current.response_tail, current.exchange);
            let control = self.slab.control(exchange);
            let room =
                ring::writable(tail, &control.front.0.response_head, RESPONSE_RING).map_err(|_| Gone::Aborted)?;
            let count = room.min(bytes.len());
            if count > 0 {
                ring::put(&self.slab.response(exchange), tail, &bytes[..count]);
                current.response_tail += count as u64;
                bytes = &bytes[count..];
            }
            if current.response_tail - current.published >= PUBLISH_AT || count == 0 {
                self.flush();
            }
            if count == 0 {
                let control = self.slab.control(exchange);
                bell::wait_until(&Kernel, &control.front.0.bell, &control.worker.0.waiting, PATIENCE_MS, || {
                    ring::writable(tail, &control.front.0.response_head, RESPONSE_RING) != Ok(0)
                        || control.front.0.flags.load(Ordering::Acquire) & (ABORTED | RESPONSE_ENDED) != 0
                });
            }
        }
        Ok(())
    }

    /// Whether what nobody takes may be dropped.
    fn drop_unread(&mut self) -> Result<(), Gone> {
        let is_aborted = self.is_aborted();
        let current = self.current.as_mut().ok_or(Gone::NoRequest)?;
        let now = sys::seconds();
        let since = *current.unread_since.get_or_insert(now);
        if is_aborted || now.saturating_sub(since) > UNREAD_FOR { Err(Gone::Aborted) } else { Ok(()) }
    }

    /// Publishes everything written and tells the front.
    pub fn flush(&mut self) {
        let Some(current) = self.current.as_mut() else { return };
        if current.published != current.response_tail {
            let worker = &self.slab.control(current.exchange).worker.0;
            worker.response_tail.store(current.response_tail, Ordering::Release);
            current.published = current.response_tail;
            let exchange = current.exchange;
            self.tell(exchange);
        }
    }

    /// Completes the response. The exchange is the front's again; nothing more can be read or written.
    pub fn finish(&mut self) {
        let Some(current) = self.current.take() else { return };
        let control = self.slab.control(current.exchange);
        control.worker.0.response_tail.store(current.response_tail, Ordering::Release);
        let now = sys::ticks();
        self.show_since(Activity::Finishing as u32, now);
        self.line().last_ticks.store(now.saturating_sub(current.claimed), Ordering::Relaxed);
        step(
            &control.owner.0,
            Owner::pack(current.sequence, self.slot, State::Running),
            Owner::pack(current.sequence, self.slot, State::Done),
        );
        self.tell(current.exchange);
    }

    /// Sets the exchange's bit and wakes its front thread if that sleeps.
    fn tell(&self, exchange: u32) {
        let (number, index) = (exchange as usize / self.slab.geometry().per_door(), exchange as usize);
        let first = number * self.slab.geometry().per_door();
        let sleeping = &self.slab.door(number).sleeping;
        bell::knock(&self.slab.marks(number), index - first, sleeping, || sys::signal(self.eventfds[number]));
    }

    /// The status line of a response's head.
    pub fn response_status(&mut self, status: u16, reason: &[u8]) -> Result<(), Gone> {
        self.write(&response::record(response::STATUS, status, reason.len() as u32))?;
        self.write(reason)
    }

    /// A header line of a response's head.
    pub fn response_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), Gone> {
        self.write(&response::record(response::HEADER, name.len() as u16, value.len() as u32))?;
        self.write(name)?;
        self.write(value)
    }

    /// The end of a response's head.
    pub fn response_end(&mut self) -> Result<(), Gone> {
        self.write(&response::record(response::END, 0, 0))
    }
}

/// Adds to a counter of the worker's own slot. Nobody else writes there: no locked instruction.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
