//! The admin socket: a line with what is wanted, an object of JSON as the answer, then the end of the connection. Only the
//! server's own user and root can reach it: it lies in the state directory.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Supervisor, log};

/// Connections at once; others wait.
const MAX_CLIENTS: usize = 64;
/// How long one may take to ask, and to take what it is answered: places are few.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a request.
const MAX_REQUEST: usize = 256;

/// A connection, by a number that is never used again.
pub(super) type Client = u64;

/// The socket and who is connected.
pub(super) struct Admin {
    listener: UnixListener,
    next: Client,
    connections: Vec<Connection>,
}

struct Connection {
    client: Client,
    stream: UnixStream,
    request: Vec<u8>,
    /// It has asked, and waits for its answer.
    has_asked: bool,
    answer: Vec<u8>,
    /// When it came, or was answered, or last took some of its answer.
    since: Instant,
    /// It has its whole answer, or is gone.
    is_over: bool,
}

impl Admin {
    pub(super) fn new(listener: UnixListener) -> io::Result<Admin> {
        listener.set_nonblocking(true)?;
        Ok(Admin { listener, next: 0, connections: Vec::new() })
    }

    /// What to wait for.
    pub(super) fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listening = if self.connections.len() < MAX_CLIENTS { PollFlags::IN } else { PollFlags::empty() };
        let flags = |one: &Connection| match (one.answer.is_empty(), one.has_asked) {
            (false, _) => PollFlags::OUT,
            // Hang-ups are told in any case.
            (true, true) => PollFlags::empty(),
            (true, false) => PollFlags::IN,
        };
        std::iter::once(PollFd::new(&self.listener, listening))
            .chain(self.connections.iter().map(move |one| PollFd::new(&one.stream, flags(one))))
    }

    fn accept(&mut self) {
        while self.connections.len() < MAX_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            self.connections.push(Connection {
                client: self.next,
                stream,
                request: Vec::new(),
                has_asked: false,
                answer: Vec::new(),
                since: Instant::now(),
                is_over: false,
            });
        }
    }

    /// Whole requests that have come.
    fn requests(&mut self) -> Vec<(Client, String)> {
        let mut requests = Vec::new();
        for one in self.connections.iter_mut().filter(|one| one.has_asked) {
            // Nobody is left to hear the answer. Its end would be told for ever.
            let mut watched = [PollFd::new(&one.stream, PollFlags::empty())];
            let _ = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            let is_gone = watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            one.is_over |= is_gone;
        }
        for one in self.connections.iter_mut().filter(|one| !one.has_asked) {
            let mut bytes = [0; MAX_REQUEST];
            match one.stream.read(&mut bytes) {
                Ok(0) => one.is_over = true,
                Ok(count) => one.request.extend_from_slice(&bytes[..count]),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(_) => one.is_over = true,
            }
            if let Some(end) = one.request.iter().position(|byte| *byte == b'\n') {
                one.has_asked = true;
                requests.push((one.client, String::from_utf8_lossy(&one.request[..end]).into_owned()));
            } else if one.request.len() > MAX_REQUEST {
                one.is_over = true;
            }
        }
        requests
    }

    fn answer(&mut self, client: Client, mut text: String) {
        text.push('\n');
        if let Some(one) = self.connections.iter_mut().find(|one| one.client == client) {
            one.answer = text.into_bytes();
            one.since = Instant::now();
        }
    }

    fn send(&mut self) {
        for one in self.connections.iter_mut().filter(|one| !one.answer.is_empty()) {
            match one.stream.write(&one.answer) {
                Ok(count) => {
                    one.answer.drain(..count);
                    one.since = Instant::now();
                    one.is_over = one.answer.is_empty();
                }
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(_) => one.is_over = true,
            }
        }
        // Who waits for the end of a reload is not slow itself.
        let is_late = |one: &Connection| (!one.has_asked || !one.answer.is_empty()) && one.since.elapsed() > PATIENCE;
        self.connections.retain(|one| !one.is_over && !is_late(one));
    }
}

impl Supervisor {
    /// Hears and answers what came on the admin socket.
    pub(super) fn serve_admin(&mut self) {
        let Some(admin) = &mut self.admin else { return };
        admin.accept();
        for (client, request) in admin.requests() {
            match request.as_str() {
                "reload" => self.reload(|reload, _| reload.request_all("reprise reload", Some(client))),
                "status" => {
                    let status = self.status().to_string();
                    self.admin.iter_mut().for_each(|admin| admin.answer(client, status.clone()));
                }
                other if other.starts_with("trace ") => self.trace_for(&other[6..], client),
                other => {
                    log("warning", format_args!("admin socket: there is no command {other:?}"));
                    self.tell(vec![client], Err("there is no such command"));
                }
            }
        }
        self.admin.iter_mut().for_each(Admin::send);
    }

    /// Says how it went to those who wait for that.
    pub(super) fn tell(&mut self, clients: Vec<Client>, how: Result<&str, &str>) {
        let Some(admin) = &mut self.admin else { return };
        let (is_done, text) = how.map_or_else(|why| (false, why), |text| (true, text));
        for client in clients {
            admin.answer(client, serde_json::json!({ "ok": is_done, "message": text }).to_string());
        }
    }
}
