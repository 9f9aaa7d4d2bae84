//! Who is at the other end of a connection.

use std::net::SocketAddr;

use crate::settings::Network;

/// The two ends of a connection, spelled for PHP and the log.
#[derive(Debug)]
pub struct Peer {
    /// Client's address; `unix:` for a unix socket.
    pub address: String,
    /// Client's port; empty for a unix socket.
    pub port: String,
    /// Our address.
    pub server_address: String,
    /// Our port.
    pub server_port: String,
    /// Whether its forwarding headers are believed.
    pub is_proxy: bool,
    /// What does not change between the requests of a connection, ready for [`crate::head`].
    pub variables: (Vec<u8>, u32),
}

impl Peer {
    /// Of a TCP connection.
    pub fn tcp(client: SocketAddr, server: SocketAddr, proxies: &[Network]) -> Peer {
        let (address, server_address) = (client.ip().to_canonical(), server.ip().to_canonical());
        Peer::with_variables(Peer {
            address: address.to_string(),
            port: client.port().to_string(),
            server_address: server_address.to_string(),
            server_port: server.port().to_string(),
            is_proxy: proxies.iter().any(|network| network.contains(address)),
            variables: (Vec::new(), 0),
        })
    }

    /// Of a connection through a unix socket.
    pub fn unix(proxies: &[Network]) -> Peer {
        Peer::with_variables(Peer {
            address: "unix:".to_owned(),
            port: String::new(),
            server_address: "unix:".to_owned(),
            server_port: String::new(),
            is_proxy: proxies.contains(&Network::Unix),
            variables: (Vec::new(), 0),
        })
    }

    /// Of a request that the server makes itself, by the configuration: what it says of a client is believed.
    pub fn ourselves() -> Peer {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        Peer { is_proxy: true, ..Peer::tcp(here, here, &[]) }
    }

    fn with_variables(mut peer: Peer) -> Peer {
        peer.variables = crate::head::of_connection(&peer);
        peer
    }
}
