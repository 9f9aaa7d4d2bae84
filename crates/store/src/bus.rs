//! The bus: what this node tells, and what others have told.

use std::convert::Infallible;
use std::time::Duration;

use segment::process::Process;

use crate::breaker::pause;
use crate::envelope::{Change, Message, Position};
use crate::known::Meaning;
use crate::link::Link;
use crate::log::{log, now};
use crate::remote::Remote;
use crate::shared::Shared;
use crate::terms::Failed;

/// Messages that are read or written in one go.
const AT_ONCE: usize = 1000;
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
        let connected = connection.take().map_or_else(|| Remote::connect(&shared.settings, &shared.kind), Ok);
        let told = connected.and_then(|mut remote| remote.tell(&shared.sealer, &batch.messages).map(|()| remote));
        match told {
            Ok(remote) => {
                failures = 0;
                connection = Some(remote);
                shared.outbox.sent(&batch, &|waiting| shared.view.set_unsent(waiting as u64));
            }
            Err(_) => {
                // Who listens says why in the log. An idle connection may just have ended.
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
    if shared.view.unsent() != 0 {
        // The process before this one has died with them.
        shared.tell(Change::Flush);
    }
    loop {
        let Err(failed) = hearer.listen();
        shared.view.set_ready(None);
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
        let mut remote = Remote::connect(&shared.settings, &shared.kind)?;
        let (bus, floor) = remote.bus()?;
        // Up to here the segment has what was told.
        let applied = self.begin(bus, floor);
        let mut is_all = false;
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
                shared.view.set_ready(Some(now()));
                if self.was_heard == Some(false) {
                    log("notice", "the store of the data cache is there again");
                }
                self.was_heard = Some(true);
            }
            self.tell_owed();
        }
    }

    /// A connection to that bus. What the segment has may be older than what can still be read there: then all of it has changed.
    fn begin(&mut self, bus: u64, floor: Position) -> Position {
        let shared = self.shared;
        let (of_segment, [ms, count]) = shared.view.position();
        let mut known = shared.known();
        if known.bus() != bus {
            known.begin(bus, floor);
        } else if floor > known.position() && shared.kind.has_bus() {
            known.forget(floor);
        }
        drop(known);
        let applied = if of_segment == bus { Position { ms, count } } else { Position::default() };
        let has_gap = of_segment != bus || (floor > applied && shared.kind.has_bus());
        if has_gap {
            self.segment.flush();
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
            known.came_back(message.sequence, &message.change);
        }
        drop(known);
        if meaning == Meaning::Gap {
            self.segment.flush();
        }
        if is_new && !is_own && meaning != Meaning::Known {
            self.apply(message);
        }
    }

    fn apply(&mut self, message: Message) {
        match message.change {
            Change::Tag(name) => {
                self.segment.invalidate(&name);
            }
            Change::Key(key, _) if (1..=segment::layout::LONGEST_KEY).contains(&key.len()) => {
                self.segment.delete(&key, None, now());
            }
            Change::Key(..) => {}
            Change::Flush => {
                self.segment.flush();
            }
            Change::Purge(text) => {
                if let Err(error) = self.link.purge(&text) {
                    log("error", &format!("a purge of another node is not passed on: {error}"));
                }
            }
        }
    }

    /// Workers have changed something and reached nobody.
    fn tell_owed(&mut self) {
        if let Some(owed) = self.shared.view.owed() {
            self.shared.tell(Change::Flush);
            // What came from the store meanwhile may be what was removed.
            self.segment.flush();
            self.shared.view.has_told(owed);
        }
    }
}
