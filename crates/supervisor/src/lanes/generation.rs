//! Generations: one prototype each, with everything forked from it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ipc::control::{Isolation, MAX_LANES};
use ipc::key::Key;
use ipc::layout::Phase;

use crate::lanes::eviction::LaneEviction;
use crate::lanes::lane::{CLASSIC, Lane};
use crate::lanes::template::Template;
use crate::logs::output::Output;
use crate::logs::own::log;
use crate::peers::child::Forker;
use crate::plan::Suspicion;
use crate::settings::service::{Application, Entry, Programs};

/// Names a generation, in messages too. An id is never used again.
pub(crate) type GenerationId = u32;

/// In which part of its life a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is made ready beside the one that serves.
    Booting,
    /// New requests go to it.
    Serving,
    /// The front finishes the requests that it has there, since then.
    Draining(Instant),
    /// Its processes end, since then.
    Ending(Instant),
    /// Its processes are killed and not all reaped, since then.
    Killed(Instant),
}

/// How far the warm-up of a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmupState {
    NotBegun,
    /// The front makes its requests.
    UnderWay,
    /// They are made, and its pages are to be compared with those of classic mode.
    Unverified,
    /// A child compares them.
    Verifying,
    /// Or there is nothing to be done.
    Done,
}

/// What a worker is killed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// `request_timeout`.
    Time,
    /// `request_memory`.
    Memory,
}

/// One generation of an application.
pub(crate) struct Generation {
    pub(crate) application: Rc<Application>,
    /// What its prototype is started with.
    pub(crate) programs: Programs,
    /// Counts the generations of its application, from 1.
    pub(crate) ordinal: u32,
    pub(crate) stage: Stage,
    pub(crate) suspicion: Suspicion,
    /// Workers that have crashed, or ended with an error.
    pub(crate) crashes: u64,
    /// The last of them, in words, and when.
    pub(crate) last_crash: Option<(String, Instant)>,
    pub(crate) warmup: WarmupState,
    /// Paths whose pages differ from those of classic mode, in which they stay.
    pub(crate) stays_classic: BTreeSet<String>,
    pub(crate) eviction: LaneEviction,
    /// Keys that were looked at and get no lane in this generation.
    pub(crate) refused: BTreeSet<String>,
    /// Workers that were killed for a limit.
    pub(crate) limited: BTreeMap<i32, Limit>,
    pub(crate) prototype: Option<Forker>,
    /// Classic first.
    pub(crate) lanes: Vec<Lane>,
    /// The pipe of PHP's standard output.
    pub(crate) output: Output,
    /// That of its standard error.
    pub(crate) errors: Output,
    /// Scripts that a child looks for and whose lanes have to serve before visitors come.
    pub(crate) sought: usize,
}

/// All generations that have processes, by id.
#[derive(Default)]
pub(crate) struct Generations {
    list: BTreeMap<GenerationId, Generation>,
    next: GenerationId,
    /// How many of an application may drain at once.
    pub(crate) may_drain: usize,
}

impl Generation {
    /// Chooses lanes to evict, if `may_evict` and keys wait that are asked for more. Returns why a new generation is needed then.
    pub(crate) fn look_for_eviction(&mut self, may_evict: bool, now: Instant) -> Option<String> {
        self.eviction.look(&mut self.lanes, &self.application, may_evict, now)
    }

    /// Without any process yet.
    pub(crate) fn new(
        application: &Rc<Application>,
        programs: Programs,
        ordinal: u32,
        stage: Stage,
    ) -> io::Result<Generation> {
        let (name, is_decorated) = (&application.name, application.decorates_output);
        let now = Instant::now();
        let entries = application.entries.iter().map(|entry| Lane::of(entry, now));
        Ok(Generation {
            application: application.clone(),
            programs,
            ordinal,
            stage,
            suspicion: Suspicion::default(),
            crashes: 0,
            last_crash: None,
            warmup: WarmupState::NotBegun,
            stays_classic: BTreeSet::new(),
            eviction: LaneEviction::default(),
            refused: BTreeSet::new(),
            limited: BTreeMap::new(),
            prototype: None,
            lanes: std::iter::once(Lane::classic(now)).chain(entries).collect(),
            output: Output::of_output(name, is_decorated)?,
            errors: Output::of_errors(name, is_decorated)?,
            sought: 0,
        })
    }

    /// Adds the lanes that another generation of the application got while it ran. Each begins with as many workers as it had there.
    /// `present` names scripts that are files in the root.
    pub(crate) fn inherit(&mut self, other: &Generation, present: &BTreeSet<String>) {
        for entry in other.successor_entries() {
            let (text, Some(key)) = (&entry.script, Key::parse(&entry.script)) else { continue };
            let application = &self.application;
            let is_known = self.lanes.iter().any(|own| own.boots(text, application));
            let is_there =
                present.contains(key.script) && key.origin.is_none_or(|origin| application.answers_to(origin));
            if is_known || application.classic.contains(key.script) || !is_there || self.lanes.len() >= MAX_LANES {
                continue;
            }
            self.lanes.push(Lane::of(&entry, Instant::now()));
        }
        for lane in &mut self.lanes {
            if let Some(same) = other.lanes.iter().find(|one| one.entry == lane.entry) {
                lane.target.inherit(&same.target);
                lane.used.times = same.used.times;
            }
        }
        let (lanes, application) = (&self.lanes, &self.application);
        self.eviction.inherit(&other.eviction, |key| lanes.iter().any(|lane| lane.boots(key, application)));
    }

    /// Whether requests of that key have a lane.
    pub(crate) fn has_lane_for(&self, key: &str) -> bool {
        self.lanes.iter().any(|lane| lane.boots(key, &self.application))
    }

    /// Entries that the next generation may get from this one.
    pub(crate) fn successor_entries(&self) -> Vec<Entry> {
        let staying =
            self.lanes.iter().skip(CLASSIC + 1).filter(|lane| !self.eviction.evicts(lane)).filter_map(|lane| {
                let is_worker_mode = lane.isolation == Isolation::WorkerMode;
                Some(Entry { script: lane.entry.clone()?, is_required: false, is_worker_mode })
            });
        staying.chain(self.eviction.waiting()).collect()
    }

    /// The front has died. Workers end after their request, whose response nobody can read any more. A warm-up that was under way
    /// begins again with the next front.
    pub(crate) fn front_died(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            if let Some(mailbox) = lane.mailbox.take() {
                mailbox.slab.set_phase(Phase::Closed);
                lane.retired.extend(mailbox.live_workers().map(|(_, pid)| (pid, now)));
            }
        }
        if self.warmup != WarmupState::Done {
            self.warmup = WarmupState::NotBegun;
        }
    }

    /// Says why requests of a key stay in classic mode.
    pub(crate) fn say_classic(&self, key: &str, why: &str) {
        let name = &self.application.name;
        log("warning", format_args!("application '{name}': {key:?} stays in classic mode: {why}"));
    }

    /// What messages about a lane begin with.
    pub(crate) fn describe(&self, lane: usize) -> String {
        let entry = self.lanes.get(lane).and_then(|lane| lane.entry.as_deref()).unwrap_or("classic mode");
        format!("application '{}': {entry}", self.application.name)
    }

    /// The process that forks a lane's workers.
    pub(crate) fn forker(&self, lane: usize) -> Option<&Forker> {
        if lane == CLASSIC { self.prototype.as_ref() } else { Some(&self.lanes.get(lane)?.template.as_ref()?.child) }
    }

    pub(crate) fn forker_mut(&mut self, lane: usize) -> Option<&mut Forker> {
        match lane {
            CLASSIC => self.prototype.as_mut(),
            _ => Some(&mut self.lanes.get_mut(lane)?.template.as_mut()?.child),
        }
    }

    /// The prototype and the templates.
    pub(crate) fn forkers(&self) -> impl Iterator<Item = &Forker> {
        (0..self.lanes.len()).filter_map(|lane| self.forker(lane))
    }

    /// The forker of a lane, if it can fork now.
    pub(crate) fn working_forker(&self, lane: usize) -> Option<&Forker> {
        let is_leaving = self.lanes.get(lane)?.template.as_ref().is_some_and(Template::is_leaving);
        self.forker(lane).filter(|child| child.ready && child.pid > 0 && !is_leaving)
    }

    /// Begins the warm-up if all lanes serve. True: the front is to make its requests.
    pub(crate) fn begin_warm_up(&mut self) -> bool {
        if self.warmup != WarmupState::NotBegun || self.is_ending() || !self.has_lanes() {
            return false;
        }
        let is_needed = !self.application.warmup.is_empty();
        self.warmup = if is_needed { WarmupState::UnderWay } else { WarmupState::Done };
        is_needed
    }

    /// The requests of the warm-up are made. Pages are compared if another mode than classic runs any of them.
    pub(crate) fn is_warmed_up(&mut self) {
        let has_other_modes = self.lanes.iter().skip(CLASSIC + 1).any(Lane::is_served);
        let is_to_be_verified = has_other_modes && !self.application.verification.pages.is_empty();
        self.warmup = if is_to_be_verified { WarmupState::Unverified } else { WarmupState::Done };
    }

    /// Whether visitors' requests may come.
    pub(crate) fn is_ready(&self) -> bool {
        self.warmup == WarmupState::Done && self.has_lanes()
    }

    /// Whether all lanes that are waited for serve, or have shown that they cannot.
    pub(crate) fn has_lanes(&self) -> bool {
        self.sought == 0
            && self
                .lanes
                .iter()
                .all(|lane| !lane.is_awaited || lane.has_failed || lane.is_served() || lane.prefers_classic())
    }

    /// Whether it waits for workers that are on their way to their loop. Only their slots in the slab tell when they have reached it.
    pub(crate) fn waits_for_workers(&self) -> bool {
        let boots = |lane: &Lane| lane.isolation == Isolation::WorkerMode && lane.has_workers() && !lane.is_served();
        self.warmup != WarmupState::Done && !self.is_ending() && self.lanes.iter().any(boots)
    }

    /// Whether the lane was discovered: its script is neither named by the configuration nor the front controller.
    pub(crate) fn is_found(&self, lane: usize) -> bool {
        let Some(key) = self.lanes.get(lane).and_then(Lane::key) else { return false };
        let is_its = |entry: &Entry| Key::parse(&entry.script).is_some_and(|named| named.script == key.script);
        !self.application.entries.iter().any(is_its)
    }

    /// Whether its processes are not to be replaced when they end.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Ending(_) | Stage::Killed(_))
    }

    /// When it has to be drained, or gone.
    pub(crate) fn deadline(&self, patience: Duration) -> Option<Instant> {
        match self.stage {
            Stage::Draining(since) | Stage::Ending(since) => Some(since + patience),
            Stage::Booting | Stage::Serving | Stage::Killed(_) => None,
        }
    }

    /// Whether its prototype is missing and may be started now.
    pub(crate) fn is_prototype_due(&self, now: Instant) -> bool {
        let is_due = self.lanes.get(CLASSIC).is_some_and(|lane| lane.restart.is_due(now));
        self.prototype.is_none() && is_due && self.has_no_orphans()
    }

    /// Whether all templates and workers of an earlier prototype are reaped.
    pub(crate) fn has_no_orphans(&self) -> bool {
        self.lanes.iter().all(|lane| lane.template.is_none() && !lane.has_workers())
    }

    /// The pipes of its standard output and error.
    pub(crate) fn outputs(&self) -> [&Output; 2] {
        [&self.output, &self.errors]
    }

    /// As above.
    pub(crate) fn outputs_mut(&mut self) -> [&mut Output; 2] {
        [&mut self.output, &mut self.errors]
    }

    /// Whether none of its processes is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.prototype.is_none() && self.has_no_orphans() && self.lanes.iter().all(|lane| lane.retired.is_empty())
    }
}

impl Generations {
    pub(crate) fn add(&mut self, generation: Generation) -> GenerationId {
        let id = self.next;
        self.next += 1;
        self.list.insert(id, generation);
        id
    }

    pub(crate) fn remove(&mut self, id: GenerationId) {
        self.list.remove(&id);
    }

    pub(crate) fn get(&self, id: GenerationId) -> Option<&Generation> {
        self.list.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: GenerationId) -> Option<&mut Generation> {
        self.list.get_mut(&id)
    }

    pub(crate) fn lane(&self, id: GenerationId, lane: usize) -> Option<&Lane> {
        self.get(id)?.lanes.get(lane)
    }

    pub(crate) fn lane_mut(&mut self, id: GenerationId, lane: usize) -> Option<&mut Lane> {
        self.get_mut(id)?.lanes.get_mut(lane)
    }

    pub(crate) fn ids(&self) -> Vec<GenerationId> {
        self.list.keys().copied().collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Generation> {
        self.list.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Generation> {
        self.list.values_mut()
    }
}
