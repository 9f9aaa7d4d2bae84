//! When a certificate is ordered, renewed, or asked about. Nothing here knows files or the network.
//!
//! The authority says when a certificate is to be renewed (ARI, RFC 9773): a moment within its window is chosen once and kept. Without
//! that it is renewed when a third of its lifetime is left, or half if it lives for less than ten days. After a failure there is a delay
//! that doubles; it is kept too, so no restart shortens it.

use serde::{Deserialize, Serialize};

/// The longest delay after failures, in seconds.
const MAX_DELAY: u64 = 12 * 3600;
/// A certificate is not replaced earlier than that after it was issued, unless a third of its lifetime is shorter.
const LEAST_AGE: u64 = 3600;
/// A certificate that lives for less is renewed at half of its life.
const SHORT: u64 = 10 * 86400;
/// How soon and how late an authority may be asked again when a certificate is to be renewed.
const ASK: (u64, u64) = (60, 86400);
/// When it is asked again if it did not say, or could not be asked.
pub const ASK_AGAIN: u64 = 6 * 3600;

/// What is known of a host's certificate beside itself. Times are seconds of the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The authority that has issued the certificate.
    pub directory: String,
    /// Its profile.
    pub profile: Option<String>,
    /// When it was issued.
    pub issued: u64,
    /// When it is to be renewed.
    pub renew_at: Option<u64>,
    /// The authority's window, from which that was chosen.
    pub window: Option<(u64, u64)>,
    /// When the authority is to be asked for its window.
    pub ask_at: u64,
    /// Attempts that have failed since the last success.
    pub failures: u32,
    /// No attempt before that.
    pub not_before: u64,
    /// What failed last, for people.
    pub failure: Option<String>,
}

/// How long a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A certificate is to be ordered.
    Order,
    /// The authority is to be asked when the certificate is to be renewed.
    Ask,
    /// Nothing before that time.
    Wait(u64),
}

impl State {
    /// What is to be done for a certificate, if there is one, of that authority with that profile.
    pub fn next(&self, certificate: Option<Validity>, directory: &str, profile: Option<&str>, now: u64) -> Next {
        let order = if now < self.not_before { Next::Wait(self.not_before) } else { Next::Order };
        let Some(validity) = certificate else { return order };
        let is_wanted = self.directory == directory && self.profile.as_deref() == profile;
        let renew_at = self.renew_at.unwrap_or_else(|| self.usual_time(validity));
        if !is_wanted || now >= renew_at {
            return order;
        }
        if now >= self.ask_at {
            return Next::Ask;
        }
        Next::Wait(renew_at.min(self.ask_at))
    }

    /// When a certificate is renewed whose authority does not say.
    fn usual_time(&self, Validity { from, until }: Validity) -> u64 {
        let lifetime = until.saturating_sub(from);
        let left = if lifetime < SHORT { lifetime / 2 } else { lifetime / 3 };
        until.saturating_sub(left)
    }

    /// A certificate was issued. `random` is from 0 to 1.
    pub fn issued(directory: &str, profile: Option<&str>, validity: Validity, random: f64, now: u64) -> State {
        let mut state = State {
            directory: directory.to_owned(),
            profile: profile.map(str::to_owned),
            issued: now,
            ask_at: now,
            ..State::default()
        };
        // Certificates that were issued together are renewed one after the other.
        let spread = validity.until.saturating_sub(validity.from) / 50;
        state.renew_at = Some(state.usual_time(validity).saturating_sub((spread as f64 * random) as u64));
        state
    }

    /// The authority has said its window, and after how many seconds it may be asked again.
    pub fn advised(&mut self, window: (u64, u64), after: u64, validity: Validity, random: f64, now: u64) {
        let (low, high) = ASK;
        self.ask_at = now + after.clamp(low, high);
        if self.window == Some(window) {
            return;
        }
        self.window = Some(window);
        let length = window.1.saturating_sub(window.0);
        let chosen = window.0 + (length as f64 * random) as u64;
        // An authority that always says "now" would be asked for certificates without a pause.
        let lifetime = validity.until.saturating_sub(validity.from);
        // One whose window ends with the certificate would leave no time for an order.
        let latest = validity.until.saturating_sub(lifetime / 5);
        self.renew_at = Some(chosen.max(self.issued + LEAST_AGE.min(lifetime / 3)).min(latest));
    }

    /// The authority could not be asked, or has no such advice.
    pub fn not_advised(&mut self, now: u64) {
        self.ask_at = now + ASK_AGAIN;
    }

    /// An attempt has failed. `first` is the delay after a first failure, `least` what the authority asks for.
    pub fn failed(&mut self, why: String, first: u64, least: u64, random: f64, now: u64) {
        let doubled = first.saturating_mul(1 << self.failures.min(20)).min(MAX_DELAY.max(first));
        let delay = (doubled as f64 * (0.8 + 0.4 * random)) as u64;
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + delay.max(least.min(7 * 86400)).max(1);
        self.failure = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86400;
    const CA: &str = "https://ca.example/";

    fn issued(days: u64) -> (State, Validity) {
        let validity = Validity { from: 0, until: days * DAY };
        (State::issued(CA, None, validity, 0.0, 0), validity)
    }

    #[test]
    fn a_certificate_is_renewed_in_time() {
        for (days, renewed) in [(90, 60), (6, 3)] {
            let (mut state, validity) = issued(days);
            assert_eq!(state.next(Some(validity), CA, None, 0), Next::Ask);
            state.not_advised(renewed * DAY - 10);
            assert_eq!(state.next(Some(validity), CA, None, renewed * DAY - 1), Next::Wait(renewed * DAY), "{days}");
            assert_eq!(state.next(Some(validity), CA, None, renewed * DAY), Next::Order);
            // Another authority, another profile, no certificate.
            assert_eq!(state.next(Some(validity), "https://other.example/", None, 1), Next::Order);
            assert_eq!(state.next(Some(validity), CA, Some("shortlived"), 1), Next::Order);
            assert_eq!(state.next(None, CA, None, 1), Next::Order);
        }
    }

    #[test]
    fn the_authority_says_when() {
        let (mut state, validity) = issued(90);
        state.advised((50 * DAY, 52 * DAY), 3600, validity, 0.5, 10);
        assert_eq!(state.next(Some(validity), CA, None, 11), Next::Wait(10 + 3600));
        assert_eq!(state.next(Some(validity), CA, None, 10 + 3600), Next::Ask);
        assert_eq!(state.next(Some(validity), CA, None, 51 * DAY), Next::Order);
        // The same window: what was chosen stays.
        state.advised((50 * DAY, 52 * DAY), 3600, validity, 0.9, 10);
        assert_eq!(state.renew_at, Some(51 * DAY));
        // A certificate that is about to be revoked.
        state.advised((0, 1), 0, validity, 0.9, DAY);
        assert_eq!((state.next(Some(validity), CA, None, DAY), state.ask_at), (Next::Order, DAY + ASK.0));
        // A window up to the end.
        let (mut state, validity) = issued(90);
        state.advised((0, 90 * DAY), 0, validity, 0.99, 1);
        assert_eq!(state.renew_at, Some(72 * DAY));
        // It was issued a moment ago.
        let (mut state, validity) = issued(90);
        state.advised((0, 1), 0, validity, 0.9, 1);
        assert_eq!(state.renew_at, Some(LEAST_AGE));
    }

    #[test]
    fn delays_double_up_to_a_limit_and_are_kept() {
        let mut state = State::default();
        let mut delays = Vec::new();
        for _ in 0..30 {
            state.failed("no".to_owned(), 60, 0, 0.5, 1000);
            delays.push(state.not_before - 1000);
        }
        assert_eq!(delays[..4], [60, 120, 240, 480]);
        assert_eq!(delays.iter().max(), Some(&MAX_DELAY));
        let kept: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        assert_eq!(kept.next(None, CA, None, 1001), Next::Wait(1000 + MAX_DELAY));
        state.failed("rate limit".to_owned(), 60, 100_000, 0.5, 0);
        assert_eq!(state.not_before, 100_000, "what the authority asks for");
        for (random, delay) in [(0.0, 48), (0.999, 71)] {
            let mut state = State::default();
            state.failed(String::new(), 60, 0, random, 0);
            assert_eq!(state.not_before, delay);
        }
    }

    #[test]
    fn a_file_of_another_version_is_read() {
        assert_eq!(serde_json::from_str::<State>("{\"later\":1}").unwrap(), State::default());
    }
}
