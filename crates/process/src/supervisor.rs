//! The supervisor: starts the front and one prototype per application, has workers forked and notices every death.
//!
//! The order that keeps a request from being answered twice or forgotten:
//!
//! 1. a worker dies; its prototype (or, if that died too, this process) reaps it;
//! 2. `Dead` goes to the front, which re-queues or fails the request of that slot;
//! 3. the front answers `SlotFree`; only then is the slot filled again.
//!
//! Each lane has a forker: the prototype for lane 0, its template (see [`lanes`]) for any other. Both are told and say
//! the same. What a template says is checked, for it has run the application's code.
//!
//! When the front dies its slab is closed (workers of it end after their request) and a new front gets a new slab: an
//! epoch. Messages about older epochs are ignored.

mod deaths;
mod lanes;
mod messages;
mod starting;
mod stopping;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::control::{Isolation, Kind, Message};
use wire::slab::Slab;

use crate::channel::Channel;
use crate::plan::{BackOff, Slot, Stopping};
use crate::sys::{self, ProcessLimits, Signals};
use crate::user::Identity;
use lanes::Template;

/// The lane of whatever has no lane of its own.
const CLASSIC: usize = 0;

/// What the supervisor is to run.
pub struct Service {
    /// `reprise` itself, opened; it is the front too.
    pub front: OwnedFd,
    /// argv of the front, its name first.
    pub front_arguments: Vec<String>,
    /// Whom the front runs as.
    pub front_user: Option<Identity>,
    /// Descriptors of the front after its channel and the lifeline: settings, listeners, logs.
    pub front_descriptors: Vec<OwnedFd>,
    /// The access log, if it is a file: the last of those descriptors.
    pub access_log: Option<PathBuf>,
    /// Threads of the front.
    pub front_threads: usize,
    /// `reprise-php`, opened.
    pub php: OwnedFd,
    /// /dev/userfaultfd, if this user may open it: what it gives works where the system call does not.
    pub userfaultfd: Option<OwnedFd>,
    /// In the order of the front's settings.
    pub applications: Vec<Application>,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// CPUs this server may use.
    pub cpus: usize,
}

/// One application.
pub struct Application {
    /// For messages.
    pub name: String,
    /// argv of its prototype after the descriptors.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<String>,
    /// Whom PHP runs as.
    pub user: Option<Identity>,
    /// What PHP may use.
    pub limits: ProcessLimits,
    /// Workers of each lane.
    pub workers: usize,
    /// Requests in flight in each lane, waiting ones included.
    pub exchanges: usize,
    /// Document root, resolved.
    pub root: PathBuf,
    /// The host that boot requests name.
    pub host: String,
    /// Scripts that are booted before the server is ready.
    pub entries: Vec<Entry>,
    /// Scripts that are never booted.
    pub classic: BTreeSet<String>,
    /// How requests of snapshot lanes are kept apart.
    pub isolation: Isolation,
    /// How long a boot may take.
    pub boot_timeout: Duration,
}

/// A script with a lane of its own.
pub struct Entry {
    /// `/index.php`.
    pub script: String,
    /// The server may not start without.
    pub is_required: bool,
    /// It handles requests in a loop; else it takes a snapshot.
    pub is_loop: bool,
}

/// Why the supervisor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was answered.
    Drained,
    /// The deadline or a second signal cut requests off.
    CutOff,
    /// An application never booted; what of it.
    NotBooted(String, String),
    /// The front never started.
    NoFront,
}

struct Child {
    /// 0: a template whose process is not known yet.
    pid: i32,
    channel: Channel,
    since: Instant,
    ready: bool,
}

/// What belongs to one epoch of a lane.
struct Mailbox {
    descriptor: OwnedFd,
    slab: Slab,
    slots: Vec<Slot>,
    started: Vec<Instant>,
    /// The front has said that it uses it.
    is_known: bool,
}

struct Lane {
    /// The script it belongs to; none: classic.
    entry: Option<String>,
    template: Option<Template>,
    isolation: Isolation,
    /// The server is not ready before this lane is, unless it has failed.
    is_awaited: bool,
    /// The server does not start without it.
    is_required: bool,
    /// The last boot failed.
    has_failed: bool,
    mailbox: Option<Mailbox>,
    /// Workers of earlier fronts that have not ended yet, and since when.
    retired: Vec<(i32, Instant)>,
    back_off: BackOff,
    not_before: Instant,
    served: bool,
}

struct Running {
    prototype: Option<Child>,
    /// Classic first.
    lanes: Vec<Lane>,
    /// What PHP writes to its standard error: read end, write end.
    messages: (OwnedFd, OwnedFd),
    body_limit: u64,
}

impl Lane {
    fn classic(now: Instant) -> Lane {
        Lane {
            entry: None,
            template: None,
            isolation: Isolation::Auto,
            is_awaited: true,
            is_required: false,
            has_failed: false,
            mailbox: None,
            retired: Vec::new(),
            back_off: BackOff::default(),
            not_before: now,
            served: false,
        }
    }

    /// Whether the front sends it requests and somebody takes them.
    fn is_served(&self) -> bool {
        let is_live = |slot: &Slot| matches!(slot, Slot::Live(_));
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.is_known && mailbox.slots.iter().any(is_live))
    }

    /// Whether workers of a dead forker are not reaped yet, if its forker is dead.
    fn has_workers(&self) -> bool {
        self.mailbox.iter().flat_map(|mailbox| &mailbox.slots).any(|slot| matches!(slot, Slot::Live(_) | Slot::Asked))
    }
}

impl Running {
    /// The process that forks a lane's workers.
    fn forker(&self, lane: usize) -> Option<&Child> {
        if lane == CLASSIC { self.prototype.as_ref() } else { Some(&self.lanes.get(lane)?.template.as_ref()?.child) }
    }

    /// The same, if it does so now.
    fn working_forker(&self, lane: usize) -> Option<&Child> {
        let is_leaving = self.lanes.get(lane)?.template.as_ref().is_some_and(|template| template.leaving.is_some());
        self.forker(lane).filter(|child| child.ready && child.pid > 0 && !is_leaving)
    }
}

/// The loop's state.
pub struct Supervisor {
    service: Service,
    signals: Signals,
    lifeline: (OwnedFd, OwnedFd),
    front: Option<Child>,
    front_back_off: BackOff,
    front_not_before: Instant,
    doors: Vec<OwnedFd>,
    epoch: u64,
    applications: Vec<Running>,
    stopping: Stopping,
    deadline: Instant,
    announced: bool,
    outcome: Option<Outcome>,
    began: Instant,
}

fn log(level: &str, text: std::fmt::Arguments<'_>) {
    crate::log::line(level, "supervisor", text);
}

impl Supervisor {
    /// Prepares; starts nothing yet.
    pub fn new(service: Service) -> io::Result<Supervisor> {
        let now = Instant::now();
        sys::become_subreaper()?;
        let mut applications = Vec::new();
        for application in &service.applications {
            let messages = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::fs::fcntl_setfl(&messages.0, rustix::fs::OFlags::NONBLOCK)?;
            let entries = application.entries.iter().map(|entry| Lane {
                entry: Some(entry.script.clone()),
                is_required: entry.is_required,
                isolation: if entry.is_loop { Isolation::Loop } else { Isolation::Auto },
                ..Lane::classic(now)
            });
            applications.push(Running {
                prototype: None,
                lanes: std::iter::once(Lane::classic(now)).chain(entries).collect(),
                messages,
                body_limit: 0,
            });
        }
        Ok(Supervisor {
            signals: Signals::watch()?,
            lifeline: rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?,
            front: None,
            front_back_off: BackOff::default(),
            front_not_before: now,
            doors: Vec::new(),
            epoch: 0,
            applications,
            stopping: Stopping::No,
            deadline: now,
            announced: false,
            outcome: None,
            began: now,
            service,
        })
    }

    /// Runs until it is told to stop or cannot start. `ready` is called once, with the time it took.
    pub fn run(mut self, ready: &dyn Fn(Duration)) -> io::Result<Outcome> {
        loop {
            self.start_what_is_missing();
            if !self.announced && self.outcome.is_none() && self.is_ready() {
                self.announced = true;
                ready(self.began.elapsed());
            }
            if let Some(outcome) = self.finished() {
                return Ok(outcome);
            }
            self.wait();
            while let Some(signal) = self.signals.next() {
                match signal {
                    Signal::SIGCHLD => {}
                    Signal::SIGUSR1 => self.reopen_access_log(),
                    Signal::SIGHUP => log("notice", format_args!("SIGHUP: there is no reload yet; restart instead")),
                    other => self.stop(other.as_str()),
                }
            }
            self.children().for_each(|child| child.channel.flush());
            self.pass_on_messages();
            // Messages before deaths: what a process said before it died counts.
            self.listen_to_front();
            for (number, lane) in self.all_lanes() {
                self.listen_to_forker(number, lane);
            }
            self.reap();
            self.end_overdue();
            if self.stopping == Stopping::Draining && Instant::now() >= self.deadline {
                log("warning", format_args!("drain took longer than {:?}; ending now", self.service.drain_timeout));
                self.stop("deadline");
            }
        }
    }

    fn children(&self) -> impl Iterator<Item = &Child> {
        let forkers =
            self.applications.iter().flat_map(|running| (0..running.lanes.len()).map(|lane| running.forker(lane)));
        forkers.flatten().chain(&self.front)
    }

    /// Each lane as the numbers of its application and itself.
    fn all_lanes(&self) -> Vec<(usize, usize)> {
        let each = |(number, running): (usize, &Running)| (0..running.lanes.len()).map(move |lane| (number, lane));
        self.applications.iter().enumerate().flat_map(each).collect()
    }

    /// PHP's messages go through a pipe: a script that reopens its standard error must not get hold of this server's log.
    fn pass_on_messages(&self) {
        let mut bytes = [0; 16 * 1024];
        for running in &self.applications {
            // As much as a pipe holds; what is written meanwhile is for the next turn.
            for _ in 0..4 {
                let Ok(count @ 1..) = rustix::io::read(&running.messages.0, &mut bytes) else { break };
                // A log that cannot be written has nowhere to be reported.
                let _ = io::Write::write_all(&mut io::stderr(), &bytes[..count]);
            }
        }
    }

    fn wait(&self) {
        let mut watched = vec![self.signals.as_fd()];
        watched.extend(self.children().map(|child| child.channel.as_fd()));
        watched.extend(self.applications.iter().map(|running| running.messages.0.as_fd()));
        let mut watched: Vec<_> = watched.iter().map(|fd: &BorrowedFd<'_>| PollFd::new(fd, PollFlags::IN)).collect();
        for (watched, child) in watched[1..].iter_mut().zip(self.children()) {
            if child.channel.has_backlog() {
                *watched = PollFd::new(&child.channel, PollFlags::IN | PollFlags::OUT);
            }
        }
        let now = Instant::now();
        let mut next = now + Duration::from_secs(1);
        if self.front.is_none() && self.front_not_before > now {
            next = next.min(self.front_not_before);
        }
        for lane in self.applications.iter().flat_map(|running| &running.lanes) {
            next = next.min(if lane.not_before > now { lane.not_before } else { next });
        }
        for (number, lane) in self.all_lanes() {
            next = self.template_deadline(number, lane).map_or(next, |deadline| next.min(deadline));
        }
        if self.stopping == Stopping::Draining {
            next = next.min(self.deadline);
        }
        let rest = next.saturating_duration_since(now) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        // EINTR and time-out both mean: look at everything again.
        let _ = poll(&mut watched, Some(&timeout));
    }

    fn message(&self, kind: Kind, application: usize, lane: usize, slot: u32) -> Message {
        let (application, lane) = (application as u32, lane as u32);
        Message { application, lane, slot, epoch: self.epoch, ..Message::new(kind) }
    }

    /// Whether everything that is known to be needed serves, or has shown that it will not.
    fn is_ready(&self) -> bool {
        let lane_is_ready = |lane: &Lane| !lane.is_awaited || lane.has_failed || lane.is_served();
        self.front.as_ref().is_some_and(|front| front.ready)
            && self.applications.iter().flat_map(|running| &running.lanes).all(lane_is_ready)
    }
}

fn send(channel: &Channel, message: &Message, attached: &[BorrowedFd<'_>]) {
    if let Err(error) = channel.send(message, attached) {
        // Its death will be reaped and handled; a message to the dead is no loss.
        if error.raw_os_error() != Some(nix::libc::EPIPE) && error.raw_os_error() != Some(nix::libc::ECONNRESET) {
            log("error", format_args!("a message cannot be sent: {error}"));
        }
    }
}
