//! Connections, from the kernel to the conversation: a task for each listener takes them, finds out who has connected, and begins a
//! task for each of them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::shared::{Counted, Life, Shared, told_to_stop};
use crate::transport::{FIRST_REQUEST, converse, converse_http2};
use certificates::handshake;
use inbound::connection::Peer;
use inbound::proxy_header::{self, Client};
use routing::addresses::ConnectionPermit;
use routing::settings::{Listener, Network, Settings};

/// How long a listener that a reload has removed takes connections that are on their way.
const LAST_ARRIVALS: Duration = Duration::from_millis(100);

/// The addresses of both ends of a TCP connection.
pub type Ends = (SocketAddr, SocketAddr);

/// A connection that was accepted.
struct Arrived {
    ends: Option<Ends>,
    listener: Listener,
    counted: Counted,
}

impl Arrived {
    /// Whether it begins with a PROXY header: a declared balancer has connected.
    fn has_header(&self, settings: &Settings) -> bool {
        let declared = &settings.proxy_protocol;
        !self.listener.admin
            && match self.ends {
                Some((sender, _)) => declared.iter().any(|network| network.contains(sender.ip().to_canonical())),
                None => declared.contains(&Network::Unix),
            }
    }
}

/// Serves a connection in a task of its own, if its client may have another one.
fn begin<S>(stream: S, arrived: Arrived, shared: &Arc<Shared>, stopping: &watch::Receiver<Life>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Arrived { ends, listener, counted } = arrived;
    let view = shared.lanes.view();
    let peer = match ends {
        None => Peer::unix(&view.settings.proxies),
        Some((client, server)) => Peer::tcp(client, server, &view.settings.proxies),
    };
    let limit = view.settings.limits.client_connections;
    let permit = match ends {
        Some((client, _)) if !peer.is_proxy && !listener.admin => shared.addresses.enter(client.ip(), limit),
        _ => Some(ConnectionPermit::unlimited()),
    };
    // A connection over the limit is closed without a response, which would cost as much as a request.
    let Some(permit) = permit else { return };
    let held = (permit, counted);
    if listener.tls {
        tokio::spawn(serve_tls(stream, peer, shared.clone(), stopping.clone(), held));
    } else {
        let conversation = converse(stream, peer, shared.clone(), stopping.clone(), listener.admin);
        tokio::spawn(async move {
            let _held = held;
            conversation.await;
        });
    }
}

/// Reads the PROXY header of a connection before anything else. A stop waits for it as for the first byte of a request.
async fn introduced<S>(mut stream: S, mut arrived: Arrived, shared: Arc<Shared>, stopping: watch::Receiver<Life>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = Duration::from_millis(shared.lanes.view().settings.limits.header_timeout_ms);
    let mut stopped = stopping.clone();
    let stop = async {
        told_to_stop(&mut stopped).await;
        tokio::time::sleep(FIRST_REQUEST).await;
    };
    let client = tokio::select! {
        biased;
        client = proxy_header::read(&mut stream, patience) => client,
        () = stop => None,
    };
    match client {
        Some(Client::Behind(client, server)) => arrived.ends = Some((client, server)),
        Some(Client::Sender) => {}
        None => return,
    }
    begin(stream, arrived, &shared, &stopping);
}

/// Takes connections as long as the listener lives, and closes it then.
pub async fn accept<S, F>(shared: Arc<Shared>, mut stopped: watch::Receiver<Life>, listener: Listener, next: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: AsyncFn() -> io::Result<(S, Option<Ends>)>,
{
    let (stopping, is_admin) = (stopped.clone(), listener.admin);
    let mut opened = shared.is_open.subscribe();
    // Clients' connections are not accepted before everything has booted, so no request runs in another mode than its
    // lane's.
    tokio::select! {
        _ = opened.wait_for(|is_open| *is_open || is_admin) => {}
        () = told_to_stop(&mut stopped) => return,
    }
    let end = async {
        told_to_stop(&mut stopped).await;
        if *stopped.borrow() == Life::Removed {
            tokio::time::sleep(LAST_ARRIVALS).await;
        }
    };
    tokio::pin!(end);
    loop {
        let room = shared.room.notified();
        if shared.connections.load(Ordering::Acquire) >= shared.settings.limits.max_connections {
            tokio::select! {
                () = room => continue,
                () = &mut end => return,
            }
        }
        let accepted = tokio::select! {
            accepted = next() => accepted,
            () = &mut end => return,
        };
        match accepted {
            Ok((stream, ends)) => {
                let arrived = Arrived { ends, listener: listener.clone(), counted: Counted::new(&shared) };
                if arrived.has_header(&shared.lanes.view().settings) {
                    tokio::spawn(introduced(stream, arrived, shared.clone(), stopping.clone()));
                } else {
                    begin(stream, arrived, &shared, &stopping);
                }
            }
            // The front has no descriptor left, or the connection was gone before it was accepted. The lack of descriptors
            // lasts a while, so the loop pauses.
            Err(error) if error.raw_os_error() == Some(24) || error.raw_os_error() == Some(23) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(_) => {}
        }
    }
}

/// How long a stop waits for handshakes that are under way. Clients repeat what they have not got to send.
const LAST_HANDSHAKES: Duration = Duration::from_secs(1);

/// Serves a connection by TLS. What the handshake needs is freed when it is complete.
async fn serve_tls<S>(
    stream: S,
    peer: Peer,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<Life>,
    _held: (ConnectionPermit, Counted),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let view = shared.lanes.view();
    let patience = Duration::from_millis(view.settings.limits.handshake_timeout_ms);
    let may_be_http2 = view.settings.http2;
    drop(view);
    let stopping = stopped.clone();
    let stop = async {
        told_to_stop(&mut stopped).await;
        tokio::time::sleep(LAST_HANDSHAKES).await;
    };
    let made = tokio::select! {
        made = Box::pin(handshake::accept(&shared.tls, stream, may_be_http2, patience)) => made,
        () = stop => None,
    };
    let Some((stream, secure)) = made else { return };
    let is_http2 = secure.is_http2;
    let peer = peer.over_tls(secure);
    match is_http2 {
        true => converse_http2(stream, peer, shared, stopping).await,
        false => converse(stream, peer, shared, stopping, false).await,
    }
}
