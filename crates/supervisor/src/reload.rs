//! Reloads: new generations beside those that serve. This module decides; [`crate::supervisor::carry_out`] acts.
//!
//! | step | what happens |
//! |---|---|
//! | requested | `reprise reload`, SIGHUP; a suspect generation; a script's `opcache_reset()`, or an opcache that is full or cannot restart; with `watch` a root that leads elsewhere or changed files; an eviction of a lane. Further requests join the one that waits |
//! | read | a child ([`crate::supervisor::questions::errands`]) reads the configuration, as a whole or not at all, and looks which scripts are there |
//! | begun | new generations boot; the front learns their settings |
//! | ready | all their known lanes serve: `Switch` to the front; the old ones drain |
//! | refused | a lane that serves in the old generation does not boot in the new: the new ones end, the old serve on |
//! | drained | the front has let go of a generation (`Retired`): its processes end |
//! | overdue | `drain_timeout` is over: what waits is refused, what runs is killed |
//!
//! Of one application at most two generations live and one drains: the switch waits for an earlier drain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::lanes::generation::{GenerationId, Stage};
use crate::listeners;
use crate::peers::control_socket::Client;
use crate::settings::service::{Application, Plan};

mod held;
#[cfg(test)]
mod held_tests;
mod pace;
#[cfg(test)]
mod reload_tests;
mod requested;

use held::Held;
pub(crate) use held::{Order, ToldFollower};
use pace::{Cause, Pace};

/// What a reload may take beside twice the longest boot_timeout: PHP's start, workers, the warm-up.
const LAST_BOOT: Duration = Duration::from_secs(120);
/// How often roots are looked at.
const WATCH_TURN: Duration = Duration::from_secs(1);

/// What is known of generations.
pub(crate) trait Facts {
    fn application(&self, id: GenerationId) -> Option<&Application>;
    /// Which of its application's it is, from 1.
    fn ordinal(&self, id: GenerationId) -> Option<u32>;
    fn stage(&self, id: GenerationId) -> Option<Stage>;
    /// Whether visitors' requests may come to it.
    fn is_ready(&self, id: GenerationId) -> bool;
    /// Whether as many generations of that application drain as may.
    fn drains(&self, application: &str) -> bool;
}

/// What the supervisor is to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Write a line to the log.
    Log(&'static str, String),
    /// Have a child look where the roots of applications lead. The result goes to [`Reload::roots_lead`].
    LookAtRoots,
    /// Have a child read what a reload of these applications needs. The result goes to [`Reload::next_plan`] or
    /// [`Reload::reading_failed`].
    Read(Scope),
    /// Make the slabs of a new generation, if there is a front.
    MakeSlabs(GenerationId),
    /// Send the settings of a change to the front, if there is one, as those of these generations.
    SendSettings(String, Vec<GenerationId>),
    /// The front is to forget the settings of a change.
    WithdrawSettings,
    /// New requests go to the first, the second drain.
    Switch(Vec<GenerationId>, Vec<GenerationId>),
    /// End a generation at once.
    Kill(GenerationId),
    /// Respond to those who wait for a reload.
    Respond(Vec<Client>, Result<String, String>),
    /// Tell the service manager that the server serves; and why a reload was refused, if it was.
    NotifyReady(Option<String>),
    /// Tell the process that follows an application's pool what has come of its order.
    TellFollower(Order, ToldFollower),
}

/// What a reload is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scope {
    /// The configuration is read again, and each application gets a new generation.
    All,
    /// One application gets a new generation, by the configuration of now.
    Application(String),
    /// One application gets a generation of a release, which waits before new requests go to it. The configuration is read again; other
    /// applications get a new generation if they have changed in it.
    Release(Order),
}

impl Scope {
    pub(crate) fn includes(&self, application: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Application(name) => name == application,
            Scope::Release(order) => order.application == application,
        }
    }
}

/// Reloads that were asked for and have not begun.
#[derive(Default)]
struct ReloadRequest {
    is_for_all: bool,
    /// Applications that get a new generation, and why: it begins when that is time for one of the causes.
    renewals: BTreeMap<String, BTreeSet<Cause>>,
    waiting: Vec<Client>,
    /// Releases that are to be booted, one for each application.
    releases: Vec<Order>,
}

/// A reload whose configuration is being read.
struct Reading {
    scope: Scope,
    waiting: Vec<Client>,
    /// Its release is not wanted any more.
    is_given_up: bool,
}

/// A reload whose generations are being made.
struct Change {
    plan: Rc<Plan>,
    /// In the plan's order, those that stay included.
    ids: Vec<GenerationId>,
    /// Those of them that are new, with the names of their applications.
    made: Vec<(GenerationId, String)>,
    began: Instant,
    /// The front was told to go over.
    is_switched: bool,
    /// Why it is to end without success.
    refused: Option<String>,
    waiting: Vec<Client>,
    /// It waits for a word before the switch.
    held: Option<Held>,
}

/// What an application of the next plan is run by.
pub(crate) enum Successor {
    /// The generation that runs it now.
    Same(GenerationId),
    /// A new one, which inherits lanes of the old.
    New { application: Rc<Application>, ordinal: u32, old: Option<GenerationId> },
}

/// What happens beside a reload.
pub(crate) struct Surroundings {
    /// The server has been ready.
    pub(crate) is_announced: bool,
    /// The front is ready and its workers can have its listeners' wake-ups.
    pub(crate) is_front_open: bool,
    /// A child looks at the roots already.
    pub(crate) looks_at_roots: bool,
}

/// The plan that is in force, the generations that serve it, and the reload that is under way.
pub(crate) struct Reload {
    plan: Rc<Plan>,
    /// The generations that take new requests, in the plan's order.
    current: Vec<GenerationId>,
    request: Option<ReloadRequest>,
    reading: Option<Reading>,
    change: Option<Change>,
    /// When generations came or were refused.
    pace: Pace,
    next_look: Instant,
    /// Where roots have come to lead, that a reload was asked for already.
    refused_roots: BTreeSet<PathBuf>,
    is_stopping: bool,
}

/// Questions.
impl Reload {
    pub(crate) fn new(plan: Plan, current: Vec<GenerationId>, now: Instant) -> Reload {
        Reload {
            plan: Rc::new(plan),
            current,
            request: None,
            reading: None,
            change: None,
            pace: Pace::default(),
            next_look: now,
            refused_roots: BTreeSet::new(),
            is_stopping: false,
        }
    }

    /// What is configured now.
    pub(crate) fn plan(&self) -> &Rc<Plan> {
        &self.plan
    }

    /// The generations that take new requests, in the plan's order.
    pub(crate) fn current(&self) -> &[GenerationId] {
        &self.current
    }

    /// Whether new generations are being made.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether nothing is being done, and nothing was asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.request.is_none() && self.reading.is_none() && self.change.is_none()
    }

    /// Whether a reload was asked for that has not begun.
    pub(crate) fn is_requested(&self) -> bool {
        self.request.is_some()
    }

    /// The plan of the change that is being made.
    pub(crate) fn next(&self) -> Option<&Rc<Plan>> {
        self.change.as_ref().map(|change| &change.plan)
    }

    /// The ids of all listeners, those of a change included.
    pub(crate) fn listeners(&self) -> BTreeSet<u32> {
        let plans = [Some(&self.plan), self.next()].into_iter().flatten();
        plans.flat_map(|plan| &plan.listeners).map(|one| one.id).collect()
    }

    /// Whether that generation is being made.
    fn makes(&self, id: GenerationId) -> bool {
        let makes = |change: &Change| !change.is_switched && change.made.iter().any(|(made, _)| *made == id);
        self.change.as_ref().is_some_and(makes)
    }

    /// The generation that runs an application now.
    fn current_of(&self, application: &str, facts: &impl Facts) -> Option<GenerationId> {
        let runs_it = |id: &GenerationId| facts.application(*id).is_some_and(|one| one.name == application);
        self.current.iter().copied().find(runs_it)
    }
}

/// The course of a reload.
impl Reload {
    /// The server stops: the next turn refuses what has not been switched to.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Says what can be done now.
    pub(crate) fn turn(&mut self, around: &Surroundings, facts: &impl Facts, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.is_stopping {
            actions.extend(self.refuse_change("the server is stopping", now));
            actions.extend(self.refuse_requests("the server is stopping"));
            return actions;
        }
        if around.is_announced && self.is_time_to_look(around, now) {
            actions.push(Action::LookAtRoots);
        }
        if let Some(change) = &self.change {
            match change.refused.clone() {
                Some(why) => actions.extend(self.refuse_change(&why, now)),
                None => actions.extend(self.switch_if_ready(around, facts, now)),
            }
        } else if around.is_announced && self.reading.is_none() {
            self.reading = self.take_request(now);
            actions.extend(self.reading.as_ref().map(|reading| Action::Read(reading.scope.clone())));
        }
        actions
    }

    fn is_time_to_look(&mut self, around: &Surroundings, now: Instant) -> bool {
        let is_busy = self.change.is_some() || self.reading.is_some() || around.looks_at_roots;
        if is_busy || now < self.next_look {
            return false;
        }
        self.next_look = now + WATCH_TURN;
        true
    }

    /// What of the request can begin: everything, or one application whose pause is over, so that none is refused for another.
    fn take_request(&mut self, now: Instant) -> Option<Reading> {
        let request = self.request.as_mut()?;
        if request.is_for_all {
            return self.take_all();
        }
        let is_due = |(name, causes): &(&String, &BTreeSet<Cause>)| {
            causes.iter().any(|cause| self.pace.is_due(name, *cause, now))
        };
        let renewal = request.renewals.iter().find(is_due).map(|(name, _)| name.clone());
        let scope = match renewal {
            Some(name) => {
                request.renewals.remove(&name);
                Scope::Application(name)
            }
            None if request.releases.is_empty() => return None,
            None => Scope::Release(request.releases.remove(0)),
        };
        if request.is_done() {
            self.request = None;
        }
        Some(Reading::new(scope, Vec::new()))
    }

    /// The configuration was read, if it was to be. Returns the plan to go over to, and what each of its applications is to be run
    /// by. [`Reload::begin`] or [`Reload::reading_failed`] follows.
    pub(crate) fn next_plan(&self, read: Option<Plan>, facts: &impl Facts) -> Option<(Rc<Plan>, Vec<Successor>)> {
        let scope = &self.reading.as_ref()?.scope;
        let plan = read.map_or_else(|| self.plan.clone(), Rc::new);
        let successor = |application: &Rc<Application>| match self.current_of(&application.name, facts) {
            Some(old) if self.may_stay(scope, application, old, facts) => Successor::Same(old),
            old => Successor::New {
                application: application.clone(),
                ordinal: old.and_then(|old| facts.ordinal(old)).map_or(1, |ordinal| ordinal + 1),
                old,
            },
        };
        let successors = plan.applications.iter().map(successor).collect();
        Some((plan, successors))
    }

    /// The configuration cannot be read, or its generations cannot be made.
    pub(crate) fn reading_failed(&mut self, why: &str) -> Vec<Action> {
        let Some(reading) = self.reading.take() else { return Vec::new() };
        let mut actions = refused(reading.waiting, why);
        actions.extend(held::failed(&reading.scope, why));
        actions
    }

    /// The generations of a plan are there, without any process yet: which, in the plan's order.
    pub(crate) fn begin(
        &mut self,
        plan: Rc<Plan>,
        ids: Vec<GenerationId>,
        facts: &impl Facts,
        now: Instant,
    ) -> Vec<Action> {
        let Some(reading) = self.reading.take() else { return Vec::new() };
        let new = ids.iter().filter(|id| !self.current.contains(id));
        let made: Vec<_> = new.filter_map(|id| Some((*id, facts.application(*id)?.name.clone()))).collect();
        let mut actions: Vec<Action> = made.iter().map(|(id, _)| Action::MakeSlabs(*id)).collect();
        let waiting = reading.waiting;
        let refused = reading.is_given_up.then(|| held::GIVEN_UP.to_owned());
        let held = Held::of(reading.scope);
        self.change = Some(Change { plan, ids, made, began: now, is_switched: false, refused, waiting, held });
        actions.extend(self.settings());
        actions
    }

    /// The settings of a change that has begun, which a front has to know before any lane of its generations.
    pub(crate) fn settings(&self) -> Option<Action> {
        let change = self.change.as_ref().filter(|change| !change.is_switched)?;
        Some(Action::SendSettings(change.plan.settings.clone(), change.ids.clone()))
    }

    /// The change cannot be completed: the next turn refuses it.
    pub(crate) fn fail(&mut self, why: String) {
        if let Some(change) = &mut self.change {
            change.refused.get_or_insert(why);
        }
    }

    /// A generation has shown that it does not work. If it is one that is being made, the change is refused.
    pub(crate) fn generation_failed(&mut self, id: GenerationId, why: &dyn std::fmt::Display) {
        if self.makes(id) {
            self.fail(why.to_string());
        }
    }

    fn switch_if_ready(&mut self, around: &Surroundings, facts: &impl Facts, now: Instant) -> Vec<Action> {
        let Some(change) = self.change.as_mut().filter(|change| !change.is_switched) else { return Vec::new() };
        // What stays is not waited for: an application that is in trouble must not hold up the others.
        if !change.made.iter().all(|(id, _)| facts.is_ready(*id)) {
            let longest = change.plan.applications.iter().map(|one| one.boot_timeout).max().unwrap_or_default();
            let took = now.saturating_duration_since(change.began);
            let is_late = took > 2 * longest + LAST_BOOT;
            return if is_late {
                self.refuse_change(&format!("it was not ready after {took:?}"), now)
            } else {
                Vec::new()
            };
        }
        if let Some(held) = change.held.as_mut().filter(|held| !held.may_switch()) {
            return held.tell_booted();
        }
        if !around.is_front_open || change.made.iter().any(|(_, name)| facts.drains(name)) {
            return Vec::new();
        }
        change.is_switched = true;
        let old_plan = std::mem::replace(&mut self.plan, change.plan.clone());
        let changed = listeners::difference(&old_plan.listeners, &self.plan.listeners);
        let old = std::mem::replace(&mut self.current, change.ids.clone());
        let drained = old.into_iter().filter(|id| !self.current.contains(id)).collect();
        let lines = changed.into_iter().map(|line| Action::Log("notice", line));
        lines.chain([Action::Switch(self.current.clone(), drained)]).collect()
    }

    /// The front has gone over, or a new one has begun with the new settings.
    pub(crate) fn switched(&mut self, facts: &impl Facts, now: Instant) -> Vec<Action> {
        let Some(change) = self.change.take_if(|change| change.is_switched) else { return Vec::new() };
        let took = now.saturating_duration_since(change.began);
        change.made.iter().for_each(|(_, name)| self.pace.made(name, took, now));
        self.refused_roots.clear();
        let held = change.held.map(Held::switched);
        let text = format!("{} after {} ms", names(&change.ids, facts), took.as_millis());
        let reloaded = vec![
            Action::Log("notice", format!("reloaded: {text}")),
            Action::Respond(change.waiting, Ok(text)),
            Action::NotifyReady(None),
        ];
        reloaded.into_iter().chain(held).collect()
    }

    fn refuse_change(&mut self, why: &str, now: Instant) -> Vec<Action> {
        let Some(change) = self.change.take_if(|change| !change.is_switched) else { return Vec::new() };
        let took = now.saturating_duration_since(change.began);
        change.made.iter().for_each(|(_, name)| self.pace.refused(name, took, now));
        let mut actions: Vec<Action> = change.made.iter().map(|(id, _)| Action::Kill(*id)).collect();
        actions.push(Action::WithdrawSettings);
        actions.extend(refused(change.waiting, why));
        actions.extend(change.held.map(|held| held.failed(why)));
        actions
    }

    /// Refuses what has not begun. Nobody has been told that the service is reloading.
    fn refuse_requests(&mut self, why: &str) -> Option<Action> {
        let read = self.reading.take().map(|reading| reading.waiting);
        let requested = self.request.take().map(|request| request.waiting);
        let waiting: Vec<Client> = read.into_iter().chain(requested).flatten().collect();
        (!waiting.is_empty()).then(|| Action::Respond(waiting, Err(why.to_owned())))
    }
}

fn refused(waiting: Vec<Client>, why: &str) -> Vec<Action> {
    let level = if why == held::GIVEN_UP { "notice" } else { "error" };
    vec![
        Action::Log(level, format!("reload refused, the server goes on as before: {why}")),
        Action::Respond(waiting, Err(why.to_owned())),
        Action::NotifyReady(Some(why.to_owned())),
    ]
}

/// The application and the ordinal of each of these generations.
pub(crate) fn names(ids: &[GenerationId], facts: &impl Facts) -> String {
    let name = |id: &GenerationId| {
        let (application, ordinal) = (facts.application(*id)?, facts.ordinal(*id)?);
        Some(format!("{} generation {ordinal}", application.name))
    };
    ids.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}
