//! The question that each request asks before it is routed: what has changed by now? A question that is under way does not answer a request
//! that comes later, so the later ones wait for the next, which is for all of them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipc::control::{Changes, FromFront};
use tokio::sync::{oneshot, watch};

use inbound::control::Link;

/// How long a request waits for the answer, and for the generation that may serve it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the supervisor has said last.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of the question; 0: nobody had asked.
    pub ticket: u64,
    /// The numbers.
    pub changes: Changes,
    /// The first generation that has all changes in all of its processes.
    pub fresh: u32,
    /// The oldest generation that serves.
    pub serving: u32,
    /// The changes that it has.
    pub made: u64,
    /// Why there is none.
    pub obstacle: Option<Arc<str>>,
    /// The changes that pages are told of.
    pub until: u64,
    /// The server ends.
    pub is_over: bool,
}

#[derive(Default)]
struct Questions {
    /// The one that is under way.
    ticket: Option<u64>,
    /// Who waits for it.
    waiting: Vec<oneshot::Sender<()>>,
    /// Who waits for the one behind it.
    later: Vec<oneshot::Sender<()>>,
}

/// What has changed, as far as it is known, and who waits to know more.
pub struct Fence {
    link: Arc<dyn Link>,
    questions: Mutex<Questions>,
    next: AtomicU64,
    fresh: AtomicU32,
    known: watch::Sender<Told>,
}

impl Fence {
    /// Asks by this link.
    pub fn new(link: Arc<dyn Link>) -> Fence {
        // An answer to an earlier front answers no question of this one.
        let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
        Fence {
            link,
            questions: Mutex::default(),
            next: AtomicU64::new(first),
            fresh: AtomicU32::new(0),
            known: watch::Sender::new(Told::default()),
        }
    }

    /// What is known, as it changes.
    pub fn known(&self) -> watch::Receiver<Told> {
        self.known.subscribe()
    }

    /// Waits until a generation serves that may, after everything is known that has been changed before this call. Returns how many changes
    /// those are, or why there is no such generation.
    /// `generation`: the oldest one that serves at the moment.
    pub async fn pass(&self, generation: impl Fn() -> Option<u32>) -> Result<u64, Arc<str>> {
        let waiting = async {
            self.ask().await;
            let mut known = self.known.subscribe();
            // What changes from now on is for later requests: files may go on changing for as long as they like.
            let Changes { count: change, whole, .. } = known.borrow().changes;
            loop {
                let told = known.borrow_and_update().clone();
                let serves = |generation| generation >= told.serving && told.made >= whole;
                if generation().is_none_or(serves) {
                    return Ok(change);
                }
                if let Some(why) = told.obstacle {
                    return Err(why);
                }
                if known.changed().await.is_err() {
                    return Ok(change);
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| {
            Err(Arc::from("What was saved has not been loaded within a minute; the terminal says more."))
        })
    }

    async fn ask(&self) {
        let (waiting, answered) = oneshot::channel();
        {
            let mut questions = self.questions();
            if questions.ticket.is_some() {
                questions.later.push(waiting);
            } else {
                questions.waiting.push(waiting);
                self.begin(&mut questions);
            }
        }
        // An error: the front ends.
        let _ = answered.await;
    }

    fn begin(&self, questions: &mut Questions) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        questions.ticket = Some(ticket);
        self.link.send(&FromFront::Fence { ticket });
    }

    /// The supervisor has said what has changed.
    pub fn answer(&self, told: Told) {
        let ticket = told.ticket;
        self.fresh.store(told.fresh, Ordering::Release);
        self.known.send_modify(|known| *known = Told { is_over: known.is_over, ..told });
        let mut questions = self.questions();
        if questions.ticket != Some(ticket) {
            return;
        }
        questions.ticket = None;
        // Who has left does not wait.
        std::mem::take(&mut questions.waiting).into_iter().for_each(|waiting| {
            let _ = waiting.send(());
        });
        if !questions.later.is_empty() {
            questions.waiting = std::mem::take(&mut questions.later);
            self.begin(&mut questions);
        }
    }

    /// Another generation takes requests.
    pub fn switched(&self) {
        self.known.send_modify(|_| ());
    }

    /// The server ends: nobody is told anything any more.
    pub fn end(&self) {
        self.known.send_modify(|known| known.is_over = true);
    }

    /// Whether all processes of a generation have what was saved before the last question.
    pub fn is_fresh(&self, generation: u32) -> bool {
        generation >= self.fresh.load(Ordering::Acquire)
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use ipc::control::ToFront;

    use super::*;

    struct Asked(Mutex<Vec<u64>>, OwnedFd);

    impl Link for Asked {
        fn send(&self, message: &FromFront) {
            if let FromFront::Fence { ticket } = message {
                self.0.lock().unwrap().push(*ticket);
            }
        }
        fn send_with(&self, message: &FromFront, _: &[BorrowedFd<'_>]) {
            self.send(message);
        }
        fn receive(&self) -> io::Result<Option<(ToFront, Vec<OwnedFd>)>> {
            Ok(None)
        }
        fn descriptor(&self) -> BorrowedFd<'_> {
            self.1.as_fd()
        }
    }

    /// A request that comes while a question is under way is not answered by that question.
    #[tokio::test]
    async fn a_request_waits_for_a_question_that_was_asked_after_it_came() {
        let link = Arc::new(Asked(Mutex::default(), std::fs::File::open("/dev/null").unwrap().into()));
        let fence = Arc::new(Fence::new(link.clone()));
        let ask = |fence: &Arc<Fence>| {
            let fence = fence.clone();
            tokio::spawn(async move { fence.ask().await })
        };
        let first = ask(&fence);
        tokio::task::yield_now().await;
        let later = [ask(&fence), ask(&fence)];
        tokio::task::yield_now().await;
        let asked = |count: usize| {
            let asked = link.0.lock().unwrap().clone();
            assert_eq!(asked.len(), count);
            asked[count - 1]
        };
        fence.answer(Told { ticket: 0, ..Told::default() });
        let ticket = asked(1);
        fence.answer(Told { ticket, fresh: 5, ..Told::default() });
        first.await.unwrap();
        assert!(!later[0].is_finished() && !later[1].is_finished() && !fence.is_fresh(4) && fence.is_fresh(5));
        // An answer that comes twice is none to the next question.
        fence.answer(Told { ticket, ..Told::default() });
        assert!(!later[0].is_finished());
        fence.answer(Told { ticket: asked(2), ..Told::default() });
        for one in later {
            one.await.unwrap();
        }
        asked(2);
    }
}
