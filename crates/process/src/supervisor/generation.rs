//! Generations: one prototype each, with everything forked from it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Index, IndexMut};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::control::{Bodies, FromForker, FromFront, Isolation, MAX_LANES, Message, ToForker, ToFront};
use wire::key::Key;
use wire::layout::Activity;
use wire::slab::Slab;

use super::Messages;
use super::elastic::Target;
use super::hearing::Hearing;
use super::lanes::Template;
use super::places::{Places, Use};
use super::service::{Application, Entry};
use super::warm::Warmth;
use crate::channel::Channel;
use crate::plan::{BackOff, Slot, Suspicion};

/// The lane of whatever has no lane of its own.
pub(super) const CLASSIC: usize = 0;

/// What a generation is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is made ready beside the one that serves.
    Booting,
    /// New requests go to it.
    Serving,
    /// The front finishes what it has there, since then.
    Draining(Instant),
    /// Its processes end, since then.
    Ending(Instant),
    /// Its processes are killed and not all reaped, since then.
    Killed(Instant),
}

/// What a worker is killed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// `request_timeout`.
    Time,
    /// `request_memory`.
    Memory,
}

/// One generation of an application.
pub(super) struct Generation {
    pub(super) application: Rc<Application>,
    /// `reprise-php`, opened.
    pub(super) php: Rc<OwnedFd>,
    /// Which of its application's, from 1.
    pub(super) ordinal: u32,
    pub(super) stage: Stage,
    pub(super) suspicion: Suspicion,
    /// Workers that ended as they should not.
    pub(super) crashes: u64,
    pub(super) warmth: Warmth,
    pub(super) places: Places,
    /// Workers that were killed for a limit.
    pub(super) limited: BTreeMap<i32, Limit>,
    pub(super) prototype: Option<Forker>,
    /// Classic first.
    pub(super) lanes: Vec<Lane>,
    pub(super) messages: Messages,
    /// Scripts that a child looks for, and that are to have their lane before visitors come.
    pub(super) sought: usize,
}

/// The front, or a forker.
pub(super) struct Child<Out, In> {
    /// 0: a template whose process is not known yet.
    pub(super) pid: i32,
    pub(super) channel: Channel<Out, In>,
    pub(super) since: Instant,
    pub(super) ready: bool,
    pub(super) hearing: Hearing,
}

pub(super) type Front = Child<ToFront, FromFront>;

/// A prototype, a template or the forker of a worker script.
pub(super) type Forker = Child<ToForker, FromForker>;

impl<Out: Message, In: Message> Child<Out, In> {
    pub(super) fn new(pid: i32, channel: Channel<Out, In>) -> Child<Out, In> {
        Child { pid, channel, since: Instant::now(), ready: false, hearing: Hearing::default() }
    }
}

/// What belongs to one epoch of a lane.
pub(super) struct Mailbox {
    pub(super) descriptor: OwnedFd,
    pub(super) slab: Slab,
    pub(super) slots: Vec<Slot>,
    pub(super) started: Vec<Instant>,
    /// How often in a row its slab was found in disorder.
    pub(super) damaged: u32,
    /// The front was told of it.
    pub(super) is_told: bool,
    /// The front has said that it uses it.
    pub(super) is_known: bool,
}

impl Mailbox {
    /// Workers that live or were asked for.
    pub(super) fn live(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Live(_) | Slot::Asked)).count()
    }

    /// Whether there is or will be one in that slot which does not end.
    pub(super) fn stays(&self, slot: usize) -> bool {
        let is_leaving = || self.slab.slot(slot).is_some_and(|line| line.leaves.load(Ordering::SeqCst) != 0);
        matches!(self.slots[slot], Slot::Live(_) | Slot::Asked) && !is_leaving()
    }

    /// Whether the worker in that slot has come to wait for requests. Its own word.
    pub(super) fn has_begun(&self, slot: usize) -> bool {
        self.slab.slot(slot).is_some_and(|line| line.activity.load(Ordering::Relaxed) >= Activity::Idle as u32)
    }

    /// A worker is asked for.
    pub(super) fn ask(&mut self, slot: usize, now: Instant) {
        (self.slots[slot], self.started[slot]) = (Slot::Asked, now);
        self.slab.slot(slot).into_iter().for_each(|line| line.leaves.store(0, Ordering::SeqCst));
    }
}

/// Of what php.ini allows and a boot has, the front refuses what is longer than both.
pub(super) fn largest_limit(one: Bodies, other: Bodies) -> u64 {
    if one.limit == 0 || other.limit == 0 { 0 } else { one.limit.max(other.limit) }
}

pub(super) struct Lane {
    pub(super) bodies: Bodies,
    /// The [`Key`] of the requests it takes, as text; none: classic.
    pub(super) entry: Option<String>,
    pub(super) template: Option<Template>,
    pub(super) isolation: Isolation,
    /// Its generation is not ready before this lane is, unless it has failed.
    pub(super) is_awaited: bool,
    /// The server does not start without it.
    pub(super) is_required: bool,
    /// The last boot failed.
    pub(super) has_failed: bool,
    pub(super) mailbox: Option<Mailbox>,
    /// Workers of earlier fronts that have not ended yet, and since when.
    pub(super) retired: Vec<(i32, Instant)>,
    pub(super) back_off: BackOff,
    pub(super) not_before: Instant,
    pub(super) served: bool,
    pub(super) target: Target,
    pub(super) used: Use,
}

/// All generations that have processes, by numbers that are never used again.
#[derive(Default)]
pub(super) struct Generations {
    list: BTreeMap<usize, Generation>,
    next: usize,
}

impl Lane {
    pub(super) fn classic(now: Instant) -> Lane {
        Lane {
            bodies: Bodies::default(),
            entry: None,
            template: None,
            isolation: Isolation::Auto,
            is_awaited: true,
            is_required: false,
            has_failed: false,
            mailbox: None,
            retired: Vec::new(),
            back_off: BackOff::default(),
            not_before: now,
            served: false,
            target: Target::new(now),
            used: Use::new(now),
        }
    }

    pub(super) fn of(entry: &Entry, now: Instant) -> Lane {
        Lane {
            entry: Some(entry.script.clone()),
            is_required: entry.is_required,
            isolation: if entry.is_loop { Isolation::Loop } else { Isolation::Auto },
            ..Lane::classic(now)
        }
    }

    /// Which requests it takes; none: classic.
    pub(super) fn key(&self) -> Option<Key<'_>> {
        Key::parse(self.entry.as_deref()?)
    }

    /// Whether its template is booted as that key wants it: as its own, or by the first origin, for whose requests alone the
    /// snapshot may turn out to be.
    pub(super) fn boots(&self, wanted: &str, application: &Application) -> bool {
        let own = self.entry.as_deref();
        let is_first = |key: Key<'_>| Some(key.script) == own && key.origin == Some(application.first_origin());
        own == Some(wanted) || Key::parse(wanted).is_some_and(is_first)
    }

    /// Whether the front sends it requests and somebody takes them. Workers of a worker script boot first, each by itself.
    pub(super) fn is_served(&self) -> bool {
        let Some(mailbox) = self.mailbox.as_ref().filter(|mailbox| mailbox.is_known) else { return false };
        let is_there = |slot: usize| match mailbox.slots[slot] {
            Slot::Live(_) => self.isolation != Isolation::Loop || mailbox.has_begun(slot),
            Slot::Asked | Slot::Empty | Slot::Leaving => false,
        };
        let are_booting = || mailbox.live() > (0..mailbox.slots.len()).filter(|slot| is_there(*slot)).count();
        (0..mailbox.slots.len()).any(is_there) && !(self.isolation == Isolation::Loop && are_booting())
    }

    /// Whether workers of a dead forker are not reaped yet, if its forker is dead.
    pub(super) fn has_workers(&self) -> bool {
        self.mailbox.iter().flat_map(|mailbox| &mailbox.slots).any(|slot| matches!(slot, Slot::Live(_) | Slot::Asked))
    }
}

impl Generation {
    /// Without any process yet.
    pub(super) fn new(
        application: &Rc<Application>,
        php: &Rc<OwnedFd>,
        ordinal: u32,
        stage: Stage,
    ) -> io::Result<Generation> {
        let messages = Messages::of_application(&application.name)?;
        let now = Instant::now();
        let entries = application.entries.iter().map(|entry| Lane::of(entry, now));
        Ok(Generation {
            application: application.clone(),
            php: php.clone(),
            ordinal,
            stage,
            suspicion: Suspicion::default(),
            crashes: 0,
            warmth: Warmth::Cold,
            places: Places::default(),
            limited: BTreeMap::new(),
            prototype: None,
            lanes: std::iter::once(Lane::classic(now)).chain(entries).collect(),
            messages,
            sought: 0,
        })
    }

    /// Adds the lanes that another generation of the application has found out about while it ran; each begins with as many
    /// workers as it had there. `present` names scripts that are files in the root.
    pub(super) fn inherit(&mut self, other: &Generation, present: &BTreeSet<String>) {
        for entry in other.heritage() {
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
            let same = other.lanes.iter().find(|one| one.entry == lane.entry);
            same.into_iter().for_each(|same| lane.target.inherit(&same.target));
        }
    }

    /// Entries that the next generation may get from this one.
    pub(super) fn heritage(&self) -> Vec<Entry> {
        let staying = self.lanes[1..].iter().filter(|lane| !self.places.cedes(lane)).filter_map(|lane| {
            let is_loop = lane.isolation == Isolation::Loop;
            Some(Entry { script: lane.entry.clone()?, is_required: false, is_loop })
        });
        staying.chain(self.places.homeless().iter().cloned()).collect()
    }

    /// The process that forks a lane's workers.
    pub(super) fn forker(&self, lane: usize) -> Option<&Forker> {
        if lane == CLASSIC { self.prototype.as_ref() } else { Some(&self.lanes.get(lane)?.template.as_ref()?.child) }
    }

    /// The prototype and the templates.
    pub(super) fn forkers(&self) -> impl Iterator<Item = &Forker> {
        (0..self.lanes.len()).filter_map(|lane| self.forker(lane))
    }

    /// The forker of a lane, if it can fork now.
    pub(super) fn working_forker(&self, lane: usize) -> Option<&Forker> {
        let is_leaving = self.lanes.get(lane)?.template.as_ref().is_some_and(|template| template.leaving.is_some());
        self.forker(lane).filter(|child| child.ready && child.pid > 0 && !is_leaving)
    }

    /// Whether visitors' requests may come.
    pub(super) fn is_ready(&self) -> bool {
        self.warmth == Warmth::Warm && self.has_lanes()
    }

    /// Whether everything that is known to be needed serves, or has shown that it will not.
    pub(super) fn has_lanes(&self) -> bool {
        self.sought == 0 && self.lanes.iter().all(|lane| !lane.is_awaited || lane.has_failed || lane.is_served())
    }

    /// Whether it is not ready because workers are on their way to their loop, which only their slots tell.
    pub(super) fn waits_for_workers(&self) -> bool {
        let boots = |lane: &Lane| lane.isolation == Isolation::Loop && lane.has_workers() && !lane.is_served();
        self.warmth != Warmth::Warm && !self.is_ending() && self.lanes.iter().any(boots)
    }

    /// Whether that lane is of a script that the configuration does not name, nor is the front controller.
    pub(super) fn is_found(&self, lane: usize) -> bool {
        let Some(key) = self.lanes.get(lane).and_then(Lane::key) else { return false };
        let is_its = |entry: &Entry| Key::parse(&entry.script).is_some_and(|named| named.script == key.script);
        !self.application.entries.iter().any(is_its)
    }

    /// Whether its processes are not to be replaced when they end.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Ending(_) | Stage::Killed(_))
    }

    /// When it has to be drained, or gone.
    pub(super) fn deadline(&self, patience: Duration) -> Option<Instant> {
        match self.stage {
            Stage::Draining(since) | Stage::Ending(since) => Some(since + patience),
            Stage::Booting | Stage::Serving | Stage::Killed(_) => None,
        }
    }

    /// Whether all templates and workers of an earlier prototype are reaped.
    pub(super) fn has_no_orphans(&self) -> bool {
        self.lanes.iter().all(|lane| lane.template.is_none() && !lane.has_workers())
    }

    /// Whether none of its processes is left.
    pub(super) fn is_gone(&self) -> bool {
        self.prototype.is_none() && self.has_no_orphans() && self.lanes.iter().all(|lane| lane.retired.is_empty())
    }
}

impl Generations {
    pub(super) fn add(&mut self, generation: Generation) -> usize {
        let number = self.next;
        self.next += 1;
        self.list.insert(number, generation);
        number
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.list.remove(&number);
    }

    pub(super) fn get(&self, number: usize) -> Option<&Generation> {
        self.list.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Generation> {
        self.list.get_mut(&number)
    }

    pub(super) fn numbers(&self) -> Vec<usize> {
        self.list.keys().copied().collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Generation> {
        self.list.values()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Generation> {
        self.list.values_mut()
    }
}

impl Index<usize> for Generations {
    type Output = Generation;

    fn index(&self, number: usize) -> &Generation {
        &self.list[&number]
    }
}

impl IndexMut<usize> for Generations {
    fn index_mut(&mut self, number: usize) -> &mut Generation {
        self.list.get_mut(&number).expect("numbers come from the list")
    }
}
