//! Whatever should run and does not: the front, prototypes, templates (see [`super::lanes`]), workers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use wire::control::{Bodies, LaneOffer, ToForker, ToFront};
use wire::layout::{Geometry, MAX_SLOTS};
use wire::slab::{self, Slab};

use super::child::Child;
use super::generation::GenerationId;
use super::lane::{CLASSIC, largest_limit};
use super::mailbox::Mailbox;
use super::service::Application;
use super::template::Template;
use super::{Outcome, Supervisor, log, send};
use crate::boot;
use crate::capabilities;
use crate::channel::Channel;
use crate::plan::{Slot, slots_to_fill};
use crate::sys::{self, ProcessLimits, Program};

impl Supervisor {
    pub(super) fn start_what_is_missing(&mut self) {
        let now = Instant::now();
        if self.shutdown.is_begun() {
            // What is queued is still to be answered, and in fork isolation each request takes a worker with it.
            if self.shutdown.is_draining() {
                self.all_lanes().into_iter().for_each(|(id, lane)| self.fill_slots(id, lane, now));
            }
            return;
        }
        if self.front.is_due(now) {
            if let Err(error) = self.start_front() {
                log("error", format_args!("the front cannot be started: {error}"));
                if !self.announced {
                    // What is missing at the start does not come by waiting: who started this server is told.
                    self.shutdown.fail(Outcome::NoFront);
                    return;
                }
                self.front.start_failed(now);
            }
        }
        for id in self.generations.ids() {
            let generation = &self.generations[id];
            if generation.is_ending() {
                continue;
            }
            let is_due = generation.lanes[CLASSIC].restart.is_due(now);
            if generation.prototype.is_none() && is_due && generation.has_no_orphans() {
                if let Err(error) = self.start_prototype(id) {
                    let name = self.generations[id].application.name.clone();
                    log("error", format_args!("the prototype of {name} cannot be started: {error}"));
                    if !self.announced {
                        self.shutdown.fail(Outcome::NotBooted(name, "PHP".to_owned()));
                        return;
                    }
                    self.reload
                        .generation_failed(id, &format_args!("the prototype of {name} cannot be started: {error}"));
                    self.delay(id, CLASSIC, Duration::ZERO, false);
                    continue;
                }
            }
            for lane in 0..self.generations[id].lanes.len() {
                self.boot_if_missing(id, lane, now);
                self.fill_slots(id, lane, now);
            }
        }
    }

    fn start_front(&mut self) -> io::Result<()> {
        self.front.begin_epoch();
        for id in self.generations.ids() {
            if !self.generations[id].is_ending() {
                self.make_mailboxes(id)?;
            }
        }
        let (ours, theirs) = Channel::pair()?;
        let numbers: Vec<u32> = self.reload.current().iter().map(|id| *id as u32).collect();
        let settings = (self.service.settings)(&self.reload.plan().settings, &numbers)?;
        let mut descriptors = vec![theirs.as_fd(), self.lifeline.0.as_fd(), settings.as_fd()];
        descriptors.extend(self.service.front_descriptors.iter().map(AsFd::as_fd));
        let pid = sys::start(&Program {
            executable: self.service.front.as_fd(),
            arguments: self.service.front_arguments.clone(),
            environment: Vec::new(),
            descriptors,
            messages: Some(self.front.output().writer()),
            user: self.service.front_user.as_ref(),
            limits: ProcessLimits { no_capabilities: capabilities::may_limit(), ..ProcessLimits::default() },
        })?;
        self.front.started(pid, ours);
        Ok(())
    }

    /// New slabs for all lanes of a generation, for the front of this epoch.
    pub(super) fn make_mailboxes(&mut self, id: GenerationId) -> io::Result<()> {
        for lane in 0..self.generations[id].lanes.len() {
            let mailbox = self.new_mailbox(&self.generations[id].application, lane)?;
            let lane = &mut self.generations[id].lanes[lane];
            lane.mailbox = Some(mailbox);
            lane.template.iter_mut().for_each(Template::count_anew);
        }
        Ok(())
    }

    pub(super) fn new_mailbox(&self, application: &Application, lane: usize) -> io::Result<Mailbox> {
        // A clone of a template is there at once: it need not wait until the front has let go of the slot of a dead one.
        let slots = if lane == CLASSIC { application.workers } else { (2 * application.workers).min(MAX_SLOTS) };
        let geometry = Geometry::new(application.exchanges, slots, self.service.front_threads);
        let error = |errno: wire::sys::Errno| io::Error::from_raw_os_error(errno.0);
        let descriptor = sys::own(slab::create(geometry).map_err(error)?);
        let slab = Slab::map(descriptor.as_raw_fd(), geometry).map_err(error)?;
        let slots = vec![Slot::Empty; geometry.slots as usize];
        let started = vec![self.began; slots.len()];
        Ok(Mailbox { descriptor, slab, started, damaged: 0, slots, is_told: false, is_known: false })
    }

    fn start_prototype(&mut self, id: GenerationId) -> io::Result<()> {
        let application = &self.generations[id].application;
        let (ours, theirs) = Channel::pair()?;
        let settings = settings_file(&application.settings)?;
        let mut descriptors = vec![theirs.as_fd(), self.lifeline.0.as_fd(), settings.as_fd()];
        let mut arguments: Vec<String> =
            ["reprise-php", "--control", "3", "--lifeline", "4", "--settings-file", "5"].map(str::to_owned).to_vec();
        if let Some(userfaultfd) = &self.service.userfaultfd {
            descriptors.push(userfaultfd.as_fd());
            arguments.extend(["--userfaultfd", "6"].map(str::to_owned));
        }
        let ordinal = self.generations[id].ordinal;
        arguments.extend(["--generation".to_owned(), ordinal.to_string()]);
        arguments.extend(application.arguments.iter().cloned());
        let pid = sys::start(&Program {
            executable: self.generations[id].php.as_fd(),
            arguments,
            environment: application.environment.clone(),
            descriptors,
            messages: Some(self.generations[id].output.writer()),
            user: application.user.as_ref(),
            limits: application.limits,
        })?;
        self.generations[id].prototype = Some(Child::new(pid, ours));
        Ok(())
    }

    /// Sends a lane's slab of the current epoch to its forker and to the front, which learns of a snapshot lane only when
    /// that has a template to serve it.
    pub(super) fn introduce(&mut self, id: GenerationId, lane: usize) {
        let generation = &self.generations[id];
        let (Some(mailbox), false) = (&generation.lanes[lane].mailbox, self.front.doors().is_empty()) else { return };
        let forker = generation.working_forker(lane);
        if lane != CLASSIC && forker.is_none() {
            return;
        }
        let geometry = mailbox.slab.geometry();
        if let Some(forker) = forker {
            let mut attached = vec![mailbox.descriptor.as_fd()];
            attached.extend(self.front.doors().iter().map(AsFd::as_fd));
            send(&forker.channel, &ToForker::Slab { geometry, epoch: self.front.epoch() }, &attached);
        }
        if !self.front.is_running() {
            return;
        }
        let own = generation.lanes[lane].bodies;
        let bodies = Bodies { limit: largest_limit(own, generation.lanes[CLASSIC].bodies), ..own };
        // One that shares workers with others is to say when it has too few.
        let shares_workers = generation.is_found(lane);
        let offer = LaneOffer { id: self.lane_id(id, lane), geometry, shares_workers, bodies };
        let message = ToFront::Lane { offer };
        match generation.lanes[lane].entry.as_deref().map(|entry| boot::file(entry.as_bytes())).transpose() {
            Ok(None) => self.front.send(&message, &[mailbox.descriptor.as_fd()]),
            Ok(Some(name)) => self.front.send(&message, &[mailbox.descriptor.as_fd(), name.as_fd()]),
            Err(error) => return log("error", format_args!("the front cannot be told of a lane: {error}")),
        }
        self.generations[id].lanes[lane].mailbox.iter_mut().for_each(|mailbox| mailbox.is_told = true);
    }

    /// Whether workers of a lane can be forked now.
    pub(super) fn may_fork(&self, id: GenerationId, lane: usize, now: Instant) -> bool {
        let generation = &self.generations[id];
        let is_due = generation.lanes[lane].restart.is_due(now) && !generation.is_ending();
        let has_mailbox = generation.lanes[lane].mailbox.is_some();
        self.front.is_open() && is_due && has_mailbox && generation.working_forker(lane).is_some()
    }

    pub(super) fn fill_slots(&mut self, id: GenerationId, lane: usize, now: Instant) {
        if !self.may_fork(id, lane, now) {
            return;
        }
        let wanted = self.wanted_workers(id, lane, now);
        let Some(mailbox) = &mut self.generations[id].lanes[lane].mailbox else { return };
        let slots = slots_to_fill(&mailbox.slots, wanted);
        for &slot in &slots {
            mailbox.ask(slot, now);
        }
        let epoch = self.front.epoch();
        let Some(forker) = self.generations[id].working_forker(lane) else { return };
        for slot in slots {
            send(&forker.channel, &ToForker::Spawn { slot: slot as u32, epoch }, &[]);
        }
    }
}

/// What reprise-php gets in a file in memory: `OPTION=VALUE` with a zero byte behind each. Neither has one in it: the configuration is
/// refused then.
pub fn settings_file(settings: &[(String, String)]) -> io::Result<OwnedFd> {
    let text = settings.iter().flat_map(|(option, value)| format!("{option}={value}\0").into_bytes());
    boot::sealed(&text.collect::<Vec<u8>>())
}
