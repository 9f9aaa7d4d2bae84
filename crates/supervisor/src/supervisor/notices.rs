//! Notices to the service manager: the server's state, and how long the next state may take by the configuration. The time limits
//! of boots and drains are configured in one place, so the service manager's own limits must not be shorter.

use std::time::Duration;

use crate::reload::names;
use crate::supervisor::Supervisor;

/// For the start of PHP's modules, which has no configured limit, and for the end of processes.
const SPARE: Duration = Duration::from_secs(15);

impl Supervisor {
    pub(crate) fn tell_booting(&mut self) {
        let patience = self.boot_patience();
        self.service.notify.tell("", &"booting", Some(patience));
    }

    /// Everything serves, after the start or after a reload, whether that succeeded or was refused.
    pub(crate) fn tell_ready(&mut self, refused: Option<&str>) {
        if self.shutdown.is_begun() || self.shutdown.is_leaving() {
            return;
        }
        let serving = format!("serving {}", names(self.reload.current(), &self.generations));
        match refused {
            None => self.service.notify.tell("READY=1", &serving, None),
            Some(why) => self.service.notify.tell("READY=1", &format_args!("reload refused: {why}; {serving}"), None),
        }
    }

    pub(crate) fn tell_reloading(&mut self) {
        // The switch waits for an earlier drain.
        let patience = self.boot_patience() + self.reload.plan().drain_timeout;
        self.service.notify.tell_reloading(patience);
    }

    /// A drain begins, after that delay.
    pub(crate) fn tell_stopping(&mut self, delay: Duration) {
        let limit = self.reload.plan().drain_timeout;
        let what = match delay.is_zero() {
            true => format!("draining, at most {limit:?}"),
            false => format!("serving on for {delay:?}, then draining, at most {limit:?}"),
        };
        self.service.notify.tell("STOPPING=1", &what, Some(delay + limit + SPARE));
    }

    /// The longest boot. After each warm-up request the manager is told again.
    fn boot_patience(&self) -> Duration {
        let boot = self.reload.plan().applications.iter().map(|application| application.boot_timeout).max();
        boot.unwrap_or_default() + SPARE
    }
}
