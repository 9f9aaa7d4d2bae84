//! Valkey and Redis. All names begin with the application's, in braces, so that a cluster keeps them together.

use std::time::Duration;

use aws_lc_rs::digest;
use redis::{Client, Cmd, Connection, Pipeline, TlsCertificates, Value, cmd};

use crate::envelope::{Change, Message, Position, Sealer};
use crate::settings::{Settings, of_client};
use crate::terms::{BUS_LENGTH, Failed, LONGEST, Name};

/// From this length on the beginning of the bus may be gone.
const MAY_BE_CUT: u64 = BUS_LENGTH as u64 * 9 / 10;

const SWAP: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end \
    if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end \
    return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'm', ARGV[5])";
const EXTEND: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

/// A connection.
pub struct Valkey {
    connection: Connection,
    prefix: Vec<u8>,
    patience: Duration,
}

fn client(settings: &Settings) -> Result<Client, Failed> {
    let url = of_client(&settings.url).map_err(Failed)?;
    let Some(path) = &settings.ca else { return Ok(Client::open(url)?) };
    let root = std::fs::read(path).map_err(|error| Failed(format!("{}: {error}", path.display())))?;
    Ok(Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert: Some(root) })?)
}

/// The store takes no other duration.
fn within(ms: u64) -> u64 {
    ms.clamp(1, LONGEST)
}

fn position(value: &[u8]) -> Result<Position, Failed> {
    let parsed = std::str::from_utf8(value).ok().and_then(|text| {
        let (ms, count) = text.split_once('-')?;
        Some(Position { ms: ms.parse().ok()?, count: count.parse().ok()? })
    });
    parsed.ok_or_else(|| Failed("the stream has an id that is none".to_owned()))
}

fn text(position: Position) -> String {
    format!("{}-{}", position.ms, position.count)
}

impl Valkey {
    /// Connects, and says password and database.
    ///
    /// # Errors
    /// [`Failed`], as with all that follow.
    pub fn connect(settings: &Settings) -> Result<Valkey, Failed> {
        let patience = settings.patience();
        let connection = client(settings)?.get_connection_with_timeout(patience)?;
        connection.set_read_timeout(Some(patience))?;
        connection.set_write_timeout(Some(patience))?;
        let prefix = format!("reprise:{{{}}}:", settings.application).into_bytes();
        Ok(Valkey { connection, prefix, patience })
    }

    fn name(&self, name: Name, key: &[u8]) -> Vec<u8> {
        [&self.prefix, &[name.letter(), b':'][..], key].concat()
    }

    fn stream(&self) -> Vec<u8> {
        [&self.prefix, &b"bus"[..]].concat()
    }

    fn announcement(&self, sealed: &[u8]) -> Cmd {
        let mut add = cmd("XADD");
        add.arg(self.stream()).arg("MAXLEN").arg("~").arg(BUS_LENGTH).arg("*").arg("m").arg(sealed);
        add
    }

    /// What lies there, as it was sealed.
    #[allow(clippy::missing_errors_doc)]
    pub fn get(&mut self, name: Name, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        Ok(cmd("GET").arg(self.name(name, key)).query(&mut self.connection)?)
    }

    /// Stores a value for so many milliseconds. With a message the bus has it at the same time; its position there.
    #[allow(clippy::missing_errors_doc)]
    pub fn set(
        &mut self,
        key: &[u8],
        sealed: &[u8],
        ms: u64,
        message: Option<&[u8]>,
    ) -> Result<Option<Position>, Failed> {
        let mut set = cmd("SET");
        set.arg(self.name(Name::Value, key)).arg(sealed).arg("PX").arg(within(ms));
        let Some(message) = message else {
            set.exec(&mut self.connection)?;
            return Ok(None);
        };
        let mut both = Pipeline::new();
        both.atomic().add_command(set).ignore().add_command(self.announcement(message));
        let (id,): (Vec<u8>,) = both.query(&mut self.connection)?;
        Ok(Some(position(&id)?))
    }

    /// Stores a value that is kept for so many milliseconds; `None` removes it.
    #[allow(clippy::missing_errors_doc)]
    pub fn keep(&mut self, key: &[u8], value: Option<(&[u8], u64)>) -> Result<(), Failed> {
        let name = self.name(Name::Kept, key);
        let done = match value {
            Some((sealed, ms)) => cmd("SET").arg(name).arg(sealed).arg("PX").arg(within(ms)).exec(&mut self.connection),
            None => cmd("DEL").arg(name).exec(&mut self.connection),
        };
        Ok(done?)
    }

    /// Stores a value if there is none. Whether it was stored.
    #[allow(clippy::missing_errors_doc)]
    pub fn add(&mut self, name: Name, key: &[u8], sealed: &[u8], ms: u64) -> Result<bool, Failed> {
        let mut set = cmd("SET");
        set.arg(self.name(name, key)).arg(sealed).arg("NX").arg("PX").arg(within(ms));
        let done: Value = set.query(&mut self.connection)?;
        Ok(done != Value::Nil)
    }

    /// Replaces just these bytes by a value, or removes them, and puts the message on the bus at the same time. `None`: something else is there.
    #[allow(clippy::missing_errors_doc)]
    pub fn swap(
        &mut self,
        key: &[u8],
        old: &[u8],
        new: Option<(&[u8], u64)>,
        message: &[u8],
    ) -> Result<Option<Position>, Failed> {
        let (sealed, ms) = new.unwrap_or((&[], 1));
        let id: Option<Vec<u8>> = cmd("EVAL")
            .arg(SWAP)
            .arg(2)
            .arg(self.name(Name::Value, key))
            .arg(self.stream())
            .arg(old)
            .arg(sealed)
            .arg(within(ms))
            .arg(BUS_LENGTH)
            .arg(message)
            .query(&mut self.connection)?;
        id.map(|id| position(&id)).transpose()
    }

    /// A lease or a lock with that token goes on for so many milliseconds. Whether it is there.
    #[allow(clippy::missing_errors_doc)]
    pub fn extend(&mut self, key: &[u8], token: &[u8], ms: u64) -> Result<bool, Failed> {
        let name = self.name(Name::Lease, key);
        Ok(cmd("EVAL").arg(EXTEND).arg(1).arg(name).arg(token).arg(ms).query(&mut self.connection)?)
    }

    /// Gives a lease or a lock with that token back.
    #[allow(clippy::missing_errors_doc)]
    pub fn release(&mut self, key: &[u8], token: &[u8]) -> Result<(), Failed> {
        let name = self.name(Name::Lease, key);
        Ok(cmd("EVAL").arg(RELEASE).arg(1).arg(name).arg(token).exec(&mut self.connection)?)
    }

    /// Puts messages on the bus, in their order; values of keys that they name are removed, but for those of the first `repeated`, which were told before.
    #[allow(clippy::missing_errors_doc)]
    pub fn tell(&mut self, sealer: &Sealer, messages: &[Message], repeated: usize) -> Result<(), Failed> {
        let mut all = Pipeline::new();
        for (number, message) in messages.iter().enumerate() {
            if let (Change::Key(key, _), true) = (&message.change, number >= repeated) {
                all.cmd("DEL").arg(self.name(Name::Value, key)).ignore();
            }
            all.add_command(self.announcement(&sealer.seal_message(message))).ignore();
        }
        Ok(all.exec(&mut self.connection)?)
    }

    /// The name of the bus, where it begins, and whether something was taken off its beginning. Makes one if there is none.
    #[allow(clippy::missing_errors_doc)]
    pub fn bus(&mut self) -> Result<(u64, Position), Failed> {
        let name = [&self.prefix, &b"bus-name"[..]].concat();
        let mut both = Pipeline::new();
        both.cmd("SET").arg(&name).arg(fastrand::u64(1..)).arg("NX").ignore();
        both.cmd("GET").arg(&name);
        both.cmd("XLEN").arg(self.stream());
        both.cmd("XRANGE").arg(self.stream()).arg("-").arg("+").arg("COUNT").arg(1);
        let (bus, length, first): (u64, u64, Vec<Value>) = both.query(&mut self.connection)?;
        let first = entries(first)?.into_iter().next().map_or(Position::default(), |(first, _)| first);
        // A store that has started anew, or another one in its place, may have forgotten what it was told last. Who may not ask
        // which one it is goes without this.
        let about: String = cmd("INFO").arg("server").query(&mut self.connection).unwrap_or_default();
        let run = about.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default();
        let digest = digest::digest(&digest::SHA256, format!("{bus} {run}").as_bytes());
        let bus = digest.as_ref().iter().take(8).fold(0u64, |all, &byte| all << 8 | u64::from(byte)).max(1);
        Ok((bus, if length < MAY_BE_CUT { Position::default() } else { first }))
    }

    /// The position of the last message.
    #[allow(clippy::missing_errors_doc)]
    pub fn last(&mut self) -> Result<Position, Failed> {
        let last: Vec<Value> =
            cmd("XREVRANGE").arg(self.stream()).arg("+").arg("-").arg("COUNT").arg(1).query(&mut self.connection)?;
        Ok(entries(last)?.first().map_or(Position::default(), |(position, _)| *position))
    }

    /// Messages after a position, at most `most`, in their order. Waits for one at most so long.
    #[allow(clippy::missing_errors_doc)]
    pub fn read(
        &mut self,
        after: Position,
        most: usize,
        patience: Duration,
    ) -> Result<Vec<(Position, Vec<u8>)>, Failed> {
        self.connection.set_read_timeout(Some(self.patience + patience))?;
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(most).arg("BLOCK").arg(patience.as_millis().max(1) as u64);
        read.arg("STREAMS").arg(self.stream()).arg(text(after));
        // One stream: its name, and its entries.
        let streams: Option<Vec<(Vec<u8>, Vec<Value>)>> = read.query(&mut self.connection)?;
        entries(streams.into_iter().flatten().flat_map(|(_, entries)| entries).collect())
    }
}

/// Entries of a stream: an id, and a list with a field and its value.
fn entries(values: Vec<Value>) -> Result<Vec<(Position, Vec<u8>)>, Failed> {
    values
        .into_iter()
        .map(|value| {
            let (id, fields): (Vec<u8>, Vec<Vec<u8>>) =
                redis::from_redis_value(value).map_err(|error| Failed(error.to_string()))?;
            Ok((position(&id)?, fields.into_iter().nth(1).unwrap_or_default()))
        })
        .collect()
}
