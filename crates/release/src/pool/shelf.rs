//! A pool in Valkey or Redis. A release lies there in pieces, and is listed when all of them are there; pieces of a push that was broken
//! off expire. All names begin with the application's, in braces, so that a cluster keeps them together.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use redis::{Client, Connection, Pipeline, TlsCertificates, cmd};

use super::{MAX_RELEASES, MAX_REPORT, Pool, Report, Slot, Step};
use crate::fault::Fault;
use crate::manifest::is_name;
use crate::record::{MAX_NODES, MAX_RECORD, parse_name};

/// Bytes of a piece.
const PIECE: usize = 512 << 10;
/// Seconds for which pieces of a push live that never ends.
const UNFINISHED: u64 = 86_400;
/// How long the server may take to connect, and for each response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prepare and serve, with their numbers beside them: KEYS are prepare, its number, serve, its number.
const ADVANCE: &str = "local p, s, n = tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(redis.call('GET', KEYS[4]) or 0), tonumber(ARGV[2]) \
    if s >= n then return 0 end \
    if ARGV[1] == 'prepare' then if p >= n then return 0 end elseif p ~= n then return 0 end \
    local at = ARGV[1] == 'serve' and 3 or 1 \
    redis.call('SET', KEYS[at], ARGV[3]) redis.call('SET', KEYS[at + 1], ARGV[2]) return 1";
const REPORT: &str = "if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('ERR too many nodes') end \
    local t = redis.call('TIME') redis.call('HSET', KEYS[1], ARGV[1], t[1] .. ' ' .. ARGV[2]) return 1";

/// The pool of an application.
pub struct Shelf {
    connection: Connection,
    prefix: String,
}

fn failed(error: redis::RedisError) -> Fault {
    Fault::unreachable(format!("the store: {error}"))
}

/// What the list says of a release: the name of its pieces, how many there are, and all their bytes.
fn parse_listed(text: &str) -> Option<(String, u64, u64)> {
    let mut words = text.split(' ');
    let tag = words.next().filter(|tag| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let (pieces, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((tag.to_owned(), pieces, size))
}

impl Shelf {
    /// Connects.
    ///
    /// # Errors
    /// The store does not respond.
    pub fn connect(url: &str, application: &str, ca: Option<&Path>) -> Result<Shelf, Fault> {
        let client = match ca {
            None => Client::open(url),
            Some(path) => {
                let root = std::fs::read(path).map_err(Fault::of_file(path))?;
                Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert: Some(root) })
            }
        };
        let connection = client.and_then(|client| client.get_connection_with_timeout(PATIENCE)).map_err(failed)?;
        connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        connection.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Shelf { connection, prefix: format!("reprise:{{{application}}}:release:") })
    }

    fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    fn piece(&self, name: &str, tag: &str, number: u64) -> String {
        self.name(&format!("file:{name}:{tag}:{number}"))
    }

    /// So many bytes of a value, and one more if it is longer: whoever can write there says how long it is.
    fn get(&mut self, name: &str, most: usize) -> Result<Option<Vec<u8>>, Fault> {
        let bytes: Vec<u8> = cmd("GETRANGE").arg(name).arg(0).arg(most).query(&mut self.connection).map_err(failed)?;
        // Nothing that is kept here is empty.
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    fn listed(&mut self, name: &str) -> Result<Option<(String, u64, u64)>, Fault> {
        let text: Option<String> =
            cmd("HGET").arg(self.name("files")).arg(name).query(&mut self.connection).map_err(failed)?;
        match text {
            None => Ok(None),
            Some(text) => parse_listed(&text).map(Some).ok_or_else(|| Fault::refused("the store lists no release so")),
        }
    }

    fn drop_pieces(&mut self, name: &str, tag: &str, pieces: u64) -> Result<(), Fault> {
        for number in 0..pieces {
            cmd("DEL").arg(self.piece(name, tag, number)).exec(&mut self.connection).map_err(failed)?;
        }
        Ok(())
    }

    /// Lists a release whose pieces are there. False: another push has listed one of that name.
    fn list(&mut self, name: &str, tag: &str, pieces: u64, size: u64) -> Result<bool, Fault> {
        let mut all = Pipeline::new();
        all.atomic();
        for number in 0..pieces {
            all.cmd("PERSIST").arg(self.piece(name, tag, number)).ignore();
        }
        all.cmd("HSETNX").arg(self.name("files")).arg(name).arg(format!("{tag} {pieces} {size}"));
        let (is_new,): (bool,) = all.query(&mut self.connection).map_err(failed)?;
        Ok(is_new)
    }
}

impl Pool for Shelf {
    fn releases(&mut self) -> Result<Vec<String>, Fault> {
        let names: Vec<String> = cmd("HKEYS").arg(self.name("files")).query(&mut self.connection).map_err(failed)?;
        if names.len() > MAX_RELEASES {
            return Err(Fault::refused(format!("the store has more than {MAX_RELEASES} releases")));
        }
        Ok(names.into_iter().filter(|name| parse_name(name).is_some()).collect())
    }

    fn put(&mut self, name: &str, file: &mut File, done: &mut dyn FnMut(u64)) -> Result<bool, Fault> {
        if self.listed(name)?.is_some() {
            return Ok(false);
        }
        let tag = format!("{:016x}", fastrand::u64(..));
        let (mut pieces, mut size, mut piece) = (0, 0, Vec::with_capacity(PIECE));
        let put = loop {
            piece.clear();
            if let Err(error) = (&mut *file).take(PIECE as u64).read_to_end(&mut piece) {
                break Err(Fault::refused(format!("the release: {error}")));
            }
            if piece.is_empty() {
                break Ok(());
            }
            let name = self.piece(name, &tag, pieces);
            let set = cmd("SET").arg(name).arg(&piece).arg("EX").arg(UNFINISHED).exec(&mut self.connection);
            if let Err(error) = set {
                break Err(failed(error));
            }
            (pieces, size) = (pieces + 1, size + piece.len() as u64);
            done(piece.len() as u64);
        };
        let listed = put.and_then(|()| self.list(name, &tag, pieces, size));
        if !matches!(listed, Ok(true)) {
            // If the store is gone they expire.
            let _ = self.drop_pieces(name, &tag, pieces);
        }
        listed
    }

    fn fetch(&mut self, name: &str, to: &mut File, most: u64) -> Result<(), Fault> {
        let Some((tag, pieces, size)) = self.listed(name)? else {
            return Err(Fault::refused(format!("the store has no release {name}")));
        };
        if size > most || pieces > size.div_ceil(PIECE as u64) {
            return Err(Fault::refused(format!("the release in the store is larger than {most} bytes")));
        }
        for number in 0..pieces {
            let piece: Option<Vec<u8>> = self.get(&self.piece(name, &tag, number), PIECE)?;
            let piece = piece.ok_or_else(|| Fault::refused(format!("the store has lost a piece of {name}")))?;
            if piece.len() > PIECE {
                return Err(Fault::refused(format!("the store has a piece of {name} that is too large")));
            }
            to.write_all(&piece).map_err(|error| Fault::refused(format!("the release cannot be kept: {error}")))?;
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<bool, Fault> {
        let Some((tag, pieces, size)) = self.listed(name)? else { return Ok(false) };
        cmd("HDEL").arg(self.name("files")).arg(name).exec(&mut self.connection).map_err(failed)?;
        self.drop_pieces(name, &tag, pieces.min(size.div_ceil(PIECE as u64)))?;
        Ok(true)
    }

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Fault> {
        let name = self.name(slot.word());
        let record = self.get(&name, MAX_RECORD)?;
        match record.as_ref().is_none_or(|record| record.len() <= MAX_RECORD) {
            true => Ok(record),
            false => Err(Fault::refused(format!("the store has a record of more than {MAX_RECORD} bytes"))),
        }
    }

    fn advance(&mut self, step: Step, number: u64, record: &[u8]) -> Result<bool, Fault> {
        let word = match step {
            Step::Prepare => "prepare",
            Step::Serve => "serve",
            Step::Withdraw => "withdraw",
        };
        let keys = ["prepare", "prepare-number", "serve", "serve-number"].map(|rest| self.name(rest));
        let mut call = cmd("EVAL");
        call.arg(ADVANCE).arg(4).arg(&keys).arg(word).arg(number).arg(record);
        call.query(&mut self.connection).map_err(failed)
    }

    fn report(&mut self, node: &str, text: &[u8]) -> Result<(), Fault> {
        let mut call = cmd("EVAL");
        call.arg(REPORT).arg(1).arg(self.name("nodes")).arg(node).arg(text).arg(MAX_NODES);
        call.exec(&mut self.connection).map_err(failed)
    }

    fn reports(&mut self) -> Result<Vec<Report>, Fault> {
        let mut both = Pipeline::new();
        both.cmd("TIME").cmd("HGETALL").arg(self.name("nodes"));
        type Said = Vec<(String, Vec<u8>)>;
        let ((now, _), all): ((u64, u64), Said) = both.query(&mut self.connection).map_err(failed)?;
        let report = |(node, text): (String, Vec<u8>)| {
            let at = text.iter().position(|byte| *byte == b' ').filter(|_| is_name(&node))?;
            let said: u64 = std::str::from_utf8(&text[..at]).ok()?.parse().ok()?;
            let text = text[at + 1..].to_vec();
            let age = Duration::from_secs(now.saturating_sub(said));
            (text.len() <= MAX_REPORT).then_some(Report { node, text, age })
        };
        Ok(all.into_iter().filter_map(report).collect())
    }
}
