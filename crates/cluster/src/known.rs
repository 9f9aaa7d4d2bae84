//! Which values of the store are good, by what the bus has said of their keys and tags.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::envelope::{Change, Message, Position, Value};

/// Marks that are kept. With more, all values that are older than the last message count as changed.
const MOST_MARKS: usize = 1 << 17;
/// Nodes whose numbers are kept.
const MOST_NODES: usize = 1024;

/// A change: where on the bus it was said, and the version of the value that is there since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    position: Position,
    version: u64,
}

/// What a message means for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It was there already.
    Known,
    /// It is news.
    News,
    /// It is news, and some before it were lost.
    Gap,
}

/// What the bus has said.
pub struct Known {
    hasher: RandomState,
    /// Names the bus; 0: none was read yet.
    bus: u64,
    /// Everything until here was read.
    position: Position,
    /// Values that began before this count as changed.
    floor: Position,
    marks: HashMap<u64, Mark>,
    /// Changes of this node that the bus has not given back yet, by the sequence number of the last.
    pending: HashMap<u64, u64>,
    nodes: HashMap<u64, u64>,
    /// The last of this node's own messages that came back: of which node, and its number.
    own: (u64, u64),
}

impl Default for Known {
    fn default() -> Known {
        Known::new()
    }
}

impl Known {
    /// Nothing.
    pub fn new() -> Known {
        Known {
            hasher: RandomState::new(),
            bus: 0,
            position: Position::default(),
            floor: Position::default(),
            marks: HashMap::new(),
            pending: HashMap::new(),
            nodes: HashMap::new(),
            own: (0, 0),
        }
    }

    fn hash(&self, letter: char, name: &[u8]) -> u64 {
        self.hasher.hash_one((letter, name))
    }

    fn hash_of(&self, change: &Change) -> Option<u64> {
        match change {
            Change::Tag(name) => Some(self.hash('t', name)),
            Change::Key(key, _) => Some(self.hash('k', key)),
            Change::Flush | Change::Lost => Some(self.hash('f', &[])),
            Change::Purge(_) => None,
        }
    }

    /// Another bus, which is read from its beginning. What lies before `floor` is not on it any more.
    pub fn begin(&mut self, bus: u64, floor: Position) {
        self.bus = bus;
        (self.position, self.floor) = (floor, floor);
        self.marks.clear();
        self.nodes.clear();
    }

    /// The name of the bus.
    pub fn bus(&self) -> u64 {
        self.bus
    }

    /// Everything until here was read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// A message was read.
    pub fn read(&mut self, position: Position, message: &Message) -> Meaning {
        self.position = self.position.max(position);
        let meaning = self.count(message);
        if meaning == Meaning::Known {
            return meaning;
        }
        if meaning == Meaning::Gap {
            self.floor = self.floor.max(position);
        }
        self.mark(position, &message.change);
        meaning
    }

    /// A message that cannot be read: nobody knows what it says.
    pub fn passed(&mut self, position: Position) {
        self.position = self.position.max(position);
    }

    /// Until now nothing was said of what came before: values that began earlier count as changed.
    pub fn forget(&mut self, position: Position) {
        self.position = self.position.max(position);
        self.floor = self.floor.max(position);
    }

    fn count(&mut self, message: &Message) -> Meaning {
        if message.sequence == 0 {
            return Meaning::News;
        }
        let last = self.nodes.get(&message.node).copied();
        if last.is_some_and(|last| message.sequence <= last) {
            return Meaning::Known;
        }
        if self.nodes.len() >= MOST_NODES && last.is_none() {
            // Gaps of those that were dropped would not be seen.
            self.nodes.clear();
            self.nodes.insert(message.node, message.sequence);
            return Meaning::Gap;
        }
        self.nodes.insert(message.node, message.sequence);
        match last {
            Some(last) if message.sequence > last + 1 => Meaning::Gap,
            _ => Meaning::News,
        }
    }

    /// A change lies on the bus there.
    pub fn mark(&mut self, position: Position, change: &Change) {
        let Some(hash) = self.hash_of(change) else { return };
        let version = if let Change::Key(_, version) = change { *version } else { 0 };
        let is_newer = self.marks.get(&hash).is_none_or(|mark| mark.position < position);
        if is_newer {
            if self.marks.len() >= MOST_MARKS {
                self.marks.clear();
                self.floor = self.floor.max(self.position);
            }
            self.marks.insert(hash, Mark { position, version });
        }
    }

    /// This node is about to say it: from now on no value that it concerns is good.
    pub fn expect(&mut self, sequence: u64, change: &Change) {
        if let Some(hash) = self.hash_of(change) {
            self.pending.insert(hash, sequence);
        }
    }

    /// Whether that message of this node has come back.
    pub fn has_come_back(&self, (node, sequence): (u64, u64)) -> bool {
        self.own.0 == node && self.own.1 >= sequence
    }

    /// The bus has it.
    pub fn came_back(&mut self, node: u64, sequence: u64, change: &Change) {
        if sequence > 0 {
            self.own = (node, sequence);
        }
        if let Some(hash) = self.hash_of(change) {
            if self.pending.get(&hash).is_some_and(|&last| last <= sequence) {
                self.pending.remove(&hash);
            }
        }
    }

    /// Nothing is expected any more: what was said is said again in other words.
    pub fn expect_nothing(&mut self) {
        self.pending.clear();
    }

    fn is_unchanged(&self, hash: u64, value: &Value) -> bool {
        !self.pending.contains_key(&hash)
            && self
                .marks
                .get(&hash)
                .is_none_or(|mark| mark.position <= value.as_of || (mark.version != 0 && mark.version == value.version))
    }

    /// Whether nothing that the bus has said concerns the value.
    pub fn is_good(&self, key: &[u8], value: &Value) -> bool {
        let is_own = self.is_unchanged(self.hash('k', key), value);
        value.bus == self.bus
            && self.bus != 0
            && value.as_of >= self.floor
            && is_own
            && self.is_unchanged(self.hash('f', &[]), value)
            && data_cache::talk::tags(&value.tags)
                .is_some_and(|mut tags| tags.all(|tag| self.is_unchanged(self.hash('t', tag), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Position {
        Position { ms, count: 0 }
    }

    fn value(as_of: u64, tag: &[u8], version: u64) -> Value {
        let tags = if tag.is_empty() { Vec::new() } else { [&(tag.len() as u16).to_ne_bytes()[..], tag].concat() };
        Value {
            bus: 1,
            as_of: at(as_of),
            stored: 0,
            soft: 0,
            hard: 0,
            cost: 0,
            kind: 0,
            tags,
            bytes: Vec::new(),
            version,
        }
    }

    fn message(node: u64, sequence: u64, change: Change) -> Message {
        Message { node, sequence, change }
    }

    fn known() -> Known {
        let mut known = Known::new();
        known.begin(1, at(0));
        known
    }

    #[test]
    fn a_change_concerns_what_began_before_it() {
        let mut known = known();
        let old = value(5, b"menu", 0);
        assert!(known.is_good(b"k", &old));
        assert_eq!(known.read(at(6), &message(9, 1, Change::Tag(b"menu".to_vec()))), Meaning::News);
        assert!(!known.is_good(b"k", &old) && known.is_good(b"k", &value(6, b"menu", 0)));
        assert!(known.is_good(b"k", &value(5, b"other", 0)) && known.is_good(b"k", &value(5, b"", 0)));
        known.read(at(7), &message(9, 2, Change::Flush));
        assert!(!known.is_good(b"k", &value(6, b"", 0)) && known.is_good(b"k", &value(7, b"", 0)));
    }

    #[test]
    fn the_value_that_a_change_brings_is_good_and_no_other() {
        let mut known = known();
        known.read(at(6), &message(9, 0, Change::Key(b"k".to_vec(), 77)));
        assert!(known.is_good(b"k", &value(5, b"", 77)) && !known.is_good(b"k", &value(5, b"", 76)));
        assert!(known.is_good(b"other", &value(5, b"", 1)));
        known.read(at(8), &message(9, 0, Change::Key(b"k".to_vec(), 0)));
        assert!(!known.is_good(b"k", &value(5, b"", 77)));
        // An older mark does not replace a newer one.
        known.mark(at(7), &Change::Key(b"k".to_vec(), 77));
        assert!(!known.is_good(b"k", &value(5, b"", 77)));
    }

    #[test]
    fn a_lost_message_makes_everything_before_it_old() {
        let mut known = known();
        assert_eq!(known.read(at(3), &message(9, 5, Change::Tag(b"a".to_vec()))), Meaning::News);
        assert_eq!(known.read(at(4), &message(9, 5, Change::Tag(b"a".to_vec()))), Meaning::Known);
        assert_eq!(known.read(at(5), &message(9, 7, Change::Tag(b"b".to_vec()))), Meaning::Gap);
        assert!(!known.is_good(b"k", &value(4, b"", 0)) && known.is_good(b"k", &value(5, b"", 0)));
    }

    #[test]
    fn what_this_node_says_holds_at_once() {
        let mut known = known();
        let change = Change::Tag(b"menu".to_vec());
        known.expect(1, &change);
        known.expect(2, &change);
        assert!(!known.is_good(b"k", &value(5, b"menu", 0)));
        known.came_back(8, 1, &change);
        assert!(!known.is_good(b"k", &value(5, b"menu", 0)));
        known.came_back(8, 2, &change);
        assert!(known.is_good(b"k", &value(5, b"menu", 0)), "the bus' own mark says the rest");
    }

    #[test]
    fn another_bus_has_no_good_values_of_the_old_one() {
        let mut known = known();
        known.begin(2, at(0));
        assert!(!known.is_good(b"k", &value(5, b"", 0)));
        assert!(!Known::new().is_good(b"k", &Value { bus: 0, ..value(5, b"", 0) }));
        let mut trimmed = Known::new();
        trimmed.begin(1, at(5));
        assert!(!trimmed.is_good(b"k", &value(4, b"", 0)) && trimmed.is_good(b"k", &value(5, b"", 0)));
    }

    #[test]
    fn too_many_marks_make_everything_old() {
        let mut known = known();
        for number in 0..=MOST_MARKS as u64 {
            known.read(at(number + 1), &message(9, 0, Change::Key(number.to_le_bytes().to_vec(), 0)));
        }
        assert!(!known.is_good(b"k", &value(5, b"", 0)));
        assert!(known.is_good(b"k", &value(MOST_MARKS as u64 + 1, b"", 0)));
    }
}
