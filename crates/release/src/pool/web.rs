//! A pool behind a web server, by https: files of a directory pool that nodes can only read. A request has a connection of its own, and
//! says HTTP/1.0, so that the response has no parts.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::directory::ENDING;
use super::{Pool, Report, Slot, Step};
use crate::fault::Fault;
use crate::record::{MAX_RECORD, parse_name};

/// For a connection, and for each part of a response.
const PATIENCE: Duration = Duration::from_secs(10);
/// For a whole release.
const LONGEST: Duration = Duration::from_secs(600);
/// Bytes of a response's head.
const MAX_HEAD: usize = 16 << 10;
/// Headers of a response.
const MAX_HEADERS: usize = 64;

/// The pool of an application.
pub struct Web {
    host: String,
    port: u16,
    path: String,
    tls: Arc<ClientConfig>,
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let text = std::fs::read(path).map_err(Fault::of_file(path))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let failed = |error: &dyn std::fmt::Display| Fault::refused(format!("{}: {error}", path.display()));
                let certificate = certificate.map_err(|error| failed(&error))?;
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
        }
    }
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(Fault::refused("there are no root certificates (Debian: the package ca-certificates)")),
    }
}

impl Web {
    /// Of that URL.
    ///
    /// # Errors
    /// It is none, or there are no certificates to check the server by.
    pub fn new(url: &str, application: &str, ca: Option<&Path>) -> Result<Web, Fault> {
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => {
                let port = port.parse().map_err(|_| Fault::refused(format!("{url}: no port is called {port}")))?;
                (host, port)
            }
            _ => (authority, 443),
        };
        let path = if path.is_empty() { format!("/{application}") } else { format!("/{path}/{application}") };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = tls.map_err(Fault::refused)?.with_root_certificates(roots(ca)?).with_no_client_auth();
        Ok(Web { host: host.to_owned(), port, path, tls: Arc::new(tls) })
    }

    fn connect(&self) -> Result<Stream, Fault> {
        let at = |what: &str, error: &dyn std::fmt::Display| {
            Fault::unreachable(format!("{}:{}: {what}: {error}", self.host, self.port))
        };
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses = (bare, self.port).to_socket_addrs().map_err(|error| at("no address", &error))?;
        let mut last = Fault::unreachable(format!("{bare}: no address"));
        for address in addresses.take(4) {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => {
                    let timed =
                        socket.set_read_timeout(Some(PATIENCE)).and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
                    timed.map_err(|error| at("the connection", &error))?;
                    let name = ServerName::try_from(bare.to_owned()).map_err(|error| at("no server name", &error))?;
                    let tls = ClientConnection::new(self.tls.clone(), name).map_err(|error| at("TLS", &error))?;
                    return Ok(StreamOwned::new(tls, socket));
                }
                Err(error) => last = at("no connection", &error),
            }
        }
        Err(last)
    }

    /// A file's length, and the stream that brings it, with what of it came with the head; `None`: there is no such file.
    fn get(&self, name: &str) -> Result<Option<(u64, Vec<u8>, Stream)>, Fault> {
        let what = format!("https://{}:{}{}/{name}", self.host, self.port, self.path);
        let failed = |error: &dyn std::fmt::Display| Fault::unreachable(format!("{what}: {error}"));
        let mut stream = self.connect()?;
        let request = format!(
            "GET {}/{name} HTTP/1.0\r\nHost: {}:{}\r\nAccept-Encoding: identity\r\nCache-Control: no-cache\r\n\r\n",
            self.path, self.host, self.port
        );
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(|error| failed(&error))?;
        let (mut head, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut piece).map_err(|error| failed(&error))?;
            head.extend_from_slice(&piece[..read]);
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&head) {
                Ok(httparse::Status::Complete(size)) => {
                    let status = response.code.unwrap_or_default();
                    if status == 404 {
                        return Ok(None);
                    }
                    if status != 200 {
                        return Err(failed(&format!("the response is {status}")));
                    }
                    let lengths = response.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("content-length"));
                    let length = lengths.filter_map(|one| std::str::from_utf8(one.value).ok()?.trim().parse().ok());
                    let length = length.min().ok_or_else(|| failed(&"the response has no Content-Length"))?;
                    return Ok(Some((length, head.split_off(size), stream)));
                }
                Ok(httparse::Status::Partial) if read > 0 && head.len() < MAX_HEAD => {}
                _ => return Err(failed(&"the response has no readable head")),
            }
        }
    }

    /// Copies a file; false: there is none.
    fn copy(&self, name: &str, to: &mut dyn Write, most: u64) -> Result<bool, Fault> {
        let Some((length, first, mut stream)) = self.get(name)? else { return Ok(false) };
        let failed = |error: &dyn std::fmt::Display| Fault::unreachable(format!("{name}: {error}"));
        if length > most {
            return Err(Fault::refused(format!("{name} is larger than {most} bytes")));
        }
        let (until, mut left, mut piece) = (Instant::now() + LONGEST, length, vec![0; 64 << 10]);
        let mut part = &first[..];
        loop {
            let some = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            to.write_all(&part[..some]).map_err(|error| Fault::refused(format!("{name}: {error}")))?;
            left -= some as u64;
            if left == 0 {
                return Ok(true);
            }
            if Instant::now() > until {
                return Err(failed(&format!("has taken longer than {LONGEST:?}")));
            }
            match stream.read(&mut piece) {
                Ok(0) => return Err(failed(&"the response is cut off")),
                Ok(read) => part = &piece[..read],
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

fn read_only() -> Fault {
    Fault::refused("an https pool is read-only: change the directory that its web server has")
}

impl Pool for Web {
    fn releases(&mut self) -> Result<Vec<String>, Fault> {
        Err(Fault::refused("an https pool has no list: ask the directory that its web server has"))
    }

    fn put(&mut self, _: &str, _: &mut File, _: &mut dyn FnMut(u64)) -> Result<bool, Fault> {
        Err(read_only())
    }

    fn fetch(&mut self, name: &str, to: &mut File, most: u64) -> Result<(), Fault> {
        if parse_name(name).is_none() {
            return Err(Fault::refused(format!("{name:?} is no name of a release")));
        }
        match self.copy(&format!("{name}{ENDING}"), to, most)? {
            true => Ok(()),
            false => Err(Fault::refused(format!("the pool has no release {name}"))),
        }
    }

    fn remove(&mut self, _: &str) -> Result<bool, Fault> {
        Err(read_only())
    }

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Fault> {
        let mut bytes = Vec::new();
        Ok(self.copy(slot.word(), &mut bytes, MAX_RECORD as u64)?.then_some(bytes))
    }

    fn advance(&mut self, _: Step, _: u64, _: &[u8]) -> Result<bool, Fault> {
        Err(read_only())
    }

    fn report(&mut self, _: &str, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn reports(&mut self) -> Result<Vec<Report>, Fault> {
        Ok(Vec::new())
    }

    fn is_read_only(&self) -> bool {
        true
    }
}
