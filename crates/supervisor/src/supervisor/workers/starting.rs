//! Starts what should run and does not: the front, prototypes, templates (see [`crate::supervisor::workers::templates`]), workers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::{Bodies, LaneOffer, ToForker, ToFront};
use ipc::layout::{Geometry, MAX_SLOTS};
use ipc::slab::{self, Slab};

use crate::lanes::comparison::Comparison;
use crate::lanes::elastic::Circumstances;
use crate::lanes::generation::GenerationId;
use crate::lanes::lane::{CLASSIC, largest_limit};
use crate::lanes::mailbox::Mailbox;
use crate::lanes::template::Template;
use crate::logs::own::{log, log_again};
use crate::os::capabilities;
use crate::os::fork_limits::explain_own;
use crate::os::sys::{self, ProcessLimits, Program};
use crate::peers::boot;
use crate::peers::channel::Channel;
use crate::peers::channel::send;
use crate::peers::child::Child;
use crate::settings::service::Application;
use crate::shutdown::Outcome;
use crate::supervisor::Supervisor;

impl Supervisor {
    pub(crate) fn start_what_is_missing(&mut self) {
        let now = Instant::now();
        if self.shutdown.is_begun() {
            // Requests that are queued still have to be run, and in fork isolation each request uses up a worker.
            if self.shutdown.is_draining() {
                self.all_lanes().into_iter().for_each(|(id, lane)| self.fill_slots(id, lane, now));
            }
            return;
        }
        if self.front.is_due(now) {
            if let Err(error) = self.start_front() {
                let why = explain_own(&error);
                log_again("error", "front", format_args!("the front cannot be started: {why}"), format_args!(""));
                if !self.announced {
                    // At the start, waiting does not help: whoever has started the server is told.
                    return self.shutdown.fail(Outcome::NoFront);
                }
                self.front.start_failed(now);
            }
        }
        for id in self.generations.ids() {
            if !self.prototype_is_started(id, now) {
                continue;
            }
            for lane in 0..self.generations.get(id).map_or(0, |generation| generation.lanes.len()) {
                self.boot_if_missing(id, lane, now);
                self.fill_slots(id, lane, now);
            }
        }
    }

    /// Starts the prototype of a generation if it is missing. Says whether lanes can go on.
    fn prototype_is_started(&mut self, id: GenerationId, now: Instant) -> bool {
        let Some(generation) = self.generations.get(id).filter(|generation| !generation.is_ending()) else {
            return false;
        };
        if !generation.is_prototype_due(now) {
            return true;
        }
        let Err(error) = self.start_prototype(id) else { return true };
        let name = self.generations.get(id).map_or_else(String::new, |one| one.application.name.clone());
        let what = format!("the prototype of {name} cannot be started: {}", explain_own(&error));
        log_again("error", &format!("the prototype of {name}"), format_args!("{what}"), format_args!(""));
        if self.announced {
            self.reload.generation_failed(id, &what);
            self.delay(id, CLASSIC, Duration::ZERO, false);
        } else {
            self.shutdown.fail(Outcome::NotBooted(name, "PHP".to_owned()));
        }
        false
    }

    fn start_front(&mut self) -> io::Result<()> {
        self.front.begin_epoch();
        for id in self.generations.ids() {
            if self.generations.get(id).is_some_and(|generation| !generation.is_ending()) {
                self.make_mailboxes(id)?;
            }
        }
        let (ours, theirs) = Channel::pair()?;
        let settings = (self.service.settings)(&self.reload.plan().settings, self.reload.current())?;
        let mut descriptors = vec![theirs.as_fd(), self.lifeline.0.as_fd(), settings.as_fd()];
        descriptors.extend(self.service.front_descriptors.iter().map(AsFd::as_fd));
        descriptors.extend(self.listeners.of(&self.reload.plan().listeners));
        descriptors.extend(self.reload.plan().files.iter().map(AsFd::as_fd));
        let pid = sys::start(&Program {
            executable: self.service.front.as_fd(),
            arguments: self.service.front_arguments.clone(),
            environment: Vec::new(),
            descriptors,
            messages: Some(self.front.output().writer()),
            output: None,
            user: self.service.front_user.as_ref(),
            limits: ProcessLimits { no_capabilities: capabilities::may_limit(), ..ProcessLimits::default() },
        })?;
        self.front.started(pid, ours);
        self.introduce_certificates();
        self.introduce_answers();
        self.introduce_fitness();
        Ok(())
    }

    /// New slabs for all lanes of a generation, for the front of this epoch.
    pub(crate) fn make_mailboxes(&mut self, id: GenerationId) -> io::Result<()> {
        let Some(generation) = self.generations.get_mut(id) else { return Ok(()) };
        for (number, lane) in generation.lanes.iter_mut().enumerate() {
            lane.mailbox = Some(new_mailbox(&generation.application, number, self.service.front_threads)?);
            lane.template.iter_mut().for_each(Template::count_anew);
            lane.comparison.iter_mut().for_each(Comparison::begin_again);
        }
        Ok(())
    }

    fn start_prototype(&mut self, id: GenerationId) -> io::Result<()> {
        let Some(generation) = self.generations.get_mut(id) else { return Ok(()) };
        let application = &generation.application;
        let (ours, theirs) = Channel::pair()?;
        // Behind the standard ones and the file with all of this.
        let mut settings = vec![("generation".to_owned(), generation.ordinal.to_string())];
        let mut descriptors = Vec::new();
        let mut give = |settings: &mut Vec<(String, String)>, name: &str, descriptor| {
            settings.push((name.to_owned(), (4 + descriptors.len()).to_string()));
            descriptors.push(descriptor);
        };
        give(&mut settings, "control", theirs.as_fd());
        give(&mut settings, "lifeline", self.lifeline.0.as_fd());
        self.service.userfaultfd.iter().for_each(|device| give(&mut settings, "userfaultfd", device.as_fd()));
        if let Some(data) = self.data_caches.of(application, generation.programs.php.as_fd())? {
            give(&mut settings, "data", data.file);
            settings.extend([
                ("data-address".to_owned(), data.place.0.to_string()),
                ("data-size".to_owned(), data.place.1.to_string()),
            ]);
            let door = self.stores.of(application, data.file, data.place)?;
            door.into_iter().for_each(|door| give(&mut settings, "store", door));
        }
        if let Some((phar, copy)) = application.phar.as_ref().zip(generation.programs.phar.as_ref()) {
            settings.push(("phar-path".to_owned(), phar.file.to_string_lossy().into_owned()));
            give(&mut settings, "phar", copy.as_fd());
        }
        settings.extend(application.settings.iter().cloned());
        let file = settings_file(&settings)?;
        descriptors.insert(0, file.as_fd());
        let arguments =
            ["reprise-php", "--settings-file", "3", "--name", &application.name].map(str::to_owned).to_vec();
        let pid = sys::start(&Program {
            executable: generation.programs.php.as_fd(),
            arguments,
            environment: application.environment.clone(),
            descriptors,
            messages: Some(generation.errors.writer()),
            output: Some(generation.output.writer()),
            user: application.user.as_ref(),
            limits: application.limits,
        })?;
        generation.prototype = Some(Child::new(pid, ours));
        Ok(())
    }

    /// Sends a lane's slab of the current epoch to its forker and to the front. The front learns of a snapshot lane only when a
    /// template can serve it.
    pub(crate) fn introduce(&mut self, id: GenerationId, lane: usize) {
        let (lane_id, epoch) = (self.lane_id(id, lane), self.front.epoch());
        // A front that was started anew knows them before it has a lane to run them in.
        self.tell_what_stays_classic(id);
        let Some(generation) = self.generations.get_mut(id).filter(|_| !self.front.doors().is_empty()) else { return };
        let forker = generation.working_forker(lane);
        let Some(of_lane) = generation.lanes.get(lane) else { return };
        let Some(mailbox) = &of_lane.mailbox else { return };
        if lane != CLASSIC && forker.is_none() {
            return;
        }
        let geometry = mailbox.slab.geometry();
        if let Some(forker) = forker {
            let mut attached = vec![mailbox.descriptor.as_fd()];
            attached.extend(self.front.doors().iter().map(AsFd::as_fd));
            send(&forker.channel, &ToForker::Slab { geometry, epoch }, &attached);
        }
        if !self.front.is_running() {
            return;
        }
        let own = of_lane.bodies;
        let classic = generation.lanes.get(CLASSIC).map_or(own, |classic| classic.bodies);
        let bodies = Bodies { limit: largest_limit(own, classic), ..own };
        // For a lane that shares workers, the front reports when there are too few.
        let shares_workers = generation.is_found(lane);
        let message = ToFront::Lane { offer: LaneOffer { id: lane_id, geometry, shares_workers, bodies } };
        match of_lane.entry.as_deref().map(|entry| boot::file(entry.as_bytes())).transpose() {
            Ok(None) => self.front.send(&message, &[mailbox.descriptor.as_fd()]),
            Ok(Some(name)) => self.front.send(&message, &[mailbox.descriptor.as_fd(), name.as_fd()]),
            Err(error) => return log("error", format_args!("the front cannot be told of a lane: {error}")),
        }
        let mailbox = generation.lanes.get_mut(lane).and_then(|lane| lane.mailbox.as_mut());
        mailbox.into_iter().for_each(|mailbox| mailbox.is_told = true);
    }

    /// What the numbers of workers depend on beside the load.
    pub(crate) fn circumstances(&self, now: Instant) -> Circumstances {
        Circumstances { cpus: self.service.cpus, is_front_open: self.front.is_open(), now }
    }

    /// Asks the forker of a lane for the workers that are missing.
    pub(crate) fn fill_slots(&mut self, id: GenerationId, lane: usize, now: Instant) {
        let (around, epoch) = (self.circumstances(now), self.front.epoch());
        let Some(generation) = self.generations.get_mut(id) else { return };
        let slots = generation.ask_for_workers(lane, around);
        let Some(forker) = generation.working_forker(lane) else { return };
        for slot in slots {
            send(&forker.channel, &ToForker::Spawn { slot, epoch }, &[]);
        }
    }
}

/// The settings that reprise-php gets in a file in memory: `OPTION=VALUE`, each with a zero byte behind it. A configuration with a zero
/// byte in an option or a value is refused.
pub fn settings_file(settings: &[(String, String)]) -> io::Result<OwnedFd> {
    let text = settings.iter().flat_map(|(option, value)| format!("{option}={value}\0").into_bytes());
    boot::sealed(&text.collect::<Vec<u8>>())
}

/// A slab for a lane, and what is known of its slots: nothing runs there yet.
pub(crate) fn new_mailbox(application: &Application, lane: usize, front_threads: usize) -> io::Result<Mailbox> {
    // A template's clone starts at once. More slots than workers let it start before the front has freed a dead worker's slot.
    let slots = if lane == CLASSIC { application.workers } else { (2 * application.workers).min(MAX_SLOTS) };
    let geometry = Geometry::new(application.exchanges, slots, front_threads);
    let error = |errno: ipc::sys::Errno| io::Error::from_raw_os_error(errno.0);
    let descriptor = sys::own(slab::create(geometry).map_err(error)?);
    let slab = Slab::map(descriptor.as_raw_fd(), geometry).map_err(error)?;
    Ok(Mailbox::new(descriptor, slab, Instant::now()))
}
