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
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::control::{Isolation, ToForker, ToFront};
use ipc::key::Key;
use ipc::layout::{Phase, Recycle};

use crate::lanes::generation::{Generation, GenerationId};
use crate::lanes::lane::{CLASSIC, Lane};
use crate::lanes::template::{Death, Forked, Template, TemplateEnd, TemplateReady};
use crate::logs::own::{log, log_again};
use crate::logs::repeated;
use crate::os::exited::Ending;
use crate::os::sys;
use crate::peers::boot;
use crate::peers::channel::send;
use crate::peers::channel::{Channel, Pair};
use crate::shutdown::Outcome;
use crate::supervisor::Supervisor;

/// How long a script that needs no lane is left alone.
const NO_LANE_PAUSE: Duration = Duration::from_secs(600);

impl Supervisor {
    /// What messages about a lane begin with.
    pub(crate) fn describe(&self, id: GenerationId, lane: usize) -> String {
        self.generations.get(id).map_or_else(String::new, |generation| generation.describe(lane))
    }

    pub(crate) fn boot_if_missing(&mut self, id: GenerationId, lane: usize, now: Instant) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        let Some(of_lane) = generation.lanes.get(lane) else { return };
        let Some(prototype) = generation.prototype.as_ref().filter(|prototype| prototype.ready) else { return };
        let is_wanted = !of_lane.prefers_classic() && of_lane.restart.is_due(now);
        if of_lane.template.is_some() || of_lane.has_workers() || !is_wanted {
            return;
        }
        let (head, (ours, theirs)) = match boot_request(generation, of_lane) {
            None => return,
            Some(Ok(made)) => made,
            Some(Err(error)) => return self.boot_failed(id, lane, &error, "", false),
        };
        let message = ToForker::Boot { lane: lane as u32, isolation: of_lane.isolation };
        send(&prototype.channel, &message, &[theirs.as_fd(), head.as_fd()]);
        let template = Template::new(ours, of_lane.ended_by_threads());
        if let Some(of_lane) = generation.lanes.get_mut(lane) {
            of_lane.template = Some(template);
        }
    }

    /// What the prototype says of a template: forked, or not.
    pub(crate) fn template_started(&mut self, id: GenerationId, lane: usize, forked: Forked) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        let prototype = generation.prototype.as_ref().map(|prototype| prototype.pid);
        let is_ending = self.shutdown.is_begun() || generation.is_ending();
        let Some(template) = generation.lanes.get_mut(lane).and_then(|lane| lane.template.as_mut()) else { return };
        if template.child.pid != 0 {
            return;
        }
        if let Some(pid) = forked.child_of(prototype) {
            template.child.pid = pid;
            if template.child.ready {
                self.template_ready(id, lane);
            } else if is_ending {
                self.kill_template(id, lane);
            }
        } else {
            self.template_died(id, lane, &Death::NeverWas(forked.why(prototype)));
        }
    }

    /// Its snapshot is taken. Told by the template, on another way than its pid.
    pub(crate) fn template_said_ready(&mut self, id: GenerationId, lane: usize, said: TemplateReady) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        let application = generation.application.clone();
        let Some(of_lane) = generation.lanes.get_mut(lane) else { return };
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
        of_lane.is_outdated = false;
        of_lane.bodies = said.bodies;
        of_lane.begins_comparison(said.isolation, application.compares);
        let got = match said.isolation {
            Isolation::WorkerMode => "worker mode",
            Isolation::Fork => "isolation fork",
            Isolation::Auto | Isolation::Rewind => "isolation rewind",
            Isolation::Userfaultfd => "isolation rewind (userfaultfd)",
            Isolation::SoftDirty => "isolation rewind (soft-dirty)",
        };
        let what = self.describe(id, lane);
        repeated::works(&boots(&what));
        log("notice", format_args!("{what} is booted, {got}"));
        if is_known {
            self.template_ready(id, lane);
        }
    }

    fn template_ready(&mut self, id: GenerationId, lane: usize) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.lanes.get_mut(lane).into_iter().for_each(|lane| lane.has_failed = false);
        if !self.shutdown.is_begun() && !generation.is_ending() {
            self.introduce(id, lane);
            self.fill_slots(id, lane, Instant::now());
        }
    }

    /// A template was reaped, by its prototype or by us, or never came to be.
    pub(crate) fn template_died(&mut self, id: GenerationId, lane: usize, how: &Death) {
        if lane != CLASSIC {
            // What it said before it died counts.
            self.listen_to_forker(id, lane);
        }
        let is_stopping = self.shutdown.is_begun();
        let down = ToFront::LaneDown { lane: self.lane_id(id, lane) };
        let Some(generation) = self.generations.get_mut(id) else { return };
        let is_expected = is_stopping || generation.prototype.is_none() || generation.is_ending();
        let limit = generation.application.boot_timeout;
        let Some(of_lane) = generation.lanes.get_mut(lane) else { return };
        let has_served = of_lane.has_served();
        let Some(template) = of_lane.template.take() else { return };
        of_lane.served = false;
        if template.is_leaving() && !is_stopping {
            of_lane.mailbox.iter().for_each(|mailbox| mailbox.slab.set_phase(Phase::Open));
        }
        self.front.send(&down, &[]);
        match template.end(is_expected) {
            TemplateEnd::Expected => {}
            TemplateEnd::Late => self.boot_failed(id, lane, &format_args!("it took longer than {limit:?}"), "", false),
            TemplateEnd::NotBooted { wants_no_lane } => {
                self.boot_failed(id, lane, &format_args!("its process {how}"), how.hint(), wants_no_lane)
            }
            TemplateEnd::Unfit => {
                self.boot_failed(id, lane, &"a request could not continue from its snapshot", Ending::IN_LOG, false);
            }
            TemplateEnd::Died => {
                let (what, pid) = (self.describe(id, lane), template.child.pid);
                let consequence = "its requests run in classic mode until another is booted";
                let (key, failed) = (format!("{what}: template"), format!("{what}: its template {how}"));
                let then = format!(" (process {pid}); {consequence}");
                log_again("error", &key, format_args!("{failed}"), format_args!("{then}"));
                if !has_served {
                    self.needs_no_waiting(id, lane);
                }
                self.delay(id, lane, template.child.since.elapsed(), has_served);
            }
        }
        self.adopt_orphans(id, lane);
    }

    /// A lane whose workers cannot begin is not waited for at the start: other applications' visitors would wait with its own. A
    /// reload goes on waiting, and is refused in the end.
    fn needs_no_waiting(&mut self, id: GenerationId, lane: usize) {
        let of_lane = self.generations.lane_mut(id, lane).filter(|_| !self.announced);
        of_lane.into_iter().for_each(|lane| lane.has_failed = true);
    }

    /// `hint` is what a refused reload says of the reason beside it: the log has the reason above its own line.
    fn boot_failed(&mut self, id: GenerationId, lane: usize, why: &dyn Display, hint: &str, wants_no_lane: bool) {
        let what = self.describe(id, lane);
        let Some(generation) = self.generations.get_mut(id) else { return };
        let name = generation.application.name.clone();
        let Some(of_lane) = generation.lanes.get_mut(lane) else { return };
        of_lane.has_failed = true;
        // It ran to its end: nothing is broken, and the next time it does the same.
        let pause = Some(NO_LANE_PAUSE).filter(|_| wants_no_lane && !of_lane.is_required);
        let delay = of_lane.restart.failed(pause, Instant::now());
        let is_required = of_lane.is_required;
        let Some(of_lane) = self.generations.get(id).and_then(|one| one.lanes.get(lane)) else { return };
        if is_required && !self.announced && !self.following.is_on() {
            let entry = of_lane.entry.clone().unwrap_or_default();
            log("error", format_args!("{what} did not boot: {why}"));
            return self.shutdown.fail(Outcome::NotBooted(name, entry));
        }
        // New code may do without what the old code asked for.
        // Under development, classic mode shows what is wrong.
        if !self.following.is_on() && (is_required || !wants_no_lane && self.is_served_now(id, lane)) {
            let refusal = format!("{what} did not boot: {why}{hint}");
            self.reload.generation_failed(id, &refusal);
        }
        let then = format!("; its requests run in classic mode; next boot in {delay:?}");
        log_again("error", &boots(&what), format_args!("{what} did not boot: {why}"), format_args!("{then}"));
    }

    /// Whether the generation that a new one is to replace has this entry booted.
    fn is_served_now(&self, id: GenerationId, lane: usize) -> bool {
        let Some(generation) = self.generations.get(id) else { return false };
        let Some(of_lane) = generation.lanes.get(lane) else { return false };
        let current = self.reload.current().iter().filter_map(|id| self.generations.get(*id));
        let same = current.filter(|one| one.application.name == generation.application.name);
        same.flat_map(|one| &one.lanes).any(|one| {
            let is_this = one.entry.as_ref().is_some_and(|entry| of_lane.boots(entry, &generation.application));
            is_this && one.template.as_ref().is_some_and(|template| template.child.ready)
        })
    }

    /// The templates of a dead prototype have been killed by the kernel and are ours to reap now, unless it had reaped
    /// them itself.
    pub(crate) fn adopt_templates(&mut self, id: GenerationId) {
        let lanes = self.generations.get(id).map_or(0, |generation| generation.lanes.len());
        for lane in CLASSIC + 1..lanes {
            let template = self.generations.lane(id, lane).and_then(|lane| lane.template.as_ref());
            let Some(pid) = template.map(|template| template.child.pid) else { continue };
            self.front.send(&ToFront::LaneDown { lane: self.lane_id(id, lane) }, &[]);
            // One whose pid we were not told is not waited for: it has no worker and dies all the same.
            let reaped = if pid > 0 { sys::reap(Some(pid)) } else { sys::Reaped::NoChild };
            match reaped {
                sys::Reaped::Dead(_, status) => {
                    self.template_died(id, lane, &Death::Ended(Ending::from_status(status)))
                }
                sys::Reaped::Nobody => self.kill_template(id, lane),
                sys::Reaped::NoChild => self.template_died(id, lane, &Death::WithPrototype),
            }
        }
    }

    pub(crate) fn kill_template(&self, id: GenerationId, lane: usize) {
        let Some(generation) = self.generations.get(id) else { return };
        let prototype = generation.prototype.as_ref().map(|prototype| prototype.pid);
        if let Some(template) = generation.forker(lane) {
            Supervisor::kill_child_of(prototype, template.pid);
        }
    }

    /// When a template has to be ready, or gone.
    pub(crate) fn template_deadline(&self, id: GenerationId, lane: usize) -> Option<Instant> {
        let generation = self.generations.get(id)?;
        let template = generation.lanes.get(lane)?.template.as_ref()?;
        template.deadline(generation.application.boot_timeout, self.reload.plan().drain_timeout)
    }

    /// Ends what takes too long: boots, templates that are to leave, workers of earlier fronts.
    pub(crate) fn end_overdue(&mut self) {
        let now = Instant::now();
        self.end_overdue_generations();
        for (id, lane) in self.all_lanes() {
            if self.template_deadline(id, lane).is_some_and(|deadline| now >= deadline) {
                self.kill_template(id, lane);
                let of_lane = self.generations.lane_mut(id, lane);
                of_lane.and_then(|lane| lane.template.as_mut()).into_iter().for_each(Template::mark_overdue);
            }
            self.end_hung_scripts(id, lane);
            let limit = self.reload.plan().drain_timeout;
            let retired = self.generations.lane(id, lane).map_or(&[][..], |lane| &lane.retired);
            for (pid, _) in retired.iter().filter(|(_, since)| now.saturating_duration_since(*since) > limit) {
                self.kill_worker(id, lane, *pid);
            }
        }
    }

    /// Whoever waits for a boot learns from the log that it goes on.
    pub(crate) fn tell_long_boots(&mut self) {
        let now = Instant::now();
        for (id, lane) in self.all_lanes() {
            let forker = self.generations.get_mut(id).and_then(|generation| generation.forker_mut(lane));
            let Some(seconds) = forker.and_then(|forker| forker.takes_long(now)) else { continue };
            let what = match lane {
                CLASSIC => format!("application '{}': PHP is starting", self.application_name(id)),
                _ => format!("{} is booting", self.describe(id, lane)),
            };
            log("notice", format_args!("{what}, {seconds} s"));
        }
    }

    /// A worker script that does not come to its loop, or back to it after a request, takes no requests and ends by nothing
    /// else.
    fn end_hung_scripts(&mut self, id: GenerationId, lane: usize) {
        let Some(generation) = self.generations.get(id) else { return };
        let limit = generation.application.boot_timeout;
        let Some(of_lane) = generation.lanes.get(lane).filter(|lane| lane.isolation == Isolation::WorkerMode) else {
            return;
        };
        for pid in of_lane.hung_workers(limit, |then| self.rate.since(then)) {
            let what = self.describe(id, lane);
            log("warning", format_args!("{what}: worker {pid} did not reach its loop within {limit:?} and is killed"));
            self.kill_worker(id, lane, pid);
            self.needs_no_waiting(id, lane);
        }
    }

    /// Counts the requests of a dead worker. If threads end too many of them, a process for each request is the way: once,
    /// and only where the choice is ours.
    pub(crate) fn judge_isolation(&mut self, id: GenerationId, lane: usize, slot: u32, ending: Ending) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        let is_ours = generation.application.isolation == Isolation::Auto;
        let Some(of_lane) = generation.lanes.get_mut(lane) else { return };
        let Some((threads, requests)) = of_lane.judge_isolation(slot as usize, ending, is_ours) else { return };
        self.let_template_leave(id, lane);
        let why = format!("{threads} of {requests} requests left threads running");
        log("warning", format_args!("{}: {why}; it boots again with isolation fork", self.describe(id, lane)));
    }
}

/// The request that a template boots with, and the two ends of its channel; nothing for a classic lane.
fn boot_request(
    generation: &Generation,
    lane: &Lane,
) -> Option<io::Result<(OwnedFd, Pair<ToForker, ipc::control::FromForker>)>> {
    let (application, key) = (&generation.application, lane.key()?);
    let origin = key.origin.unwrap_or(application.first_origin());
    let head = boot::head(application.root_of(key.script), key.script, origin, lane.isolation == Isolation::WorkerMode)
        .map_err(|_| io::Error::other("its request is too large"))
        .and_then(|head| boot::file(&head));
    Some(head.and_then(|head| Ok((head, Channel::pair()?))))
}

impl Lane {
    /// Workers of this lane that threads have ended, by what the slab says.
    fn ended_by_threads(&self) -> u64 {
        let count = |slab: &ipc::slab::Slab| slab.recycles().get(Recycle::Threads as usize).map(counted);
        self.mailbox.as_ref().and_then(|mailbox| count(&mailbox.slab)).unwrap_or(0)
    }

    /// Counts the requests of a dead worker. If threads end too many workers of this lane, and a process for each request is an
    /// option, the lane takes that from now on. Returns the numbers that show it then.
    fn judge_isolation(&mut self, slot: usize, ending: Ending, is_ours: bool) -> Option<(u64, u64)> {
        let ended = self.ended_by_threads();
        let (template, mailbox) = (self.template.as_mut()?, self.mailbox.as_ref()?);
        template.count_requests(mailbox.requests_of(slot));
        let may_change = is_ours && self.isolation == Isolation::Auto && !template.is_leaving();
        if !may_change || !template.child.ready || !ending.is(ipc::exit::Exit::Recycle) {
            return None;
        }
        let live = mailbox.live_workers().fold(0, |sum: u64, (slot, _)| sum.saturating_add(mailbox.requests_of(slot)));
        let numbers = template.suffers_from_threads(ended, live)?;
        self.isolation = Isolation::Fork;
        Some(numbers)
    }
}

/// The source of errors of a lane's boots.
fn boots(what: &str) -> String {
    format!("{what}: boot")
}

fn counted(count: &ipc::atomics::AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
