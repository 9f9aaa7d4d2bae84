//! The supervisor: starts the front and one prototype per application, has workers forked and notices every death.
//!
//! The order that keeps a request from being answered twice or forgotten:
//!
//! 1. a worker dies; its prototype (or, if that died too, this process) reaps it;
//! 2. `Dead` goes to the front, which re-queues or fails the request of that slot;
//! 3. the front answers `SlotFree`; only then is the slot filled again.
//!
//! When the front dies its slab is closed (workers of it end after their request) and a new front gets a new slab: an
//! epoch. Messages about older epochs are ignored.

mod deaths;
mod messages;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::control::{Kind, Message};
use wire::layout::{Geometry, Phase};
use wire::slab::{self, Slab};

use crate::channel::Channel;
use crate::plan::{BackOff, Slot, Stopping, slots_to_fill};
use crate::sys::{self, Program, Signals};
use crate::user::Identity;

/// The only lane so far.
const CLASSIC: u32 = 0;

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
    /// Threads of the front.
    pub front_threads: usize,
    /// `reprise-php`, opened.
    pub php: OwnedFd,
    /// In the order of the front's settings.
    pub applications: Vec<Application>,
    /// How long a drain may take.
    pub drain_timeout: Duration,
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
    /// Workers.
    pub workers: usize,
    /// Requests in flight, waiting ones included.
    pub exchanges: usize,
}

/// Why the supervisor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was answered.
    Drained,
    /// The deadline or a second signal cut requests off.
    CutOff,
    /// An application never booted.
    NotBooted(String),
    /// The front never started.
    NoFront,
}

struct Child {
    pid: i32,
    channel: Channel,
    since: Instant,
    ready: bool,
}

struct Lane {
    descriptor: OwnedFd,
    slab: Slab,
    slots: Vec<Slot>,
    started: Vec<Instant>,
}

struct Running {
    prototype: Option<Child>,
    lane: Option<Lane>,
    /// What PHP writes to its standard error: read end, write end.
    messages: (OwnedFd, OwnedFd),
    /// Workers of earlier fronts that have not ended yet, and since when.
    retired: Vec<(i32, Instant)>,
    back_off: BackOff,
    not_before: Instant,
    served: bool,
    body_limit: u64,
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
        for _ in &service.applications {
            let messages = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::fs::fcntl_setfl(&messages.0, rustix::fs::OFlags::NONBLOCK)?;
            applications.push(Running {
                prototype: None,
                lane: None,
                messages,
                retired: Vec::new(),
                back_off: BackOff::default(),
                not_before: now,
                served: false,
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
            if !self.announced && self.is_ready() {
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
                    Signal::SIGHUP => log("notice", format_args!("SIGHUP: there is no reload yet; restart instead")),
                    other => self.stop(other.as_str()),
                }
            }
            self.children().for_each(|child| child.channel.flush());
            self.pass_on_messages();
            // Messages before deaths: what a process said before it died counts.
            self.listen_to_front();
            for number in 0..self.applications.len() {
                self.listen_to_prototype(number);
            }
            self.reap();
            self.end_retired();
            if self.stopping == Stopping::Draining && Instant::now() >= self.deadline {
                log("warning", format_args!("drain took longer than {:?}; ending now", self.service.drain_timeout));
                self.stop("deadline");
            }
        }
    }

    fn children(&self) -> impl Iterator<Item = &Child> {
        self.applications.iter().filter_map(|running| running.prototype.as_ref()).chain(&self.front)
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
        for application in self.applications.iter().filter(|application| application.not_before > now) {
            next = next.min(application.not_before);
        }
        if self.stopping == Stopping::Draining {
            next = next.min(self.deadline);
        }
        let rest = next.saturating_duration_since(now) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        // EINTR and time-out both mean: look at everything again.
        let _ = poll(&mut watched, Some(&timeout));
    }

    // ---- starting ----------------------------------------------------------------------------------------------

    fn start_what_is_missing(&mut self) {
        if self.stopping != Stopping::No {
            return;
        }
        let now = Instant::now();
        if self.front.is_none() && now >= self.front_not_before {
            if let Err(error) = self.start_front() {
                log("error", format_args!("the front cannot be started: {error}"));
                self.front_not_before = now + self.front_back_off.died(Duration::ZERO, false);
            }
        }
        for number in 0..self.applications.len() {
            if self.applications[number].not_before > now {
                continue;
            }
            if self.applications[number].prototype.is_none() && self.no_orphans(number) {
                if let Err(error) = self.start_prototype(number) {
                    let name = &self.service.applications[number].name;
                    log("error", format_args!("PHP of {name} cannot be started: {error}"));
                    self.delay(number, Duration::ZERO, false);
                    continue;
                }
            }
            self.fill_slots(number);
        }
    }

    fn start_front(&mut self) -> io::Result<()> {
        self.epoch += 1;
        self.doors.clear();
        for (running, application) in self.applications.iter_mut().zip(&self.service.applications) {
            let geometry = Geometry::new(application.exchanges, application.workers, self.service.front_threads);
            let error = |errno: wire::sys::Errno| io::Error::from_raw_os_error(errno.0);
            let descriptor = sys::own(slab::create(geometry).map_err(error)?);
            let slab = Slab::map(descriptor.as_raw_fd(), geometry).map_err(error)?;
            let slots = vec![Slot::Empty; geometry.slots as usize];
            running.lane = Some(Lane { descriptor, slab, started: vec![self.began; slots.len()], slots });
        }
        let (ours, theirs) = Channel::pair()?;
        let mut descriptors = vec![theirs.as_fd(), self.lifeline.0.as_fd()];
        descriptors.extend(self.service.front_descriptors.iter().map(AsFd::as_fd));
        let pid = sys::start(&Program {
            executable: self.service.front.as_fd(),
            arguments: self.service.front_arguments.clone(),
            environment: Vec::new(),
            descriptors,
            messages: None,
            user: self.service.front_user.as_ref(),
        })?;
        self.front = Some(Child { pid, channel: ours, since: Instant::now(), ready: false });
        Ok(())
    }

    fn start_prototype(&mut self, number: usize) -> io::Result<()> {
        let application = &self.service.applications[number];
        let (ours, theirs) = Channel::pair()?;
        let mut arguments: Vec<String> =
            ["reprise-php", "--control", "3", "--lifeline", "4"].map(str::to_owned).to_vec();
        arguments.extend(["--number".to_owned(), number.to_string()]);
        arguments.extend(application.arguments.iter().cloned());
        let pid = sys::start(&Program {
            executable: self.service.php.as_fd(),
            arguments,
            environment: application.environment.clone(),
            descriptors: vec![theirs.as_fd(), self.lifeline.0.as_fd()],
            messages: Some(self.applications[number].messages.1.as_fd()),
            user: application.user.as_ref(),
        })?;
        self.applications[number].prototype = Some(Child { pid, channel: ours, since: Instant::now(), ready: false });
        Ok(())
    }

    /// Sends the slab of the current epoch to a prototype and to the front.
    fn introduce(&mut self, number: usize) {
        let running = &self.applications[number];
        let (Some(lane), false) = (&running.lane, self.doors.is_empty()) else { return };
        let mut message = self.message(Kind::Lane, number, 0);
        message.geometry = lane.slab.geometry();
        if let Some(prototype) = running.prototype.as_ref().filter(|prototype| prototype.ready) {
            let mut attached = vec![lane.descriptor.as_fd()];
            attached.extend(self.doors.iter().map(AsFd::as_fd));
            send(&prototype.channel, &message, &attached);
        }
        if let Some(front) = &self.front {
            message.limit = running.body_limit;
            send(&front.channel, &message, &[lane.descriptor.as_fd()]);
        }
    }

    fn fill_slots(&mut self, number: usize) {
        let wanted = self.service.applications[number].workers;
        let message = self.message(Kind::Spawn, number, 0);
        let ready = !self.doors.is_empty() && self.front.as_ref().is_some_and(|front| front.ready);
        let running = &mut self.applications[number];
        let (Some(lane), Some(prototype)) = (&mut running.lane, &running.prototype) else { return };
        if !prototype.ready || !ready {
            return;
        }
        for slot in slots_to_fill(&lane.slots, wanted) {
            lane.slots[slot] = Slot::Asked;
            lane.started[slot] = Instant::now();
            send(&prototype.channel, &Message { slot: slot as u32, ..message }, &[]);
        }
    }

    fn message(&self, kind: Kind, application: usize, slot: u32) -> Message {
        Message { application: application as u32, lane: CLASSIC, slot, epoch: self.epoch, ..Message::new(kind) }
    }

    fn is_ready(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.ready)
            && self.applications.iter().all(|application| {
                application
                    .lane
                    .as_ref()
                    .is_some_and(|lane| lane.slots.iter().any(|slot| matches!(slot, Slot::Live(_))))
            })
    }

    // ---- stopping ----------------------------------------------------------------------------------------------

    fn stop(&mut self, why: &str) {
        self.stopping = self.stopping.further();
        match self.stopping {
            Stopping::Draining => {
                log("notice", format_args!("{why}: draining, at most {:?}", self.service.drain_timeout));
                self.deadline = Instant::now() + self.service.drain_timeout;
                // The listeners among them: with the front's copies closed too, new connections are refused.
                self.service.front_descriptors.clear();
                match &self.front {
                    Some(front) => send(&front.channel, &self.message(Kind::Drain, 0, 0), &[]),
                    None => self.end_prototypes(),
                }
            }
            Stopping::Now => {
                if self.front.is_some() || self.applications.iter().any(|application| application.prototype.is_some()) {
                    log("warning", format_args!("{why}: ending now"));
                    self.outcome = Some(Outcome::CutOff);
                }
            }
            Stopping::No => {}
        }
    }

    /// The front has finished, or is gone: workers end when their lane is drained, prototypes with their last worker.
    fn end_prototypes(&mut self) {
        for number in 0..self.applications.len() {
            let message = self.message(Kind::Drain, number, 0);
            let running = &self.applications[number];
            if let Some(lane) = &running.lane {
                lane.slab.set_phase(Phase::Draining);
            }
            if let Some(prototype) = &running.prototype {
                send(&prototype.channel, &message, &[]);
            }
        }
    }

    fn finished(&mut self) -> Option<Outcome> {
        let outcome = self.outcome_now();
        if outcome.is_some() {
            // The last words of those that have just ended.
            self.pass_on_messages();
        }
        outcome
    }

    fn outcome_now(&mut self) -> Option<Outcome> {
        if self.outcome.is_some() && self.stopping != Stopping::Draining {
            self.kill_everything();
            return self.outcome.take();
        }
        let alive = self.front.is_some() || self.applications.iter().any(|application| application.prototype.is_some());
        if self.stopping != Stopping::No && !alive {
            return Some(self.outcome.take().unwrap_or(Outcome::Drained));
        }
        None
    }

    /// Ends all children and waits for them, so that nothing is left over. Prototypes first: their workers become ours.
    /// What PHP code has started in the background and left to us is not waited for.
    fn kill_everything(&mut self) {
        for (number, running) in self.applications.iter().enumerate() {
            let mut workers = Vec::new();
            for slot in running.lane.iter().flat_map(|lane| &lane.slots) {
                if let Slot::Live(pid) = *slot {
                    workers.push(pid);
                }
            }
            workers.extend(running.retired.iter().map(|(pid, _)| *pid));
            workers.iter().for_each(|&pid| self.kill_worker(number, pid));
            for pid in running.prototype.iter().map(|prototype| prototype.pid).chain(workers) {
                end(pid, running.prototype.as_ref().is_some_and(|prototype| prototype.pid == pid));
            }
        }
        if let Some(front) = &self.front {
            end(front.pid, true);
        }
    }
}

/// Waits for a child's end, after killing it if it is `ours` from the start. A worker that its prototype had reaped is no
/// child of ours.
fn end(pid: i32, ours: bool) {
    if ours {
        sys::kill(pid, Signal::SIGKILL);
    }
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
}

fn send(channel: &Channel, message: &Message, attached: &[BorrowedFd<'_>]) {
    if let Err(error) = channel.send(message, attached) {
        // Its death will be reaped and handled; a message to the dead is no loss.
        if error.raw_os_error() != Some(nix::libc::EPIPE) && error.raw_os_error() != Some(nix::libc::ECONNRESET) {
            log("error", format_args!("a message cannot be sent: {error}"));
        }
    }
}
