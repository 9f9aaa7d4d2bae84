//! The supervisor: starts the front and one prototype per application, has workers forked and notices every death.
//!
//! The order that keeps a request from being answered twice or forgotten:
//!
//! 1. a worker dies; its prototype (or, if that died too, this process) reaps it;
//! 2. `WorkerDead` goes to the front, which re-queues or fails the request of that slot;
//! 3. the front answers `SlotFree`; only then is the slot filled again.
//!
//! Each lane has a forker: the prototype for lane 0, its template (see [`lanes`]) for any other. Both are told and say
//! the same. What a template says is checked, for it has run the application's code.
//!
//! When the front dies its slab is closed (workers of it end after their request) and a new front gets a new slab: an
//! epoch. Messages about older epochs are ignored.
//!
//! An application is run by a [`generation`]: a prototype with everything under it. A [`reload`] makes another beside it.

mod admin;
mod carry_out;
mod child;
mod damage;
mod deaths;
mod elastic;
mod ending;
mod errands;
mod eviction;
mod generation;
mod hearing;
mod lane;
mod lanes;
mod liveness;
mod mailbox;
mod manager;
mod messages;
mod reload;
mod service;
mod starting;
mod status;
mod stopping;
mod template;
mod trace;
mod warm;
mod worker_target;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::control::{LaneId, Message, ToFront};

use crate::channel::Channel;
use crate::lines::Lines;
use crate::plan::{BackOff, Stopping};
use crate::sys;
use admin::Admin;
use child::{Forker, Front};
use errands::Pending;
pub use errands::open_access_log;
use generation::{Generation, Generations, Stage};
use reload::Reload;
pub use service::{Application, Draft, Entry, Plan, Service};
pub use starting::settings_file;
use status::Rate;
use trace::Tracing;

/// How often workers that boot are looked at, which say it in their slab alone.
const BOOTING_TURN: Duration = Duration::from_millis(10);

/// Why the supervisor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was answered.
    Drained,
    /// The deadline or a second signal cut requests off.
    CutOff,
    /// An application never booted; what of it.
    NotBooted(String, String),
    /// A warm-up request of an application failed; which.
    Cold(String, String),
    /// The front never started.
    NoFront,
}

/// The loop's state.
pub struct Supervisor {
    service: Service,
    generations: Generations,
    reload: Reload,
    /// Children that read or look.
    errands: Vec<Pending>,
    /// When forkers are asked next whether they answer.
    next_hearing: Instant,
    rate: Rate,
    tracing: Vec<Tracing>,
    admin: Option<Admin>,
    lifeline: (OwnedFd, OwnedFd),
    front: Option<Front>,
    front_back_off: BackOff,
    front_not_before: Instant,
    doors: Vec<OwnedFd>,
    /// What fronts write to their standard error.
    front_messages: Messages,
    epoch: u64,
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
    pub fn new(mut service: Service, plan: Plan) -> io::Result<Supervisor> {
        let now = Instant::now();
        sys::become_subreaper()?;
        let mut generations = Generations::default();
        let mut current = Vec::new();
        for application in &plan.applications {
            current.push(generations.add(Generation::new(application, &plan.php, 1, Stage::Serving)?));
        }
        Ok(Supervisor {
            lifeline: rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?,
            admin: service.admin.take().map(Admin::new).transpose()?,
            reload: Reload::new(plan, current, now),
            generations,
            errands: Vec::new(),
            next_hearing: now,
            rate: Rate::begin(),
            tracing: Vec::new(),
            front: None,
            front_back_off: BackOff::default(),
            front_not_before: now,
            doors: Vec::new(),
            front_messages: Messages::of_front()?,
            epoch: 0,
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
        self.tell_booting();
        loop {
            self.evict_lanes();
            self.advance_reload();
            self.start_what_is_missing();
            self.warm_up();
            if !self.announced && self.outcome.is_none() && self.is_ready() {
                self.announced = true;
                self.open_front();
                ready(self.began.elapsed());
                self.tell_ready(None);
            }
            if let Some(outcome) = self.finished() {
                return Ok(outcome);
            }
            self.wait();
            self.service.notify.turn(Instant::now());
            while let Some(signal) = self.service.signals.next() {
                match signal {
                    Signal::SIGCHLD => {}
                    Signal::SIGUSR1 => self.reopen_access_log(),
                    Signal::SIGHUP => self.reload(|reload, _| reload.request_all("SIGHUP", None)),
                    other => self.stop(other.as_str()),
                }
            }
            self.forkers().for_each(|forker| forker.channel.flush());
            self.front.iter().for_each(|front| front.channel.flush());
            crate::log::flush();
            self.pass_on_messages();
            // Messages before deaths: what a process said before it died counts.
            self.listen_to_front();
            for (number, lane) in self.all_lanes() {
                self.listen_to_forker(number, lane);
            }
            self.take_answers();
            self.reap();
            self.end_deaf();
            self.end_overdue();
            self.end_overdue_traces();
            self.forget_generations();
            self.serve_admin();
            if self.stopping == Stopping::Draining && Instant::now() >= self.deadline {
                log(
                    "warning",
                    format_args!("drain took longer than {:?}; ending now", self.reload.plan().drain_timeout),
                );
                self.stop("deadline");
            }
        }
    }

    fn forkers(&self) -> impl Iterator<Item = &Forker> {
        self.generations.all().flat_map(Generation::forkers)
    }

    /// Each lane as the numbers of its generation and itself.
    fn all_lanes(&self) -> Vec<(usize, usize)> {
        let each = |number: usize| (0..self.generations[number].lanes.len()).map(move |lane| (number, lane));
        self.generations.ids().into_iter().flat_map(each).collect()
    }

    /// PHP's messages, and the front's, go through pipes: a script that reopens its standard error must not get hold of this
    /// server's log, and nobody but this process waits for its reader, which it does not.
    fn pass_on_messages(&mut self) {
        let mut bytes = [0; 16 * 1024];
        let now = Instant::now();
        let generations = self.generations.all_mut().map(|generation| &mut generation.messages);
        for messages in generations.chain([&mut self.front_messages]) {
            // As much as a pipe holds; what is written meanwhile is for the next turn.
            for _ in 0..4 {
                let Ok(count @ 1..) = rustix::io::read(&messages.from, &mut bytes) else { break };
                let mut out = String::new();
                messages.lines.take(&bytes[..count], &mut out);
                crate::log::pass_on(&out);
            }
            let mut out = String::new();
            messages.lines.end_overdue(now, &mut out);
            crate::log::pass_on(&out);
        }
    }

    /// The same, of those that write no more.
    fn pass_on_last_messages(&mut self, numbers: &[usize]) {
        self.pass_on_messages();
        let mut out = String::new();
        for number in numbers {
            self.generations.get_mut(*number).into_iter().for_each(|one| one.messages.lines.end(&mut out));
        }
        crate::log::pass_on(&out);
    }

    fn wait(&self) {
        let mut watched = vec![reads(&self.service.signals)];
        watched.extend(self.forkers().map(|forker| forker.channel.watched()));
        watched.extend(self.front.iter().map(|front| front.channel.watched()));
        watched.extend(self.generations.all().map(|generation| reads(&generation.messages.from)));
        watched.push(reads(&self.front_messages.from));
        watched.extend(self.errands.iter().map(reads));
        watched.extend(self.admin.iter().flat_map(Admin::watched));
        if crate::log::is_waiting() {
            watched.push(crate::log::room());
        }
        let now = Instant::now();
        let mut next = now + Duration::from_secs(1);
        next = self.service.notify.next_turn(now).map_or(next, |turn| next.min(turn));
        if self.front.is_none() && self.front_not_before > now {
            next = next.min(self.front_not_before);
        }
        let messages = self.generations.all().map(|generation| &generation.messages).chain([&self.front_messages]);
        next = messages.filter_map(|messages| messages.lines.deadline()).fold(next, Instant::min);
        next = self.errands.iter().map(Pending::deadline).fold(next, Instant::min);
        for generation in self.generations.all() {
            for lane in generation.lanes.iter().filter(|lane| lane.not_before > now) {
                next = next.min(lane.not_before);
            }
            next = generation.deadline(self.reload.plan().drain_timeout).map_or(next, |deadline| next.min(deadline));
        }
        if self.generations.all().any(Generation::waits_for_workers) {
            next = next.min(now + BOOTING_TURN);
        }
        for (number, lane) in self.all_lanes() {
            next = self.template_deadline(number, lane).map_or(next, |deadline| next.min(deadline));
            next = self.next_judgement(number, lane).map_or(next, |turn| next.min(turn));
        }
        if self.stopping == Stopping::Draining {
            next = next.min(self.deadline);
        }
        let rest = next.saturating_duration_since(now) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        // EINTR and time-out both mean: look at everything again.
        let _ = poll(&mut watched, Some(&timeout));
    }

    /// A lane as the front of now knows it.
    fn lane_id(&self, number: usize, lane: usize) -> LaneId {
        LaneId { generation: number as u32, lane: lane as u32, epoch: self.epoch }
    }

    /// Sends a message to the front, if there is one.
    fn tell_front(&self, message: &ToFront, attached: &[BorrowedFd<'_>]) {
        if let Some(front) = &self.front {
            send(&front.channel, message, attached);
        }
    }

    /// Visitors may come.
    fn open_front(&self) {
        self.tell_front(&ToFront::Open, &[]);
    }

    /// Whether everything that is known to be needed serves, or has shown that it will not.
    fn is_ready(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.ready)
            && self.reload.current().iter().all(|number| self.generations[*number].is_ready())
    }
}

fn reads<Fd: AsFd>(from: &Fd) -> PollFd<'_> {
    PollFd::new(from, PollFlags::IN)
}

/// What a child writes to its standard error.
struct Messages {
    /// Read end. This process never waits for it.
    from: OwnedFd,
    /// Write end.
    to: OwnedFd,
    lines: Lines,
}

impl Messages {
    fn new(lines: Lines) -> io::Result<Messages> {
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&from, rustix::fs::OFlags::NONBLOCK)?;
        Ok(Messages { from, to, lines })
    }

    fn of_application(name: &str) -> io::Result<Messages> {
        Messages::new(Lines::of_application(name))
    }

    /// Nothing in the front may wait for this process either.
    fn of_front() -> io::Result<Messages> {
        let messages = Messages::new(Lines::of_front())?;
        rustix::fs::fcntl_setfl(&messages.to, rustix::fs::OFlags::NONBLOCK)?;
        Ok(messages)
    }
}

fn send<Out: Message, In: Message>(channel: &Channel<Out, In>, message: &Out, attached: &[BorrowedFd<'_>]) {
    if let Err(error) = channel.send(message, attached) {
        // Its death will be reaped and handled; a message to the dead is no loss.
        if error.raw_os_error() != Some(nix::libc::EPIPE) && error.raw_os_error() != Some(nix::libc::ECONNRESET) {
            log("error", format_args!("a control message cannot be sent: {error}"));
        }
    }
}
