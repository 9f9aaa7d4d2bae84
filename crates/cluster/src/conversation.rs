//! What a worker asks, and the replies. The conversation ends with the worker, and with it the leases and locks that were given in it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use data_cache::layout::Talked;
use data_cache::talk::{self, HEAD, Head, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::envelope::{Change, ELSEWHERE, Position, Value, version};
use crate::pool::Unasked;
use crate::shared::Shared;
use crate::terms::{LONGEST, Name};
use crate::valkey::Valkey;

/// Milliseconds for which a lease to compute a value lies in the store, if nobody extends it.
const LEASE: u64 = 10_000;
/// How often it is extended.
const EXTEND: Duration = Duration::from_secs(3);
/// How long, at most: whoever computes for longer is not waited for.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// Milliseconds that a worker may wait for another node, at most.
const LONGEST_WAIT: u64 = 3_600_000;
/// How often a node that waits looks whether the value is there: first, and at most. One worker of each node does that.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(20)];
/// How long a worker may take to send what it has begun.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a message of the bus may be on its way until a value that needs it counts as old.
const BUS_PATIENCE: Duration = Duration::from_millis(100);
/// How an entry says that its value is a number.
const KIND_NUMBER: u32 = data_cache::entries::KIND_NUMBER;
/// How often a number is added to that others change meanwhile.
const ATTEMPTS: usize = 64;

struct Held {
    key: Vec<u8>,
    is_extended: bool,
    until: Instant,
}

struct Request {
    head: Head,
    key: Vec<u8>,
    tags: Vec<u8>,
    value: Vec<u8>,
}

struct Conversation<'a> {
    shared: &'a Shared,
    stream: UnixStream,
    token: [u8; 16],
    held: Vec<Held>,
    /// What was known when the right to compute was given.
    as_of: Option<(u64, Position)>,
}

/// The value, if it is good, and as it lies in the store.
type Lies = (Option<Value>, Vec<u8>);
/// The reply, and a value that follows.
type Reply = (Head, Option<Value>);

fn reply(word: Word) -> Reply {
    (Head { word: word as u32, ..Head::default() }, None)
}

/// Milliseconds of the wall clock.
fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Answers a worker until it has ended.
pub fn converse(shared: &Shared, stream: UnixStream) {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&fastrand::u64(..).to_le_bytes());
    token[8..].copy_from_slice(&fastrand::u64(..).to_le_bytes());
    let mut conversation = Conversation { shared, stream, token, held: Vec::new(), as_of: None };
    // An end at any point is the worker's.
    let _ = conversation.run();
    conversation.release_all();
}

impl Conversation<'_> {
    fn run(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        while self.wait()? {
            let Some(request) = self.receive()? else { return Ok(()) };
            let (mut head, value) = self.answer(&request);
            self.count(&head);
            let mut all = head.bytes().to_vec();
            if let Some(value) = value {
                head.tags_size = value.tags.len() as u32;
                head.value_size = value.bytes.len() as u32;
                (head.kind, head.cost) = (value.kind, value.cost);
                all = [&head.bytes()[..], &value.tags, &value.bytes].concat();
            }
            self.stream.write_all(&all)?;
        }
        Ok(())
    }

    fn count(&self, reply: &Head) {
        self.shared.view.count_talked(Talked::Requests);
        if reply.word == Word::Away as u32 {
            self.shared.view.count_talked(Talked::Failures);
        }
    }

    /// Waits for a request, and extends leases meanwhile. False: the worker has ended.
    fn wait(&mut self) -> io::Result<bool> {
        loop {
            let mut watched = [PollFd::new(&self.stream, PollFlags::IN)];
            let timeout = Timespec { tv_sec: EXTEND.as_secs() as i64, tv_nsec: 0 };
            match poll(&mut watched, Some(&timeout)) {
                Ok(0) => self.extend(),
                Ok(_) => return Ok(watched[0].revents().contains(PollFlags::IN)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&mut self) -> io::Result<Option<Request>> {
        let mut head = [0; HEAD];
        match self.stream.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let head = Head::of(&head).ok_or(io::ErrorKind::InvalidData)?;
        let mut part = |size: u32| -> io::Result<Vec<u8>> {
            let mut bytes = vec![0; size as usize];
            self.stream.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        let (key, tags, value) = (part(head.key_size)?, part(head.tags_size)?, part(head.value_size)?);
        if talk::tags(&tags).is_none() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(Request { head, key, tags, value }))
    }

    fn has_ended(&self) -> bool {
        let mut watched = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut watched, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let answered = match Word::of(request.head.word) {
            Some(Word::Tell) => return self.tell(request),
            Some(Word::Release) => {
                self.release_all();
                return reply(Word::Done);
            }
            _ if !self.shared.view.is_store_ready(crate::log::now()) => return self.cannot(request),
            Some(Word::Get) if request.head.flag == 1 => self.kept(&request.key),
            Some(Word::Put) if request.head.flag >= 3 => self.keep(request),
            Some(Word::Get) => {
                self.find(&request.key).map(|found| found.map_or(reply(Word::None), |(value, _)| give(value)))
            }
            Some(Word::Lease) => self.lease(request),
            Some(Word::Put) => self.put(request),
            Some(Word::Lock) => self.lock(request),
            Some(Word::Add) => self.add(request),
            Some(Word::Swap) => self.swap(request),
            _ => return reply(Word::None),
        };
        answered.unwrap_or_else(|why| {
            if let Unasked::Failed(failed) = why {
                crate::log::log_seldom(&format!("the store of the data cache has failed: {failed}"));
            }
            self.cannot(request)
        })
    }

    /// What is changed here, and cannot be written to the store, is removed there and elsewhere as soon as that is possible.
    fn cannot(&mut self, request: &Request) -> Reply {
        let is_change = match Word::of(request.head.word) {
            Some(Word::Put) => request.head.flag == 0,
            Some(Word::Swap | Word::Add) => true,
            _ => false,
        };
        if is_change {
            // The worker goes on to store it here.
            self.shared.tell(Change::Key(request.key.clone(), ELSEWHERE));
        }
        reply(Word::Away)
    }

    /// A value that is good, and as it lies there. What is not good is `None`.
    fn find(&self, key: &[u8]) -> Result<Option<(Value, Vec<u8>)>, Unasked> {
        Ok(self.look(key)?.and_then(|(value, sealed)| value.map(|value| (value, sealed))))
    }

    /// What lies there, and the value, if it is good.
    fn look(&self, key: &[u8]) -> Result<Option<Lies>, Unasked> {
        let Some(sealed) = self.shared.pool.ask(|remote| remote.get(Name::Value, key))? else { return Ok(None) };
        let Some(value) = self.shared.sealer.open_value(key, &sealed) else {
            self.shared.count_forged();
            return Ok(Some((None, sealed)));
        };
        if value.hard != 0 && value.hard <= wall() {
            return Ok(Some((None, sealed)));
        }
        let shared = self.shared;
        let mut is_good = shared.known().is_good(key, &value);
        if !is_good {
            // What makes it good may be on its way: it was announced in the moment in which it was stored.
            let last = shared.pool.ask(Valkey::last)?;
            shared.await_position(last, BUS_PATIENCE);
            is_good = shared.known().is_good(key, &value);
        }
        Ok(Some((is_good.then_some(value), sealed)))
    }

    /// What is kept is signed with another name, so that no value of the cache can be put in its place.
    fn kept(&self, key: &[u8]) -> Result<Reply, Unasked> {
        let shared = self.shared;
        let Some(sealed) = shared.pool.ask(|remote| remote.get(Name::Kept, key))? else { return Ok(reply(Word::None)) };
        let Some(value) = shared.sealer.open_value(&leased(b's', key), &sealed) else {
            shared.count_forged();
            return Ok(reply(Word::None));
        };
        Ok(if value.hard == 0 || value.hard > wall() { give(value) } else { reply(Word::None) })
    }

    fn keep(&self, request: &Request) -> Result<Reply, Unasked> {
        let (shared, key) = (self.shared, &request.key);
        let value = self.value(request, &request.value, shared.as_of());
        let sealed = shared.sealer.seal_value(&leased(b's', key), &value);
        let kept = (request.head.flag == 3).then(|| (&sealed[..], lasts(&value)));
        shared.pool.ask(|remote| remote.keep(key, kept))?;
        Ok(reply(Word::Done))
    }

    fn lease(&mut self, request: &Request) -> Result<Reply, Unasked> {
        let (renews, key) = (request.head.flag == 1, &request.key);
        // A value that is to be renewed is older than the asker's.
        let newer_than = if renews { wall().saturating_sub(request.head.second) } else { 0 };
        let is_enough = |value: &Value| !renews || value.stored > newer_than;
        let until = Instant::now() + Duration::from_millis(request.head.first.min(LONGEST_WAIT));
        let mut pause = LOOK[0];
        loop {
            if let Some((value, _)) = self.find(key)?.filter(|(value, _)| is_enough(value)) {
                return Ok(give(value));
            }
            let as_of = self.shared.as_of();
            if self.take_lease(&leased(b'c', key), LEASE, true)? {
                // Another may have stored it in between.
                if let Some((value, _)) = self.find(key)?.filter(|(value, _)| is_enough(value)) {
                    self.release_all();
                    return Ok(give(value));
                }
                self.as_of = Some(as_of);
                return Ok(reply(Word::Mine));
            }
            if Instant::now() >= until || self.has_ended() {
                return Ok(reply(Word::Held));
            }
            // The store tells nobody when a lease is given back. Nodes that wait look at different times.
            std::thread::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            pause = (pause * 2).min(LOOK[1]);
        }
    }

    fn take_lease(&mut self, key: &[u8], ms: u64, is_extended: bool) -> Result<bool, Unasked> {
        let token = self.token;
        // If there is no response, the store may have given it all the same.
        let until = Instant::now() + if is_extended { LONGEST_LEASE } else { Duration::from_millis(ms) };
        self.held.push(Held { key: key.to_vec(), is_extended, until });
        let is_mine = self.shared.pool.ask(|remote| remote.add(Name::Lease, key, &token, ms))?;
        if !is_mine {
            self.held.pop();
        }
        Ok(is_mine)
    }

    fn extend(&mut self) {
        let (now, token) = (Instant::now(), self.token);
        let shared = self.shared;
        self.held.retain(|held| {
            now < held.until
                && (!held.is_extended
                    || shared.pool.ask(|remote| remote.extend(&held.key, &token, LEASE)).unwrap_or(true))
        });
    }

    fn release_all(&mut self) {
        let token = self.token;
        for held in std::mem::take(&mut self.held) {
            // Without the store it ends by its time.
            let _ = self.shared.pool.ask(|remote| remote.release(&held.key, &token));
        }
    }

    fn value(&self, request: &Request, bytes: &[u8], (bus, as_of): (u64, Position)) -> Value {
        let head = &request.head;
        let now = wall();
        let soft = if head.first == 0 { 0 } else { now.saturating_add(head.first) };
        Value {
            bus,
            as_of,
            stored: now,
            soft,
            hard: if soft == 0 { 0 } else { soft.saturating_add(head.second) },
            cost: head.cost,
            kind: head.kind,
            tags: request.tags.clone(),
            bytes: bytes.to_vec(),
            version: 0,
        }
    }

    fn put(&mut self, request: &Request) -> Result<Reply, Unasked> {
        let (shared, key) = (self.shared, &request.key);
        match request.head.flag {
            2 => {
                // Without the right to compute nobody knows what was known when it began.
                let Some(as_of) = self.as_of.take() else { return Ok(reply(Word::None)) };
                let value = self.value(request, &request.value, as_of);
                if !shared.known().is_good(key, &value) {
                    // It was changed or removed meanwhile.
                    self.release_all();
                    return Ok(reply(Word::None));
                }
                let sealed = shared.sealer.seal_value(key, &value);
                let stored = shared.pool.ask(|remote| remote.set(key, &sealed, lasts(&value), None));
                self.release_all();
                stored.map(|_| reply(Word::Done))
            }
            1 => {
                let value = self.value(request, &request.value, shared.as_of());
                let sealed = shared.sealer.seal_value(key, &value);
                let is_done = self.store_new(key, &sealed, lasts(&value))?;
                Ok(reply(if is_done { Word::Done } else { Word::None }))
            }
            _ => {
                let value = self.value(request, &request.value, shared.as_of());
                let sealed = shared.sealer.seal_value(key, &value);
                let (change, message) = shared.announcement(key, version(&sealed));
                let position = shared.pool.ask(|remote| remote.set(key, &sealed, lasts(&value), Some(&message)))?;
                self.mark(position, &change);
                Ok(reply(Word::Done))
            }
        }
    }

    fn mark(&self, position: Option<Position>, change: &Change) {
        if let Some(position) = position {
            self.shared.known().mark(position, change);
        }
    }

    /// Stores a value if there is no good one.
    fn store_new(&self, key: &[u8], sealed: &[u8], ms: u64) -> Result<bool, Unasked> {
        let shared = self.shared;
        if shared.pool.ask(|remote| remote.add(Name::Value, key, sealed, ms))? {
            return Ok(true);
        }
        match self.look(key)? {
            Some((None, old)) => self.replace(key, &old, Some((sealed, ms))),
            Some((Some(_), _)) => Ok(false),
            None => shared.pool.ask(|remote| remote.add(Name::Value, key, sealed, ms)),
        }
    }

    /// Stores in the place of what was found there, and tells the others.
    fn replace(&self, key: &[u8], old: &[u8], new: Option<(&[u8], u64)>) -> Result<bool, Unasked> {
        let (change, message) = self.shared.announcement(key, new.map_or(0, |(sealed, _)| version(sealed)));
        let position = self.shared.pool.ask(|remote| remote.swap(key, old, new, &message))?;
        self.mark(position, &change);
        Ok(position.is_some())
    }

    fn lock(&mut self, request: &Request) -> Result<Reply, Unasked> {
        let is_mine = self.take_lease(&leased(b'n', &request.key), request.head.first.clamp(1, LONGEST), false)?;
        Ok(reply(if is_mine { Word::Mine } else { Word::Held }))
    }

    fn add(&mut self, request: &Request) -> Result<Reply, Unasked> {
        let by = request.head.first as i64;
        for _ in 0..ATTEMPTS {
            let found = self.look(&request.key)?;
            let old = match &found {
                Some((Some(value), _)) => {
                    let number = <[u8; 8]>::try_from(&value.bytes[..]).ok().filter(|_| value.kind == KIND_NUMBER);
                    let Some(number) = number else { return Ok(reply(Word::None)) };
                    Some((i64::from_ne_bytes(number), value))
                }
                _ => None,
            };
            let sum = old.map_or(by, |(number, _)| number.wrapping_add(by));
            let ends = Request {
                head: Head { first: request.head.second, second: 0, kind: KIND_NUMBER, ..request.head },
                key: Vec::new(),
                tags: Vec::new(),
                value: Vec::new(),
            };
            let mut value = self.value(&ends, &sum.to_ne_bytes(), self.shared.as_of());
            if let Some((_, old)) = old {
                (value.soft, value.hard) = (old.soft, old.hard);
                value.tags.clone_from(&old.tags);
            }
            let sealed = self.shared.sealer.seal_value(&request.key, &value);
            let is_done = match &found {
                Some((_, old)) => self.replace(&request.key, old, Some((&sealed, lasts(&value))))?,
                None => self.shared.pool.ask(|remote| remote.add(Name::Value, &request.key, &sealed, lasts(&value)))?,
            };
            if is_done {
                return Ok((Head { word: Word::Done as u32, first: sum as u64, ..Head::default() }, None));
            }
        }
        Ok(reply(Word::Held))
    }

    fn swap(&mut self, request: &Request) -> Result<Reply, Unasked> {
        let (new, old) = request.value.split_at(request.value.len() - request.head.third as usize);
        let Some((is, sealed_old)) = self.find(&request.key)? else { return Ok(reply(Word::None)) };
        let is_due = is.soft != 0 && is.soft <= wall();
        if is.kind != 0 || is.bytes != old || is_due {
            return Ok(reply(Word::None));
        }
        let value = self.value(request, new, self.shared.as_of());
        let sealed = self.shared.sealer.seal_value(&request.key, &value);
        let new = (request.head.flag != 1).then(|| (&sealed[..], lasts(&value)));
        let is_done = self.replace(&request.key, &sealed_old, new)?;
        Ok(reply(if is_done { Word::Done } else { Word::None }))
    }

    fn tell(&mut self, request: &Request) -> Reply {
        let changes: Vec<Change> = match request.head.flag {
            1 => talk::tags(&request.tags).into_iter().flatten().map(|name| Change::Tag(name.to_vec())).collect(),
            2 => vec![Change::Key(request.key.clone(), 0)],
            3 => vec![Change::Flush],
            4 => vec![Change::Purge(request.value.clone())],
            _ => Vec::new(),
        };
        let told: Vec<(u64, u64)> = changes.into_iter().map(|change| self.shared.tell(change)).collect();
        let patience = Duration::from_millis(request.head.first.min(1000));
        let until = Instant::now() + patience;
        let is_done = told.last().is_none_or(|&last| self.shared.outbox.wait_for(last, patience));
        if let Some(&last) = told.last().filter(|_| is_done) {
            self.shared.await_own(last, until.saturating_duration_since(Instant::now()));
        }
        reply(if is_done { Word::Done } else { Word::Later })
    }
}

/// The name of a lease, by what it is for.
fn leased(what: u8, key: &[u8]) -> Vec<u8> {
    [&[what, b':'], key].concat()
}

/// Milliseconds for which the store keeps a value.
fn lasts(value: &Value) -> u64 {
    if value.hard == 0 { LONGEST } else { value.hard.saturating_sub(wall()).clamp(1, LONGEST) }
}

fn give(value: Value) -> Reply {
    let now = wall();
    let left = |end: u64| if end == 0 { u64::MAX } else { end.saturating_sub(now) };
    let head = Head { word: Word::Value as u32, first: left(value.soft), second: left(value.hard), ..Head::default() };
    (head, Some(value))
}
