//! Values and messages as they lie in the store. Both are signed with the application's secret, over the application's name and, for values,
//! the key; nothing is read of one before its signature is checked. Numbers are little-endian.

use aws_lc_rs::hmac;

/// Bytes of a signature.
const SIGNATURE: usize = 32;
const VALUE: &[u8; 4] = b"Rv1\0";
const MESSAGE: &[u8; 4] = b"Rb1\0";
/// Bytes of a value's numbers, with what begins it.
const VALUE_HEAD: usize = 4 + 6 * 8 + 4 * 4;

/// The version of a value that its node alone has. No value in the store has it.
pub const ELSEWHERE: u64 = 1;

/// A place in the stream: what the store calls an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Milliseconds of the store's clock.
    pub ms: u64,
    /// Counts within one.
    pub count: u64,
}

/// A value with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Which bus it goes by.
    pub bus: u64,
    /// Everything on the bus until here was known when its computation began.
    pub as_of: Position,
    /// When it was stored, in milliseconds of the wall clock.
    pub stored: u64,
    /// From when on it is to be renewed; 0: never.
    pub soft: u64,
    /// From when on it is gone; 0: never.
    pub hard: u64,
    /// Microseconds that it took to compute.
    pub cost: u32,
    /// How it is serialized.
    pub kind: u32,
    /// Names of its tags, as in [`data_cache::talk::tags`].
    pub tags: Vec<u8>,
    /// It, serialized.
    pub bytes: Vec<u8>,
    /// The beginning of its signature, which no other value has. 0 until it is sealed.
    pub version: u64,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// All values with a tag are gone.
    Tag(Vec<u8>),
    /// The value of a key is another one: that with this version; 0: there is none; [`ELSEWHERE`]: the node that says it has it.
    Key(Vec<u8>, u64),
    /// All values are gone.
    Flush,
    /// Responses are purged: the text that the front takes.
    Purge(Vec<u8>),
    /// Nobody knows what: all values are gone, and all responses are purged.
    Lost,
}

/// A message of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The node that has sent it.
    pub node: u64,
    /// Counts what the node has sent, from 1 on; 0: the change lies in the store itself, and is lost with it.
    pub sequence: u64,
    /// What it says.
    pub change: Change,
}

/// Signs and checks for one application.
pub struct Sealer {
    key: hmac::Key,
    application: Vec<u8>,
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

impl Sealer {
    /// Of an application, with its secret.
    pub fn new(application: &str, secret: &str) -> Sealer {
        Sealer { key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), application: application.into() }
    }

    /// A signature over parts, each with its length, so that no other parts have the same.
    fn context(&self, parts: &[&[u8]]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        context
    }

    fn seal(&self, mut bytes: Vec<u8>, key: &[u8]) -> Vec<u8> {
        let tag = self.context(&[&self.application, key, &bytes]).sign();
        bytes.extend_from_slice(tag.as_ref());
        bytes
    }

    fn open<'a>(&self, sealed: &'a [u8], key: &[u8]) -> Option<(&'a [u8], u64)> {
        let (bytes, tag) = sealed.split_at_checked(sealed.len().checked_sub(SIGNATURE)?)?;
        let is = self.context(&[&self.application, key, bytes]).sign();
        aws_lc_rs::constant_time::verify_slices_are_equal(is.as_ref(), tag).ok()?;
        Some((bytes, version(sealed)))
    }

    /// A value for the store. Its version is in the result: [`version`].
    pub fn seal_value(&self, key: &[u8], value: &Value) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(VALUE_HEAD + value.tags.len() + value.bytes.len() + SIGNATURE);
        bytes.extend_from_slice(VALUE);
        for long in [value.bus, value.as_of.ms, value.as_of.count, value.stored, value.soft, value.hard] {
            bytes.extend_from_slice(&long.to_le_bytes());
        }
        for word in [value.cost, value.kind, value.tags.len() as u32, value.bytes.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&value.tags);
        bytes.extend_from_slice(&value.bytes);
        self.seal(bytes, key)
    }

    /// A value from the store. `None`: nobody who has the secret has stored it with this key.
    pub fn open_value(&self, key: &[u8], sealed: &[u8]) -> Option<Value> {
        let (bytes, version) = self.open(sealed, key)?;
        Value::read(bytes, version)
    }

    /// A message for the bus.
    pub fn seal_message(&self, message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MESSAGE);
        bytes.extend_from_slice(&message.node.to_le_bytes());
        bytes.extend_from_slice(&message.sequence.to_le_bytes());
        let (word, version, name): (u32, u64, &[u8]) = match &message.change {
            Change::Tag(name) => (1, 0, name),
            Change::Key(key, version) => (2, *version, key),
            Change::Flush => (3, 0, &[]),
            Change::Purge(text) => (4, 0, text),
            Change::Lost => (5, 0, &[]),
        };
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(name);
        self.seal(bytes, MESSAGE)
    }

    /// A message from the bus. `None`: nobody who has the secret has sent it, or a newer release has.
    pub fn open_message(&self, sealed: &[u8]) -> Option<Message> {
        let (bytes, _) = self.open(sealed, MESSAGE)?;
        Message::read(bytes)
    }
}

impl Value {
    /// From its bytes without the signature, which has to be checked before.
    pub fn read(bytes: &[u8], version: u64) -> Option<Value> {
        let mut bytes = Bytes(bytes);
        if bytes.take(4)? != VALUE {
            return None;
        }
        let mut value = Value {
            bus: bytes.long()?,
            as_of: Position { ms: bytes.long()?, count: bytes.long()? },
            stored: bytes.long()?,
            soft: bytes.long()?,
            hard: bytes.long()?,
            cost: bytes.word()?,
            kind: bytes.word()?,
            tags: Vec::new(),
            bytes: Vec::new(),
            version,
        };
        let (tags, size) = (bytes.word()? as usize, bytes.word()? as usize);
        value.tags = bytes.take(tags)?.to_vec();
        value.bytes = bytes.take(size)?.to_vec();
        let are_tags = data_cache::talk::tags(&value.tags).is_some();
        (are_tags && bytes.0.is_empty()).then_some(value)
    }
}

impl Message {
    /// From its bytes without the signature, which has to be checked before.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let mut bytes = Bytes(bytes);
        if bytes.take(4)? != MESSAGE {
            return None;
        }
        let (node, sequence, word, version) = (bytes.long()?, bytes.long()?, bytes.word()?, bytes.long()?);
        let name = bytes.0.to_vec();
        let change = match word {
            1 => Change::Tag(name),
            2 => Change::Key(name, version),
            3 => Change::Flush,
            4 => Change::Purge(name),
            5 => Change::Lost,
            _ => return None,
        };
        Some(Message { node, sequence, change })
    }
}

/// The version of a sealed value.
pub fn version(sealed: &[u8]) -> u64 {
    let at = sealed.len().saturating_sub(SIGNATURE);
    sealed.get(at..at + 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> Value {
        Value {
            bus: 1,
            as_of: Position { ms: 2, count: 3 },
            stored: 4,
            soft: 5,
            hard: 6,
            cost: 7,
            kind: 2,
            tags: [&1u16.to_ne_bytes()[..], b"t"].concat(),
            bytes: b"value".to_vec(),
            version: 0,
        }
    }

    #[test]
    fn a_value_is_opened_with_its_own_key_application_and_secret_alone() {
        let sealer = Sealer::new("shop", "0123456789abcdef");
        let sealed = sealer.seal_value(b"key", &value());
        let opened = sealer.open_value(b"key", &sealed).unwrap();
        assert_eq!((opened.version, &opened), (version(&sealed), &Value { version: opened.version, ..value() }));
        assert!(opened.version != 0);
        assert_eq!(sealer.open_value(b"other", &sealed), None);
        assert_eq!(Sealer::new("blog", "0123456789abcdef").open_value(b"key", &sealed), None);
        assert_eq!(Sealer::new("shop", "0123456789abcdeg").open_value(b"key", &sealed), None);
        assert_eq!(sealer.open_message(&sealed), None);
    }

    #[test]
    fn a_changed_byte_opens_nothing() {
        let sealer = Sealer::new("shop", "0123456789abcdef");
        let sealed = sealer.seal_value(b"key", &value());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(sealer.open_value(b"key", &bad), None, "{at}");
            assert_eq!(sealer.open_value(b"key", &sealed[..at]), None, "{at}");
        }
    }

    #[test]
    fn messages_are_what_was_sent() {
        let sealer = Sealer::new("shop", "0123456789abcdef");
        let changes = [
            Change::Tag(b"t".to_vec()),
            Change::Key(b"k".to_vec(), 9),
            Change::Flush,
            Change::Purge(b"hard\nt a".to_vec()),
        ];
        for change in changes {
            let message = Message { node: 1, sequence: 2, change };
            let sealed = sealer.seal_message(&message);
            assert_eq!(sealer.open_message(&sealed), Some(message));
            assert_eq!(sealer.open_message(&sealed[1..]), None);
            assert_eq!(sealer.open_value(MESSAGE, &sealed), None);
        }
    }
}
