//! The listeners that are open. A reload changes them: the front's first thread decides, and every thread follows.
//!
//! Each thread has a task for each listener ([`crate::accept`]), with a copy of its socket. The task and its connections end when the
//! listener's life does. A socket that is to speak another protocol is another listener, with the same socket.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::accept::accept;
use crate::shared::{Life, Shared};
use routing::settings::Listener;

/// When a thread that had no descriptor left for a listener tries again.
const PAUSE: Duration = Duration::from_millis(250);

/// A listener that is open.
struct Open {
    /// No other listener of this front has or had the same.
    serial: u64,
    listener: Listener,
    socket: OwnedFd,
    life: watch::Sender<Life>,
}

/// All listeners that are open.
pub struct Listening {
    open: watch::Sender<Vec<Arc<Open>>>,
    serial: u64,
}

/// The listeners as a thread follows them.
pub struct Follower {
    open: watch::Receiver<Vec<Arc<Open>>>,
}

impl Listening {
    /// Those of the start, with their sockets.
    pub fn new(listeners: &[Listener], sockets: Vec<OwnedFd>) -> Listening {
        let mut listening = Listening { open: watch::Sender::new(Vec::new()), serial: 0 };
        listening.switch(listeners, sockets);
        listening
    }

    /// For a thread.
    pub fn follow(&self) -> Follower {
        Follower { open: self.open.subscribe() }
    }

    /// Goes over to these listeners. One that stays as it is notices nothing; the connections of one that does not end when their
    /// requests have.
    pub fn switch(&mut self, listeners: &[Listener], sockets: Vec<OwnedFd>) {
        let old = self.open.borrow().clone();
        let next = listeners.iter().zip(sockets).map(|(listener, socket)| {
            old.iter().find(|one| one.listener == *listener).cloned().unwrap_or_else(|| {
                self.serial += 1;
                let (listener, life) = (listener.clone(), watch::Sender::new(Life::Open));
                Arc::new(Open { serial: self.serial, listener, socket, life })
            })
        });
        let next: Vec<Arc<Open>> = next.collect();
        for one in old.iter().filter(|one| next.iter().all(|next| next.serial != one.serial)) {
            let is_replaced = next.iter().any(|next| next.listener.id == one.listener.id);
            one.life.send_replace(if is_replaced { Life::Replaced } else { Life::Removed });
        }
        self.open.send_replace(next);
    }

    /// Closes all: the front stops.
    pub fn close(&mut self) {
        for one in self.open.borrow().iter() {
            one.life.send_replace(Life::Stopping);
        }
        self.open.send_replace(Vec::new());
    }
}

impl Follower {
    /// Begins a task for each listener that is new to this thread, as long as the front serves.
    pub async fn run(mut self, shared: Arc<Shared>) {
        let mut seen = BTreeSet::new();
        loop {
            let now = self.open.borrow_and_update().clone();
            let is_open = |serial: &u64| now.iter().any(|one| one.serial == *serial);
            seen.retain(is_open);
            let mut is_complete = true;
            for one in now.iter().filter(|one| !seen.contains(&one.serial)).collect::<Vec<_>>() {
                match begin(one, &shared) {
                    Ok(()) => drop(seen.insert(one.serial)),
                    Err(error) => {
                        let _ = writeln!(io::stderr(), "a listener cannot be used, the front tries again: {error}");
                        is_complete = false;
                    }
                }
            }
            // A closed socket must not stay open here.
            drop(now);
            let changed = self.open.changed();
            let changed = match is_complete {
                true => changed.await,
                false => tokio::time::timeout(PAUSE, changed).await.unwrap_or(Ok(())),
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

/// Begins this thread's task for a listener.
fn begin(open: &Open, shared: &Arc<Shared>) -> io::Result<()> {
    let (shared, life, listener) = (shared.clone(), open.life.subscribe(), open.listener.clone());
    let socket = open.socket.try_clone()?;
    if listener.unix {
        let socket = UnixListener::from_std(socket.into())?;
        tokio::spawn(accept(shared, life, listener, async move || Ok((socket.accept().await?.0, None))));
    } else {
        let socket = TcpListener::from_std(socket.into())?;
        tokio::spawn(accept(shared, life, listener, async move || {
            let (stream, client) = socket.accept().await?;
            stream.set_nodelay(true)?;
            let server = stream.local_addr()?;
            Ok((stream, Some((client, server))))
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(id: u32, tls: bool) -> Listener {
        Listener { id, unix: false, admin: false, tls }
    }

    fn switch(listening: &mut Listening, listeners: &[Listener]) -> Vec<Arc<Open>> {
        let socket = |_| std::fs::File::open("/dev/null").unwrap().into();
        listening.switch(listeners, listeners.iter().map(socket).collect());
        listening.open.borrow().clone()
    }

    #[test]
    fn only_what_has_changed_ends() {
        let mut listening = Listening::new(&[], Vec::new());
        let first = switch(&mut listening, &[listener(0, false), listener(1, false), listener(2, false)]);
        let second = switch(&mut listening, &[listener(1, true), listener(0, false)]);
        assert_eq!(first[0].serial, second[1].serial, "it stays");
        let lives = |all: &[Arc<Open>]| all.iter().map(|one| *one.life.borrow()).collect::<Vec<Life>>();
        assert_eq!(lives(&first), [Life::Open, Life::Replaced, Life::Removed]);
        assert_eq!(lives(&second), [Life::Open, Life::Open]);
        // A number may come back.
        let third = switch(&mut listening, &[listener(0, false), listener(2, false)]);
        assert!(third[1].serial > first[2].serial);
        listening.close();
        assert_eq!(lives(&third), [Life::Stopping, Life::Stopping]);
        assert!(listening.open.borrow().is_empty());
    }
}
