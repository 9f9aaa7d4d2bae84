//! Lanes with a template: a process, forked by the prototype, that has booted an entry up to its snapshot and forks the
//! lane's workers from that.
//!
//! | a template | then |
//! |---|---|
//! | is missing | `Boot` to the prototype, with its control socket and a request to boot with |
//! | is forked (`TemplateSpawned`), ready (`TemplateReady`) | slab to it and to the front, workers are asked for |
//! | dies booting, or takes too long | classic serves; another try, after a delay |
//! | dies later | `LaneDown` and `WorkerDead` to the front, orphans are reaped, it is booted anew |
//! | is to be replaced | `LaneDown`, `Drain`; it ends with its last worker |

use std::fmt::Display;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::control::{Isolation, ToForker, ToFront};
use wire::exit::Exit;
use wire::key::Key;
use wire::layout::{Activity, Phase, Recycle};

use super::child::Child;
use super::generation::GenerationId;
use super::lane::CLASSIC;
use super::template::{Forked, Template, TemplateReady};
use super::{Outcome, Supervisor, log, send};
use crate::boot;
use crate::channel::Channel;
use crate::plan::{Ending, Slot, is_fork_better};
use crate::sys;

/// How long a script that needs no lane is left alone.
const UNASKED: Duration = Duration::from_secs(600);

impl Supervisor {
    /// What messages about a lane begin with.
    pub(super) fn describe(&self, id: GenerationId, lane: usize) -> String {
        let entry = self.generations[id].lanes[lane].entry.as_deref().unwrap_or("classic mode");
        format!("application '{}': {entry}", self.generations[id].application.name)
    }

    pub(super) fn boot_if_missing(&mut self, id: GenerationId, lane: usize, now: Instant) {
        let generation = &self.generations[id];
        let of_lane = &generation.lanes[lane];
        let Some(key) = of_lane.key() else { return };
        let Some(prototype) = generation.prototype.as_ref().filter(|prototype| prototype.ready) else { return };
        if of_lane.template.is_some() || of_lane.has_workers() || !of_lane.restart.is_due(now) {
            return;
        }
        let application = &self.generations[id].application;
        let origin = key.origin.unwrap_or(application.first_origin());
        let booted = boot::head(&application.root, key.script, origin, of_lane.isolation == Isolation::WorkerMode)
            .map_err(|_| std::io::Error::other("its request is too large"))
            .and_then(|head| boot::file(&head))
            .and_then(|head| Ok((head, Channel::pair()?)));
        let (head, (ours, theirs)) = match booted {
            Ok(made) => made,
            Err(error) => return self.boot_failed(id, lane, &error, false),
        };
        let message = ToForker::Boot { lane: lane as u32, isolation: of_lane.isolation };
        send(&prototype.channel, &message, &[theirs.as_fd(), head.as_fd()]);
        let ended = of_lane.mailbox.as_ref().map(|mailbox| &mailbox.slab.recycles()[Recycle::Threads as usize]);
        let template = Template {
            child: Child::new(0, ours),
            leaving: None,
            is_late: false,
            is_unasked: false,
            is_unfit: false,
            requests: 0,
            threads_before: ended.map_or(0, |count| count.load(Ordering::Relaxed)),
        };
        self.generations[id].lanes[lane].template = Some(template);
    }

    /// What the prototype says of a template: forked, or not.
    pub(super) fn template_started(&mut self, id: GenerationId, lane: usize, forked: Forked) {
        let generation = &mut self.generations[id];
        let prototype = generation.prototype.as_ref().map(|prototype| prototype.pid);
        let Some(template) = generation.lanes.get_mut(lane).and_then(|lane| lane.template.as_mut()) else { return };
        if template.child.pid != 0 {
            return;
        }
        if let Some(pid) = forked.child_of(prototype) {
            template.child.pid = pid;
            if template.child.ready {
                self.template_ready(id, lane);
            } else if self.shutdown.is_begun() || self.generations[id].is_ending() {
                self.kill_template(id, lane);
            }
        } else {
            self.template_died(id, lane, &format_args!("could not be forked: {}", forked.why()));
        }
    }

    /// Its snapshot is taken. Told by the template, on another way than its pid.
    pub(super) fn template_said_ready(&mut self, id: GenerationId, lane: usize, said: TemplateReady) {
        let application = self.generations[id].application.clone();
        let of_lane = &mut self.generations[id].lanes[lane];
        let is_narrower = said.is_for_one_host && of_lane.key().is_some_and(|key| key.origin.is_none());
        if is_narrower && of_lane.mailbox.as_ref().is_some_and(|mailbox| mailbox.is_told) {
            // Code has changed under it, and requests of any host may wait in its queue.
            self.kill_template(id, lane);
            return self.renew(id, "a script now asks for a snapshot per host");
        }
        if is_narrower {
            let origin = Some(application.first_origin());
            of_lane.entry = of_lane.key().map(|key| Key { origin, ..key }.to_string());
        }
        let Some(template) = of_lane.template.as_mut().filter(|template| !template.child.ready) else { return };
        template.child.ready = true;
        let is_known = template.child.pid > 0;
        of_lane.bodies = said.bodies;
        let got = match said.isolation {
            Isolation::WorkerMode => "worker mode",
            Isolation::Fork => "isolation fork",
            Isolation::Auto | Isolation::Rewind => "isolation rewind",
        };
        log("notice", format_args!("{} is booted, {got}", self.describe(id, lane)));
        if is_known {
            self.template_ready(id, lane);
        }
    }

    fn template_ready(&mut self, id: GenerationId, lane: usize) {
        self.generations[id].lanes[lane].has_failed = false;
        if !self.shutdown.is_begun() && !self.generations[id].is_ending() {
            self.introduce(id, lane);
            self.fill_slots(id, lane, Instant::now());
        }
    }

    /// A template was reaped, by its prototype or by us, or never came to be.
    pub(super) fn template_died(&mut self, id: GenerationId, lane: usize, how: &dyn Display) {
        if lane != CLASSIC {
            // What it said before it died counts.
            self.listen_to_forker(id, lane);
        }
        let down = ToFront::LaneDown { lane: self.lane_id(id, lane) };
        let has_prototype = self.generations[id].prototype.is_some();
        let is_ending = self.generations[id].is_ending();
        let slots = self.generations[id].lanes[lane].mailbox.as_ref().map_or(0, |mailbox| mailbox.slots.len());
        let has_served = (0..slots as u32).any(|slot| self.has_worked(id, lane, slot));
        let of_lane = &mut self.generations[id].lanes[lane];
        let has_served = of_lane.served || has_served;
        let Some(template) = of_lane.template.take() else { return };
        self.front.send(&down, &[]);
        let is_expected = template.leaving.is_some() || self.shutdown.is_begun() || !has_prototype || is_ending;
        if template.leaving.is_some() && !self.shutdown.is_begun() {
            if let Some(mailbox) = &of_lane.mailbox {
                mailbox.slab.set_phase(Phase::Open);
            }
        }
        of_lane.served = false;
        if !is_expected && !template.child.ready {
            let limit = self.generations[id].application.boot_timeout;
            match template.is_late {
                true => self.boot_failed(id, lane, &format_args!("it took longer than {limit:?}"), false),
                false => self.boot_failed(id, lane, &format_args!("its process {how}"), template.is_unasked),
            }
        } else if !is_expected && template.is_unfit {
            self.boot_failed(id, lane, &"a request could not continue from its snapshot", false);
        } else if !is_expected {
            let what = self.describe(id, lane);
            let pid = template.child.pid;
            log(
                "error",
                format_args!(
                    "{what}: its template (process {pid}) {how}; its requests run in classic mode until another is booted"
                ),
            );
            if !has_served {
                self.needs_no_waiting(id, lane);
            }
            self.delay(id, lane, template.child.since.elapsed(), has_served);
        }
        self.adopt_orphans(id, lane);
    }

    /// A lane whose workers cannot begin is not waited for at the start: other applications' visitors would wait with its own. A
    /// reload goes on waiting, and is refused in the end.
    fn needs_no_waiting(&mut self, id: GenerationId, lane: usize) {
        if !self.announced {
            self.generations[id].lanes[lane].has_failed = true;
        }
    }

    fn boot_failed(&mut self, id: GenerationId, lane: usize, why: &dyn Display, is_unasked: bool) {
        let what = self.describe(id, lane);
        let name = self.generations[id].application.name.clone();
        let of_lane = &mut self.generations[id].lanes[lane];
        of_lane.has_failed = true;
        // It ran to its end: nothing is broken, and the next time it does the same.
        let unasked = Some(UNASKED).filter(|_| is_unasked && !of_lane.is_required);
        let delay = of_lane.restart.failed(unasked, Instant::now());
        if of_lane.is_required && !self.announced {
            let entry = of_lane.entry.clone().unwrap_or_default();
            log("error", format_args!("{what} did not boot: {why}"));
            self.shutdown.fail(Outcome::NotBooted(name, entry));
            return;
        }
        // New code may do without what the old code asked for.
        let is_required = self.generations[id].lanes[lane].is_required;
        if is_required || !is_unasked && self.is_served_now(id, lane) {
            self.reload.generation_failed(id, &format_args!("{what} did not boot: {why}; PHP's message is in the log"));
        }
        let consequence = format_args!("its requests run in classic mode; next boot in {delay:?}");
        log("error", format_args!("{what} did not boot: {why}; {consequence}"));
    }

    /// Whether the generation that a new one is to replace has this entry booted.
    fn is_served_now(&self, id: GenerationId, lane: usize) -> bool {
        let generation = &self.generations[id];
        let current = self.reload.current().iter().filter_map(|id| self.generations.get(*id));
        current.filter(|one| one.application.name == generation.application.name).flat_map(|one| &one.lanes).any(
            |one| {
                let is_this = |entry: &String| generation.lanes[lane].boots(entry, &generation.application);
                one.entry.as_ref().is_some_and(is_this)
                    && one.template.as_ref().is_some_and(|template| template.child.ready)
            },
        )
    }

    /// The templates of a dead prototype have been killed by the kernel and are ours to reap now, unless it had reaped
    /// them itself.
    pub(super) fn adopt_templates(&mut self, id: GenerationId) {
        for lane in 1..self.generations[id].lanes.len() {
            let Some(template) = &self.generations[id].lanes[lane].template else { continue };
            self.front.send(&ToFront::LaneDown { lane: self.lane_id(id, lane) }, &[]);
            // One whose pid we were not told is not waited for: it has no worker and dies all the same.
            let pid = template.child.pid;
            let reaped = if pid > 0 { sys::reap(Some(pid)) } else { sys::Reaped::NoChild };
            match reaped {
                sys::Reaped::Dead(_, status) => self.template_died(id, lane, &Ending::from_status(status)),
                sys::Reaped::Nobody => self.kill_template(id, lane),
                sys::Reaped::NoChild => self.template_died(id, lane, &"died with its prototype"),
            }
        }
    }

    pub(super) fn kill_template(&self, id: GenerationId, lane: usize) {
        let prototype = self.generations[id].prototype.as_ref().map(|prototype| prototype.pid);
        if let Some(template) = self.generations[id].forker(lane) {
            Supervisor::kill_child_of(prototype, template.pid);
        }
    }

    /// When a template has to be ready, or gone.
    pub(super) fn template_deadline(&self, id: GenerationId, lane: usize) -> Option<Instant> {
        let template = self.generations[id].lanes[lane].template.as_ref()?;
        match template.leaving {
            Some(since) => Some(since + self.reload.plan().drain_timeout),
            None if template.child.ready => None,
            None => Some(template.child.since + self.generations[id].application.boot_timeout),
        }
    }

    /// Ends what takes too long: boots, templates that are to leave, workers of earlier fronts.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        self.end_overdue_generations();
        for (id, lane) in self.all_lanes() {
            if self.template_deadline(id, lane).is_some_and(|deadline| now >= deadline) {
                self.kill_template(id, lane);
                self.generations[id].lanes[lane].template.iter_mut().for_each(|template| template.is_late = true);
            }
            self.end_hung_scripts(id, lane);
            for (pid, since) in &self.generations[id].lanes[lane].retired {
                if since.elapsed() > self.reload.plan().drain_timeout {
                    self.kill_worker(id, lane, *pid);
                }
            }
        }
    }

    /// A worker script that does not come to its loop, or back to it after a request, takes no requests and ends by nothing
    /// else.
    fn end_hung_scripts(&mut self, id: GenerationId, lane: usize) {
        let generation = &self.generations[id];
        let (of_lane, limit) = (&generation.lanes[lane], generation.application.boot_timeout);
        let Some(mailbox) = of_lane.mailbox.as_ref().filter(|_| of_lane.isolation == Isolation::WorkerMode) else {
            return;
        };
        let mut hung = Vec::new();
        for (slot, state) in mailbox.slots.iter().enumerate() {
            let (Slot::Live(pid), Some(line)) = (state, mailbox.slab.slot(slot)) else { continue };
            let took = match line.activity.load(Ordering::Relaxed) {
                activity if activity == Activity::Empty as u32 => Some(mailbox.started[slot].elapsed()),
                activity if activity == Activity::Booting as u32 => self.rate.since(line.since.load(Ordering::Relaxed)),
                _ => None,
            };
            if took.is_some_and(|took| took > limit) {
                hung.push(*pid);
            }
        }
        for pid in hung {
            let what = self.describe(id, lane);
            log("warning", format_args!("{what}: worker {pid} did not reach its loop within {limit:?} and is killed"));
            self.kill_worker(id, lane, pid);
            self.needs_no_waiting(id, lane);
        }
    }

    /// Whether a worker has come to wait for requests. Its own word: it delays a new start or does not.
    pub(super) fn has_worked(&self, id: GenerationId, lane: usize, slot: u32) -> bool {
        let mailbox = self.generations[id].lanes[lane].mailbox.as_ref();
        mailbox.is_some_and(|mailbox| mailbox.has_begun(slot as usize))
    }

    /// Counts the requests of a dead worker. If threads end too many of them, a process for each request is the way: once,
    /// and only where the choice is ours.
    pub(super) fn judge_isolation(&mut self, id: GenerationId, lane: usize, slot: u32, ending: Ending) {
        let is_ours = self.generations[id].application.isolation == Isolation::Auto;
        let down = ToFront::LaneDown { lane: self.lane_id(id, lane) };
        let of_lane = &mut self.generations[id].lanes[lane];
        let (Some(template), Some(mailbox)) = (&mut of_lane.template, &of_lane.mailbox) else { return };
        let requests_of = |slot| mailbox.slab.slot(slot).map_or(0, |line| line.requests.load(Ordering::Relaxed));
        template.requests = template.requests.saturating_add(requests_of(slot as usize));
        let may_change = is_ours && of_lane.isolation == Isolation::Auto && template.leaving.is_none();
        if !may_change || !template.child.ready || !ending.is(Exit::Recycle) {
            return;
        }
        let ended = mailbox.slab.recycles()[Recycle::Threads as usize].load(Ordering::Relaxed);
        let threads = ended.saturating_sub(template.threads_before);
        let live = mailbox.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Live(_)));
        let requests = live.fold(template.requests, |sum, (slot, _)| sum.saturating_add(requests_of(slot)));
        if is_fork_better(threads, requests) {
            of_lane.isolation = Isolation::Fork;
            template.leaving = Some(Instant::now());
            mailbox.slab.set_phase(Phase::Draining);
            send(&template.child.channel, &ToForker::Drain, &[]);
            self.front.send(&down, &[]);
            let why = format_args!("{threads} of {requests} requests left threads running");
            log("warning", format_args!("{}: {why}; it boots again with isolation fork", self.describe(id, lane)));
        }
    }
}
