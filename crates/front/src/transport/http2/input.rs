//! The end of a client's input, which h2 learns late. h2 drops requests that nobody has taken, and bodies that nobody has read,
//! as soon as the input ends. What is complete has to run, as over HTTP/1: so h2 is told when all requests were taken and no
//! body has anything left to read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// What is known of the input of one connection.
#[derive(Default)]
pub struct Input {
    /// There may be streams: before that, nothing can be lost.
    is_served: AtomicBool,
    /// The client has ended it, and h2 has read all that came before.
    has_ended: AtomicBool,
    /// After the end, h2 had no further request.
    is_taken: AtomicBool,
    /// h2 knows of the end.
    is_told: AtomicBool,
    /// Bodies that may have something left to read.
    unread: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the next body.
    next: u64,
    /// Who waits for more of a body.
    waiting: BTreeMap<u64, Waker>,
    /// The task of the connection.
    driver: Option<Waker>,
}

impl Input {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there may be streams.
    pub fn is_served_from_now(&self) {
        self.is_served.store(true, Ordering::Release);
    }

    /// The input is at its end. Whether h2 may learn that now.
    pub fn end(&self) -> bool {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            // Bodies that wait look again, and find that no more will come.
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_values().for_each(Waker::wake);
        }
        let may_tell = !self.is_served.load(Ordering::Acquire) || self.is_over();
        if may_tell {
            self.is_told.store(true, Ordering::Release);
        }
        may_tell
    }

    /// Whether the input has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.is_taken.load(Ordering::Acquire) && self.unread.load(Ordering::Acquire) == 0
    }

    /// h2 has no request that was not taken. The task of the connection is woken when h2 may learn of the end.
    pub fn all_taken(&self, context: &mut Context<'_>) {
        if !self.has_ended() || self.is_told.load(Ordering::Acquire) {
            return;
        }
        self.is_taken.store(true, Ordering::Release);
        self.lock().driver = Some(context.waker().clone());
        // The last body may have been read before the waker was there.
        if self.is_over() {
            context.waker().wake_by_ref();
        }
    }

    /// A request with a body was taken.
    pub fn body(self: &Arc<Input>) -> Unread {
        self.unread.fetch_add(1, Ordering::AcqRel);
        let mut state = self.lock();
        state.next += 1;
        Unread { number: state.next, input: Some(self.clone()) }
    }
}

/// A body that may have something left to read, until this is dropped.
pub struct Unread {
    number: u64,
    input: Option<Arc<Input>>,
}

impl Unread {
    /// h2 has no more of the body at the moment.
    pub fn wait(&mut self, context: &mut Context<'_>) {
        let Some(input) = &self.input else { return };
        if !input.has_ended() {
            input.lock().waiting.insert(self.number, context.waker().clone());
        }
        // If it ended before the waker was there, nobody wakes it.
        if input.has_ended() {
            self.is_read();
        }
    }

    /// Nothing is left to read.
    pub fn is_read(&mut self) {
        let Some(input) = self.input.take() else { return };
        let mut state = input.lock();
        state.waiting.remove(&self.number);
        if input.unread.fetch_sub(1, Ordering::AcqRel) == 1 {
            let driver = state.driver.take();
            drop(state);
            driver.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.is_read();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_end_is_told_when_nothing_is_left() {
        let (driver, reader) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let wakers = [driver.clone().into(), reader.clone().into()];
        let [mut of_driver, mut of_reader] = [Context::from_waker(&wakers[0]), Context::from_waker(&wakers[1])];
        // During the handshake.
        assert!(Input::default().end());
        let input = Arc::new(Input::default());
        input.is_served_from_now();
        let (mut first, second) = (input.body(), input.body());
        first.wait(&mut of_reader);
        input.all_taken(&mut of_driver);
        assert!(!input.end() && reader.0.load(Ordering::Relaxed) == 1, "who waits looks again");
        assert!(!input.end());
        first.wait(&mut of_reader);
        // A request was still to be taken, and it has a body.
        let third = input.body();
        input.all_taken(&mut of_driver);
        drop(second);
        assert!(!input.end() && driver.0.load(Ordering::Relaxed) == 0);
        drop(third);
        assert!(driver.0.load(Ordering::Relaxed) == 1 && input.end());
        // h2 knows: the task of the connection is not woken for ever.
        input.all_taken(&mut of_driver);
        assert_eq!(driver.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_connection_without_bodies_ends_at_once() {
        let driver = Arc::new(Woken::default());
        let waker = driver.clone().into();
        let input = Arc::new(Input::default());
        input.is_served_from_now();
        assert!(!input.end(), "there may be a request");
        input.all_taken(&mut Context::from_waker(&waker));
        assert!(driver.0.load(Ordering::Relaxed) == 1 && input.end());
    }
}
