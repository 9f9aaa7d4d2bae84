//! Reloads: new generations beside those that serve. This module decides; [`super::carry_out`] acts.
//!
//! | step | what happens |
//! |---|---|
//! | requested | `reprise reload`, SIGHUP; a suspect generation; a script's `opcache_reset()`, or an opcache that is full or cannot restart; with `watch` a root that leads elsewhere or changed files; an eviction of a lane. Further requests join the one that waits |
//! | read | a child ([`super::errands`]) reads the configuration, as a whole or not at all, and looks which scripts are there |
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

use wire::layout::{RENEW_FULL, RENEW_RESTART};

use super::control_socket::Client;
use super::generation::{GenerationId, Stage};
use super::listeners;
use super::service::{Application, Plan};

#[cfg(test)]
mod reload_tests;

/// What a reload may take beside twice the longest boot_timeout: PHP's start, workers, the warm-up.
const LAST_BOOT: Duration = Duration::from_secs(120);
/// How often roots are looked at.
const WATCH_TURN: Duration = Duration::from_secs(1);
/// Between two generations of an application that come by themselves lie so many times the time the last one took.
const RENEWAL_PAUSE: u32 = 10;
/// And so many times where files have changed: half of the time at most is spent on what changes all the time.
const FILES_PAUSE: u32 = 1;

/// What is known of generations.
pub(super) trait Facts {
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
pub(super) enum Action {
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
}

/// What a reload is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scope {
    /// The configuration is read again, and each application gets a new generation.
    All,
    /// One application gets a new generation, by the configuration of now.
    Application(String),
}

impl Scope {
    pub(super) fn includes(&self, application: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Application(name) => name == application,
        }
    }
}

/// Reloads that were asked for and have not begun.
#[derive(Default)]
struct ReloadRequest {
    is_for_all: bool,
    /// Applications that get a new generation, and how many times as long as the last one took is to pass after that.
    renewals: BTreeMap<String, u32>,
    waiting: Vec<Client>,
}

/// A reload whose configuration is being read.
struct Reading {
    scope: Scope,
    waiting: Vec<Client>,
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
}

/// What an application of the next plan is run by.
pub(super) enum Successor {
    /// The generation that runs it now.
    Same(GenerationId),
    /// A new one, which inherits lanes of the old.
    New { application: Rc<Application>, ordinal: u32, old: Option<GenerationId> },
}

/// What happens beside a reload.
pub(super) struct Surroundings {
    /// The server has been ready.
    pub(super) is_announced: bool,
    /// The front is ready and its workers can have its listeners' wake-ups.
    pub(super) is_front_open: bool,
    /// A child looks at the roots already.
    pub(super) looks_at_roots: bool,
}

/// The plan that is in force, the generations that serve it, and the reload that is under way.
pub(super) struct Reload {
    plan: Rc<Plan>,
    /// The generations that take new requests, in the plan's order.
    current: Vec<GenerationId>,
    request: Option<ReloadRequest>,
    reading: Option<Reading>,
    change: Option<Change>,
    /// By application: when the last new generation came or was refused, and how long that took.
    renewed: BTreeMap<String, (Instant, Duration)>,
    next_look: Instant,
    /// Where roots have come to lead, that a reload was asked for already.
    refused_roots: BTreeSet<PathBuf>,
    is_stopping: bool,
}

/// Questions.
impl Reload {
    pub(super) fn new(plan: Plan, current: Vec<GenerationId>, now: Instant) -> Reload {
        Reload {
            plan: Rc::new(plan),
            current,
            request: None,
            reading: None,
            change: None,
            renewed: BTreeMap::new(),
            next_look: now,
            refused_roots: BTreeSet::new(),
            is_stopping: false,
        }
    }

    /// What is configured now.
    pub(super) fn plan(&self) -> &Rc<Plan> {
        &self.plan
    }

    /// The generations that take new requests, in the plan's order.
    pub(super) fn current(&self) -> &[GenerationId] {
        &self.current
    }

    /// Whether new generations are being made.
    pub(super) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether nothing is being done, and nothing was asked for.
    pub(super) fn is_idle(&self) -> bool {
        self.request.is_none() && self.reading.is_none() && self.change.is_none()
    }

    /// Whether a reload was asked for that has not begun.
    pub(super) fn is_requested(&self) -> bool {
        self.request.is_some()
    }

    /// The plan of the change that is being made.
    pub(super) fn next(&self) -> Option<&Rc<Plan>> {
        self.change.as_ref().map(|change| &change.plan)
    }

    /// The ids of all listeners, those of a change included.
    pub(super) fn listeners(&self) -> BTreeSet<u32> {
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

/// Requests for a reload.
impl Reload {
    fn request(&mut self, why: &str) -> (Vec<Action>, &mut ReloadRequest) {
        let log = Action::Log("notice", format!("reload requested: {why}"));
        (vec![log], self.request.get_or_insert_default())
    }

    /// Asks for new generations of everything, by the configuration as it is when it is read.
    pub(super) fn request_all(&mut self, why: &str, client: Option<Client>) -> Vec<Action> {
        let (actions, request) = self.request(why);
        request.is_for_all = true;
        request.waiting.extend(client);
        actions
    }

    /// Asks for a new generation in place of one, unless that is on its way out already.
    pub(super) fn renew(&mut self, id: GenerationId, why: &str, facts: &impl Facts) -> Vec<Action> {
        self.renew_after(RENEWAL_PAUSE, id, why, facts)
    }

    /// Files that a generation has loaded have changed. Somebody has written them, and waits; or a script does all the time.
    pub(super) fn files_changed(&mut self, id: GenerationId, facts: &impl Facts) -> Vec<Action> {
        self.renew_after(FILES_PAUSE, id, "files have changed", facts)
    }

    fn renew_after(&mut self, pause: u32, id: GenerationId, why: &str, facts: &impl Facts) -> Vec<Action> {
        let (Some(stage), Some(application)) = (facts.stage(id), facts.application(id)) else { return Vec::new() };
        let is_in_use = stage == Stage::Serving || self.makes(id);
        let covers = |request: &ReloadRequest| {
            request.is_for_all || request.renewals.get(&application.name).is_some_and(|known| *known <= pause)
        };
        if !is_in_use || self.is_stopping || self.request.as_ref().is_some_and(covers) {
            return Vec::new();
        }
        let (actions, request) = self.request(&format!("application '{}': {why}", application.name));
        request.renewals.insert(application.name.clone(), pause);
        actions
    }

    /// A process wants code loaded anew. A successor of its generation may have loaded that code before: then that one is renewed.
    pub(super) fn opcache_reset(&mut self, id: GenerationId, facts: &impl Facts) -> Vec<Action> {
        let is_draining = matches!(facts.stage(id), Some(Stage::Draining(_)));
        let name = facts.application(id).map(|application| application.name.as_str());
        let successor = name.filter(|_| is_draining).and_then(|name| self.current_of(name, facts));
        self.renew(successor.unwrap_or(id), "a script called opcache_reset()", facts)
    }

    /// The opcache of a generation cannot go on. That concerns no other generation.
    pub(super) fn opcache_failed(&mut self, id: GenerationId, why: u32, facts: &impl Facts) -> Vec<Action> {
        if self.change.as_ref().is_some_and(|change| !change.ids.contains(&id)) {
            // Another is on its way.
            return Vec::new();
        }
        match why {
            RENEW_RESTART => {
                self.renew(id, "opcache has to restart, and caches nothing while workers hold its lock", facts)
            }
            RENEW_FULL => self.renew(id, "opcache is full", facts),
            other => {
                let text = format!("a worker asked for a new generation with an unknown reason ({other})");
                vec![Action::Log("error", text)]
            }
        }
    }

    /// Asks for a reload if the root of an application leads elsewhere than when its generation began. Once for each place.
    pub(super) fn roots_lead(&mut self, roots: &BTreeMap<String, PathBuf>, facts: &impl Facts) -> Vec<Action> {
        let leads_elsewhere = |id: &GenerationId| {
            let application = facts.application(*id)?;
            let root = roots.get(&application.name).filter(|root| **root != application.root)?;
            Some((application.name.clone(), root.clone()))
        };
        let Some((name, root)) = self.current.iter().find_map(leads_elsewhere) else { return Vec::new() };
        // One that was refused is not tried again and again.
        if !self.refused_roots.insert(root.clone()) {
            return Vec::new();
        }
        self.request_all(&format!("application '{name}': the root leads to {} now", root.display()), None)
    }
}

/// The course of a reload.
impl Reload {
    /// The server stops: the next turn refuses what has not been switched to.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Says what can be done now.
    pub(super) fn turn(&mut self, around: &Surroundings, facts: &impl Facts, now: Instant) -> Vec<Action> {
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
            return self.request.take().map(|request| Reading { scope: Scope::All, waiting: request.waiting });
        }
        let is_due = |(name, pause): &(&String, &u32)| {
            self.renewed.get(*name).is_none_or(|(at, took)| now >= *at + *took * **pause)
        };
        let name = request.renewals.iter().find(is_due).map(|(name, _)| name.clone())?;
        request.renewals.remove(&name);
        if request.renewals.is_empty() {
            self.request = None;
        }
        Some(Reading { scope: Scope::Application(name), waiting: Vec::new() })
    }

    /// The configuration was read, if it was to be. Returns the plan to go over to, and what each of its applications is to be run
    /// by. [`Reload::begin`] or [`Reload::reading_failed`] follows.
    pub(super) fn next_plan(&self, read: Option<Plan>, facts: &impl Facts) -> Option<(Rc<Plan>, Vec<Successor>)> {
        let scope = &self.reading.as_ref()?.scope;
        let plan = read.map_or_else(|| self.plan.clone(), Rc::new);
        let successor = |application: &Rc<Application>| match self.current_of(&application.name, facts) {
            Some(old) if !scope.includes(&application.name) => Successor::Same(old),
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
    pub(super) fn reading_failed(&mut self, why: &str) -> Vec<Action> {
        self.reading.take().map_or_else(Vec::new, |reading| refused(reading.waiting, why))
    }

    /// The generations of a plan are there, without any process yet: which, in the plan's order.
    pub(super) fn begin(
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
        self.change = Some(Change { plan, ids, made, began: now, is_switched: false, refused: None, waiting });
        actions.extend(self.settings());
        actions
    }

    /// The settings of a change that has begun, which a front has to know before any lane of its generations.
    pub(super) fn settings(&self) -> Option<Action> {
        let change = self.change.as_ref().filter(|change| !change.is_switched)?;
        Some(Action::SendSettings(change.plan.settings.clone(), change.ids.clone()))
    }

    /// The change cannot be completed: the next turn refuses it.
    pub(super) fn fail(&mut self, why: String) {
        if let Some(change) = &mut self.change {
            change.refused.get_or_insert(why);
        }
    }

    /// A generation has shown that it does not work. If it is one that is being made, the change is refused.
    pub(super) fn generation_failed(&mut self, id: GenerationId, why: &dyn std::fmt::Display) {
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
    pub(super) fn switched(&mut self, facts: &impl Facts, now: Instant) -> Vec<Action> {
        let Some(change) = self.change.take_if(|change| change.is_switched) else { return Vec::new() };
        self.pause_renewals(&change, now);
        self.refused_roots.clear();
        let took = now.saturating_duration_since(change.began).as_millis();
        let text = format!("{} after {took} ms", names(&change.ids, facts));
        vec![
            Action::Log("notice", format!("reloaded: {text}")),
            Action::Respond(change.waiting, Ok(text)),
            Action::NotifyReady(None),
        ]
    }

    /// Scripts that ask in every request get what they ask for, or that it is refused, but not all of the machine.
    fn pause_renewals(&mut self, change: &Change, now: Instant) {
        self.renewed.retain(|_, (at, took)| *at + *took * RENEWAL_PAUSE > now);
        let took = now.saturating_duration_since(change.began);
        self.renewed.extend(change.made.iter().map(|(_, name)| (name.clone(), (now, took))));
    }

    fn refuse_change(&mut self, why: &str, now: Instant) -> Vec<Action> {
        let Some(change) = self.change.take_if(|change| !change.is_switched) else { return Vec::new() };
        self.pause_renewals(&change, now);
        let mut actions: Vec<Action> = change.made.iter().map(|(id, _)| Action::Kill(*id)).collect();
        actions.push(Action::WithdrawSettings);
        actions.extend(refused(change.waiting, why));
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
    vec![
        Action::Log("error", format!("reload refused, the server goes on as before: {why}")),
        Action::Respond(waiting, Err(why.to_owned())),
        Action::NotifyReady(Some(why.to_owned())),
    ]
}

/// The application and the ordinal of each of these generations.
pub(super) fn names(ids: &[GenerationId], facts: &impl Facts) -> String {
    let name = |id: &GenerationId| {
        let (application, ordinal) = (facts.application(*id)?, facts.ordinal(*id)?);
        Some(format!("{} generation {ordinal}", application.name))
    };
    ids.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}
