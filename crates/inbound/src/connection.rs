//! Who the client of a connection is, and whether it has left.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::Scheme;
use ipc::head::{TooLarge, Writer};

use crate::forwarded;
use certificates::Secure;
use routing::settings::Network;

/// What a request knows of its connection.
pub struct Connection {
    /// Both ends.
    pub peer: Arc<Peer>,
    /// The client, which may leave before the response. Over HTTP/2 it is the client of one stream.
    pub client: Box<dyn Client>,
}

/// The two ends of a connection, spelled for PHP and the log.
pub struct Peer {
    /// Client's address; `unix:` for a unix socket.
    pub address: String,
    /// Client's port; empty for a unix socket.
    pub port: String,
    /// Our address.
    pub server_address: String,
    /// Our port.
    pub server_port: String,
    /// What the client speaks.
    pub scheme: Scheme,
    /// Whether its forwarding headers are believed.
    pub is_proxy: bool,
    /// What is known of its TLS, if it is not in clear.
    pub tls: Option<Secure>,
    /// The variables that are the same for all requests of the connection, encoded for PHP's head.
    pub variables: (Vec<u8>, u32),
}

impl Peer {
    /// The ends of a TCP connection.
    pub fn tcp(client: SocketAddr, server: SocketAddr, proxies: &[Network]) -> Peer {
        let (address, server_address) = (client.ip().to_canonical(), server.ip().to_canonical());
        Peer::with_variables(Peer {
            address: address.to_string(),
            port: client.port().to_string(),
            server_address: server_address.to_string(),
            server_port: server.port().to_string(),
            scheme: Scheme::HTTP,
            is_proxy: proxies.iter().any(|network| network.contains(address)),
            tls: None,
            variables: (Vec::new(), 0),
        })
    }

    /// The ends of a connection through a unix socket.
    pub fn unix(proxies: &[Network]) -> Peer {
        Peer::with_variables(Peer {
            address: "unix:".to_owned(),
            port: String::new(),
            server_address: "unix:".to_owned(),
            server_port: String::new(),
            scheme: Scheme::HTTP,
            is_proxy: proxies.contains(&Network::Unix),
            tls: None,
            variables: (Vec::new(), 0),
        })
    }

    /// For a request that the server itself makes from the configuration, by https if it names a port for that. Its forwarding headers
    /// are believed.
    pub fn ourselves(https: Option<u16>) -> Peer {
        let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let scheme = if https.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let peer = Peer::tcp(here(0), here(https.unwrap_or(0)), &[]);
        Peer::with_variables(Peer { is_proxy: true, scheme, ..peer })
    }

    /// The same ends, when the handshake of TLS is complete.
    pub fn over_tls(self, secure: Secure) -> Peer {
        Peer::with_variables(Peer { scheme: Scheme::HTTPS, tls: Some(secure), ..self })
    }

    /// The same ends, without what is known of the client by TLS.
    pub fn without_tls(&self) -> Peer {
        Peer::with_variables(Peer {
            address: self.address.clone(),
            port: self.port.clone(),
            server_address: self.server_address.clone(),
            server_port: self.server_port.clone(),
            scheme: self.scheme.clone(),
            is_proxy: self.is_proxy,
            tls: None,
            variables: (Vec::new(), 0),
        })
    }

    /// Whether the client spoke HTTPS: to the front or, if a proxy says so, to the first proxy.
    pub fn is_https(&self, behind: Option<&forwarded::Client>) -> bool {
        behind.and_then(|client| client.is_https).unwrap_or_else(|| self.scheme == Scheme::HTTPS)
    }

    /// Whether both this end and the client behind it are on this machine.
    pub fn is_on_this_machine(&self, behind: Option<&forwarded::Client>) -> bool {
        let is_here =
            |address: &str| address == "unix:" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_here(&self.address) && behind.is_none_or(|client| is_here(&client.address))
    }

    fn with_variables(mut peer: Peer) -> Peer {
        peer.variables = variables(&peer);
        peer
    }
}

/// The variables that are the same for all requests of a connection. They always fit: addresses are short, and the buffer has room for
/// those of TLS.
fn variables(peer: &Peer) -> (Vec<u8>, u32) {
    let nobody = forwarded::Client { address: String::new(), port: String::new(), is_https: None, server_port: None };
    let of_tls = peer.tls.iter().flat_map(|secure| &secure.variables);
    let more: usize = of_tls.map(|(name, value)| name.len() + value.len() + 16).sum();
    let mut buffer = vec![0; 4096 + more];
    let mut head = Writer::new(&mut buffer);
    let added = add_ends(&mut head, peer, &nobody);
    debug_assert!(added.is_ok());
    let (variables, count) = head.variables();
    (variables.to_vec(), count)
}

/// Adds the variables of both ends: of the client behind a proxy where it is known, else of the connection.
pub fn add_ends(head: &mut Writer<'_>, peer: &Peer, client: &forwarded::Client) -> Result<(), TooLarge> {
    let is_known = !client.address.is_empty();
    let is_https = peer.is_https(Some(client));
    let scheme = if is_https { "https" } else { "http" };
    let asked = client.server_port.or(client.is_https.map(|is_https| if is_https { 443 } else { 80 }));
    let server_port = asked.map(|port| port.to_string());
    for (name, value) in [
        ("REQUEST_SCHEME", scheme),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        // There is no FastCGI here, but scripts find this variable under PHP-FPM.
        ("FCGI_ROLE", "RESPONDER"),
        ("SERVER_SOFTWARE", concat!("reprise/", env!("CARGO_PKG_VERSION"))),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", if is_known { &client.address } else { &peer.address }),
        ("REMOTE_PORT", if is_known { &client.port } else { &peer.port }),
        ("SERVER_ADDR", &peer.server_address),
        ("SERVER_PORT", server_port.as_deref().unwrap_or(&peer.server_port)),
    ] {
        head.add(&[name.as_bytes()], &[value.as_bytes()])?;
    }
    if is_https {
        head.add(&[b"HTTPS"], &[b"on"])?;
    }
    for (name, value) in peer.tls.iter().flat_map(|secure| &secure.variables) {
        head.add(&[name.as_bytes()], &[value.as_bytes()])?;
    }
    Ok(())
}

/// How a client has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The client sends no more, but may still read.
    Ended,
    /// The client neither sends nor reads.
    Gone,
}

/// The client of a connection, for whoever runs its requests.
pub trait Client: Send + Sync {
    /// Whether the client has left. To be asked only while a request of it runs whose body has been read. Reads what the
    /// client sends meanwhile, up to 4 KiB.
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<Left>;
    /// Whether the client neither sends nor reads any more.
    fn is_gone(&self) -> bool;
}

/// A client that never leaves: for requests that the server itself makes.
pub struct Nobody;

impl Client for Nobody {
    fn poll_left(&self, _: &mut Context<'_>) -> Poll<Left> {
        Poll::Pending
    }

    fn is_gone(&self) -> bool {
        false
    }
}
