//! What front and prototypes say, and what follows from it.

use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use wire::atomics::Ordering;
use wire::control::{Kind, Message};
use wire::layout::Activity;
use wire::owner::{Owner, State};

use super::{Supervisor, log, send};
use crate::channel::Received;
use crate::plan::{Ending, Slot};
use crate::sys;

impl Supervisor {
    pub(super) fn listen_to_front(&mut self) {
        while let Some(front) = &mut self.front {
            let (message, attached) = match front.channel.receive() {
                Ok(Received::Message(message, attached)) => (message, attached),
                Ok(Received::Nothing | Received::Closed) => return,
                Err(error) => return log("error", format_args!("a message of the front cannot be read: {error}")),
            };
            let number = message.application as usize;
            match message.kind() {
                Some(Kind::Doors) => {
                    self.doors = attached;
                    for number in 0..self.applications.len() {
                        self.introduce(number);
                    }
                }
                Some(Kind::Ready) => {
                    front.ready = true;
                    self.front_back_off.works();
                }
                Some(Kind::SlotFree) if message.epoch == self.epoch => {
                    if let Some(slot) = self.slot(number, message.slot) {
                        if *slot == Slot::Leaving {
                            *slot = Slot::Empty;
                        }
                    }
                }
                Some(Kind::Kill) if message.epoch == self.epoch => {
                    if let Some(&mut Slot::Live(pid)) = self.slot(number, message.slot) {
                        if self.still_runs(number, &message) {
                            self.kill_worker(number, pid);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a worker still has the request it is to be killed for; it may have gone on to another.
    fn still_runs(&self, number: usize, message: &Message) -> bool {
        let (exchange, sequence) = wire::queue::unpack(message.limit);
        let owner = self.applications[number].lane.as_ref().and_then(|lane| lane.slab.owner(exchange));
        owner.and_then(|word| Owner::unpack(word.load(Ordering::Acquire))).is_none_or(|owner| {
            owner.sequence == sequence && u32::from(owner.slot) == message.slot && owner.state != State::Done
        })
    }

    /// Kills a worker: a child of its prototype, or ours since that is dead. Anything else of that number is a stranger.
    pub(super) fn kill_worker(&self, number: usize, pid: i32) {
        let prototype = self.applications[number].prototype.as_ref().map(|prototype| prototype.pid);
        let parent = sys::parent_of(pid);
        if parent.is_some() && (parent == prototype || parent == Some(std::process::id() as i32)) {
            sys::kill(pid, Signal::SIGKILL);
        }
    }

    pub(super) fn slot(&mut self, application: usize, slot: u32) -> Option<&mut Slot> {
        self.applications.get_mut(application)?.lane.as_mut()?.slots.get_mut(slot as usize)
    }

    pub(super) fn listen_to_prototype(&mut self, number: usize) {
        while let Some(prototype) = &mut self.applications[number].prototype {
            let message = match prototype.channel.receive() {
                Ok(Received::Message(message, _)) => message,
                Ok(Received::Nothing | Received::Closed) => return,
                Err(error) => {
                    let name = &self.service.applications[number].name;
                    return log("error", format_args!("a message of PHP ({name}) cannot be read: {error}"));
                }
            };
            match message.kind() {
                Some(Kind::Ready) => {
                    prototype.ready = true;
                    self.applications[number].body_limit = message.limit;
                    self.introduce(number);
                    self.fill_slots(number);
                }
                Some(Kind::Spawned) if message.epoch == self.epoch => self.worker_started(number, &message),
                Some(Kind::Dead) => self.worker_died(number, &message),
                _ => {}
            }
        }
    }

    pub(super) fn worker_started(&mut self, number: usize, message: &Message) {
        let name = self.service.applications[number].name.clone();
        let prototype = self.applications[number].prototype.as_ref().map(|prototype| prototype.pid);
        let Some(slot) = self.slot(number, message.slot).filter(|slot| **slot == Slot::Asked) else { return };
        // A prototype whose workers have broken into it must not have us kill what is not its own.
        if message.pid > 0 && sys::parent_of(message.pid).is_none_or(|parent| Some(parent) == prototype) {
            *slot = Slot::Live(message.pid);
        } else {
            *slot = Slot::Empty;
            let why = io::Error::from_raw_os_error(message.status);
            log("error", format_args!("a worker of {name} could not be forked: {why}"));
            // Perhaps it never got the slab.
            self.introduce(number);
            self.delay(number, Duration::ZERO, false);
        }
    }

    /// A worker was reaped, by its prototype or by us.
    pub(super) fn worker_died(&mut self, number: usize, message: &Message) {
        let name = self.service.applications[number].name.clone();
        let ending = Ending::from_status(message.status);
        if message.epoch != self.epoch {
            self.applications[number].retired.retain(|(pid, _)| *pid != message.pid);
            return;
        }
        let Some(slot) = self.slot(number, message.slot) else { return };
        if !matches!(*slot, Slot::Live(pid) if pid == message.pid) && *slot != Slot::Asked {
            return;
        }
        *slot = Slot::Leaving;
        if ending != Ending::Exited(0) {
            log("warning", format_args!("worker {} of {name} {ending}", message.pid));
        }
        let running = &self.applications[number];
        if let Some(lane) = &running.lane {
            // A worker that came to wait for requests has started well, whatever killed it then.
            let worked = lane
                .slab
                .slot(message.slot as usize)
                .is_some_and(|line| line.activity.load(Ordering::Relaxed) >= Activity::Idle as u32);
            let lived = lane.started[message.slot as usize].elapsed();
            self.delay(number, lived, worked || ending == Ending::Exited(0));
        }
        if let Some(front) = &self.front {
            send(&front.channel, message, &[]);
        }
    }

    pub(super) fn delay(&mut self, number: usize, lived: Duration, worked: bool) {
        let running = &mut self.applications[number];
        running.served |= worked;
        // Those that fail together fail once.
        if !worked && running.not_before > Instant::now() {
            return;
        }
        let delay = running.back_off.died(lived, worked);
        if !delay.is_zero() {
            running.not_before = Instant::now() + delay;
            let name = &self.service.applications[number].name;
            log("warning", format_args!("PHP of {name} failed early; next start in {delay:?}"));
        }
    }
}
