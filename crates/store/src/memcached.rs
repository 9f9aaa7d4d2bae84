//! Memcached, by its meta commands (1.6 and later). It has no bus: other nodes' changes are seen when values end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;

use crate::envelope::{Message, Position, Sealer};
use crate::settings::Settings;
use crate::terms::{Failed, Name};

/// The name of the bus that there is not.
const BUS: u64 = 0x6d65_6d63;
/// Bytes of a line that it sends.
const LONGEST_LINE: u64 = 4096;
/// From that many seconds on, Memcached takes a time for a date.
const LONGEST: u64 = 30 * 24 * 3600;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub struct Memcached {
    stream: BufReader<Box<dyn Stream>>,
    application: String,
}

/// Now, as a position: the wall clock.
pub fn now() -> Position {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Position { ms: now.as_millis() as u64, count: u64::from(now.subsec_nanos() % 1_000_000) }
}

struct Response {
    code: String,
    flags: Vec<String>,
    value: Vec<u8>,
}

impl Memcached {
    /// Connects.
    pub fn connect(settings: &Settings, address: &str) -> Result<Memcached, Failed> {
        let patience = settings.patience();
        let stream: Box<dyn Stream> = if address.starts_with('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Box::new(stream)
        } else {
            let mut failed = Failed(format!("{address} has no address"));
            let found = address
                .to_socket_addrs()?
                .find_map(|one| TcpStream::connect_timeout(&one, patience).map_err(|error| failed = error.into()).ok());
            let stream = found.ok_or(failed)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Box::new(stream)
        };
        Ok(Memcached { stream: BufReader::new(stream), application: settings.application.clone() })
    }

    /// Names may have 250 bytes of few kinds; a digest has 64.
    fn name(&self, name: Name, key: &[u8]) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in [self.application.as_bytes(), &[0, name.letter()], key] {
            context.update(part);
        }
        let hex = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("reprise:{hex}")
    }

    fn ask(&mut self, line: &str, value: Option<&[u8]>) -> Result<Response, Failed> {
        let mut request = line.as_bytes().to_vec();
        request.extend_from_slice(b"\r\n");
        if let Some(value) = value {
            request.extend_from_slice(value);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        let mut line = String::new();
        (&mut self.stream).take(LONGEST_LINE).read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(Failed("memcached has ended the connection, or sent no line".to_owned()));
        };
        let mut words = line.split(' ').map(str::to_owned);
        let code = words.next().unwrap_or_default();
        let mut response = Response { code, flags: Vec::new(), value: Vec::new() };
        match response.code.as_str() {
            "VA" => {
                let size = words.next().and_then(|size| size.parse::<usize>().ok());
                let size = size.filter(|&size| size <= segment::talk::LARGEST_VALUE * 2);
                let size = size.ok_or_else(|| Failed("memcached's response has no size".to_owned()))?;
                let mut value = vec![0; size + 2];
                self.stream.read_exact(&mut value)?;
                if !value.ends_with(b"\r\n") {
                    return Err(Failed("memcached's value is longer than it says".to_owned()));
                }
                value.truncate(size);
                response.value = value;
            }
            "HD" | "EN" | "NS" | "EX" | "NF" | "MN" => {}
            _ => return Err(Failed(format!("memcached says {line:?}"))),
        }
        response.flags = words.collect();
        Ok(response)
    }

    pub fn get(&mut self, name: Name, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        let response = self.ask(&format!("mg {} v", self.name(name, key)), None)?;
        Ok((response.code == "VA").then_some(response.value))
    }

    fn store(&mut self, line: &str, value: &[u8], ms: u64) -> Result<bool, Failed> {
        let seconds = ms.div_ceil(1000).clamp(1, LONGEST);
        Ok(self.ask(&format!("{line} T{seconds}"), Some(value))?.code == "HD")
    }

    pub fn set(
        &mut self,
        key: &[u8],
        sealed: &[u8],
        ms: u64,
        message: Option<&[u8]>,
    ) -> Result<Option<Position>, Failed> {
        let name = self.name(Name::Value, key);
        if !self.store(&format!("ms {name} {}", sealed.len()), sealed, ms)? {
            return Err(Failed("memcached has not stored a value".to_owned()));
        }
        Ok(message.map(|_| now()))
    }

    pub fn keep(&mut self, key: &[u8], value: Option<(&[u8], u64)>) -> Result<(), Failed> {
        let name = self.name(Name::Kept, key);
        match value {
            None => {
                self.ask(&format!("md {name}"), None)?;
            }
            Some((sealed, ms)) => {
                if !self.store(&format!("ms {name} {}", sealed.len()), sealed, ms)? {
                    return Err(Failed("memcached has not stored a value".to_owned()));
                }
            }
        }
        Ok(())
    }

    pub fn add(&mut self, name: Name, key: &[u8], sealed: &[u8], ms: u64) -> Result<bool, Failed> {
        let name = self.name(name, key);
        self.store(&format!("ms {name} {} ME", sealed.len()), sealed, ms)
    }

    /// The token by which a value can be replaced, if it is that.
    fn token(&mut self, name: &str, is: &[u8]) -> Result<Option<String>, Failed> {
        let response = self.ask(&format!("mg {name} v c"), None)?;
        if response.code != "VA" || response.value != is {
            return Ok(None);
        }
        Ok(response.flags.iter().find_map(|flag| flag.strip_prefix('c')).map(str::to_owned))
    }

    pub fn swap(
        &mut self,
        key: &[u8],
        old: &[u8],
        new: Option<(&[u8], u64)>,
        _: &[u8],
    ) -> Result<Option<Position>, Failed> {
        let name = self.name(Name::Value, key);
        let Some(token) = self.token(&name, old)? else { return Ok(None) };
        let is_done = match new {
            Some((sealed, ms)) => self.store(&format!("ms {name} {} C{token}", sealed.len()), sealed, ms)?,
            None => self.ask(&format!("md {name} C{token}"), None)?.code == "HD",
        };
        Ok(is_done.then(now))
    }

    pub fn extend(&mut self, key: &[u8], token: &[u8], ms: u64) -> Result<bool, Failed> {
        let name = self.name(Name::Lease, key);
        let Some(unique) = self.token(&name, token)? else { return Ok(false) };
        self.store(&format!("ms {name} {} C{unique}", token.len()), token, ms)
    }

    pub fn release(&mut self, key: &[u8], token: &[u8]) -> Result<(), Failed> {
        let name = self.name(Name::Lease, key);
        if let Some(unique) = self.token(&name, token)? {
            self.ask(&format!("md {name} C{unique}"), None)?;
        }
        Ok(())
    }

    pub fn tell(&mut self, _: &Sealer, messages: &[Message], repeated: usize) -> Result<(), Failed> {
        for message in messages.iter().skip(repeated) {
            if let crate::envelope::Change::Key(key, _) = &message.change {
                let name = self.name(Name::Value, key);
                self.ask(&format!("md {name}"), None)?;
            }
        }
        Ok(())
    }

    pub fn bus(&mut self) -> Result<(u64, Position), Failed> {
        self.ask("mn", None)?;
        Ok((BUS, now()))
    }

    pub fn read(&mut self, _: Position, _: usize, patience: Duration) -> Result<Vec<(Position, Vec<u8>)>, Failed> {
        // There is nothing to wait for: this looks from time to time whether it is there.
        std::thread::sleep(patience);
        self.ask("mn", None)?;
        Ok(Vec::new())
    }
}
