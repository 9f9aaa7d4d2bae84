//! The bus: what this node tells, and what others have told.

use std::convert::Infallible;
use std::time::Duration;

use data_cache::process::Process;

use crate::breaker::pause;
use crate::envelope::{Change, ELSEWHERE, Message, Position};
use crate::known::Meaning;
use crate::link::Link;
use crate::log::{log, log_seldom, now};
use crate::shared::Shared;
use crate::terms::Failed;
use crate::valkey::Valkey;

/// The purge of all responses, as the front reads it.
const EVERYTHING: &[u8] = b"hard\na";
/// Messages that are read or written in one go.
const AT_ONCE: usize = 1000;
/// How often this node looks whether the bus is still the same, in milliseconds.
const CHECK: u64 = 1000;
/// How long the store is asked to wait for a message. It bounds by how much later than `heard` says this node knows that the store is there.
const LISTEN: Duration = Duration::from_millis(300);

/// Writes what this node tells, for ever.
pub fn write(shared: &Shared) -> ! {
    let mut connection = None;
    let mut failures = 0;
    loop {
        let batch = shared.outbox.next(AT_ONCE, Duration::from_secs(1));
        if batch.messages.is_empty() {
            continue;
        }
        let was_connected = connection.is_some();
        let connected = connection.take().map_or_else(|| Valkey::connect(&shared.settings), Ok);
        let told = connected
            .and_then(|mut remote| remote.tell(&shared.sealer, &batch.messages, batch.repeated).map(|()| remote));
        match told {
            Ok(remote) => {
                failures = 0;
                connection = Some(remote);
                shared.outbox.sent(&batch, &|waiting| shared.view.set_unsent(waiting as u64));
            }
            Err(failed) => {
                // An idle connection may just have ended.
                if !was_connected {
                    log_seldom(&format!("other nodes cannot be told yet what has changed: {failed}"));
                }
                shared.outbox.again();
                if !was_connected {
                    std::thread::sleep(pause(failures));
                    failures += 1;
                }
            }
        }
    }
}

/// Reads what others have told, for ever.
pub fn hear(shared: &Shared, link: &dyn Link) -> ! {
    let mut hearer = Hearer { shared, link, segment: Process::new(shared.view, None), was_heard: None };
    let mut failures = 0;
    loop {
        let Err(failed) = hearer.listen();
        shared.view.set_ready(None);
        // A store that was restarted may have lost what it was told last.
        shared.outbox.again();
        if hearer.was_heard != Some(false) {
            log("error", &format!("the store of the data cache is away: {failed}"));
        }
        failures = if hearer.was_heard == Some(true) { 0 } else { failures + 1 };
        hearer.was_heard = Some(false);
        hearer.tell_owed();
        std::thread::sleep(pause(failures));
    }
}

struct Hearer<'a> {
    shared: &'a Shared,
    link: &'a dyn Link,
    segment: Process,
    /// Whether the store was there last; `None`: it was never asked.
    was_heard: Option<bool>,
}

impl Hearer<'_> {
    fn listen(&mut self) -> Result<Infallible, Failed> {
        let shared = self.shared;
        let mut remote = Valkey::connect(&shared.settings)?;
        let (bus, floor) = remote.bus()?;
        // Up to here the segment has what was told.
        let applied = self.begin(bus, floor);
        let (mut is_all, mut checked) = (false, now());
        loop {
            let asked = now();
            let from = shared.known().position();
            let messages = remote.read(from, AT_ONCE, if is_all { LISTEN } else { Duration::from_millis(1) })?;
            is_all = messages.len() < AT_ONCE;
            for (position, sealed) in messages {
                self.take(position, &sealed, position > applied);
            }
            let position = shared.known().position();
            if position != from {
                shared.has_read();
                shared.view.set_position(bus, [position.ms, position.count]);
            }
            if is_all {
                shared.view.set_heard(asked);
                shared.view.set_ready(Some(asked));
                if self.was_heard == Some(false) {
                    log("notice", "the store of the data cache is there again");
                }
                self.was_heard = Some(true);
            }
            self.tell_owed();
            if now().saturating_sub(checked) > CHECK {
                checked = now();
                if remote.bus()?.0 != bus {
                    return Err(Failed("it was emptied, or another one is in its place".to_owned()));
                }
            }
        }
    }

    /// A connection to that bus. What the segment has may be older than what can still be read there: then all of it has changed.
    fn begin(&mut self, bus: u64, floor: Position) -> Position {
        let shared = self.shared;
        let (of_segment, [ms, count]) = shared.view.position();
        let mut known = shared.known();
        if known.bus() != bus {
            known.begin(bus, floor);
        } else if floor > known.position() {
            known.forget(floor);
        }
        drop(known);
        let applied = if of_segment == bus { Position { ms, count } } else { Position::default() };
        let has_gap = of_segment != bus || (floor > applied);
        if has_gap {
            self.lose();
            shared.view.set_position(bus, [floor.ms, floor.count]);
        }
        applied
    }

    fn take(&mut self, position: Position, sealed: &[u8], is_new: bool) {
        let Some(message) = self.shared.sealer.open_message(sealed) else {
            self.shared.known().passed(position);
            return self.shared.count_forged();
        };
        let is_own = message.node == self.shared.outbox.node();
        let mut known = self.shared.known();
        let meaning = known.read(position, &message);
        if is_own {
            known.came_back(message.node, message.sequence, &message.change);
        }
        drop(known);
        if meaning == Meaning::Gap {
            self.lose();
        }
        // A worker may have died before what it told took effect here.
        let is_done = is_own && (message.sequence == 0 || matches!(message.change, Change::Key(_, ELSEWHERE)));
        if is_new && !is_done && meaning != Meaning::Known {
            self.apply(message, is_own);
        }
    }

    /// Nobody knows what was lost.
    fn lose(&mut self) {
        self.segment.flush();
        self.purge(EVERYTHING);
    }

    fn purge(&self, text: &[u8]) {
        if let Err(error) = self.link.purge(text) {
            log("error", &format!("a purge of another node is not passed on: {error}"));
        }
    }

    fn apply(&mut self, message: Message, is_own: bool) {
        match message.change {
            Change::Tag(name) => {
                self.segment.invalidate(&name);
            }
            Change::Key(key, _) if (1..=data_cache::layout::LONGEST_KEY).contains(&key.len()) => {
                self.segment.delete(&key, None, now());
            }
            Change::Key(..) => {}
            Change::Flush => {
                self.segment.flush();
            }
            // This node's front has purged before it was told.
            Change::Purge(_) if is_own => {}
            Change::Purge(text) => self.purge(&text),
            Change::Lost if is_own => {
                self.segment.flush();
            }
            Change::Lost => self.lose(),
        }
    }

    /// Workers have changed something and reached nobody.
    fn tell_owed(&mut self) {
        if let Some(owed) = self.shared.view.owed() {
            self.shared.tell(Change::Lost);
            // What came from the store meanwhile may be what was removed.
            self.segment.flush();
            self.shared.view.has_told(owed);
        }
    }
}
