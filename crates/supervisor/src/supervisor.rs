//! The loop: it starts the front and one prototype per application, has workers forked and notices every death.
//!
//! This order keeps a request from being run twice or forgotten:
//!
//! 1. a worker dies; its forker reaps it, or this process if the forker has died too;
//! 2. `WorkerDead` goes to the front, which re-queues or fails the request of that slot;
//! 3. the front sends `SlotFree`; only then is the slot filled again.
//!
//! Each lane has a forker: the prototype for lane 0, a template (see [`workers::templates`]) for any other. Prototype and templates use
//! the same messages. The supervisor checks what a template sends, because a template has run the application's code.
//!
//! When the front dies, its slabs are closed, and the workers on them end after their request. The next front gets new slabs:
//! an epoch. Messages about earlier epochs are ignored.
//!
//! A [`generation`](crate::lanes::generation) runs an application: a prototype with everything under it. A [`reload`](crate::reload) makes another generation beside it.
//!
//!
//! [`Supervisor`] gathers events, asks the parts that decide ([`crate::lanes`], [`crate::reload`], [`crate::shutdown`] and its own), and carries
//! out what they return. Each module here is an `impl Supervisor` with the state that belongs to it alone.

mod carry_out;
mod ending;
pub(crate) mod helpers;
mod learned;
mod messages;
mod notices;
pub(crate) mod questions;
mod stopping;
mod verifying;
pub(crate) mod workers;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::{LaneId, ToFront};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::lanes::generation::{Generation, GenerationId, Generations, Stage};
use crate::listeners::Listeners;
use crate::logs::output::Output;
use crate::os::sys;
use crate::peers::child::Forker;
use crate::peers::control_socket::ControlSocket;
use crate::peers::front_link::FrontLink;
use crate::reload::Reload;
use crate::settings::service::{Plan, Service};
use crate::shutdown::{Outcome, Shutdown};
use helpers::data_caches::DataCaches;
use helpers::followers::Followers;
use helpers::following::Following;
use helpers::phars::Phars;
use helpers::stores::Stores;
use questions::cache_questions::CacheQuestions;
use questions::data_questions::DataQuestions;
use questions::errands::Errands;
use questions::status::Rate;
use questions::trace::Traces;

/// How often workers that boot are looked at: only their slab says when they have booted.
const BOOTING_TURN: Duration = Duration::from_millis(10);
/// Bytes that are read at once from a pipe of a child's output.
const OUTPUT_BUFFER: usize = 16 * 1024;

/// The loop's state.
pub struct Supervisor {
    service: Service,
    generations: Generations,
    reload: Reload,
    front: FrontLink,
    listeners: Listeners,
    certificates: helpers::certificates::Tending,
    acme: helpers::acme::Acme,
    following: Following,
    errands: Errands,
    phars: Phars,
    traces: Traces,
    cache_questions: CacheQuestions,
    data_caches: DataCaches,
    stores: Stores,
    followers: Followers,
    data_questions: DataQuestions,
    control_socket: Option<ControlSocket>,
    /// Who waits for the end of the server: at most as many as the control socket has connections.
    await_end: Vec<crate::peers::control_socket::Client>,
    learned: learned::Learned,
    shutdown: Shutdown,
    lifeline: (OwnedFd, OwnedFd),
    /// When forkers are pinged next, and slabs looked at.
    next_ping: Instant,
    rate: Rate,
    /// The server has been ready.
    announced: bool,
    began: Instant,
}

impl Supervisor {
    /// Prepares a server; starts no process yet.
    pub fn new(mut service: Service, plan: Plan) -> io::Result<Supervisor> {
        let now = Instant::now();
        sys::become_subreaper()?;
        let mut generations = Generations::default();
        let mut current = Vec::new();
        let mut listeners = Listeners::default();
        let mut followers = Followers::default();
        followers.follow(&plan, now);
        listeners.add(&plan.listeners, std::mem::take(&mut service.listeners));
        let mut following = Following::new(service.watcher.take(), now)?;
        generations.may_drain = service.may_drain;
        for application in &plan.applications {
            current.push(generations.add(Generation::new(
                application,
                plan.programs(application)?,
                1,
                Stage::Serving,
            )?));
        }
        current.iter().for_each(|id| following.is_made(*id));
        Ok(Supervisor {
            lifeline: rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?,
            control_socket: service.control_socket.take().map(ControlSocket::new).transpose()?,
            await_end: Vec::new(),
            certificates: helpers::certificates::Tending::new(plan.certificates.clone(), now),
            acme: helpers::acme::Acme::new(plan.acme.clone(), now)?,
            reload: Reload::new(plan, current, now),
            generations,
            front: FrontLink::new(now)?,
            following,
            listeners,
            errands: Errands::default(),
            phars: Phars::default(),
            traces: Traces::default(),
            cache_questions: CacheQuestions::default(),
            data_caches: DataCaches::default(),
            stores: Stores::default(),
            followers,
            data_questions: DataQuestions::default(),
            learned: learned::Learned::default(),
            shutdown: Shutdown::new(),
            next_ping: now,
            rate: Rate::begin(),
            announced: false,
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
            self.tend_certificates();
            self.start_acme();
            self.start_watcher();
            self.follow_changes();
            self.start_stores();
            self.start_followers();
            self.warm_up();
            self.verify();
            self.announce(ready);
            if let Some(outcome) = self.finished() {
                return Ok(outcome);
            }
            self.wait();
            self.take_signals();
            self.take_keys();
            self.flush();
            self.pass_on_output();
            // Messages before deaths: a message that a process sent before it died counts.
            self.take_messages();
            self.take_errands();
            self.take_data_answers();
            self.reap();
            self.end_what_is_overdue();
            self.forget_generations();
            self.close_listeners();
            self.serve_control_socket();
        }
    }

    /// Lets visitors come when everything that is known to be needed serves.
    fn announce(&mut self, ready: &dyn Fn(Duration)) {
        if self.announced || self.shutdown.has_failed() || !self.is_ready() {
            return;
        }
        self.announced = true;
        self.front.send(&ToFront::Open, &[]);
        ready(self.began.elapsed());
        self.tell_ready(None);
    }

    fn take_signals(&mut self) {
        self.service.notify.turn(Instant::now());
        while let Some(signal) = self.service.signals.next() {
            match signal {
                Signal::SIGCHLD => {}
                Signal::SIGUSR1 => self.reopen_access_log(),
                Signal::SIGHUP => self.reload(|reload, _| reload.request_all("signal SIGHUP", None)),
                other => self.stop(other.as_str()),
            }
        }
    }

    /// Sends what has waited for room.
    fn flush(&self) {
        self.forkers().for_each(|forker| forker.channel.flush());
        self.front.flush();
        self.acme.child().into_iter().for_each(|child| child.channel.flush());
        self.stores.children().for_each(|child| child.channel.flush());
        self.following.child().into_iter().for_each(|child| child.channel.flush());
        self.followers.children().for_each(|child| child.channel.flush());
        crate::logs::log::flush();
    }

    fn take_messages(&mut self) {
        self.listen_to_front();
        self.listen_to_acme();
        self.listen_to_watcher();
        self.listen_to_stores();
        self.listen_to_followers();
        for (id, lane) in self.all_lanes() {
            self.listen_to_forker(id, lane);
        }
    }

    fn end_what_is_overdue(&mut self) {
        self.end_unresponsive();
        self.end_overdue();
        self.tell_long_boots();
        self.end_overdue_traces();
        self.end_overdue_questions();
        self.end_overdue_drain();
    }

    fn forkers(&self) -> impl Iterator<Item = &Forker> {
        self.generations.all().flat_map(Generation::forkers)
    }

    /// Each lane: the id of its generation, and its index there.
    fn all_lanes(&self) -> Vec<(GenerationId, usize)> {
        let lanes = |id: GenerationId| self.generations.get(id).map_or(0, |generation| generation.lanes.len());
        let each = |id: GenerationId| (0..lanes(id)).map(move |lane| (id, lane));
        self.generations.ids().into_iter().flat_map(each).collect()
    }

    /// Logs what children have written to their standard error, and PHP to its standard output.
    fn pass_on_output(&mut self) {
        let (mut bytes, now) = ([0; OUTPUT_BUFFER], Instant::now());
        let generations = self.generations.all_mut().flat_map(Generation::outputs_mut);
        let others = [self.front.output_mut(), self.acme.output_mut(), self.following.output_mut()];
        for output in generations.chain(others).chain(self.stores.outputs_mut()).chain(self.followers.outputs_mut()) {
            crate::logs::log::pass_on(&output.read(&mut bytes, now));
        }
    }

    /// Logs the same for generations whose processes are gone.
    fn pass_on_last_output(&mut self, ids: &[GenerationId]) {
        self.pass_on_output();
        let (mut bytes, now) = ([0; OUTPUT_BUFFER], Instant::now());
        for id in ids {
            for output in self.generations.get_mut(*id).into_iter().flat_map(Generation::outputs_mut) {
                crate::logs::log::pass_on(&output.read_last(&mut bytes, now));
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let mut watched = vec![reads(&self.service.signals)];
        watched.extend(self.forkers().map(|forker| forker.channel.watched()));
        watched.extend(self.front.child().map(|front| front.channel.watched()));
        watched.extend(self.acme.child().map(|acme| acme.channel.watched()));
        watched.extend(self.stores.children().map(|store| store.channel.watched()));
        watched.extend(self.following.child().map(|watcher| watcher.channel.watched()));
        watched.extend(
            self.service.console.iter().map(|console| PollFd::from_borrowed_fd(console.descriptor(), PollFlags::IN)),
        );
        watched.extend(self.followers.children().map(|follower| follower.channel.watched()));
        watched.extend(self.outputs().map(reads));
        watched.extend(self.errands.watched().map(reads));
        watched.extend(self.data_questions.watched().map(reads));
        watched.extend(self.control_socket.iter().flat_map(ControlSocket::watched));
        if crate::logs::log::is_waiting() {
            watched.push(crate::logs::log::room());
        }
        let now = Instant::now();
        let rest = self.next_turn(now).saturating_duration_since(now) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        // EINTR and time-out both mean: look at everything again.
        let _ = poll(&mut watched, Some(&timeout));
    }

    /// When the loop has to go on although no event comes.
    fn next_turn(&self, now: Instant) -> Instant {
        let drain_timeout = self.reload.plan().drain_timeout;
        let (lanes, around) = (self.all_lanes().into_iter(), self.circumstances(now));
        let booting = self.generations.all().any(Generation::waits_for_workers).then(|| now + BOOTING_TURN);
        let turns = [
            self.service.notify.next_turn(now),
            self.front.wakes(now),
            self.acme.wakes(now),
            self.stores.wakes(now),
            self.following.wakes(now),
            self.followers.wakes(now),
            self.errands.deadline(),
            booting,
        ];
        turns
            .into_iter()
            .chain([self.shutdown.deadline(), self.certificates.wakes()])
            .chain(self.outputs().map(Output::deadline))
            .chain(self.generations.all().flat_map(|one| &one.lanes).map(|lane| lane.restart.wakes(now)))
            .chain(self.generations.all().map(|generation| generation.deadline(drain_timeout)))
            .chain(lanes.flat_map(|(id, lane)| {
                let generation = self.generations.get(id);
                let judgement = generation.and_then(|generation| generation.next_judgement(lane, around));
                [self.template_deadline(id, lane), judgement]
            }))
            .flatten()
            .fold(now + Duration::from_secs(1), Instant::min)
    }

    fn outputs(&self) -> impl Iterator<Item = &Output> {
        let generations = self.generations.all().flat_map(Generation::outputs);
        generations
            .chain([self.front.output(), self.acme.output(), self.following.output()])
            .chain(self.stores.outputs())
            .chain(self.followers.outputs())
    }

    /// How messages to the front that runs now name a lane.
    fn lane_id(&self, id: GenerationId, lane: usize) -> LaneId {
        LaneId { generation: id, lane: lane as u32, epoch: self.front.epoch() }
    }

    /// Whether everything that is known to be needed serves, or has shown that it cannot.
    fn is_ready(&self) -> bool {
        let is_ready = |id: &GenerationId| self.generations.get(*id).is_some_and(Generation::is_ready);
        self.front.is_ready() && self.reload.current().iter().all(is_ready)
    }
}

fn reads<Fd: AsFd>(from: &Fd) -> PollFd<'_> {
    PollFd::new(from, PollFlags::IN)
}
