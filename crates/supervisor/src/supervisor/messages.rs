//! Messages of the front, of prototypes and of templates, and what follows from them.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::control::{Bodies, FromForker, FromFront, Isolation, LaneId, RunningRequest, ToFront};
use ipc::exit::Exit;
use ipc::layout::RENEW_ASKED;
use ipc::owner::{Owner, State};
use nix::sys::signal::Signal;

use crate::lanes::generation::{GenerationId, Limit, Stage};
use crate::lanes::lane::CLASSIC;
use crate::lanes::mailbox::Mailbox;
use crate::lanes::mailbox::WorkerDeath;
use crate::lanes::template::{Death, Forked, TemplateReady};
use crate::logs::own::{log, log_again};
use crate::os::exited::Ending;
use crate::os::sys;
use crate::peers::channel::Received;
use crate::plan::Slot;
use crate::shutdown::Outcome;
use crate::supervisor::Supervisor;
use crate::supervisor::workers::damage::DAMAGED;
use crate::supervisor::workers::warmup::WarmUpResult;

/// How many messages of one process are handled before those of others: more than its socket holds.
const TURN: usize = 1024;

/// The generation and the lane that a message is about.
fn place(of: LaneId) -> (GenerationId, usize) {
    (of.generation, of.lane as usize)
}

impl Supervisor {
    pub(crate) fn listen_to_front(&mut self) {
        while let Some((message, attached)) = self.front.receive() {
            self.front_says(message, attached);
        }
    }

    fn front_says(&mut self, message: FromFront, attached: Vec<OwnedFd>) {
        match message {
            FromFront::Doors => {
                self.front.doors_came(attached);
                self.introduce_learned();
                let settings = self.reload.settings();
                self.carry_out(settings);
                self.reload(|reload, generations| reload.switched(generations, Instant::now()));
                for (id, lane) in self.all_lanes() {
                    self.introduce(id, lane);
                }
            }
            FromFront::Ready => {
                self.front.became_ready();
                if self.announced {
                    self.front.send(&ToFront::Open, &[]);
                }
                if self.shutdown.is_leaving() {
                    self.front.send(&ToFront::Leave, &[]);
                }
            }
            FromFront::LaneTaken { lane } => {
                if let Some(mailbox) = self.mailbox(lane) {
                    mailbox.is_known = true;
                }
            }
            FromFront::SlotFree { lane, slot } => {
                if let Some(slot) = self.slot(lane, slot).filter(|slot| **slot == Slot::Leaving) {
                    *slot = Slot::Empty;
                }
            }
            FromFront::Kill { running } => {
                let killed = self.kill_running(running);
                killed.into_iter().for_each(|pid| self.note_limit(running.lane, pid, Limit::Time));
            }
            FromFront::Weigh { running, limit_kib } => self.weigh(running, limit_kib),
            FromFront::Slow { running } => {
                if let Some(&mut Slot::Live(pid)) = self.slot(running.lane, running.slot) {
                    if self.still_runs(running) {
                        let (id, lane) = place(running.lane);
                        self.request_is_slow(id, lane, running.slot, pid);
                    }
                }
            }
            FromFront::Overtime { running } => {
                if let Some(&mut Slot::Live(pid)) = self.slot(running.lane, running.slot) {
                    let forker = self.forker_pid(running.lane);
                    // Checked last of all, as in `kill_running`.
                    let tell = |pid| {
                        if self.still_runs(running) {
                            sys::tell_overtime(pid);
                        }
                    };
                    sys::if_child_of(forker, pid, tell);
                }
            }
            FromFront::Entry { generation, is_worker_mode, times } => {
                let name = attached.first().into_iter();
                name.for_each(|name| self.discovered(generation, name, is_worker_mode, times.into()));
            }
            FromFront::WarmUp { generation, index, status, took_us } => {
                self.warmed_up(generation, WarmUpResult { index, status, took_us }, &attached)
            }
            FromFront::Learned { generation } => self.front_learned(generation, &attached),
            FromFront::Busy { lane } => {
                let (id, lane) = place(lane);
                let generation = self.generations.get_mut(id);
                generation.into_iter().for_each(|generation| generation.lane_is_busy(lane, Instant::now()));
            }
            FromFront::Compared { lane, processor_us } => self.compared(lane, processor_us),
            FromFront::Spool { memory, disk, responses, full, errors } => {
                self.front.holds(control::status::Spool { memory, disk, responses, full, errors });
            }
            FromFront::Cache { ticket } => self.cache_answered(ticket, &attached),
            FromFront::Purged => self.purged_here(&attached),
            FromFront::Fence { ticket } => self.fence_asked(ticket),
            FromFront::Switched => self.reload(|reload, generations| reload.switched(generations, Instant::now())),
            FromFront::AnswersTaken { number } => self.answers_taken(number),
            FromFront::CertificatesTaken { is_taken } => self.certificates_taken(is_taken),
            FromFront::Retired { generation } => self.generation_retired(generation),
            FromFront::Connect { ticket, generation, address } => self.connect(ticket, generation, address),
            FromFront::Renew { lane, why: RENEW_ASKED } => {
                self.reload(|reload, generations| reload.opcache_reset(lane.generation, generations))
            }
            FromFront::Renew { lane, why } => {
                self.reload(|reload, generations| reload.opcache_failed(lane.generation, why, generations))
            }
        }
    }

    /// Kills the worker that a message of the front names, if it runs the request that is named there.
    fn kill_running(&mut self, running: RunningRequest) -> Option<i32> {
        let Some(&mut Slot::Live(pid)) = self.slot(running.lane, running.slot) else { return None };
        let forker = self.forker_pid(running.lane);
        let mut is_killed = false;
        // Checked last of all: the signal must not hit the worker's next request.
        let kill = |pid| {
            is_killed = self.still_runs(running);
            if is_killed {
                sys::kill(pid, Signal::SIGKILL);
            }
        };
        sys::if_child_of(forker, pid, kill);
        is_killed.then_some(pid)
    }

    /// Kills a worker that holds more memory than its request may, and tells the front.
    fn weigh(&mut self, running: RunningRequest, most: u64) {
        let Some(&mut Slot::Live(pid)) = self.slot(running.lane, running.slot) else { return };
        let (id, lane) = place(running.lane);
        let forker = self.forker_pid(running.lane);
        let private = |pid: i32| sys::usage(pid).map_or(0, |usage| usage.private_kib);
        // The memory that a worker began with belongs to its forker: a snapshot may be large.
        let held = private(pid).saturating_sub(forker.map_or(0, private));
        if held <= most {
            return;
        }
        let request = self.request_of(id, lane, running.slot).map(|shown| shown.request);
        if self.kill_running(running).is_none() {
            return;
        }
        self.note_limit(running.lane, pid, Limit::Memory);
        self.front.send(&ToFront::TooHeavy { lane: running.lane, request: running.request }, &[]);
        let (name, request) = (self.application_name(id), request.unwrap_or_default());
        log(
            "warning",
            format_args!(
                "worker {pid} of {name} holds {held} KiB, and request_memory is {most} KiB: killed while it ran {request}"
            ),
        );
    }

    /// Notes why a worker was killed, for when it is reaped.
    fn note_limit(&mut self, of: LaneId, pid: i32, limit: Limit) {
        if let Some(generation) = self.generations.get_mut(of.generation) {
            generation.limited.insert(pid, limit);
        }
    }

    pub(crate) fn application_name(&self, id: GenerationId) -> &str {
        self.generations.get(id).map_or("", |generation| &generation.application.name)
    }

    /// Whether a worker still has the request it is to be killed for; it may have gone on to another.
    fn still_runs(&self, running: RunningRequest) -> bool {
        let (id, lane) = place(running.lane);
        let mailbox = self.generations.lane(id, lane).and_then(|lane| lane.mailbox.as_ref());
        let owner = mailbox.and_then(|mailbox| mailbox.slab.owner(running.request.exchange));
        owner.and_then(|word| Owner::unpack(word.load(Ordering::Acquire))).is_none_or(|owner| {
            owner.sequence == running.request.sequence
                && u32::from(owner.slot) == running.slot
                && owner.state != State::Done
        })
    }

    /// Kills a worker of a lane.
    pub(crate) fn kill_worker(&self, id: GenerationId, lane: usize, pid: i32) {
        let forker = self.generations.get(id).and_then(|generation| generation.forker(lane));
        Supervisor::kill_child_of(forker.map(|forker| forker.pid), pid);
    }

    /// Kills a child of that forker, or a child of this process if the forker is dead. Another process may have the same pid by now:
    /// that one is left alone.
    pub(crate) fn kill_child_of(forker: Option<i32>, pid: i32) {
        sys::if_child_of(forker, pid, |pid| sys::kill(pid, Signal::SIGKILL));
    }

    /// The mailbox that a message is about, unless the message is of an earlier epoch.
    fn mailbox(&mut self, of: LaneId) -> Option<&mut Mailbox> {
        let (id, lane) = place(of);
        let generation = self.generations.get_mut(id).filter(|_| of.epoch == self.front.epoch())?;
        generation.lanes.get_mut(lane)?.mailbox.as_mut()
    }

    fn slot(&mut self, of: LaneId, slot: u32) -> Option<&mut Slot> {
        self.mailbox(of)?.slots.get_mut(slot as usize)
    }

    fn forker_pid(&self, of: LaneId) -> Option<i32> {
        let (id, lane) = place(of);
        self.generations.get(id)?.forker(lane).map(|forker| forker.pid)
    }

    /// Handles the messages of a forker. They are about its own lane, but for a prototype's messages about templates.
    pub(crate) fn listen_to_forker(&mut self, id: GenerationId, lane: usize) {
        for _ in 0..TURN {
            let forker = self.generations.get(id).and_then(|generation| generation.forker(lane));
            let Some(forker) = forker else { return };
            let (message, attached) = match forker.channel.receive() {
                Ok(Received::Message(message, attached)) => (message, attached),
                Ok(Received::Nothing) => return,
                // A prototype that closes its end is about to die. A template may have been made to close it by the
                // application's code.
                Ok(Received::Closed) if lane == CLASSIC => return,
                Ok(Received::Closed) => return self.kill_template(id, lane),
                Err(error) => {
                    self.kill_template(id, lane);
                    let name = self.application_name(id);
                    return log("error", format_args!("a control message of PHP ({name}) cannot be read: {error}"));
                }
            };
            let is_prototype = lane == CLASSIC;
            match message {
                FromForker::PrototypeReady { bodies } if is_prototype => self.prototype_ready(id, bodies),
                FromForker::DataCounts { counts } if is_prototype => self.data_counted(id, counts),
                FromForker::FilesChanged if is_prototype => {
                    self.reload(|reload, generations| reload.files_changed(id, generations))
                }
                // The files that a lane's boot has loaded. Nothing follows but what the status says.
                FromForker::FilesChanged => {
                    self.generations.lane_mut(id, lane).into_iter().for_each(|lane| lane.is_outdated = true)
                }
                FromForker::TemplateSpawned { lane, pid } if is_prototype => {
                    self.template_started(id, lane as usize, Forked(Ok(pid)))
                }
                FromForker::TemplateNotSpawned { lane, error } if is_prototype => {
                    self.template_started(id, lane as usize, Forked(Err(error)))
                }
                FromForker::TemplateDead { lane, pid, status } if is_prototype => {
                    self.template_reaped(id, lane as usize, pid, status)
                }
                FromForker::TemplateReady { isolation, is_for_one_host, bodies } if !is_prototype => {
                    self.template_said_ready(id, lane, TemplateReady { isolation, is_for_one_host, bodies })
                }
                FromForker::Spawned { slot, pid, epoch } => self.worker_started(id, lane, slot, epoch, Forked(Ok(pid))),
                FromForker::NotSpawned { slot, error, epoch } => {
                    self.worker_started(id, lane, slot, epoch, Forked(Err(error)))
                }
                FromForker::Dead { slot, pid, status, epoch, processor_us } => {
                    self.worker_died(id, lane, WorkerDeath { slot, pid, status, epoch, processor_us })
                }
                FromForker::Traced { pid } => self.traced((id, lane), pid, &attached),
                FromForker::Pong => self.has_responded(id, lane),
                // The application's code can make a template send anything. These are not for a template to send.
                FromForker::PrototypeReady { .. }
                | FromForker::DataCounts { .. }
                | FromForker::TemplateSpawned { .. }
                | FromForker::TemplateNotSpawned { .. }
                | FromForker::TemplateDead { .. }
                | FromForker::TemplateReady { .. } => {}
            }
        }
    }

    fn prototype_ready(&mut self, id: GenerationId, bodies: Bodies) {
        let now = Instant::now();
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.prototype.iter_mut().for_each(|prototype| prototype.ready = true);
        generation.lanes.get_mut(CLASSIC).into_iter().for_each(|lane| lane.bodies = bodies);
        let lanes = generation.lanes.len();
        self.introduce(id, CLASSIC);
        for lane in 0..lanes {
            self.boot_if_missing(id, lane, now);
        }
        self.fill_slots(id, CLASSIC, now);
    }

    fn template_reaped(&mut self, id: GenerationId, lane: usize, pid: i32, status: i32) {
        let ending = Ending::from_status(status);
        let template = self.generations.lane_mut(id, lane).and_then(|lane| lane.template.as_mut());
        let Some(template) = template.filter(|template| pid > 0 && template.child.pid == pid) else { return };
        template.was_reaped(ending.is(Exit::NotAsked));
        self.template_died(id, lane, &Death::Ended(ending));
    }

    fn worker_started(&mut self, id: GenerationId, lane: usize, slot: u32, epoch: u64, forked: Forked) {
        let of = LaneId { epoch, ..self.lane_id(id, lane) };
        let forker = self.forker_pid(of);
        let Some(slot) = self.slot(of, slot).filter(|slot| **slot == Slot::Asked) else { return };
        if let Some(pid) = forked.child_of(forker) {
            *slot = Slot::Live(pid);
        } else {
            *slot = Slot::Empty;
            if self.shutdown.has_failed() {
                // The log has the first failure, with which the server ends.
                return;
            }
            let what = self.describe(id, lane);
            let failed = format!("{what}: a worker could not be forked: {}", forked.why(forker));
            let of_lane = self.generations.lane_mut(id, lane);
            let delay = of_lane.and_then(|lane| lane.restart.one_died(Duration::ZERO, false, Instant::now()));
            if let Some(delay) = delay {
                let key = format!("{what}: fork");
                log_again("error", &key, format_args!("{failed}"), format_args!("; next start in {delay:?}"));
            }
            if !forked.was_for_another_slab() {
                self.worker_is_missing(id, lane, &failed);
            }
            // Perhaps the forker never got the slab.
            self.introduce(id, lane);
        }
    }

    /// A generation that cannot have its workers takes no visitors' requests: the server does not start, a reload is refused.
    fn worker_is_missing(&mut self, id: GenerationId, lane: usize, why: &str) {
        let Some(generation) = self.generations.get(id).filter(|_| !self.shutdown.is_begun()) else { return };
        if self.announced {
            return self.reload.generation_failed(id, &why);
        }
        let entry = generation.lanes.get(lane).and_then(|lane| lane.entry.clone());
        let (name, what) = (generation.application.name.clone(), entry.unwrap_or_else(|| "PHP".to_owned()));
        self.shutdown.fail(Outcome::NotBooted(name, what));
    }

    /// A worker was reaped, by its forker or by this process.
    pub(crate) fn worker_died(&mut self, id: GenerationId, lane: usize, death: WorkerDeath) {
        let ending = Ending::from_status(death.status);
        if death.epoch != self.front.epoch() {
            let of_lane = self.generations.lane_mut(id, lane);
            return of_lane.into_iter().for_each(|lane| lane.retired.retain(|(pid, _)| *pid != death.pid));
        }
        let of = self.lane_id(id, lane);
        let Some(slot) = self.slot(of, death.slot) else { return };
        if !matches!(*slot, Slot::Live(pid) if pid == death.pid) && *slot != Slot::Asked {
            return;
        }
        *slot = Slot::Leaving;
        // A worker that came to wait for requests has started well, whatever killed it then. This is read before the front
        // clears the worker's line.
        let mailbox = self.mailbox(of);
        let has_begun = mailbox.as_ref().is_some_and(|mailbox| mailbox.has_begun(death.slot as usize));
        let had_request = mailbox.as_ref().is_some_and(|mailbox| mailbox.requests_of(death.slot as usize) > 0);
        let lived = mailbox.map_or(Duration::ZERO, |mailbox| mailbox.age(death.slot as usize));
        let worked = ending.is_regular() || has_begun;
        // Read before the front learns of the death: the front clears the exchange.
        let request = (!ending.is_regular()).then(|| self.request_of(id, lane, death.slot)).flatten();
        self.front.send(&ToFront::WorkerDead { lane: of, slot: death.slot }, &[]);
        if death.pid == 0 {
            // It was asked for and never forked: the forker has failed, not the lane.
            return;
        }
        // The log has said why the processes of such a generation are killed; only a request that is lost is news.
        let is_killed = self.generations.get(id).is_some_and(|one| matches!(one.stage, Stage::Killed(_)));
        if !ending.is_regular() && (request.is_some() || !is_killed) {
            let what = request.map_or("without a request".to_owned(), |one| format!("while it ran {}", one.request));
            self.worker_crashed(id, death.pid, ending, &what);
        }
        self.judge_isolation(id, lane, death.slot, ending);
        if had_request {
            self.note_fork(id, lane, ending, death.processor_us);
        }
        self.judge_phase(id, lane);
        if (ending.is(Exit::NotBooted) || ending.is(Exit::NotAsked)) && lane != CLASSIC {
            // Either a worker script does not reach its loop any more: classic mode serves until a trial shows that the script
            // reaches it again. Or requests cannot go on from the snapshot.
            if let Some(of_lane) = self.generations.lane_mut(id, lane) {
                let is_unfit = of_lane.isolation != Isolation::WorkerMode;
                of_lane.template.iter_mut().for_each(|template| template.mark_unfit(is_unfit));
            }
            self.kill_template(id, lane);
        }
        self.delay(id, lane, lived, worked);
    }

    /// A worker has ended as it should not.
    fn worker_crashed(&mut self, id: GenerationId, pid: i32, ending: Ending, what: &str) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.crashes += 1;
        let (name, ordinal, count) = (&generation.application.name, generation.ordinal, generation.crashes);
        log("warning", format_args!("worker {pid} of {name} {ending} {what} (crash {count} of generation {ordinal})"));
        generation.last_crash = Some((format!("worker {pid} {ending} {what}"), Instant::now()));
        self.suspect(id, pid, ending);
    }

    /// Notes a death that may have damaged what all workers of a generation share, and renews the generation after too many.
    fn suspect(&mut self, id: GenerationId, pid: i32, ending: Ending) {
        let now = self.began.elapsed();
        let Some(generation) = self.generations.get_mut(id) else { return };
        let why = match (generation.limited.remove(&pid), ending) {
            (Some(Limit::Time), _) => generation
                .suspicion
                .stuck(now)
                .then_some("two workers ran over their time; perhaps a lock is never released"),
            // If it held a lock, other workers get stuck, and that counts.
            (Some(Limit::Memory), _) => None,
            (None, ending) if ending.is(Exit::Unhealthy) => generation.suspicion.unhealthy(now).then_some(DAMAGED),
            (None, Ending::Killed(..)) => {
                generation.suspicion.crashed(now).then_some("its workers crash again and again")
            }
            (None, _) => None,
        };
        why.into_iter().for_each(|why| self.renew(id, why));
    }

    pub(crate) fn delay(&mut self, id: GenerationId, lane: usize, lived: Duration, worked: bool) {
        let Some(of_lane) = self.generations.lane_mut(id, lane) else { return };
        of_lane.served |= worked;
        if let Some(delay) = of_lane.restart.one_died(lived, worked, Instant::now()) {
            let what = self.describe(id, lane);
            let (key, failed) = (format!("{what}: start"), format!("{what}: a process failed soon after its start"));
            log_again("warning", &key, format_args!("{failed}"), format_args!("; next start in {delay:?}"));
        }
    }
}
