//! A request for a page that another request has asked for already, when nobody knows whether its response may be shared: it is run as without the
//! cache, and takes the other one's response only if that is there before a worker has it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Response;
use tokio::time::timeout;

use super::admit::Admitted;
use super::keep::{Candidate, Keeping};
use super::ready;
use crate::wrapped::Made;
use cache_store::stored::flight::{Follower, Head};
use mailbox::lane::{Lane, Ticket, Withdrawal};
use routing::refusal::Refusal;

/// The longest time that a request waits for another one's response, all in all, while it has no place in a queue. Then it does as without the
/// cache.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Such a request.
pub(super) struct Beside {
    pub(super) candidate: Box<Candidate>,
    pub(super) follower: Follower,
}

/// Where such a request stands.
pub(super) struct Standing(Mutex<Place>);

struct Place {
    /// Takes it out of the queue again, if it is there.
    withdrawal: Option<Withdrawal>,
    /// Whether it has found no place, and is to ask the cache again.
    is_turned_away: bool,
    /// Since when it waits beside the queue.
    since: Option<Instant>,
    /// How long it has waited for another one's response before.
    waited: Duration,
}

/// What has come first.
pub(super) enum First {
    /// The response of the other request, which is for this one too.
    Other(Head, Follower),
    /// What the request itself has led to.
    Own(Box<Result<Response<Made>, Refusal>>),
    /// Something has changed, and the cache may know more: a worker is free, or the other request has led to nothing for this one.
    Neither,
}

impl Beside {
    /// It goes on alone.
    pub(super) fn alone(self) -> Keeping {
        Keeping::Copy(self.candidate)
    }

    /// Runs the request, which tells where it stands. It is dropped if the other response is there before a worker has it.
    pub(super) async fn race(
        self,
        admitted: &Admitted<'_>,
        standing: &Standing,
        own: impl Future<Output = Result<Response<Made>, Refusal>>,
    ) -> (Box<Candidate>, First) {
        let Beside { candidate, follower } = self;
        let (mut own, mut follower) = (pin!(own), Some(follower));
        let poll = |context: &mut Context<'_>| {
            if let Poll::Ready(head) = follower.as_mut().map_or(Poll::Pending, |follower| follower.poll_head(context)) {
                let other = follower.take().filter(|_| ready::is_for(&head, &candidate.asking, admitted));
                match other {
                    Some(other) if standing.leaves() => return Poll::Ready(First::Other(head, other)),
                    None if !standing.is_posted() => return Poll::Ready(First::Neither),
                    _ => {}
                }
            }
            let own: Pin<&mut _> = own.as_mut();
            own.poll(context)
                .map(|result| if standing.is_turned_away() { First::Neither } else { First::Own(Box::new(result)) })
        };
        let first = poll_fn(poll).await;
        (candidate, first)
    }
}

impl Standing {
    /// Of a request that is not posted yet, and has waited so long before.
    pub(super) fn new(waited: Duration) -> Standing {
        Standing(Mutex::new(Place { withdrawal: None, is_turned_away: false, since: None, waited }))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the request has waited for another one's response.
    pub(super) fn waited(&self) -> Duration {
        let place = self.place();
        place.waited + place.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn is_posted(&self) -> bool {
        self.place().withdrawal.is_some()
    }

    fn is_turned_away(&self) -> bool {
        self.place().is_turned_away
    }

    /// Leaves the queue. `false`: a worker has the request.
    fn leaves(&self) -> bool {
        self.place().withdrawal.as_ref().is_none_or(Withdrawal::withdraw)
    }

    /// Posts the request: at once if a worker is free, or if others wait in the queue as well. Else it waits until one of the two has come about,
    /// and is turned away: the cache may know more by then. It is posted in any case after [`PATIENCE`]; a queue that is full refuses it only
    /// then. `post`: whether the request stays out of the queue if it would be the first there, and how long it has waited.
    pub(super) async fn post(
        &self,
        admitted: &Admitted<'_>,
        lane: &Lane,
        post: impl Fn(bool, Duration) -> Result<Ticket, Refusal>,
    ) -> Result<Ticket, Refusal> {
        let post = |yields| {
            let ticket = post(yields, self.waited())?;
            let (waited, mut place) = (self.waited(), self.place());
            (place.waited, place.since, place.withdrawal) = (waited, None, Some(ticket.withdrawal()));
            Ok(ticket)
        };
        let patience = PATIENCE.saturating_sub(self.waited());
        let beside = lane.beside();
        let moved = beside.moved();
        if patience.is_zero() {
            return post(false);
        }
        if !lane.is_just_full() {
            if let ticket @ Ok(_) = post(true) {
                return ticket;
            }
        }
        self.place().since = Some(Instant::now());
        let _waiting = admitted.waits();
        match timeout(patience, moved).await {
            Ok(()) => {
                self.place().is_turned_away = true;
                Err(Refusal::QueueFull)
            }
            Err(_) => post(false),
        }
    }
}
