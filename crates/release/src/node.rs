//! What a node does about the records of a pool. No clock, no pool and no process is used here, so each case can be tested.
//!
//! | work | leads to |
//! |---|---|
//! | fetching | the release is brought, checked and unpacked → booting |
//! | booting | a generation of it boots and is warmed beside the one that serves → ready, or switching if its record says "serve" already |
//! | ready | it waits for the record that says "serve", and reports that it is ready |
//! | switching | new requests go to it → it is served |
//! | failed | said in the report; a record that says "serve" is tried again later |

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::record::{Kind, Record, Release};

/// A node that is ready has to read the pool so often; after that it does not know what the others serve.
pub const READ_BY: Duration = Duration::from_secs(3);
/// Before a release that is to be served and failed is tried again; then twice as long each time.
const AGAIN: Duration = Duration::from_secs(2);
/// At longest.
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);

/// The records of the pool whose signatures are right.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What is to be prepared.
    pub prepare: Option<Record>,
    /// What is to be served.
    pub serve: Option<Record>,
}

/// What was found in the pool; or it does not respond, and why.
pub type Look = Result<Seen, String>;

/// What has come of the work.
#[derive(Clone, Debug)]
pub enum Event {
    /// The release is unpacked, or cannot be.
    Fetched(Result<(), Fault>),
    /// Its generation is booted and warmed, and waits.
    Booted,
    /// Its generation cannot serve; why.
    BootFailed(String),
    /// New requests go to it.
    Switched,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Bring and unpack a release.
    Fetch(Release),
    /// Boot a generation of it, and hold it.
    Boot(Release),
    /// Let new requests go to that.
    Switch,
    /// Give up what was begun.
    Abandon,
    /// The server is not to get requests, and why; `None`: it is again.
    Unready(Option<String>),
    /// Remember that this is served, by the record of this number.
    Keep(Release, u64),
    /// A line of the log.
    Log(&'static str, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Fetching,
    Booting,
    Ready,
    Switching,
    Failed { why: String, again: Instant },
}

/// A release that is on its way.
#[derive(Clone, Debug)]
struct Work {
    release: Release,
    number: u64,
    /// It is to be served, not only prepared.
    is_due: bool,
    stage: Stage,
    hold: Duration,
    since: Instant,
    failures: u32,
}

/// What a node says of itself in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// `serving`, `fetching`, `booting`, `ready`, `switching`, `failed`.
    pub state: String,
    /// The record that this is about.
    pub number: u64,
    /// Why it failed.
    pub why: Option<String>,
    /// What it serves.
    pub serving: Option<Release>,
    /// Whether it takes itself for fit to serve.
    pub is_ready: bool,
}

/// A node.
pub struct Node {
    serving: Option<Release>,
    number: u64,
    work: Option<Work>,
    uncertain: Duration,
    is_read_only: bool,
    /// When the pool was read last.
    heard: Instant,
    /// Since when it has been unready, and whether that was long enough.
    doubt: Option<(Instant, bool)>,
    name: String,
    /// What was logged last of what is seen again and again.
    said: Option<String>,
}

impl Node {
    /// A node that serves that, by the record of that number.
    pub fn new(name: &str, serving: Option<Release>, number: u64, uncertain: Duration, now: Instant) -> Node {
        Node {
            serving,
            number,
            work: None,
            uncertain,
            is_read_only: false,
            heard: now,
            doubt: None,
            name: name.to_owned(),
            said: None,
        }
    }

    /// The pool can only be read: nobody waits for anybody.
    pub fn set_read_only(&mut self) {
        self.is_read_only = true;
    }

    /// What it says of itself.
    pub fn state(&self) -> State {
        let state = |word: &str, number, why| State {
            state: word.to_owned(),
            number,
            why,
            serving: self.serving.clone(),
            is_ready: !matches!(self.doubt, Some((_, false))) && self.serving.is_some(),
        };
        match &self.work {
            None => state("serving", self.number, None),
            Some(work) => match &work.stage {
                Stage::Fetching => state("fetching", work.number, None),
                Stage::Booting => state("booting", work.number, None),
                Stage::Ready => state("ready", work.number, None),
                Stage::Switching => state("switching", work.number, None),
                Stage::Failed { why, .. } => state("failed", work.number, Some(why.clone())),
            },
        }
    }

    /// Whether it waits for a record that may come at any moment.
    pub fn is_waiting(&self) -> bool {
        self.work.as_ref().is_some_and(|work| !matches!(work.stage, Stage::Failed { .. }))
    }

    /// The release on its way, whose files have to stay.
    pub fn needed(&self) -> Option<&Release> {
        self.work.as_ref().map(|work| &work.release)
    }

    /// Says once what is seen again and again.
    fn say(&mut self, level: &'static str, text: String) -> Option<Action> {
        let is_new = self.said.as_ref() != Some(&text);
        self.said = Some(text.clone());
        is_new.then_some(Action::Log(level, text))
    }

    fn begin(&mut self, record: &Record, is_due: bool, now: Instant) -> Vec<Action> {
        let mut actions = self.abandon();
        let hold = Duration::from_millis(record.hold_ms);
        let is_same = self.serving.as_ref() == Some(&record.release);
        let stage = if is_same { Stage::Ready } else { Stage::Fetching };
        self.work = Some(Work {
            release: record.release.clone(),
            number: record.number,
            is_due,
            stage,
            hold,
            since: now,
            failures: 0,
        });
        if !is_same {
            let what = if is_due { "to be served" } else { "to be prepared" };
            let text = format!("release {} is {what}, by record {}", record.release.name(), record.number);
            actions.push(Action::Log("notice", text));
            actions.push(Action::Fetch(record.release.clone()));
        }
        actions
    }

    fn abandon(&mut self) -> Vec<Action> {
        let is_running = |work: &Work| !matches!(work.stage, Stage::Failed { .. });
        let was_running = self.work.take().is_some_and(|work| is_running(&work));
        if was_running { vec![Action::Abandon] } else { Vec::new() }
    }

    /// Serves what is ready, by a record.
    fn serve_ready(&mut self, number: u64) -> Vec<Action> {
        let Some(work) = &mut self.work else { return Vec::new() };
        (work.is_due, work.number) = (true, number);
        if self.serving.as_ref() == Some(&work.release) {
            let release = work.release.clone();
            self.work = None;
            self.number = number;
            return vec![Action::Keep(release, number)];
        }
        work.stage = Stage::Switching;
        vec![Action::Switch]
    }

    /// Does what the record says that is to be served.
    fn follow(&mut self, record: &Record, now: Instant) -> Vec<Action> {
        if record.number < self.number {
            let text =
                format!("the pool says record {}, and {} was followed already: a replay", record.number, self.number);
            return self.say("warning", text).into_iter().collect();
        }
        if record.number == self.number {
            let is_other = self.serving.as_ref().is_some_and(|serving| *serving != record.release);
            let text = format!("the pool has two releases for record {}: the first one stays", record.number);
            return is_other.then(|| self.say("error", text)).flatten().into_iter().collect();
        }
        let stage = self.work.as_ref().filter(|work| work.release == record.release).map(|work| work.stage.clone());
        match stage {
            Some(Stage::Ready) => self.serve_ready(record.number),
            Some(Stage::Fetching | Stage::Booting) => {
                if let Some(work) = &mut self.work {
                    (work.is_due, work.number) = (true, record.number);
                }
                Vec::new()
            }
            Some(Stage::Switching) => Vec::new(),
            Some(Stage::Failed { again, .. }) if now < again => {
                self.work.iter_mut().for_each(|work| (work.is_due, work.number) = (true, record.number));
                Vec::new()
            }
            Some(Stage::Failed { .. }) => {
                let failures = self.work.as_ref().map_or(0, |work| work.failures);
                let actions = self.begin(record, true, now);
                self.work.iter_mut().for_each(|work| work.failures = failures);
                actions
            }
            // It serves that already.
            None if self.serving.as_ref() == Some(&record.release) => {
                let mut actions = self.abandon();
                self.number = record.number;
                actions.push(Action::Keep(record.release.clone(), record.number));
                actions
            }
            // A switch cannot be taken back: it is followed when that is done.
            None if self.work.as_ref().is_some_and(|work| work.stage == Stage::Switching) => Vec::new(),
            // What was served last is not to be had here, and its successor is on its way already.
            None if self.work.as_ref().is_some_and(|work| !work.is_due && work.number > record.number) => Vec::new(),
            None => self.begin(record, true, now),
        }
    }

    /// Does what the record says that is to be prepared.
    fn prepare(&mut self, record: &Record, now: Instant) -> Vec<Action> {
        let is_known = self.work.as_ref().is_some_and(|work| work.number >= record.number);
        // What is to be served and cannot be is what a new release mends.
        let is_settled =
            self.work.as_ref().is_some_and(|work| work.is_due && !matches!(work.stage, Stage::Failed { .. }));
        match record.kind {
            Kind::Withdraw => {
                let is_it = self.work.as_ref().is_some_and(|work| work.number == record.number && !work.is_due);
                if !is_it {
                    return Vec::new();
                }
                let mut actions = self.abandon();
                actions.push(Action::Log("notice", format!("record {} was withdrawn", record.number)));
                actions
            }
            Kind::Prepare => {
                let is_member = record.members.contains(&self.name);
                if record.number <= self.number || is_known || is_settled || !is_member {
                    return Vec::new();
                }
                self.begin(record, false, now)
            }
            Kind::Serve => Vec::new(),
        }
    }

    /// Looks at the pool.
    pub fn look(&mut self, look: &Look, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match look {
            Err(why) => {
                let text = format!("the pool does not respond, and what is served stays: {why}");
                actions.extend(self.say("warning", text));
            }
            Ok(Seen { prepare, serve }) => {
                self.heard = now;
                let serve = serve.as_ref().filter(|record| record.kind == Kind::Serve);
                let is_served = |number: u64| serve.is_some_and(|record| record.number >= number);
                let prepare = prepare.as_ref().filter(|record| !is_served(record.number));
                if let Some(record) = serve {
                    actions.extend(self.follow(record, now));
                }
                if let Some(record) = prepare {
                    actions.extend(self.prepare(record, now));
                }
            }
        }
        actions.extend(self.end_hold(now));
        actions.extend(self.judge(now));
        actions
    }

    /// Nobody has said that what is ready is to be served.
    fn end_hold(&mut self, now: Instant) -> Vec<Action> {
        let Some(work) = self.work.as_mut() else { return Vec::new() };
        let is_over =
            work.stage == Stage::Ready && !work.is_due && now.saturating_duration_since(work.since) > work.hold;
        if !is_over {
            return Vec::new();
        }
        let why = format!("nobody has said within {:?} that it is to be served", work.hold);
        work.stage = Stage::Failed { why: why.clone(), again: now };
        vec![Action::Abandon, Action::Log("warning", format!("release {}: {why}", work.release.name()))]
    }

    /// Why this node may serve something else than the others.
    fn trouble(&self, now: Instant) -> Option<String> {
        let work = self.work.as_ref()?;
        let unheard = now.saturating_duration_since(self.heard);
        if work.stage == Stage::Ready && !work.is_due && unheard > READ_BY {
            return Some(format!(
                "the pool has not responded for {} s, and others may serve {} already",
                unheard.as_secs(),
                work.release.name()
            ));
        }
        let is_behind = work.is_due && !self.is_read_only && now.saturating_duration_since(work.since) > READ_BY;
        is_behind.then(|| format!("others serve {}, which this node does not have yet", work.release.name()))
    }

    /// Unready while it cannot know, but not for long: a pool that is gone must not stop the site.
    fn judge(&mut self, now: Instant) -> Vec<Action> {
        if self.serving.is_none() {
            return Vec::new();
        }
        let trouble = self.trouble(now);
        match (trouble, self.doubt) {
            (None, None) => Vec::new(),
            (None, Some((_, is_over))) => {
                self.doubt = None;
                if is_over { Vec::new() } else { vec![Action::Unready(None)] }
            }
            (Some(why), None) => {
                self.doubt = Some((now, false));
                vec![
                    Action::Unready(Some(why.clone())),
                    Action::Log("warning", format!("unready for {:?} at most: {why}", self.uncertain)),
                ]
            }
            (Some(why), Some((since, false))) if now.saturating_duration_since(since) >= self.uncertain => {
                self.doubt = Some((since, true));
                let serving = self.serving.as_ref().map(Release::name).unwrap_or_default();
                vec![
                    Action::Unready(None),
                    Action::Log(
                        "error",
                        format!("ready again with the release {serving}, which may be the old one: {why}"),
                    ),
                ]
            }
            (Some(_), Some(_)) => Vec::new(),
        }
    }

    /// Takes what has come of the work.
    pub fn take(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let Some(work) = &mut self.work else { return Vec::new() };
        match (event, &work.stage) {
            (Event::Fetched(Ok(())), Stage::Fetching) => {
                work.stage = Stage::Booting;
                vec![Action::Boot(work.release.clone())]
            }
            (Event::Fetched(Err(fault)), Stage::Fetching) => self.fail(&fault.to_string(), now),
            (Event::BootFailed(why), Stage::Booting | Stage::Ready | Stage::Switching) => self.fail(&why, now),
            (Event::Booted, Stage::Booting) => {
                (work.stage, work.since) = (Stage::Ready, now);
                let text = format!("release {} is ready, by record {}", work.release.name(), work.number);
                let number = work.number;
                let is_due = work.is_due;
                let mut actions = vec![Action::Log("notice", text)];
                if is_due {
                    actions.extend(self.serve_ready(number));
                }
                actions
            }
            (Event::Switched, Stage::Switching) => {
                let (release, number) = (work.release.clone(), work.number);
                self.work = None;
                (self.serving, self.number) = (Some(release.clone()), number);
                let mut actions = self.judge(now);
                if actions.is_empty() {
                    // The first release of all makes the server fit to serve.
                    actions.push(Action::Unready(None));
                }
                let text = format!("release {} is served, by record {number}", release.name());
                actions.extend([Action::Keep(release, number), Action::Log("notice", text)]);
                actions
            }
            _ => Vec::new(),
        }
    }

    fn fail(&mut self, why: &str, now: Instant) -> Vec<Action> {
        let Some(work) = &mut self.work else { return Vec::new() };
        let pause = AGAIN.saturating_mul(2u32.saturating_pow(work.failures)).min(AGAIN_AT_MOST);
        work.failures += 1;
        work.stage = Stage::Failed { why: why.to_owned(), again: now + pause };
        let text = format!("release {} cannot be served, and what is served stays: {why}", work.release.name());
        vec![Action::Log("error", text)]
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
