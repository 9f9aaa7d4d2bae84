//! `reprise release activate` and `rollback`: all nodes get ready, then one record says that they serve it. If one of them cannot, none does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use release::keys::SecretKey;
use release::manifest::is_name;
use release::pool::{Pool, SILENT, Slot, Step};
use release::record::{Kind, Record, Release, parse_name};
use serde_json::json;

use super::shelving::{digest_in, find};
use super::showing::{nodes, plain};
use super::{Key, Where, failed, print};
use crate::exit::{Code, Failure};

/// How often nodes are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Nodes stay ready for so long beyond the time in which they have to be.
const HOLD_BEYOND: Duration = Duration::from_secs(30);
/// How long this waits to see that nodes have switched.
const SEEN: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Args)]
pub struct Activate {
    #[command(flatten)]
    of: Where,
    /// The release: its sequence, the beginning of its id, or latest
    #[arg(value_name = "RELEASE")]
    release: String,
    #[command(flatten)]
    how: How,
}

/// What is asked for.
#[derive(Args)]
pub struct Rollback {
    #[command(flatten)]
    of: Where,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
struct How {
    #[command(flatten)]
    key: Key,
    /// The nodes that have to be ready; else all that have said something in the last ten seconds
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    members: Vec<String>,
    /// How many of them are enough; the others follow when they can
    #[arg(long, value_name = "N")]
    quorum: Option<u32>,
    /// How long nodes may take to get ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

struct Switching<'a> {
    of: &'a Where,
    how: &'a How,
    key: Option<SecretKey>,
    pool: Box<dyn Pool>,
    served: Option<Record>,
}

pub fn activate(asked: &Activate) -> Result<Code, Failure> {
    let mut switching = Switching::begin(&asked.of, &asked.how)?;
    let name = find(&mut *switching.pool, &asked.of, &asked.release)?;
    let digest = digest_in(&mut *switching.pool, &name, switching.key.as_ref())?;
    let (sequence, id) = parse_name(&name).unwrap_or_default();
    switching.run(Release { sequence, id: id.to_owned(), digest })
}

pub fn rollback(asked: &Rollback) -> Result<Code, Failure> {
    let switching = Switching::begin(&asked.of, &asked.how)?;
    let previous = switching.served.as_ref().and_then(|record| record.previous.clone());
    let Some(release) = previous else {
        let why = "there is no release before the one that is served";
        return Err(Failure::new(Code::Usage, format!("rollback of '{}'", asked.of.name), why)
            .hint("reprise release list POOL NAME, then activate one of them"));
    };
    switching.run(release)
}

impl<'a> Switching<'a> {
    fn begin(of: &'a Where, how: &'a How) -> Result<Switching<'a>, Failure> {
        let mut switching = Switching { of, how, key: how.key.read()?, pool: of.open()?, served: None };
        switching.served = switching.record(Slot::Serve)?;
        Ok(switching)
    }

    /// A record whose signature is right: what it says is signed again.
    fn record(&mut self, slot: Slot) -> Result<Option<Record>, Failure> {
        let bytes = self.pool.read(slot).map_err(self.of.failed())?;
        let keys = Key::trusted(self.key.as_ref());
        let opened = bytes.map(|bytes| Record::open(&bytes, &self.of.name, &keys)).transpose();
        opened.map_err(failed(format!("the record '{}' of '{}'", slot.word(), self.of.name)))
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(Code::NotBooted, format!("nothing has changed: '{}'", self.of.name), why)
    }

    fn members(&mut self) -> Result<Vec<String>, Failure> {
        if let Some(odd) = self.how.members.iter().find(|name| !is_name(name)) {
            return Err(Failure::new(Code::Usage, "--members", format!("'{odd}' cannot be a node's name")));
        }
        if !self.how.members.is_empty() {
            return Ok(self.how.members.clone());
        }
        let there = nodes(&mut *self.pool, self.of)?;
        Ok(there.into_iter().filter(|(report, _)| report.age <= SILENT).map(|(report, _)| report.node).collect())
    }

    /// The number of the next record. Whoever takes it first has it.
    fn next_number(&mut self) -> Result<u64, Failure> {
        let prepared = self.record(Slot::Prepare)?.map_or(0, |one| one.number);
        Ok(prepared.max(self.served.as_ref().map_or(0, |one| one.number)).saturating_add(1))
    }

    fn advance(&mut self, step: Step, record: &Record) -> Result<(), Failure> {
        let sealed = record.seal(self.key.as_ref()).map_err(self.of.failed())?;
        match self.pool.advance(step, record.number, &sealed).map_err(self.of.failed())? {
            true => Ok(()),
            false => Err(self
                .failed(format!("somebody else has begun something, with a record above {}", record.number - 1))
                .hint("reprise release status POOL NAME")),
        }
    }

    fn run(mut self, release: Release) -> Result<Code, Failure> {
        let began = Instant::now();
        let members = self.members()?;
        let quorum = self.how.quorum.unwrap_or(members.len() as u32).min(members.len() as u32);
        let before = self.served.as_ref();
        // What is served already leaves the one before as it is.
        let previous = match before {
            Some(before) if before.release == release => before.previous.clone(),
            before => before.map(|before| before.release.clone()),
        };
        let timeout = Duration::from_secs(self.how.timeout);
        let record = Record {
            kind: Kind::Prepare,
            application: self.of.name.clone(),
            number: self.next_number()?,
            release,
            previous,
            members,
            quorum,
            hold_ms: (timeout + HOLD_BEYOND).as_millis() as u64,
        };
        self.advance(Step::Prepare, &record)?;
        // From here on nobody else can say what is served. Somebody may have while the release was looked at.
        let now = self.record(Slot::Serve)?;
        if now.as_ref().map(|one| one.number) != self.served.as_ref().map(|one| one.number) {
            self.advance(Step::Withdraw, &Record { kind: Kind::Withdraw, ..record })?;
            return Err(self.failed("somebody else has switched meanwhile").hint("reprise release status POOL NAME"));
        }
        if record.members.is_empty() {
            eprintln!("no node has said anything in the last ten seconds: the record is for those that come");
        }
        if let Err(why) = self.wait_until_ready(&record, timeout) {
            let withdrawn = Record { kind: Kind::Withdraw, ..record };
            self.advance(Step::Withdraw, &withdrawn)?;
            return Err(why);
        }
        let ready = began.elapsed();
        let record = Record { kind: Kind::Serve, ..record };
        self.advance(Step::Serve, &record)?;
        let written = Instant::now();
        let late = self.wait_until_served(&record);
        let window = written.elapsed();
        let value = json!({
            "name": self.of.name, "release": record.release.name(), "record": record.number, "members": record.members, "late": late,
            "ready_ms": ready.as_millis() as u64, "switched_ms": window.as_millis() as u64, "ms": began.elapsed().as_millis() as u64,
        });
        let mut text = format!(
            "{} serves {} by record {}: {} nodes ready after {} ms, switched {} ms later",
            self.of.name,
            record.release.name(),
            record.number,
            record.members.len() - late.len(),
            ready.as_millis(),
            window.as_millis()
        );
        if !late.is_empty() {
            text.push_str(&format!("; these follow when they can: {}", late.join(", ")));
        }
        print(self.of.json, &value, &text);
        Ok(Code::Success)
    }

    /// Waits until enough nodes are ready, or too many cannot be.
    fn wait_until_ready(&mut self, record: &Record, timeout: Duration) -> Result<(), Failure> {
        let (until, mut said) = (Instant::now() + timeout, BTreeMap::new());
        loop {
            let (mut ready, mut lost) = (0, Vec::new());
            let there = nodes(&mut *self.pool, self.of)?;
            for member in &record.members {
                let Some((report, state)) = there.iter().find(|(report, _)| report.node == *member) else {
                    lost.push(format!("{member} has said nothing"));
                    continue;
                };
                let is_about_this = state.number == record.number;
                match state.state.as_str() {
                    _ if report.age > SILENT => {
                        lost.push(format!("{member} has said nothing for {} s", report.age.as_secs()))
                    }
                    "ready" if is_about_this => ready += 1,
                    "failed" if is_about_this => {
                        lost.push(format!("{member}: {}", plain(state.why.as_deref().unwrap_or("it cannot"))));
                    }
                    _ => {}
                }
                if is_about_this && said.insert(member.clone(), state.state.clone()).as_ref() != Some(&state.state) {
                    eprintln!("{member}: {}", plain(&state.state));
                }
            }
            if ready >= record.quorum as usize {
                return Ok(());
            }
            if record.members.len() - lost.len() < record.quorum as usize {
                return Err(self.failed(format!(
                    "{} of {} nodes would be enough, and: {}",
                    record.quorum,
                    record.members.len(),
                    lost.join("; ")
                )));
            }
            if Instant::now() > until {
                let why =
                    format!("{ready} of {} nodes were ready within {} s", record.members.len(), timeout.as_secs());
                return Err(self.failed(why).hint("reprise release status POOL NAME; --timeout SECONDS"));
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Waits until the nodes have switched. Returns those that have not.
    fn wait_until_served(&mut self, record: &Record) -> Vec<String> {
        let until = Instant::now() + SEEN;
        loop {
            // The record is written: what fails from here on changes nothing.
            let there = nodes(&mut *self.pool, self.of).unwrap_or_default();
            let serves = |member: &&String| {
                there
                    .iter()
                    .any(|(report, state)| report.node == **member && state.serving.as_ref() == Some(&record.release))
            };
            let late: Vec<String> = record.members.iter().filter(|member| !serves(member)).cloned().collect();
            if late.is_empty() || Instant::now() > until {
                return late;
            }
            std::thread::park_timeout(LOOK);
        }
    }
}
