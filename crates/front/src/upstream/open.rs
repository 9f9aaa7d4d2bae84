//! New connections. The front's confinement forbids `socket` and `connect`, so it asks the supervisor, which begins a connection to
//! an address of a living generation and hands the socket over at once. Here is waited for what becomes of it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipc::control::FromFront;
use rustix::net::sockopt::set_tcp_nodelay;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;

use super::CONNECTIONS;
use super::upstream_socket::{Kind, UpstreamSocket};
use crate::lanes::Lanes;

type Begun = Result<OwnedFd, io::Error>;
type Waiting = HashMap<u64, oneshot::Sender<Begun>>;

/// Connections that the supervisor was asked for.
#[derive(Default)]
pub struct Openings {
    last: AtomicU64,
    waiting: Mutex<Waiting>,
}

/// Takes a ticket out if nobody waits for it any more.
struct Ticket<'a>(&'a Openings, u64);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Openings {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The supervisor has begun a connection, or could not.
    pub fn came(&self, ticket: u64, error: i32, attached: Vec<OwnedFd>) {
        let Some(sender) = self.lock().remove(&ticket) else { return };
        let begun = match attached.into_iter().next() {
            Some(socket) if error == 0 => Ok(socket),
            _ => Err(io::Error::from_raw_os_error(error)),
        };
        // Whoever asked may have left meanwhile; then the socket is closed here.
        drop(sender.send(begun));
    }

    /// Connects to an address of a generation's application.
    pub async fn open(
        &self,
        lanes: &Lanes,
        generation: u32,
        address: u32,
        is_unix: bool,
    ) -> io::Result<UpstreamSocket> {
        let ticket = Ticket(self, self.last.fetch_add(1, Ordering::Relaxed));
        let (sender, begun) = oneshot::channel();
        self.lock().insert(ticket.1, sender);
        lanes.tell(&FromFront::Connect { ticket: ticket.1, generation, address });
        let socket = begun.await.map_err(io::Error::other)??;
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let kind = if is_unix {
            Kind::Unix(UnixStream::from_std(socket.into())?)
        } else {
            set_tcp_nodelay(&socket, true)?;
            let stream = TcpStream::from_std(socket.into())?;
            stream.writable().await?;
            stream.take_error()?.map_or(Ok(()), Err)?;
            stream.peer_addr()?;
            Kind::Tcp(stream)
        };
        Ok(UpstreamSocket::new(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_is_closed() {
        let openings = Openings::default();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        openings.came(7, 0, vec![ours.into()]);
        assert_eq!(io::Read::read(&mut &theirs, &mut [0; 1]).unwrap(), 0);
        let (sender, mut begun) = oneshot::channel();
        openings.lock().insert(8, sender);
        openings.came(8, 111, Vec::new());
        assert_eq!(begun.try_recv().unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        drop(Ticket(&openings, 9));
        assert!(openings.lock().is_empty());
    }
}
