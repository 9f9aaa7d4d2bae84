//! What front, prototypes and templates say, and what follows from it.

use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use wire::atomics::Ordering;
use wire::control::{Isolation, Kind, Message};
use wire::layout::RENEW_ASKED;
use wire::owner::{Owner, State};

use super::damage::DAMAGED;
use super::generation::{Bodies, CLASSIC, Limit};
use super::lanes::is_about_template;
use super::{Supervisor, log, send};
use crate::channel::Received;
use crate::plan::{Ending, Slot};
use crate::sys;

/// Exit code of a worker whose script did not get to its loop; the same as in docs/reference/exit-codes.md.
const NOT_BOOTED: i32 = 70;
/// Exit code of a template or worker whose script has run to its end without asking for a lane.
const NOT_ASKED: i32 = 71;
/// Exit code of a worker that could not take its place.
const UNHEALTHY: i32 = 89;
/// Messages taken from one process before others have their turn; more than its socket holds.
const TURN: usize = 1024;

impl Supervisor {
    pub(super) fn listen_to_front(&mut self) {
        while let Some(front) = &mut self.front {
            let (message, attached) = match front.channel.receive() {
                Ok(Received::Message(message, attached)) => (message, attached),
                Ok(Received::Nothing | Received::Closed) => return,
                Err(error) => return log("error", format_args!("a message of the front cannot be read: {error}")),
            };
            let (number, lane) = (message.application as usize, message.lane as usize);
            match message.kind() {
                Some(Kind::Doors) => {
                    self.doors = attached;
                    self.tell_front_of_change();
                    self.switched();
                    for (number, lane) in self.all_lanes() {
                        self.introduce(number, lane);
                    }
                }
                Some(Kind::Ready) => {
                    front.ready = true;
                    self.front_back_off.works();
                    if self.announced {
                        self.open_front();
                    }
                }
                Some(Kind::Lane) if message.epoch == self.epoch => {
                    let generation = self.generations.get_mut(number);
                    let lane = generation.and_then(|generation| generation.lanes.get_mut(lane));
                    if let Some(mailbox) = lane.and_then(|lane| lane.mailbox.as_mut()) {
                        mailbox.is_known = true;
                    }
                }
                Some(Kind::SlotFree) if message.epoch == self.epoch => {
                    if let Some(slot) = self.slot(number, lane, message.slot) {
                        if *slot == Slot::Leaving {
                            *slot = Slot::Empty;
                        }
                    }
                }
                Some(Kind::Kill) if message.epoch == self.epoch => {
                    if let Some(pid) = self.kill_running(number, lane, &message) {
                        self.generations[number].limited.insert(pid, Limit::Time);
                    }
                }
                Some(Kind::Weigh) if message.epoch == self.epoch => self.weigh(number, lane, &message),
                Some(Kind::Slow) if message.epoch == self.epoch => {
                    if let Some(&mut Slot::Live(pid)) = self.slot(number, lane, message.slot) {
                        if self.still_runs(number, lane, &message) {
                            self.request_is_slow(number, lane, message.slot, pid);
                        }
                    }
                }
                Some(Kind::Overtime) if message.epoch == self.epoch => {
                    if let Some(&mut Slot::Live(pid)) = self.slot(number, lane, message.slot) {
                        let forker = self.generations[number].forker(lane).map(|forker| forker.pid);
                        // Here too.
                        let tell = |pid| {
                            if self.still_runs(number, lane, &message) {
                                sys::tell_overtime(pid);
                            }
                        };
                        sys::if_child_of(forker, pid, tell);
                    }
                }
                Some(Kind::Entry) => {
                    attached.first().into_iter().for_each(|name| self.discovered(number, name, message.status))
                }
                Some(Kind::WarmUp) => self.warmed_up(number, &message, &attached),
                Some(Kind::Busy) => self.lane_is_busy(number, lane),
                Some(Kind::Switch) => self.switched(),
                Some(Kind::Retired) => self.generation_retired(number),
                Some(Kind::Renew) if message.status as u32 == RENEW_ASKED => self.reset_wished(number),
                Some(Kind::Renew) => self.opcache_wished(number, message.status as u32),
                _ => {}
            }
        }
    }

    /// Kills the worker that a message of the front names, if it runs the request that is named there.
    fn kill_running(&mut self, number: usize, lane: usize, message: &Message) -> Option<i32> {
        let Some(&mut Slot::Live(pid)) = self.slot(number, lane, message.slot) else { return None };
        let forker = self.generations[number].forker(lane).map(|forker| forker.pid);
        let mut is_killed = false;
        // Looked at last of all: the signal must not come to its next request.
        let kill = |pid| {
            is_killed = self.still_runs(number, lane, message);
            if is_killed {
                sys::kill(pid, Signal::SIGKILL);
            }
        };
        sys::if_child_of(forker, pid, kill);
        is_killed.then_some(pid)
    }

    /// Kills a worker that holds more memory than its request may, and tells the front.
    fn weigh(&mut self, number: usize, lane: usize, message: &Message) {
        let Some(&mut Slot::Live(pid)) = self.slot(number, lane, message.slot) else { return };
        let most = u64::try_from(message.status).unwrap_or(0);
        let forker = self.generations[number].forker(lane).map(|forker| forker.pid);
        let private = |pid: i32| sys::usage(pid).map_or(0, |usage| usage.private_kib);
        // What it began with is of the process that it was forked from: a snapshot's memory may be large.
        let held = private(pid).saturating_sub(forker.map_or(0, private));
        if held <= most {
            return;
        }
        let request = self.request_of(number, lane, message.slot).map(|shown| shown.request);
        if self.kill_running(number, lane, message).is_none() {
            return;
        }
        self.generations[number].limited.insert(pid, Limit::Memory);
        if let Some(front) = &self.front {
            send(&front.channel, message, &[]);
        }
        let (name, request) = (&self.generations[number].application.name, request.unwrap_or_default());
        log(
            "warning",
            format_args!(
                "worker {pid} of {name} holds {held} KiB, and request_memory is {most} KiB: killed while it ran {request}"
            ),
        );
    }

    /// Whether a worker still has the request it is to be killed for; it may have gone on to another.
    fn still_runs(&self, number: usize, lane: usize, message: &Message) -> bool {
        let (exchange, sequence) = wire::queue::unpack(message.limit);
        let mailbox = self.generations[number].lanes[lane].mailbox.as_ref();
        let owner = mailbox.and_then(|mailbox| mailbox.slab.owner(exchange));
        owner.and_then(|word| Owner::unpack(word.load(Ordering::Acquire))).is_none_or(|owner| {
            owner.sequence == sequence && u32::from(owner.slot) == message.slot && owner.state != State::Done
        })
    }

    /// Kills a worker of a lane.
    pub(super) fn kill_worker(&self, number: usize, lane: usize, pid: i32) {
        Supervisor::kill_child_of(self.generations[number].forker(lane).map(|forker| forker.pid), pid);
    }

    /// Kills a child of that process, or ours since that is dead. Anything else of its number is a stranger.
    pub(super) fn kill_child_of(forker: Option<i32>, pid: i32) {
        sys::if_child_of(forker, pid, |pid| sys::kill(pid, Signal::SIGKILL));
    }

    fn slot(&mut self, application: usize, lane: usize, slot: u32) -> Option<&mut Slot> {
        self.generations.get_mut(application)?.lanes.get_mut(lane)?.mailbox.as_mut()?.slots.get_mut(slot as usize)
    }

    /// Takes what a prototype or a template says, which is about its own lane; a prototype's words on templates apart.
    pub(super) fn listen_to_forker(&mut self, number: usize, lane: usize) {
        for _ in 0..TURN {
            let Some(forker) = self.generations[number].forker(lane) else { return };
            let (message, attached) = match forker.channel.receive() {
                Ok(Received::Message(message, attached)) => (message, attached),
                Ok(Received::Nothing) => return,
                // A prototype that closes its end is about to die. A template may be made to by the application's code.
                Ok(Received::Closed) if lane == CLASSIC => return,
                Ok(Received::Closed) => return self.kill_template(number, lane),
                Err(error) => {
                    self.kill_template(number, lane);
                    let name = &self.generations[number].application.name;
                    return log("error", format_args!("a message of PHP ({name}) cannot be read: {error}"));
                }
            };
            let is_of_epoch = message.epoch == self.epoch;
            if lane == CLASSIC && is_about_template(&message) {
                match message.kind() {
                    Some(Kind::Spawned) => self.template_started(number, &message),
                    Some(Kind::Dead) => self.template_reaped(number, &message),
                    _ => {}
                }
                continue;
            }
            match message.kind() {
                _ if message.lane as usize != lane => {}
                Some(Kind::Renew) if lane == CLASSIC => self.files_changed(number),
                Some(Kind::Ready) if lane == CLASSIC => self.prototype_ready(number, &message),
                Some(Kind::Ready) => self.template_said_ready(number, lane, &message),
                Some(Kind::Spawned) if is_of_epoch => self.worker_started(number, lane, &message),
                Some(Kind::Ping) => self.has_answered(number, lane),
                Some(Kind::Trace) => self.traced((number, lane), &message, &attached),
                Some(Kind::Dead) => self.worker_died(number, lane, &message),
                _ => {}
            }
        }
    }

    fn prototype_ready(&mut self, number: usize, message: &Message) {
        let now = Instant::now();
        let generation = &mut self.generations[number];
        generation.prototype.iter_mut().for_each(|prototype| prototype.ready = true);
        generation.lanes[CLASSIC].bodies = Bodies::of(message);
        self.introduce(number, CLASSIC);
        for lane in 0..self.generations[number].lanes.len() {
            self.boot_if_missing(number, lane, now);
        }
        self.fill_slots(number, CLASSIC, now);
    }

    fn template_reaped(&mut self, number: usize, message: &Message) {
        let lane = message.lane as usize;
        let template = self.generations[number].forker(lane).map(|template| template.pid);
        if message.pid > 0 && template == Some(message.pid) {
            let ending = Ending::from_status(message.status);
            let template = self.generations[number].lanes[lane].template.as_mut();
            template.into_iter().for_each(|template| template.is_unasked = ending == Ending::Exited(NOT_ASKED));
            self.template_died(number, lane, &ending);
        }
    }

    fn worker_started(&mut self, number: usize, lane: usize, message: &Message) {
        let forker = self.generations[number].forker(lane).map(|forker| forker.pid);
        let Some(slot) = self.slot(number, lane, message.slot).filter(|slot| **slot == Slot::Asked) else { return };
        // A forker whose workers have broken into it must not have us kill what is not its own.
        if message.pid > 0 && sys::parent_of(message.pid).is_none_or(|parent| Some(parent) == forker) {
            *slot = Slot::Live(message.pid);
        } else {
            *slot = Slot::Empty;
            let why = io::Error::from_raw_os_error(message.status);
            log("error", format_args!("{}: a worker could not be forked: {why}", self.describe(number, lane)));
            // Perhaps it never got the slab.
            self.introduce(number, lane);
            self.delay(number, lane, Duration::ZERO, false);
        }
    }

    /// A worker was reaped, by its forker or by us.
    pub(super) fn worker_died(&mut self, number: usize, lane: usize, message: &Message) {
        let ending = Ending::from_status(message.status);
        if message.epoch != self.epoch {
            self.generations[number].lanes[lane].retired.retain(|(pid, _)| *pid != message.pid);
            return;
        }
        let Some(slot) = self.slot(number, lane, message.slot) else { return };
        if !matches!(*slot, Slot::Live(pid) if pid == message.pid) && *slot != Slot::Asked {
            return;
        }
        *slot = Slot::Leaving;
        // A worker that came to wait for requests has started well, whatever killed it then. The front clears its line.
        let worked = ending.is_regular() || self.has_worked(number, lane, message.slot);
        // Before the front hears of it: it clears the exchange.
        let request = (!ending.is_regular()).then(|| self.request_of(number, lane, message.slot)).flatten();
        if let Some(front) = &self.front {
            send(&front.channel, &Message { application: number as u32, lane: lane as u32, ..*message }, &[]);
        }
        if message.pid == 0 {
            // It was asked for and never came to be; whoever should have forked it is blamed, not the lane.
            return;
        }
        if !ending.is_regular() {
            let generation = &mut self.generations[number];
            generation.crashes += 1;
            let (name, ordinal, count) = (generation.application.name.clone(), generation.ordinal, generation.crashes);
            let what =
                request.map_or("without a request".to_owned(), |shown| format!("while it ran {}", shown.request));
            log(
                "warning",
                format_args!("worker {} of {name} {ending} {what} (generation {ordinal}, {count} so far)", message.pid),
            );
            self.suspect(number, message.pid, ending);
        }
        let mailbox = self.generations[number].lanes[lane].mailbox.as_ref();
        let lived = mailbox.map_or(Duration::ZERO, |mailbox| mailbox.started[message.slot as usize].elapsed());
        self.judge_isolation(number, lane, message.slot, ending);
        self.judge_phase(number, lane);
        if matches!(ending, Ending::Exited(NOT_BOOTED | NOT_ASKED)) && lane != CLASSIC {
            // A worker script that has got to its loop before and does not now: classic mode serves until a trial shows that
            // it does again. And a snapshot that requests cannot go on from.
            let of_lane = &mut self.generations[number].lanes[lane];
            let is_loop = of_lane.isolation == Isolation::Loop;
            of_lane.template.iter_mut().for_each(|template| template.is_unfit = !is_loop);
            self.kill_template(number, lane);
        }
        self.delay(number, lane, lived, worked);
    }

    /// A worker may have died within what all workers of its generation share.
    fn suspect(&mut self, number: usize, pid: i32, ending: Ending) {
        let now = self.began.elapsed();
        let generation = &mut self.generations[number];
        let why = match (generation.limited.remove(&pid), ending) {
            (Some(Limit::Time), _) => generation
                .suspicion
                .stuck(now)
                .then_some("two workers ran over their time; perhaps a lock is never released"),
            // A lock that it held shows itself by others that are stuck.
            (Some(Limit::Memory), _) => None,
            (None, Ending::Exited(UNHEALTHY)) => generation.suspicion.unhealthy(now).then_some(DAMAGED),
            (None, Ending::Killed(..)) => {
                generation.suspicion.crashed(now).then_some("its workers crash again and again")
            }
            (None, _) => None,
        };
        why.into_iter().for_each(|why| self.wish_for(number, why));
    }

    pub(super) fn delay(&mut self, number: usize, lane: usize, lived: Duration, worked: bool) {
        let of_lane = &mut self.generations[number].lanes[lane];
        of_lane.served |= worked;
        // Those that fail together fail once.
        if !worked && of_lane.not_before > Instant::now() {
            return;
        }
        let delay = of_lane.back_off.died(lived, worked);
        if !delay.is_zero() {
            of_lane.not_before = Instant::now() + delay;
            let what = self.describe(number, lane);
            log("warning", format_args!("{what} failed early; next start in {delay:?}"));
        }
    }
}
