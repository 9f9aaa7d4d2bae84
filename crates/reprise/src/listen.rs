//! Binds the listeners, or takes those that a service manager has bound. The supervisor keeps them; every front gets
//! copies.

mod handed;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::exit::{Code, Failure};
pub use handed::take as handed_over;

/// Connections that the kernel keeps until they are accepted, at most net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// What is known of a bound listener besides its socket.
pub struct Bound {
    /// Its address for people: `http://127.0.0.1:8080` or `unix:/path`.
    pub shown: String,
    /// Whether it is a unix socket.
    pub is_unix: bool,
    /// Whether its clients speak TLS.
    pub is_tls: bool,
    /// Its port, unless it is a unix socket.
    pub port: Option<u16>,
    /// The file to remove at the end, if it is a unix socket of our own.
    pub file: Option<PathBuf>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether clients of an address speak TLS.
pub fn is_tls(address: &str) -> bool {
    address.starts_with("https://")
}

/// Looks at an address without binding it.
pub fn check(address: &str) -> Result<(), Failure> {
    match address.strip_prefix("unix:") {
        Some(path) if !path.starts_with('/') => {
            Err(Failure::new(Code::Configuration, format!("listen address '{address}'"), "wants an absolute path"))
        }
        Some(_) => Ok(()),
        None => resolve(address).map(|_| ()),
    }
}

/// Who may connect to unix sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The permissions of the socket, within 0o777.
    pub mode: u32,
    /// The owner; `None`: the user who starts the server.
    pub owner: Option<String>,
    /// The group; `None`: the owner's.
    pub group: Option<String>,
}

impl Default for Permissions {
    fn default() -> Permissions {
        Permissions { mode: 0o666, owner: None, group: None }
    }
}

impl Permissions {
    /// The ids of owner and group.
    fn numbers(&self) -> Result<(Option<u32>, Option<u32>), Failure> {
        let named = process::user::numbers(self.owner.as_deref(), self.group.as_deref());
        named.map_err(|why| Failure::new(Code::Configuration, "socket_owner or socket_group", why))
    }
}

/// Binds all addresses.
pub fn bind(addresses: &[String], permissions: &Permissions) -> Result<Vec<(OwnedFd, Bound)>, Failure> {
    addresses.iter().map(|address| bind_one(address, permissions)).collect()
}

/// Of sockets that were handed over, those are for TLS whose port `listen` names with https.
pub fn by_scheme(mut handed: Vec<(OwnedFd, Bound)>, addresses: &[String]) -> Result<Vec<(OwnedFd, Bound)>, Failure> {
    let tls = addresses.iter().filter(|address| is_tls(address)).map(|address| Ok(resolve(address)?.port()));
    let ports = tls.collect::<Result<Vec<u16>, Failure>>()?;
    for (socket, bound) in &mut handed {
        let address = rustix::net::getsockname(&*socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        bound.port = address.map(|address| address.port());
        if bound.port.is_some_and(|port| ports.contains(&port)) {
            bound.is_tls = true;
            bound.shown = bound.shown.replacen("http://", "https://", 1);
        }
    }
    Ok(handed)
}

/// Binds one address: a listening, non-blocking socket.
fn bind_one(address: &str, permissions: &Permissions) -> Result<(OwnedFd, Bound), Failure> {
    match address.strip_prefix("unix:") {
        Some(path) => bind_unix(Path::new(path), permissions),
        None => bind_tcp(address),
    }
}

fn fail(address: &str, error: &std::io::Error) -> Failure {
    let what = format!("cannot listen on {address}");
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(Code::AddressInUse, what, "the address is in use")
            .hint("stop what uses it, or choose another with --listen"),
        std::io::ErrorKind::PermissionDenied => {
            Failure::new(Code::Permission, what, error).hint("ports below 1024 need root or CAP_NET_BIND_SERVICE")
        }
        _ => Failure::new(Code::Configuration, what, error),
    }
}

/// The socket address of `HOST:PORT`.
pub fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let without_scheme = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let wanted = without_scheme.unwrap_or(address).trim_end_matches('/');
    // ":8080" and "8080" mean every address.
    let wanted = match wanted.strip_prefix(':').unwrap_or(wanted).parse::<u16>() {
        Ok(port) => format!("0.0.0.0:{port}"),
        Err(_) => wanted.to_owned(),
    };
    let mut resolved = wanted.to_socket_addrs().map_err(|error| {
        Failure::new(Code::Configuration, format!("listen address '{address}'"), error)
            .hint("HOST:PORT, https://HOST:PORT or unix:/PATH")
    })?;
    resolved
        .next()
        .ok_or_else(|| Failure::new(Code::Configuration, format!("listen address '{address}'"), "names no address"))
}

fn bind_tcp(address: &str) -> Result<(OwnedFd, Bound), Failure> {
    let target = resolve(address)?;
    let listener = TcpListener::bind(target).map_err(|error| fail(address, &error))?;
    let at = listener.local_addr().map_err(|error| fail(address, &error))?;
    listener.set_nonblocking(true).map_err(|error| fail(address, &error))?;
    let socket = OwnedFd::from(listener);
    rustix::net::listen(&socket, BACKLOG).map_err(|error| fail(address, &error.into()))?;
    let (is_tls, scheme) = if is_tls(address) { (true, "https") } else { (false, "http") };
    Ok((socket, Bound { shown: format!("{scheme}://{at}"), is_unix: false, is_tls, port: Some(at.port()), file: None }))
}

fn bind_unix(path: &Path, permissions: &Permissions) -> Result<(OwnedFd, Bound), Failure> {
    let shown = format!("unix:{}", path.display());
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && is_left_over(path) {
        std::fs::remove_file(path).map_err(|error| fail(&shown, &error))?;
    }
    let (owner, group) = permissions.numbers()?;
    // The socket never has more permissions than its mode. Something else may have taken the path's place since the bind,
    // so links are not followed when the owner is changed. Before that nobody else can connect, unless the mode lets
    // everybody.
    let closed = if owner.is_some() || group.is_some() { permissions.mode & 0o600 } else { permissions.mode };
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777 & !closed));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener.map_err(|error| fail(&shown, &error))?;
    if owner.is_some() || group.is_some() {
        give_away(path, owner, group, permissions.mode).map_err(|error| {
            let _ = std::fs::remove_file(path);
            Failure::new(Code::Permission, format!("owner and group of {shown}"), error)
                .hint("socket_owner and socket_group need root, or a group of one's own")
        })?;
    }
    listener.set_nonblocking(true).map_err(|error| fail(&shown, &error))?;
    let socket = OwnedFd::from(listener);
    rustix::net::listen(&socket, BACKLOG).map_err(|error| fail(&shown, &error.into()))?;
    Ok((socket, Bound { shown, is_unix: true, is_tls: false, port: None, file: Some(path.to_owned()) }))
}

/// Whether a socket was left by a killed server: nobody listens on it.
fn is_left_over(path: &Path) -> bool {
    match UnixStream::connect(path).map_err(|error| error.kind()) {
        Err(std::io::ErrorKind::ConnectionRefused) => true,
        // The socket belongs to another user, and this process does not have all of root's rights. Column 4 has a flag for
        // listening, column 8 the path.
        Err(std::io::ErrorKind::PermissionDenied) => std::fs::read("/proc/net/unix").is_ok_and(|list| {
            let name = format!(" {}", path.display());
            !String::from_utf8_lossy(&list).lines().any(|line| line.contains(" 00010000 ") && line.ends_with(&name))
        }),
        _ => false,
    }
}

/// Sets group, mode, then owner, each while the socket is still this user's. The path must name a socket, not a link to
/// one. A user who may rename files in its directory could put another socket there, as with any server; keep sockets in
/// directories of their own.
fn give_away(path: &Path, owner: Option<u32>, group: Option<u32>, mode: u32) -> std::io::Result<()> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let is_socket = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_socket();
    if !is_socket {
        return Err(std::io::Error::other("it is no socket any more"));
    }
    let (owner, group) = (owner.map(rustix::fs::Uid::from_raw), group.map(rustix::fs::Gid::from_raw));
    rustix::fs::chownat(&place, "", None, group, AtFlags::EMPTY_PATH)?;
    // fchmod refuses a descriptor that was opened with O_PATH.
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
    rustix::fs::chmodat(CWD, handle, Mode::from_raw_mode(mode), AtFlags::empty())?;
    rustix::fs::chownat(&place, "", owner, None, AtFlags::EMPTY_PATH)?;
    Ok(())
}
