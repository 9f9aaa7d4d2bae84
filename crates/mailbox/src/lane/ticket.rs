//! The two ends of a posted request: a [`Ticket`] for its response, a [`RequestBodySender`] for its body.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ipc::front::Progress;
use ipc::layout::Usage;
use ipc::sys::ticks;

use super::{Call, Lane, lock};
use inbound::connection::Connection;
use routing::refusal::Refusal;

/// Bytes that are taken from the ring at once.
pub const CHUNK: usize = 64 * 1024;

/// A claim on the response of a posted request.
pub struct Ticket {
    pub(super) lane: Arc<Lane>,
    pub(super) exchange: u32,
    pub(super) id: u64,
    pub(super) connection: Arc<Connection>,
}

/// Sends the body of the same request. It may outlive the ticket, and then sends nothing.
pub struct RequestBodySender(Ticketless);

/// Withdraws the same request.
pub struct Withdrawal(Ticketless);

struct Ticketless {
    lane: Arc<Lane>,
    exchange: u32,
    id: u64,
}

/// What [`Ticket::poll_receive`] has found.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The response is complete.
    pub done: bool,
    /// PHP writes no more; the worker is free.
    pub is_finished: bool,
    /// What the worker has noted so far, as it says.
    pub notes: u32,
    /// What the request has used, once it is done, as the worker says.
    pub usage: Usage,
}

impl Ticket {
    /// Appends the bytes of the response that have come to `target`. Ready if there are some, or if no more will come.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        target: &mut Vec<u8>,
        most: usize,
    ) -> Poll<Result<Received, Refusal>> {
        let lane = &*self.lane;
        let mut place = lock(&lane.calls[self.exchange as usize]);
        let Some(call) = place.as_mut().filter(|call| call.id == self.id) else {
            return Poll::Ready(Err(Refusal::BadResponse));
        };
        if let Some(verdict) = call.verdict {
            if !verdict.is_of_limit() || call.detached {
                return Poll::Ready(Err(verdict));
            }
        }
        // The state is read before the bytes are counted: once it is Done, no further byte comes.
        let seen = call.posting.progress(&lane.slab).and_then(|seen| Ok((seen, call.posting.receivable(&lane.slab)?)));
        let Ok((progress, available)) = seen else {
            // A worker has written an impossible position. The worker that was last seen with the request is killed.
            call.verdict = Some(Refusal::BadResponse);
            if let Some(slot) = call.slot {
                lane.kill(slot, &call.posting);
            }
            return Poll::Ready(Err(Refusal::BadResponse));
        };
        if let Progress::Claimed(slot) | Progress::Running(slot) = progress {
            call.slot = Some(slot);
        }
        let due = call.due.map_or(usize::MAX, |due| usize::try_from(due).unwrap_or(usize::MAX));
        let count = available.min(CHUNK).min(most).min(due);
        if count > 0 {
            let old = target.len();
            target.resize(old + count, 0);
            call.posting.receive(&lane.slab, &mut target[old..]);
            call.due = call.due.map(|due| due - count as u64);
        }
        // What is beyond the length that was announced is no part of the response.
        let is_over = count == available && progress == Progress::Done || count == due && count < available;
        let is_short = is_over && call.due.is_some_and(|due| due > 0);
        if is_short && count == 0 {
            return Poll::Ready(Err(Refusal::BadResponse));
        }
        let done = is_over && !is_short;
        if count > 0 || done {
            let notes = call.posting.notes(&lane.slab);
            let usage = if done { call.posting.usage(&lane.slab) } else { Usage::default() };
            return Poll::Ready(Ok(Received { done, is_finished: progress == Progress::Done, notes, usage }));
        }
        let waker = context.waker();
        if !call.response_waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            call.response_waker = Some(waker.clone());
        }
        Poll::Pending
    }

    /// So many bytes of the response are still to come, as its head says: what is beyond them is left out, and a response that
    /// ends before them is broken off.
    pub fn expect(&self, bytes: u64) {
        let mut place = lock(&self.lane.calls[self.exchange as usize]);
        if let Some(call) = place.as_mut().filter(|call| call.id == self.id) {
            call.due = Some(bytes);
        }
    }

    /// How long the request waited for a worker, and how long that worker has had it, as the worker says. `None` if that is
    /// impossible.
    pub fn timing(&self) -> Option<(Duration, Duration)> {
        let place = lock(&self.lane.calls[self.exchange as usize]);
        let call = place.as_ref().filter(|call| call.id == self.id)?;
        let (now, total) = (ticks(), call.since.elapsed());
        let claimed = call.posting.claimed(&self.lane.slab);
        let (all, waited) = (now.checked_sub(call.posted)?, claimed.checked_sub(call.posted)?);
        // Both clocks run evenly, so the ratio of part and whole is the same by either clock.
        let share = waited as f64 / all.max(1) as f64;
        let waited = (share <= 1.0).then(|| total.mul_f64(share))?;
        Some((waited, total - waited))
    }

    fn ticketless(&self) -> Ticketless {
        Ticketless { lane: self.lane.clone(), exchange: self.exchange, id: self.id }
    }

    /// Withdraws the request from the queue. `false`: a worker has it.
    pub fn withdraw(&self) -> bool {
        self.withdrawal().withdraw()
    }

    /// What withdraws the request.
    pub fn withdrawal(&self) -> Withdrawal {
        Withdrawal(self.ticketless())
    }

    /// Tells PHP that its client is gone.
    pub fn abort(&self) {
        let mut place = lock(&self.lane.calls[self.exchange as usize]);
        if let Some(call) = place.as_mut().filter(|call| call.id == self.id) {
            call.posting.abort(&self.lane.slab);
        }
    }

    /// The sender of the request's body.
    pub fn body_sender(&self) -> RequestBodySender {
        RequestBodySender(self.ticketless())
    }
}

impl Drop for Ticket {
    /// Nobody takes the response any more, or it was taken as a whole. PHP learns that its client is gone; that the response alone
    /// has ended it learns when it flushes, and it still gets the body of the request.
    fn drop(&mut self) {
        let lane = &self.lane;
        let mut place = lock(&lane.calls[self.exchange as usize]);
        let Some(call) = place.as_mut().filter(|call| call.id == self.id) else { return };
        let over = call.detached
            || call.posting.progress(&lane.slab) == Ok(Progress::Done)
            || (call.withdrawable && call.posting.withdraw(&lane.slab));
        if over {
            let call = place.take();
            drop(place);
            call.into_iter().for_each(|call| lane.free(call));
        } else {
            call.abandoned = true;
            match self.connection.client.is_gone() {
                true => call.posting.abort(&lane.slab),
                false => call.posting.end_response(&lane.slab),
            }
        }
    }
}

/// Nobody wants the body any more: the request has ended, or is lost.
pub struct Unwanted;

impl Ticketless {
    fn with<R>(&self, f: impl FnOnce(&Lane, &mut Call) -> R) -> Option<R> {
        let mut place = lock(&self.lane.calls[self.exchange as usize]);
        let call = place.as_mut().filter(|call| call.id == self.id)?;
        Some(f(&self.lane, call))
    }
}

impl Withdrawal {
    /// Withdraws the request from the queue. `false`: a worker has it.
    pub fn withdraw(&self) -> bool {
        self.0
            .with(|lane, call| {
                call.detached = call.detached || call.posting.withdraw(&lane.slab);
                call.detached
            })
            .unwrap_or(true)
    }
}

impl RequestBodySender {
    /// Sends some of `bytes`. Ready as soon as there is room, with the number of bytes sent.
    pub fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Unwanted>> {
        let sent = self.0.with(|lane, call| {
            if call.verdict.is_some() || call.posting.progress(&lane.slab) == Ok(Progress::Done) {
                return Poll::Ready(Err(Unwanted));
            }
            let send = |call: &mut Call| call.posting.send_body(&lane.slab, bytes).map_err(|_| Unwanted);
            match send(call) {
                Ok(0) => {}
                other => return Poll::Ready(other),
            }
            call.body_waker = Some(context.waker().clone());
            match call.posting.wait_for_room(&lane.slab) {
                Ok(false) => Poll::Pending,
                Ok(true) => Poll::Ready(send(call)),
                Err(_) => Poll::Ready(Err(Unwanted)),
            }
        });
        sent.unwrap_or(Poll::Ready(Err(Unwanted)))
    }

    /// Says that the body is complete.
    pub fn end(&self) {
        self.0.with(|lane, call| call.posting.end_body(&lane.slab));
    }

    /// Says that the body cannot be completed. The request is refused for that reason, unless its response has begun.
    pub fn fail(&self, why: Refusal) {
        self.0.with(|lane, call| {
            let begun = call.posting.received() > 0
                || call.posting.receivable(&lane.slab) != Ok(0)
                || call.posting.progress(&lane.slab) == Ok(Progress::Done);
            if !begun {
                call.fail(why);
            }
            call.posting.abort(&lane.slab);
        });
    }
}
