//! A template: the process that has booted a lane's entry up to its snapshot, or the forker of a worker script.

use std::time::{Duration, Instant};

use ipc::control::{Bodies, FromForker, Isolation, ToForker};

use crate::os::exited::Ending;
use crate::os::fork_limits;
use crate::os::sys;
use crate::peers::channel::Channel;
use crate::peers::child::{Child, Forker};
use crate::plan::is_fork_better;

/// A template and what is known of it.
pub(crate) struct Template {
    pub(crate) child: Forker,
    /// Since when it is to end so that another can take its place.
    leaving: Option<Instant>,
    /// It was killed because it took too long to boot.
    is_late: bool,
    /// The script has shown that it wants no lane.
    wants_no_lane: bool,
    /// A request could not go on from its snapshot.
    is_unfit: bool,
    /// Requests of its dead workers.
    requests: u64,
    /// What the slab said of workers ended by threads when it began.
    threads_before: u64,
}

/// What the end of a template means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TemplateEnd {
    /// It was to end.
    Expected,
    /// It took longer than `boot_timeout`.
    Late,
    /// It has not come to its snapshot, or its loop. `wants_no_lane`: it has run to its end without asking for a lane.
    NotBooted { wants_no_lane: bool },
    /// A request could not go on from its snapshot.
    Unfit,
    /// It has served, or could have.
    Died,
}

impl Template {
    /// One that the prototype was asked to fork. `threads_before`: workers of its lane that threads had ended by then.
    pub(crate) fn new(channel: Channel<ToForker, FromForker>, threads_before: u64) -> Template {
        Template {
            child: Child::new(0, channel),
            leaving: None,
            is_late: false,
            wants_no_lane: false,
            is_unfit: false,
            requests: 0,
            threads_before,
        }
    }

    /// Its lane has a new slab.
    pub(crate) fn count_anew(&mut self) {
        (self.requests, self.threads_before) = (0, 0);
    }

    /// It is to end so that another can take its place.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.leaving = Some(now);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// When it has to be ready, or gone.
    pub(crate) fn deadline(&self, boot_timeout: Duration, drain_timeout: Duration) -> Option<Instant> {
        match self.leaving {
            Some(since) => Some(since + drain_timeout),
            None if self.child.ready => None,
            None => Some(self.child.since + boot_timeout),
        }
    }

    /// It is killed because its deadline is over.
    pub(crate) fn mark_overdue(&mut self) {
        self.is_late = true;
    }

    /// It was reaped; `wants_no_lane`: it has said that its script wants no lane.
    pub(crate) fn was_reaped(&mut self, wants_no_lane: bool) {
        self.wants_no_lane = wants_no_lane;
    }

    /// It is killed because a worker could not begin. `is_unfit`: a request could not go on from its snapshot.
    pub(crate) fn mark_unfit(&mut self, is_unfit: bool) {
        self.is_unfit = is_unfit;
    }

    /// What its end means. `is_expected`: whatever it belongs to ends too.
    pub(crate) fn end(&self, is_expected: bool) -> TemplateEnd {
        match () {
            () if is_expected || self.is_leaving() => TemplateEnd::Expected,
            () if !self.child.ready && self.is_late => TemplateEnd::Late,
            () if !self.child.ready => TemplateEnd::NotBooted { wants_no_lane: self.wants_no_lane },
            () if self.is_unfit => TemplateEnd::Unfit,
            () => TemplateEnd::Died,
        }
    }

    /// Counts the requests of a worker that has died.
    pub(crate) fn count_requests(&mut self, requests: u64) {
        self.requests = self.requests.saturating_add(requests);
    }

    /// Whether a process for each request would do better: so many workers were `ended` by threads in this lane, and those that
    /// `live` have had so many requests. Returns the numbers that show it.
    pub(crate) fn suffers_from_threads(&self, ended: u64, live: u64) -> Option<(u64, u64)> {
        let threads = ended.saturating_sub(self.threads_before);
        let requests = self.requests.saturating_add(live);
        is_fork_better(threads, requests).then_some((threads, requests))
    }
}

/// How a template's process ended.
pub(crate) enum Death {
    /// It was reaped.
    Ended(Ending),
    /// The prototype that died before it had reaped it.
    WithPrototype,
    /// The prototype could not fork it.
    NeverWas(String),
}

impl Death {
    /// Where its own message is, if it has written one.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Death::Ended(ending) => ending.hint(),
            Death::WithPrototype | Death::NeverWas(_) => "",
        }
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Death::Ended(ending) => ending.fmt(text),
            Death::WithPrototype => text.write_str("died with its prototype"),
            Death::NeverWas(why) => write!(text, "could not be forked: {why}"),
        }
    }
}

/// What a template says when it is ready.
pub(crate) struct TemplateReady {
    pub(crate) isolation: Isolation,
    pub(crate) is_for_one_host: bool,
    pub(crate) bodies: Bodies,
}

/// What a forker says of a child that it was to fork: its process, or the error.
#[derive(Clone, Copy)]
pub(crate) struct Forked(pub(crate) Result<i32, i32>);

impl Forked {
    /// The process, if it is a child of that forker's. One whose workers have broken into it must not have us kill what is
    /// not its own.
    pub(crate) fn child_of(self, forker: Option<i32>) -> Option<i32> {
        let is_its = |pid: &i32| *pid > 0 && sys::parent_of(*pid).is_none_or(|parent| Some(parent) == forker);
        self.0.ok().filter(is_its)
    }

    /// Why there is none.
    pub(crate) fn why(self, forker: Option<i32>) -> String {
        match self.0 {
            Ok(pid) => format!("process {pid} is not, or no longer, a child of the process that was to fork it"),
            Err(error) => {
                let forker = forker.unwrap_or_else(|| std::process::id() as i32);
                fork_limits::explain(&std::io::Error::from_raw_os_error(error), forker)
            }
        }
    }

    /// Whether the slab that it was to be for is not its forker's any more, or not yet.
    pub(crate) fn was_for_another_slab(self) -> bool {
        self.0 == Err(nix::libc::ESTALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        Template::new(Channel::pair().unwrap().0, 0)
    }

    #[test]
    fn what_was_not_forked_has_a_reason() {
        let this = Some(std::process::id() as i32);
        assert!(Forked(Ok(1)).child_of(this).is_none() && Forked(Ok(1)).why(this).contains("process 1 is not"));
        let missing = Forked(Err(nix::libc::ENOMEM)).why(this);
        assert!(missing.contains("Cannot allocate memory"), "{missing}");
        assert!(Forked(Err(nix::libc::EAGAIN)).why(this).contains("hint: raise"));
    }

    #[test]
    fn the_end_of_a_template_means_what_went_before() {
        use TemplateEnd::*;
        type Change = fn(&mut Template);
        let plain: Change = |_| {};
        let is_ready: Change = |one| one.child.ready = true;
        let rows: [(Change, Change, TemplateEnd); 8] = [
            (plain, plain, NotBooted { wants_no_lane: false }),
            (plain, |one| one.was_reaped(true), NotBooted { wants_no_lane: true }),
            (plain, Template::mark_overdue, Late),
            (plain, |one| one.mark_unfit(true), NotBooted { wants_no_lane: false }),
            (is_ready, plain, Died),
            (is_ready, |one| one.mark_unfit(true), Unfit),
            (is_ready, |one| one.mark_unfit(false), Died),
            (is_ready, |one| one.leave(Instant::now()), Expected),
        ];
        for (number, (before, then, means)) in rows.into_iter().enumerate() {
            let mut template = template();
            before(&mut template);
            then(&mut template);
            assert_eq!((template.end(false), template.end(true)), (means, Expected), "row {number}");
        }
    }

    #[test]
    fn a_template_has_a_deadline_until_it_is_ready_and_again_when_it_leaves() {
        let (boot, drain) = (Duration::from_secs(5), Duration::from_secs(30));
        let mut template = template();
        let since = template.child.since;
        assert_eq!(template.deadline(boot, drain), Some(since + boot));
        template.child.ready = true;
        assert_eq!(template.deadline(boot, drain), None);
        template.leave(since);
        assert_eq!(template.deadline(boot, drain), Some(since + drain));
    }

    #[test]
    fn threads_are_counted_since_the_template_began() {
        let mut template = Template::new(Channel::pair().unwrap().0, 50);
        template.count_requests(150);
        assert_eq!(template.suffers_from_threads(50, 50), None);
        assert_eq!(template.suffers_from_threads(60, 50), None);
        assert_eq!(template.suffers_from_threads(61, 50), Some((11, 200)));
        template.count_anew();
        assert_eq!(template.suffers_from_threads(11, 199), None);
        assert_eq!(template.suffers_from_threads(11, 200), Some((11, 200)));
    }
}
