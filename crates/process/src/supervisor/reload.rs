//! Reloads: new generations beside those that serve.
//!
//! | step | what happens |
//! |---|---|
//! | wished for | `reprise reload`, SIGHUP; a suspect generation; a script's `opcache_reset()`, or an opcache that is full or cannot restart; with `watch` a root that leads elsewhere or changed files; a lane that gives its place to another. Further wishes join it |
//! | read | a child ([`super::errands`]) reads the configuration, as a whole or not at all, and looks which scripts are there |
//! | begun | new generations boot; the front learns their settings |
//! | ready | all their known lanes serve: `Switch` to the front; the old ones drain |
//! | refused | a lane that serves in the old generation does not boot in the new: the new ones end, the old serve on |
//! | drained | the front has let go of a generation (`Retired`): its processes end |
//! | overdue | `drain_timeout` is over: what waits is refused, what runs is killed |
//!
//! Of one application at most two generations live and one drains: the switch waits for an earlier drain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use nix::sys::signal::Signal;
use wire::control::{ToForker, ToFront};
use wire::layout::{Phase, RENEW_FULL, RENEW_RESTART};

use super::admin::Client;
use super::generation::{Generation, Stage};
use super::lane::CLASSIC;
use super::service::Plan;
use super::{Supervisor, log, send};
use crate::plan::Stopping;
use crate::sys;

/// What a reload may take beside twice the longest boot_timeout: PHP's start, workers, the warm-up.
const LAST_BOOT: std::time::Duration = std::time::Duration::from_secs(120);
/// How often roots are looked at.
const WATCH_TURN: std::time::Duration = std::time::Duration::from_secs(1);
/// Between two generations of an application that come by themselves lie so many times the time the last one took.
const RENEWAL_PAUSE: u32 = 10;
/// And so many times where files have changed: half of the time at most is spent on what changes all the time.
const FILES_PAUSE: u32 = 1;

/// A reload somebody has asked for.
#[derive(Default)]
pub(super) struct Wish {
    /// Read the configuration, and all applications; else only those.
    pub(super) is_for_all: bool,
    /// And how many times as long as the last renewal took is to pass after it.
    applications: BTreeMap<String, u32>,
    pub(super) waiting: Vec<Client>,
}

impl Wish {
    /// Whether it is for that application too.
    pub(super) fn names(&self, application: &str) -> bool {
        self.applications.contains_key(application)
    }
}

/// A reload under way.
pub(super) struct Change {
    plan: Rc<Plan>,
    /// In the plan's order, those that stay included.
    numbers: Vec<usize>,
    /// Those of them that are new.
    made: Vec<usize>,
    began: Instant,
    /// The front was told to go over.
    is_switched: bool,
    /// Why it is to end without success.
    refused: Option<String>,
    waiting: Vec<Client>,
}

impl Change {
    /// Whether that generation is made by it.
    pub(super) fn makes(&self, number: usize) -> bool {
        !self.is_switched && self.made.contains(&number)
    }
}

impl Supervisor {
    fn wish(&mut self, why: &dyn Display, client: Option<Client>) -> &mut Wish {
        log("notice", format_args!("{why}: reload"));
        let wish = self.wish.get_or_insert_default();
        wish.waiting.extend(client);
        wish
    }

    /// Asks for new generations of everything, by the configuration as it is then.
    pub(super) fn wish_for_all(&mut self, why: &str, client: Option<Client>) {
        self.wish(&why, client).is_for_all = true;
    }

    /// Asks for a new generation in place of one, unless that is on its way out already.
    pub(super) fn wish_for(&mut self, number: usize, why: &str) {
        self.wish_after(number, RENEWAL_PAUSE, why);
    }

    fn wish_after(&mut self, number: usize, pause: u32, why: &str) {
        let is_made = self.change.as_ref().is_some_and(|change| change.makes(number));
        let is_in_use = |one: &&Generation| one.stage == Stage::Serving || is_made;
        let Some(generation) = self.generations.get(number).filter(is_in_use) else { return };
        let name = generation.application.name.clone();
        let is_known =
            |wish: &Wish| wish.is_for_all || wish.applications.get(&name).is_some_and(|known| *known <= pause);
        if !self.wish.as_ref().is_some_and(is_known) && self.stopping == Stopping::No {
            self.wish(&format_args!("application '{name}': {why}"), None).applications.insert(name, pause);
        }
    }

    /// A process of a generation wants code loaded anew. What it wants renewed may have been loaded, before it said so,
    /// by the generation that has taken the place of its own meanwhile: then that one is renewed.
    pub(super) fn reset_wished(&mut self, number: usize) {
        let Some(generation) = self.generations.get(number) else { return };
        let name = generation.application.name.clone();
        let is_draining = matches!(generation.stage, Stage::Draining(_));
        let successor = self.current.iter().copied().find(|one| self.generations[*one].application.name == name);
        let number = successor.filter(|_| is_draining).unwrap_or(number);
        self.wish_for(number, "a script called opcache_reset()");
    }

    /// The opcache of a generation cannot go on. That concerns no other generation.
    pub(super) fn opcache_wished(&mut self, number: usize, why: u32) {
        if self.change.as_ref().is_some_and(|change| !change.numbers.contains(&number)) {
            // Another is on its way.
            return;
        }
        match why {
            RENEW_RESTART => {
                self.wish_for(number, "opcache has to restart, and caches nothing while workers hold its lock")
            }
            RENEW_FULL => self.wish_for(number, "opcache is full"),
            other => log("error", format_args!("a worker asked for a new generation with an unknown reason ({other})")),
        }
    }

    /// Files that a generation has loaded have changed. Somebody has written them, and waits; or a script does all the time.
    pub(super) fn files_changed(&mut self, number: usize) {
        self.wish_after(number, FILES_PAUSE, "files have changed");
    }

    /// Asks for a new generation where an unused lane is in the way of another.
    pub(super) fn evict_lanes(&mut self) {
        if !self.announced || self.stopping != Stopping::No || self.change.is_some() {
            return;
        }
        let now = Instant::now();
        for number in self.current.clone() {
            // One that was refused, or has been joined by others' requests, is judged anew.
            let may_evict = self.wish.is_none();
            if let Some(why) = self.generations[number].look_for_eviction(may_evict, now) {
                self.wish_for(number, &why);
            }
        }
    }

    /// Does what can be done now.
    pub(super) fn advance_reload(&mut self) {
        if self.stopping != Stopping::No {
            self.refuse_change("the server is stopping");
            let wishes = self.end_errands().into_iter().chain(self.wish.take());
            let waiting = wishes.flat_map(|wish| wish.waiting).collect();
            self.tell(waiting, Err("the server is stopping"));
        } else if let Some(change) = &self.change {
            match &change.refused {
                Some(why) => {
                    let why = why.clone();
                    self.refuse_change(&why);
                }
                None => self.switch_if_ready(),
            }
        } else if self.announced && !self.is_reading() {
            self.take_wish(Instant::now()).into_iter().for_each(|wish| self.read_for(wish));
        }
    }

    /// What of it can be done now: everything, or one application whose pause is over, so that none is refused for another.
    fn take_wish(&mut self, now: Instant) -> Option<Wish> {
        let wish = self.wish.as_mut()?;
        if wish.is_for_all {
            return self.wish.take();
        }
        let is_due = |(name, pause): &(&String, &u32)| {
            self.renewed.get(*name).is_none_or(|(at, took)| now >= *at + *took * **pause)
        };
        let name = wish.applications.iter().find(is_due).map(|(name, _)| name.clone())?;
        let taken = wish.applications.remove_entry(&name);
        if wish.applications.is_empty() {
            self.wish = None;
        }
        Some(Wish { applications: taken.into_iter().collect(), ..Wish::default() })
    }

    /// Has a child look where the roots of applications lead.
    pub(super) fn watch_roots(&mut self) {
        let now = Instant::now();
        let is_busy = self.change.is_some() || self.is_reading() || self.is_looking_at_roots();
        if !self.announced || self.stopping != Stopping::No || is_busy || now < self.next_watch {
            return;
        }
        self.next_watch = now + WATCH_TURN;
        self.look_at_roots();
    }

    /// Asks for a reload if the root of an application leads elsewhere than when its generation began. Once for each place.
    pub(super) fn roots_lead(&mut self, roots: &BTreeMap<String, PathBuf>) {
        let leads_elsewhere = |number: &usize| {
            let application = &self.generations[*number].application;
            let root = roots.get(&application.name).filter(|root| **root != application.root)?;
            Some((application.name.clone(), root.clone()))
        };
        let Some((name, root)) = self.current.iter().find_map(leads_elsewhere) else { return };
        // One that was refused is not tried again and again.
        if self.refused_roots.insert(root.clone()) {
            self.wish_for_all(&format!("application '{name}': its root leads to {} now", root.display()), None);
        }
    }

    /// Goes on with what was wished for when it is read. `present` names the scripts that are files, by application.
    pub(super) fn begin_change(&mut self, wish: Wish, plan: Rc<Plan>, present: &BTreeMap<String, BTreeSet<String>>) {
        let none = BTreeSet::new();
        let mut numbers = Vec::new();
        for application in &plan.applications {
            let old =
                self.current.iter().copied().find(|one| self.generations[*one].application.name == application.name);
            if let Some(old) = old.filter(|_| !wish.is_for_all && !wish.applications.contains_key(&application.name)) {
                numbers.push(old);
                continue;
            }
            let ordinal = old.map_or(1, |old| self.generations[old].ordinal + 1);
            match Generation::new(application, &plan.php, ordinal, Stage::Booting) {
                Ok(mut generation) => {
                    let present = present.get(&application.name).unwrap_or(&none);
                    old.into_iter().for_each(|old| generation.inherit(&self.generations[old], present));
                    numbers.push(self.generations.add(generation));
                }
                Err(error) => {
                    let why = format!("application '{}': {error}", application.name);
                    numbers
                        .iter()
                        .filter(|one| !self.current.contains(one))
                        .for_each(|one| self.generations.remove(*one));
                    return self.refused(wish.waiting, &why);
                }
            }
        }
        let made: Vec<usize> = numbers.iter().copied().filter(|number| !self.current.contains(number)).collect();
        let (began, waiting) = (Instant::now(), wish.waiting);
        let change = Change { plan, numbers, made: made.clone(), began, is_switched: false, refused: None, waiting };
        self.change = Some(change);
        // Without a front they are made with those of the next.
        let has_front = self.front.is_some();
        for number in made.into_iter().filter(|_| has_front) {
            if let Err(error) = self.make_mailboxes(number) {
                self.refuse_generation(number, &format_args!("a slab cannot be made: {error}"));
            }
        }
        self.tell_front_of_change();
    }

    /// Sends the settings of a change that has begun to the front, before any lane of its generations.
    pub(super) fn tell_front_of_change(&mut self) {
        let (Some(change), Some(front)) = (&mut self.change, &self.front) else { return };
        if change.is_switched {
            return;
        }
        let numbers: Vec<u32> = change.numbers.iter().map(|number| *number as u32).collect();
        match (self.service.settings)(&change.plan.settings, &numbers) {
            Ok(file) => send(&front.channel, &ToFront::Settings, &[file.as_fd()]),
            Err(error) => change.refused = Some(format!("the front's settings cannot be written: {error}")),
        }
    }

    fn switch_if_ready(&mut self) {
        let Some(change) = &mut self.change else { return };
        let is_draining = |stage| matches!(stage, Stage::Draining(_));
        let is_in_the_way = |number: &usize| {
            let name = &self.generations[*number].application.name;
            !self.current.contains(number)
                && self.generations.all().any(|one| is_draining(one.stage) && one.application.name == *name)
        };
        // What stays is not waited for: an application that is in trouble must not hold up the others.
        let mut made = change.numbers.iter().filter(|number| !self.current.contains(number));
        let is_ready = made.all(|number| self.generations[*number].is_ready());
        let longest = change.plan.applications.iter().map(|one| one.boot_timeout).max().unwrap_or_default();
        if !is_ready && change.began.elapsed() > 2 * longest + LAST_BOOT {
            let why = format!("it was not ready after {:?}", change.began.elapsed());
            change.refused.get_or_insert(why);
        }
        let Some(front) = self.front.as_ref().filter(|front| front.ready && !self.doors.is_empty()) else { return };
        if change.is_switched || !is_ready || change.numbers.iter().any(is_in_the_way) {
            return;
        }
        change.is_switched = true;
        self.plan = change.plan.clone();
        let old = std::mem::replace(&mut self.current, change.numbers.clone());
        send(&front.channel, &ToFront::Switch, &[]);
        for &number in &self.current {
            self.generations[number].stage = Stage::Serving;
        }
        for number in old.into_iter().filter(|number| !self.current.contains(number)) {
            self.generations[number].stage = Stage::Draining(Instant::now());
        }
    }

    /// The front has gone over, or a new one has begun with the new settings.
    pub(super) fn switched(&mut self) {
        let Some(change) = self.change.take_if(|change| change.is_switched) else { return };
        self.pause_renewals(&change);
        let text = format!("{} after {} ms", self.names(&change.numbers), change.began.elapsed().as_millis());
        log("notice", format_args!("reloaded: {text}"));
        self.refused_roots.clear();
        self.tell(change.waiting, Ok(&text));
        self.tell_ready(None);
    }

    /// Scripts that ask in every request get what they ask for, or that it is refused, but not all of the machine.
    fn pause_renewals(&mut self, change: &Change) {
        let (now, took) = (Instant::now(), change.began.elapsed());
        self.renewed.retain(|_, (at, took)| *at + *took * RENEWAL_PAUSE > now);
        for number in &change.made {
            self.renewed.insert(self.generations[*number].application.name.clone(), (now, took));
        }
    }

    /// A generation has shown that it does not work. If it is one that is being made, the change is refused.
    pub(super) fn refuse_generation(&mut self, number: usize, why: &dyn Display) {
        if let Some(change) = self.change.as_mut().filter(|change| change.makes(number)) {
            change.refused.get_or_insert(why.to_string());
        }
    }

    fn refuse_change(&mut self, why: &str) {
        let Some(change) = self.change.take_if(|change| !change.is_switched) else { return };
        self.pause_renewals(&change);
        for number in change.numbers {
            if !self.current.contains(&number) {
                self.kill_generation(number);
            }
        }
        self.tell_front(&ToFront::SettingsWithdrawn, &[]);
        self.refused(change.waiting, why);
    }

    pub(super) fn refused(&mut self, waiting: Vec<Client>, why: &str) {
        log("error", format_args!("reload refused, the server goes on as before: {why}"));
        self.tell(waiting, Err(why));
        self.tell_ready(Some(why));
    }

    /// Lets the processes of a generation end: its lanes are drained, or nobody needs their answers.
    pub(super) fn end_generation(&mut self, number: usize) {
        self.generations[number].stage = Stage::Ending(Instant::now());
        for lane in 0..self.generations[number].lanes.len() {
            let generation = &self.generations[number];
            if let Some(mailbox) = &generation.lanes[lane].mailbox {
                mailbox.slab.set_phase(Phase::Draining);
            }
            if let Some(forker) = generation.forker(lane) {
                send(&forker.channel, &ToForker::Drain, &[]);
                // It runs the application's code, and would hear of this after that.
                if !forker.ready && lane != CLASSIC {
                    self.kill_template(number, lane);
                }
            }
        }
    }

    /// Ends a generation at once; the front refuses what waits there. Its templates and workers die with the prototype and
    /// are reaped by us.
    pub(super) fn kill_generation(&mut self, number: usize) {
        self.tell_front(&ToFront::GiveUp { generation: number as u32 }, &[]);
        let generation = &mut self.generations[number];
        generation.stage = Stage::Killed(Instant::now());
        match &generation.prototype {
            Some(prototype) => sys::kill(prototype.pid, Signal::SIGKILL),
            None => (0..generation.lanes.len()).for_each(|lane| self.kill_template(number, lane)),
        }
    }

    /// Ends generations that drain or end for too long.
    pub(super) fn end_overdue_generations(&mut self) {
        let (now, patience) = (Instant::now(), self.plan.drain_timeout);
        for number in self.generations.numbers() {
            if self.generations[number].deadline(patience).is_none_or(|deadline| now < deadline) {
                continue;
            }
            let generation = &self.generations[number];
            let (name, ordinal) = (&generation.application.name, generation.ordinal);
            log(
                "warning",
                format_args!("{name}, generation {ordinal}: not drained after {patience:?}; its processes are killed"),
            );
            self.kill_generation(number);
        }
    }

    /// Takes generations off the list when the last of their processes is reaped.
    pub(super) fn forget_generations(&mut self) {
        for number in self.generations.numbers() {
            if self.generations[number].is_ending() && self.generations[number].is_gone() {
                self.pass_on_last_messages(&[number]);
                self.generations.remove(number);
            }
        }
    }

    /// The front has no request of a generation left.
    pub(super) fn generation_retired(&mut self, number: usize) {
        if self.generations.get(number).is_some_and(|one| matches!(one.stage, Stage::Draining(_))) {
            self.end_generation(number);
        }
    }
}
