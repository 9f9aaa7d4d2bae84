//! Binds the listeners, or takes those that a service manager has bound. The supervisor keeps them; every front gets
//! copies. For a reload a child of the supervisor binds those that are new.

mod handed;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use supervisor::Listener;

use crate::exit::{Code, Failure};
use crate::options::Config;
pub use handed::take as handed_over;

/// Connections that the kernel keeps until they are accepted, at most net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// A socket that was bound here. Until the supervisor has it, its file goes with it.
struct Bound {
    socket: OwnedFd,
    listener: Listener,
    file: SocketFile,
}

/// The file of a unix socket, removed with its owner.
struct SocketFile(Option<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The listeners of a configuration, and the sockets of those that were not open before.
#[derive(Default)]
pub struct Opened {
    /// Visitors' first, then those for monitoring.
    pub listeners: Vec<Listener>,
    new: Vec<Bound>,
}

impl Opened {
    /// The sockets of the new listeners, in the order of the listeners. Their files stay.
    pub fn into_sockets(self) -> Vec<OwnedFd> {
        let socket = |mut one: Bound| {
            one.file.0 = None;
            one.socket
        };
        self.new.into_iter().map(socket).collect()
    }
}

/// Whether clients of an address speak TLS.
pub fn is_tls(address: &str) -> bool {
    address.starts_with("https://")
}

/// Whether who connects to a socket address (`127.0.0.1:80`, `unix:/PATH`) comes to this address of `listen`.
pub fn is_same(listen: &str, address: &str) -> bool {
    if listen.starts_with("unix:") || address.starts_with("unix:") {
        return listen == address;
    }
    let (Ok(own), Ok(other)) = (resolve(listen), address.parse::<SocketAddr>()) else { return false };
    own.port() == other.port() && (own.ip() == other.ip() || own.ip().is_unspecified() && other.ip().is_loopback())
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
        let named = supervisor::os::user::numbers(self.owner.as_deref(), self.group.as_deref());
        named.map_err(|why| Failure::new(Code::Configuration, "socket_owner or socket_group", why))
    }
}

/// Finds the listeners of a configuration among those that are open, and opens the others. An address keeps its socket whatever
/// is spoken there. Sockets of a service manager are for visitors, whatever addresses `listen` names.
pub fn open(config: &Config, before: &[Listener]) -> Result<Opened, Failure> {
    let mut opened = Opened::default();
    let mut left: Vec<&Listener> = before.iter().filter(|one| !one.is_handed_over).collect();
    let first_id = before.iter().map(|one| one.id + 1).max().unwrap_or(0);
    let handed = by_scheme(before.iter().filter(|one| one.is_handed_over), &config.listen)?;
    let of_visitors = if handed.is_empty() { config.listen.as_slice() } else { &[] };
    opened.listeners = handed;
    let wanted = of_visitors.iter().map(|address| (address, false));
    for (address, is_admin) in wanted.chain(config.admin_listen.iter().map(|address| (address, true))) {
        let target = target(address)?;
        if let Some(at) = left.iter().position(|one| one.target == target) {
            let known = left.remove(at);
            opened.listeners.push(Listener { is_admin, ..with_scheme(known, is_tls(address)) });
            continue;
        }
        let mut bound = bind_one(address, &config.permissions()).map_err(|failure| beside(failure, &target, before))?;
        bound.listener.id = first_id + opened.new.len() as u32;
        (bound.listener.target, bound.listener.is_admin) = (target, is_admin);
        opened.listeners.push(bound.listener.clone());
        opened.new.push(bound);
    }
    Ok(opened)
}

/// What an address means, resolved.
fn target(address: &str) -> Result<String, Failure> {
    if address.starts_with("unix:") { Ok(address.to_owned()) } else { resolve(address).map(|at| at.to_string()) }
}

/// Says so if what is in the way of an address is another one of this server.
fn beside(failure: Failure, target: &str, before: &[Listener]) -> Failure {
    let port = target.parse::<SocketAddr>().ok().map(|address| address.port());
    match before.iter().find(|one| one.port.is_some() && one.port == port) {
        Some(own) if failure.is(Code::AddressInUse) => failure.hint(format!(
            "this server listens on {}; a reload without that address frees it for the next reload, a restart changes both at once",
            own.shown
        )),
        _ => failure,
    }
}

fn with_scheme(listener: &Listener, is_tls: bool) -> Listener {
    let [from, to] = if is_tls { ["http://", "https://"] } else { ["https://", "http://"] };
    Listener { is_tls, shown: listener.shown.replacen(from, to, 1), ..listener.clone() }
}

/// Of sockets that were handed over, those are for TLS whose port `listen` names with https.
fn by_scheme<'a>(handed: impl Iterator<Item = &'a Listener>, addresses: &[String]) -> Result<Vec<Listener>, Failure> {
    let tls = addresses.iter().filter(|address| is_tls(address)).map(|address| Ok(resolve(address)?.port()));
    let ports = tls.collect::<Result<Vec<u16>, Failure>>()?;
    Ok(handed.map(|one| with_scheme(one, one.port.is_some_and(|port| ports.contains(&port)))).collect())
}

/// Binds one address: a listening, non-blocking socket.
fn bind_one(address: &str, permissions: &Permissions) -> Result<Bound, Failure> {
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

/// Whether other machines may connect to a listener: its address is not one that stays on this machine.
pub fn is_public(listener: &Listener) -> bool {
    let address = listener.shown.split("//").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<SocketAddr>().ok());
    address.is_some_and(|address| !address.ip().to_canonical().is_loopback())
}

/// The address that stands for all of this machine's: for IPv4 and IPv6, or for IPv4 where the kernel has nothing else.
fn all_addresses() -> IpAddr {
    match rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// The socket address of `HOST:PORT`, of `PORT` on 127.0.0.1, or of `*:PORT` and `:PORT` on all addresses.
pub fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let without_scheme = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let wanted = without_scheme.unwrap_or(address).trim_end_matches('/');
    if let Ok(port) = wanted.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let of_all = wanted.strip_prefix('*').unwrap_or(wanted).strip_prefix(':');
    if let Some(Ok(port)) = of_all.map(str::parse) {
        return Ok(SocketAddr::new(all_addresses(), port));
    }
    let mut resolved = wanted.to_socket_addrs().map_err(|error| {
        Failure::new(Code::Configuration, format!("listen address '{address}'"), error).hint(
            "HOST:PORT, PORT for 127.0.0.1, *:PORT for all addresses, https:// before one of these, or unix:/PATH",
        )
    })?;
    resolved
        .next()
        .ok_or_else(|| Failure::new(Code::Configuration, format!("listen address '{address}'"), "names no address"))
}

/// A listener in clear of which no more is known.
fn named(shown: String) -> Listener {
    Listener {
        id: 0,
        target: String::new(),
        shown,
        is_unix: false,
        is_tls: false,
        is_admin: false,
        is_handed_over: false,
        port: None,
        file: None,
    }
}

fn bind_tcp(address: &str) -> Result<Bound, Failure> {
    let target = resolve(address)?;
    let (socket, at) = listening(target).map_err(|error| fail(address, &error))?;
    let (is_tls, scheme) = if is_tls(address) { (true, "https") } else { (false, "http") };
    let listener = Listener { is_tls, port: Some(at.port()), ..named(format!("{scheme}://{at}")) };
    Ok(Bound { socket, listener, file: SocketFile(None) })
}

/// A listening, non-blocking socket at an address, and the address with its port. That of all IPv6 addresses takes IPv4 too, whatever the kernel's default is.
fn listening(target: SocketAddr) -> std::io::Result<(OwnedFd, SocketAddr)> {
    let family = if target.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if target.is_ipv6() && target.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    rustix::net::bind(&socket, &target)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    let at = listener.local_addr()?;
    Ok((listener.into(), at))
}

fn bind_unix(path: &Path, permissions: &Permissions) -> Result<Bound, Failure> {
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
    let listener = Listener { is_unix: true, file: Some(path.to_owned()), ..named(shown) };
    let file = SocketFile(listener.file.clone());
    Ok(Bound { socket, listener, file })
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
