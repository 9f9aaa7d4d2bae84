//! Connections to upstreams. The front may not begin any: it asks for them, and gets those that the configuration of a living
//! generation names. They are begun here and never waited for: the front learns from the socket what became of one.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use ipc::control::ToFront;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::lanes::generation::GenerationId;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Begins a connection that the front has asked for.
    pub(crate) fn connect(&mut self, ticket: u64, generation: GenerationId, address: u32) {
        let declared = self.generations.get(generation).map(|generation| &generation.application.upstreams);
        let begun = match declared.and_then(|all| all.get(address as usize)) {
            Some(address) => begin(address),
            None => Err(Errno::ACCESS.into()),
        };
        match begun {
            Ok(socket) => self.front.send(&ToFront::Connecting { ticket, error: 0 }, &[socket.as_fd()]),
            Err(error) => {
                let error = error.raw_os_error().filter(|error| *error != 0).unwrap_or(Errno::INVAL.raw_os_error());
                self.front.send(&ToFront::Connecting { ticket, error }, &[]);
            }
        }
    }
}

/// A socket whose connection is being made.
fn begin(address: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, begun) = match address.strip_prefix("unix:") {
        Some(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            let begun = connect(&socket, &SocketAddrUnix::new(path)?);
            (socket, begun)
        }
        None => {
            let address: SocketAddr = address.parse().map_err(|_| Errno::INVAL)?;
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            let begun = connect(&socket, &address);
            (socket, begun)
        }
    };
    match begun {
        // The connection is being made.
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn connections_are_begun_and_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = begin(&listener.local_addr().unwrap().to_string()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        drop(socket);
        assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);
        let directory = std::env::temp_dir().join(format!("reprise-upstream-{}", std::process::id()));
        assert_eq!(begin(&format!("unix:{}", directory.display())).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(begin("nowhere").is_err() && begin("").is_err());
    }
}
