//! The control socket: a client sends a line with a command and gets an object of JSON as the response; then the connection
//! ends. Only the server's own user and root can reach the socket: it lies in the state directory.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use control::command::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Connections at once; others wait.
const MAX_CLIENTS: usize = 64;
/// How long a client may take to send its command, and to take its response: there are few connections.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a command: a purge may name many things.
const MAX_COMMAND: usize = 64 * 1024;

/// A connection, by a number that is never used again.
pub(crate) type Client = u64;

/// A command, or the line that is none.
pub(crate) type Line = Result<Command, String>;

/// The socket and who is connected.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    next: Client,
    connections: Vec<Connection>,
}

struct Connection {
    client: Client,
    stream: UnixStream,
    received: Vec<u8>,
    /// Its command is complete; the response follows.
    has_asked: bool,
    response: Vec<u8>,
    /// Goes with the first byte of the response.
    attached: Option<OwnedFd>,
    /// When it connected, or got its response, or last took a part of that.
    since: Instant,
    /// It has its whole response, or is gone.
    is_over: bool,
}

impl ControlSocket {
    pub(crate) fn new(listener: UnixListener) -> io::Result<ControlSocket> {
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener, next: 0, connections: Vec::new() })
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listening = if self.connections.len() < MAX_CLIENTS { PollFlags::IN } else { PollFlags::empty() };
        let flags = |one: &Connection| match (one.response.is_empty(), one.has_asked) {
            (false, _) => PollFlags::OUT,
            // Hang-ups are told in any case.
            (true, true) => PollFlags::empty(),
            (true, false) => PollFlags::IN,
        };
        std::iter::once(PollFd::new(&self.listener, listening))
            .chain(self.connections.iter().map(move |one| PollFd::new(&one.stream, flags(one))))
    }

    fn accept(&mut self, now: Instant) {
        while self.connections.len() < MAX_CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            self.connections.push(Connection {
                client: self.next,
                stream,
                received: Vec::new(),
                has_asked: false,
                response: Vec::new(),
                attached: None,
                since: now,
                is_over: false,
            });
        }
    }

    /// Takes new connections, and returns the commands that are complete.
    pub(crate) fn commands(&mut self, now: Instant) -> Vec<(Client, Line)> {
        self.accept(now);
        let mut commands = Vec::new();
        for one in self.connections.iter_mut().filter(|one| one.has_asked) {
            // A client that is gone takes no response, and poll would report its end in every turn.
            let mut watched = [PollFd::new(&one.stream, PollFlags::empty())];
            let _ = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            let is_gone = watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            one.is_over |= is_gone;
        }
        for one in self.connections.iter_mut().filter(|one| !one.has_asked) {
            let mut bytes = [0; MAX_COMMAND];
            match one.stream.read(&mut bytes) {
                Ok(0) => one.is_over = true,
                Ok(count) => one.received.extend_from_slice(&bytes[..count]),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(_) => one.is_over = true,
            }
            if let Some(end) = one.received.iter().position(|byte| *byte == b'\n') {
                one.has_asked = true;
                let line = String::from_utf8_lossy(&one.received[..end]);
                commands.push((one.client, Command::parse(&line).ok_or_else(|| line.into_owned())));
            } else if one.received.len() > MAX_COMMAND {
                one.is_over = true;
            }
        }
        commands
    }

    /// The response to a client, unless that is gone.
    pub(crate) fn respond(&mut self, client: Client, mut text: String, now: Instant) {
        text.push('\n');
        if let Some(one) = self.connections.iter_mut().find(|one| one.client == client) {
            one.response = text.into_bytes();
            one.since = now;
        }
    }

    /// The same with a descriptor.
    pub(crate) fn respond_with(&mut self, client: Client, text: String, attached: OwnedFd, now: Instant) {
        if let Some(one) = self.connections.iter_mut().find(|one| one.client == client) {
            one.attached = Some(attached);
        }
        self.respond(client, text, now);
    }

    /// Sends responses as far as there is room, and ends connections that are over or too slow.
    pub(crate) fn flush(&mut self, now: Instant) {
        for one in self.connections.iter_mut().filter(|one| !one.response.is_empty()) {
            match write(one) {
                Ok(count) => {
                    one.response.drain(..count);
                    one.since = now;
                    one.is_over = one.response.is_empty();
                }
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(_) => one.is_over = true,
            }
        }
        // A client that waits for the end of a reload is not slow itself.
        let is_late = |one: &Connection| {
            (!one.has_asked || !one.response.is_empty()) && now.saturating_duration_since(one.since) > PATIENCE
        };
        self.connections.retain(|one| !one.is_over && !is_late(one));
    }
}

fn write(one: &mut Connection) -> io::Result<usize> {
    let Some(attached) = &one.attached else { return one.stream.write(&one.response) };
    let files = [attached.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let count = sendmsg(&one.stream, &[IoSlice::new(&one.response)], &mut ancillary, SendFlags::NOSIGNAL)?;
    one.attached = None;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    /// A control socket, and how to connect to it.
    fn open(name: &str) -> (ControlSocket, impl Fn() -> UnixStream) {
        let name = format!("reprise-test-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let socket = ControlSocket::new(UnixListener::bind_addr(&address).unwrap()).unwrap();
        let connect = move || {
            let stream = UnixStream::connect_addr(&address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream
        };
        (socket, connect)
    }

    fn read(mut stream: UnixStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_command_may_come_in_parts_and_each_client_gets_its_own_response() {
        let (mut socket, connect) = open("parts");
        let now = Instant::now();
        let (mut first, mut second) = (connect(), connect());
        first.write_all(b"rel").unwrap();
        assert_eq!(socket.commands(now), []);
        first.write_all(b"oad\n").unwrap();
        second.write_all(b"status\n").unwrap();
        assert_eq!(socket.commands(now), [(1, Ok(Command::Reload)), (2, Ok(Command::Status))]);
        assert_eq!(socket.commands(now), []);
        socket.respond(2, "two".to_owned(), now);
        socket.respond(1, "one".to_owned(), now);
        socket.flush(now);
        assert_eq!((read(first), read(second), socket.connections.len()), ("one\n".into(), "two\n".into(), 0));
    }

    #[test]
    fn a_client_that_sends_no_command_or_a_long_one_is_let_go() {
        let (mut socket, connect) = open("slow");
        let now = Instant::now();
        let (silent, mut long, mut waiting) = (connect(), connect(), connect());
        long.write_all(&[b'x'; MAX_COMMAND + 1]).unwrap();
        waiting.write_all(b"reload\n").unwrap();
        // One turn reads as much as a command may have.
        for _ in 0..2 {
            socket.commands(now);
        }
        assert!(socket.connections[1].is_over);
        socket.flush(now + PATIENCE);
        assert_eq!((read(long), socket.connections.len()), (String::new(), 2));
        socket.flush(now + PATIENCE + Duration::from_millis(1));
        assert_eq!(read(silent), "");
        // Its reload may take its time.
        assert_eq!(socket.connections.iter().map(|one| one.client).collect::<Vec<_>>(), [3]);
        drop(waiting);
        socket.commands(now);
        socket.flush(now);
        assert!(socket.connections.is_empty());
    }
}
