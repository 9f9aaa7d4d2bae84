//! `reprise dev`: the process that watches the application's files, and which generations have what it has seen.
//!
//! The front asks before each request ([`FromFront::Fence`]): the watcher then reads all that the kernel has to say by that moment, so a
//! change whose system call has returned before the request came is counted before the request is routed. What the front is told:
//!
//! | number | which generation | what the front does |
//! |---|---|---|
//! | `fresh` | the first one of which nothing was loaded before the last change | in older ones, each request runs in classic mode, where opcache looks at the time of each file |
//! | `serving`, `made` | the oldest one that serves, and the changes that it has | requests wait until it has the last change before they came that such a look may miss; later changes are for later requests |
//!
//! A generation counts as made when the reading of its configuration begins, before any of its processes exists.
//!
//! [`FromFront::Fence`]: ipc::control::FromFront::Fence

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ipc::control::{Changes, FromWatcher, ToFront, ToWatcher};
use nix::sys::signal::Signal;

use crate::lanes::generation::GenerationId;
use crate::lanes::lane::CLASSIC;
use crate::logs::output::Output;
use crate::logs::own::{log, log_again};
use crate::os::exited::Ending;
use crate::os::fork_limits::explain_own;
use crate::os::sys;
use crate::peers::boot;
use crate::peers::channel::send;
use crate::peers::channel::{Channel, Received};
use crate::peers::child::Child;
use crate::peers::restart::Restart;
use crate::settings::service::WatcherDraft;
use crate::supervisor::Supervisor;

/// Its name in the log.
const PROCESS: &str = "the process that watches files";
/// A boot begins when nothing has changed for so long.
const QUIET: Duration = Duration::from_millis(50);
/// Questions of the front that wait, at most: it has two at a time.
const MAX_QUESTIONS: usize = 64;

/// The watcher, and what it has said.
pub(crate) struct Following {
    wanted: Option<WatcherDraft>,
    child: Option<Child<ToWatcher, FromWatcher>>,
    restart: Restart,
    output: Output,
    began: SystemTime,
    /// What earlier watchers have seen, and what they may have missed.
    base: Changes,
    seen: Changes,
    /// When the last change was seen.
    changed: Instant,
    /// The changes before which the configuration of the next generation is read.
    reading: u64,
    /// The changes before which each generation was made.
    made: BTreeMap<GenerationId, u64>,
    /// Why the changes up to that one cannot be loaded.
    refused: Option<(u64, String)>,
    /// No boot begins by itself before that.
    pause: Instant,
    began_boot: Instant,
    questions: Vec<u64>,
}

impl Following {
    pub(crate) fn new(wanted: Option<WatcherDraft>, now: Instant) -> io::Result<Following> {
        Ok(Following {
            wanted,
            child: None,
            restart: Restart::new(now),
            output: Output::of_watcher()?,
            began: SystemTime::now(),
            base: Changes::default(),
            seen: Changes::default(),
            changed: now,
            reading: 0,
            made: BTreeMap::new(),
            refused: None,
            pause: now,
            began_boot: now,
            questions: Vec::new(),
        })
    }

    /// Whether files are followed.
    pub(crate) fn is_on(&self) -> bool {
        self.wanted.is_some()
    }

    pub(crate) fn child(&self) -> Option<&Child<ToWatcher, FromWatcher>> {
        self.child.as_ref()
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        self.child.as_ref().is_some_and(|child| child.pid == pid)
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    pub(crate) fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// When something is to be done that no message announces.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        let start = self.restart.wakes(now).filter(|_| self.child.is_none() && self.is_on());
        let boot = [self.pause, self.changed + QUIET].into_iter().max().filter(|at| *at > now);
        start.into_iter().chain(boot).min()
    }

    fn is_due(&self, now: Instant) -> bool {
        self.is_on() && self.child.is_none() && self.restart.is_due(now)
    }

    /// A reload begins. `reads`: by reading the configuration; without that, the generation may lack what that would have brought.
    pub(crate) fn boot_begins(&mut self, reads: bool, now: Instant) {
        self.began_boot = now;
        if reads {
            self.reading = self.seen.count;
        }
    }

    /// A generation was made of what was read last.
    pub(crate) fn is_made(&mut self, id: GenerationId) {
        if self.is_on() {
            self.made.insert(id, self.reading);
        }
    }

    /// The reload is over: these generations serve. It has come into force, or was refused.
    fn boot_ended(&mut self, refused: Option<String>, current: &[GenerationId], now: Instant) {
        if refused.is_some() {
            self.keep(current);
        }
        self.refused = refused.map(|why| (self.reading, why));
        // Half of the time at most goes into boots.
        self.pause = now + now.saturating_duration_since(self.began_boot);
    }

    /// Only these generations are left.
    pub(crate) fn keep(&mut self, living: &[GenerationId]) {
        self.made.retain(|id, _| living.contains(id));
    }

    /// The watcher has seen that. True: there are changes that the front does not know.
    fn take(&mut self, said: Changes, now: Instant) -> bool {
        let later = |own: u64, before: u64| if own > 0 { self.base.count.saturating_add(own) } else { before };
        let seen = Changes {
            count: self.base.count.saturating_add(said.count),
            whole: later(said.whole, self.base.whole),
            page: later(said.page, self.base.page),
            is_blind: said.is_blind,
        };
        let is_new = seen != self.seen;
        if seen.count != self.seen.count {
            self.changed = now;
        }
        self.seen = seen;
        is_new
    }

    /// It has died: nobody knows what has changed since.
    fn died(&mut self, now: Instant) {
        let Some(child) = self.child.take() else { return };
        let lived = now.saturating_duration_since(child.since);
        self.restart.died(lived, false, now);
        let count = self.seen.count + 1;
        self.base = Changes { count, whole: count, page: count, is_blind: false };
        (self.seen, self.changed) = (self.base, now);
    }

    fn first_since(&self, change: u64) -> GenerationId {
        self.made.iter().find(|(_, made)| **made >= change).map_or(GenerationId::MAX, |(id, _)| *id)
    }

    fn fresh(&self) -> GenerationId {
        if self.seen.is_blind { GenerationId::MAX } else { self.first_since(self.seen.count) }
    }

    /// The oldest of these generations, and the changes that it has.
    fn serving(&self, current: &[GenerationId]) -> (GenerationId, u64) {
        let oldest = current.iter().min().copied().unwrap_or_default();
        (oldest, self.made.get(&oldest).copied().unwrap_or_default())
    }

    /// Why what is served cannot be loaded, if requests wait for it.
    fn obstacle(&self) -> Option<&str> {
        let (until, why) = self.refused.as_ref()?;
        (*until >= self.seen.whole && self.first_since(self.seen.whole) == GenerationId::MAX).then_some(why)
    }

    /// Whether a new generation is to be made in place of these. `has_boots`: something in them was loaded before the requests that it serves.
    fn wants_boot(&self, current: &[GenerationId], has_boots: bool, now: Instant) -> bool {
        let is_before = |change: u64| current.iter().any(|id| self.made.get(id).is_some_and(|made| *made < change));
        if self.refused.as_ref().is_some_and(|(until, _)| *until >= self.seen.count) {
            return false;
        }
        let is_quiet = now >= self.changed + QUIET && now >= self.pause;
        is_before(self.seen.whole) || has_boots && !self.seen.is_blind && is_quiet && is_before(self.seen.count)
    }
}

impl Supervisor {
    /// Starts the watcher if it is missing, unless the server ends.
    pub(crate) fn start_watcher(&mut self) {
        let now = Instant::now();
        if self.shutdown.is_begun() || !self.following.is_due(now) {
            return;
        }
        match self.spawn_watcher() {
            Ok(child) => {
                for ticket in &self.following.questions {
                    send(&child.channel, &ToWatcher::Fence { ticket: *ticket }, &[]);
                }
                self.following.child = Some(child);
            }
            Err(error) => {
                let why = explain_own(&error);
                log_again("error", PROCESS, format_args!("{PROCESS} cannot be started: {why}"), format_args!(""));
                self.following.restart.failed(None, now);
            }
        }
    }

    fn spawn_watcher(&self) -> io::Result<Child<ToWatcher, FromWatcher>> {
        let Some(wanted) = &self.following.wanted else { return Err(io::ErrorKind::NotFound.into()) };
        let (ours, theirs) = Channel::pair()?;
        let settings = boot::sealed(wanted.settings.as_bytes())?;
        // A later watcher takes everything for changed anyway.
        let since = self.following.began.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let pid = sys::start(&sys::Program {
            executable: self.service.front.as_fd(),
            arguments: vec!["reprise-watcher".to_owned(), "watcher".to_owned(), since.to_string()],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd(), self.lifeline.0.as_fd(), settings.as_fd()],
            messages: Some(self.following.output.writer()),
            output: None,
            user: wanted.user.as_ref(),
            limits: sys::ProcessLimits::default(),
        })?;
        Ok(Child::new(pid, ours))
    }

    /// The front asks what has changed by now.
    pub(crate) fn fence_asked(&mut self, ticket: u64) {
        let questions = &mut self.following.questions;
        if questions.len() >= MAX_QUESTIONS {
            // Those of fronts that have died.
            questions.remove(0);
        }
        questions.push(ticket);
        if let Some(child) = &self.following.child {
            send(&child.channel, &ToWatcher::Fence { ticket }, &[]);
        }
    }

    pub(crate) fn listen_to_watcher(&mut self) {
        loop {
            let received = match self.following.child.as_ref().map(|child| child.channel.receive()) {
                Some(Ok(Received::Message(message, _))) => message,
                Some(Err(error)) => {
                    log("error", format_args!("a message of {PROCESS}: {error}"));
                    return self.end_watcher();
                }
                Some(Ok(Received::Nothing | Received::Closed)) | None => return,
            };
            let FromWatcher::Seen { ticket, changes } = received;
            let is_new = self.following.take(changes, Instant::now());
            self.following.questions.retain(|one| *one != ticket);
            if ticket > 0 || is_new {
                self.tell_changes(ticket);
            }
        }
    }

    /// Tells the front what has changed, and which generations have that.
    pub(crate) fn tell_changes(&self, ticket: u64) {
        let following = &self.following;
        let (changes, fresh) = (following.seen, following.fresh());
        let (serving, made) = following.serving(self.reload.current());
        let reason = following.obstacle().and_then(|why| boot::sealed(why.as_bytes()).ok());
        let attached: Vec<_> = reason.iter().map(AsFd::as_fd).collect();
        self.front.send(&ToFront::Changed { ticket, changes, fresh, serving, made }, &attached);
    }

    /// Asks for new generations where those that serve have been made before the last change.
    pub(crate) fn follow_changes(&mut self) {
        if !self.following.is_on() || !self.announced || self.shutdown.is_begun() {
            return;
        }
        let current = self.reload.current().to_vec();
        let lanes = current.iter().filter_map(|id| self.generations.get(*id)).map(|one| one.lanes.len());
        let has_boots = lanes.max().unwrap_or_default() > CLASSIC + 1;
        if self.reload.is_idle() && self.following.wants_boot(&current, has_boots, Instant::now()) {
            self.reload(|reload, _| reload.request_all("files have changed", None));
        }
    }

    /// A reload is over.
    pub(crate) fn boot_ended(&mut self, refused: Option<&str>) {
        if !self.following.is_on() {
            return;
        }
        self.following.boot_ended(refused.map(str::to_owned), self.reload.current(), Instant::now());
        self.tell_changes(0);
    }

    pub(crate) fn watcher_died(&mut self, ending: Ending) {
        self.following.died(Instant::now());
        if !self.shutdown.is_begun() {
            log_again("error", PROCESS, format_args!("{PROCESS} {ending}"), format_args!("; another one follows"));
        }
    }

    /// Kills one that reads no messages.
    pub(crate) fn end_unresponsive_watcher(&self) {
        if self.following.child.as_ref().is_some_and(|child| child.channel.is_overrun()) {
            self.end_watcher();
        }
    }

    /// Ends it with the server, or because it cannot be understood.
    pub(crate) fn end_watcher(&self) {
        self.following.child.iter().for_each(|child| sys::kill(child.pid, Signal::SIGKILL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(now: Instant) -> Following {
        let wanted = WatcherDraft { settings: String::new(), user: None };
        let mut made = Following::new(Some(wanted), now).unwrap();
        made.is_made(0);
        made
    }

    fn said(count: u64, whole: u64) -> Changes {
        Changes { count, whole, page: count, is_blind: false }
    }

    #[test]
    fn a_generation_has_the_changes_of_before_its_configuration_was_read() {
        let now = Instant::now();
        let mut following = following(now);
        assert_eq!((following.fresh(), following.serving(&[0])), (0, (0, 0)));
        assert!(following.take(said(3, 0), now) && !following.take(said(3, 0), now));
        assert_eq!((following.fresh(), following.serving(&[0])), (GenerationId::MAX, (0, 0)));
        following.boot_begins(true, now);
        following.take(said(4, 0), now);
        following.is_made(1);
        assert_eq!(following.fresh(), GenerationId::MAX, "the fourth came after the reading had begun");
        following.boot_begins(true, now);
        following.is_made(2);
        assert_eq!((following.fresh(), following.serving(&[2])), (2, (2, 4)));
        following.take(said(5, 5), now);
        assert_eq!((following.fresh(), following.serving(&[2, 1])), (GenerationId::MAX, (1, 3)));
    }

    #[test]
    fn boots_wait_until_it_is_quiet_unless_requests_wait_for_them() {
        let now = Instant::now();
        let mut following = following(now);
        following.take(said(1, 0), now);
        assert!(!following.wants_boot(&[0], true, now));
        assert!(following.wants_boot(&[0], true, now + QUIET) && !following.wants_boot(&[0], false, now + QUIET));
        following.take(said(2, 2), now);
        assert!(following.wants_boot(&[0], false, now));
        following.boot_begins(true, now);
        following.is_made(1);
        following.boot_ended(Some("no index.php".to_owned()), &[0], now);
        assert!(!following.wants_boot(&[0], true, now + QUIET), "the same would be refused again");
        assert_eq!(following.obstacle(), Some("no index.php"));
        following.take(said(3, 2), now);
        assert!(following.wants_boot(&[0], true, now + QUIET));
        // A boot of ten seconds is followed by a pause of as much.
        following.boot_begins(true, now);
        following.is_made(2);
        following.boot_ended(None, &[2], now + Duration::from_secs(10));
        following.take(said(4, 2), now + Duration::from_secs(10));
        assert!(!following.wants_boot(&[2], true, now + Duration::from_secs(19)));
        assert!(following.wants_boot(&[2], true, now + Duration::from_secs(20)));
    }

    #[test]
    fn what_a_dead_watcher_may_have_missed_counts_as_changed() {
        let now = Instant::now();
        let mut following = following(now);
        let (ours, _theirs) = Channel::pair().unwrap();
        following.child = Some(Child::new(0, ours));
        following.take(said(7, 0), now);
        following.boot_begins(true, now);
        following.is_made(1);
        assert_eq!(following.fresh(), 1);
        following.died(now);
        assert_eq!((following.fresh(), following.serving(&[1])), (GenerationId::MAX, (1, 7)));
        assert!(following.is_due(now + Duration::from_secs(1)));
        following.take(said(0, 0), now);
        assert_eq!((following.seen.count, following.seen.whole), (8, 8));
        following.take(said(2, 1), now);
        assert_eq!((following.seen.count, following.seen.whole), (10, 9));
    }

    #[test]
    fn nothing_is_fresh_where_changes_are_not_seen() {
        let now = Instant::now();
        let mut following = following(now);
        following.take(Changes { is_blind: true, ..said(0, 0) }, now);
        assert_eq!(following.fresh(), GenerationId::MAX);
        assert!(!following.wants_boot(&[0], true, now + QUIET));
    }
}
