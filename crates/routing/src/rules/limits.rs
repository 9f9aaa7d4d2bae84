//! Limits that rules set, and what the limits of several rules say together of one request.

use serde::{Deserialize, Serialize};

use crate::rate::RateLimit;

/// Limits of a rule; what is left out is as without the rule. Times are in milliseconds. 0 means no limit, except for `queue`
/// and `queue_ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Where they are written.
    pub place: String,
    /// Requests that may wait in the lane when a request comes.
    pub queue: Option<usize>,
    /// How long it may wait for a worker.
    pub queue_ms: Option<u64>,
    /// How long PHP may take; then it is told to end the request.
    pub soft_ms: Option<u64>,
    /// How long PHP may take; then its worker is killed.
    pub hard_ms: Option<u64>,
    /// KiB of memory of its own that its worker may hold.
    pub memory_kib: Option<u64>,
    /// Requests of one client address that may run or wait at once. Those are counted for which this value is in force.
    pub client_requests: Option<usize>,
    /// Bytes of body.
    pub max_body: Option<u64>,
    /// How often a client may ask.
    pub rate: Option<RateLimit>,
}

impl Limits {
    /// The name of a limit that holds for PHP alone, if it has one.
    pub fn of_php(&self) -> Option<&'static str> {
        let all = [
            ("queue", self.queue.is_some()),
            ("queue_timeout", self.queue_ms.is_some()),
            ("soft_timeout", self.soft_ms.is_some()),
            ("request_timeout", self.hard_ms.is_some()),
            ("request_memory", self.memory_kib.is_some()),
            ("client_requests", self.client_requests.is_some()),
        ];
        all.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }
}

/// A limit, and where it is written.
pub type Placed<'t, T> = Option<(T, &'t str)>;

/// Limits of several rules. Of each limit the last rule's value is in force; rates are all in force.
#[derive(Clone, Debug, Default)]
pub struct Together<'t> {
    /// See [`Limits::queue`].
    pub queue: Placed<'t, usize>,
    /// See [`Limits::queue_ms`].
    pub queue_ms: Placed<'t, u64>,
    /// See [`Limits::soft_ms`].
    pub soft_ms: Placed<'t, u64>,
    /// See [`Limits::hard_ms`].
    pub hard_ms: Placed<'t, u64>,
    /// See [`Limits::memory_kib`].
    pub memory_kib: Placed<'t, u64>,
    /// See [`Limits::client_requests`].
    pub client_requests: Placed<'t, usize>,
    /// See [`Limits::max_body`].
    pub max_body: Placed<'t, u64>,
    /// The rates, each once.
    pub rates: Vec<(&'t RateLimit, &'t str)>,
}

impl<'t> Together<'t> {
    /// What these rules say, in their order; `None`: they say nothing.
    pub fn of(rules: impl Iterator<Item = &'t Limits>) -> Option<Box<Together<'t>>> {
        rules.fold(None, |together, limits| {
            let mut together = together.unwrap_or_default();
            together.add(limits);
            Some(together)
        })
    }

    fn add(&mut self, limits: &'t Limits) {
        fn put<'t, T: Copy>(known: &mut Placed<'t, T>, value: Option<T>, place: &'t str) {
            *known = value.map(|value| (value, place)).or(*known);
        }
        let place = limits.place.as_str();
        put(&mut self.queue, limits.queue, place);
        put(&mut self.queue_ms, limits.queue_ms, place);
        put(&mut self.soft_ms, limits.soft_ms, place);
        put(&mut self.hard_ms, limits.hard_ms, place);
        put(&mut self.memory_kib, limits.memory_kib, place);
        put(&mut self.client_requests, limits.client_requests, place);
        put(&mut self.max_body, limits.max_body, place);
        let rate = limits.rate.as_ref().filter(|rate| self.rates.iter().all(|(known, _)| known != rate));
        self.rates.extend(rate.map(|rate| (rate, place)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_every_rate() {
        assert!(Together::of(std::iter::empty()).is_none());
        let rate = |burst| Some(RateLimit { burst, ..RateLimit::default() });
        let rules = [
            Limits { place: "a".into(), queue: Some(1), hard_ms: Some(5), rate: rate(1), ..Limits::default() },
            Limits { place: "b".into(), queue: Some(2), max_body: Some(0), rate: rate(2), ..Limits::default() },
            Limits { place: "c".into(), rate: rate(1), ..Limits::default() },
        ];
        let together = Together::of(rules.iter()).unwrap();
        assert_eq!((together.queue, together.hard_ms), (Some((2, "b")), Some((5, "a"))));
        assert_eq!((together.max_body, together.soft_ms), (Some((0, "b")), None));
        assert_eq!(together.rates.iter().map(|(rate, _)| rate.burst).collect::<Vec<_>>(), [1, 2]);
    }
}
