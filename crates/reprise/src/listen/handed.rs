//! Sockets that a service manager has bound and hands over: sd_listen_fds(3). They outlive the server: connections that
//! come while no server runs wait in the kernel.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;

use rustix::net::{AddressFamily, SocketType, sockopt};
use supervisor::Listener;
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::plan::MAX_LISTENERS;

use super::named;
use crate::exit::{Code, Failure};

/// Sockets at most.
const MAX_SOCKETS: i32 = MAX_LISTENERS as i32;

/// All sockets that were handed to this process, in their order; usually none. To be called once, before another program is
/// executed.
pub fn take() -> Result<Vec<(OwnedFd, Listener)>, Failure> {
    let text = |name: &str| std::env::var(name).ok();
    let count = count(text("LISTEN_PID").as_deref(), text("LISTEN_FDS").as_deref(), std::process::id())?;
    let numbers = FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + count;
    let mut taken = numbers.map(|number| socket(number, inherited(number))).collect::<Result<Vec<_>, _>>()?;
    (0..).zip(&mut taken).for_each(|(id, (_, listener))| listener.id = id);
    Ok(taken)
}

/// How many sockets are meant for this process.
fn count(pid: Option<&str>, count: Option<&str>, us: u32) -> Result<i32, Failure> {
    if pid.is_none_or(|pid| pid.parse() != Ok(us)) {
        return Ok(0);
    }
    let Some(count) = count else { return Ok(0) };
    count.parse().ok().filter(|count| (0..=MAX_SOCKETS).contains(count)).ok_or_else(|| {
        Failure::new(Code::Configuration, "LISTEN_FDS", format!("'{count}' is not a number up to {MAX_SOCKETS}"))
    })
}

fn socket(number: i32, descriptor: std::io::Result<OwnedFd>) -> Result<(OwnedFd, Listener), Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::new(Code::Configuration, format!("descriptor {number}, handed over to listen on"), why)
            .hint("ListenStream= of the socket unit, with Accept=no, hands over what can be listened on")
    };
    let descriptor = descriptor.map_err(|error| refused(&error))?;
    let failed = |error: rustix::io::Errno| match error {
        rustix::io::Errno::NOTSOCK => refused(&"it is no socket"),
        other => refused(&other),
    };
    if sockopt::socket_type(&descriptor).map_err(failed)? != SocketType::STREAM {
        return Err(refused(&"it is no stream socket"));
    }
    let family = sockopt::socket_domain(&descriptor).map_err(failed)?;
    if ![AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX].contains(&family) {
        return Err(refused(&"it is neither a TCP nor a unix socket"));
    }
    if !sockopt::socket_acceptconn(&descriptor).map_err(failed)? {
        return Err(refused(&"it does not listen"));
    }
    let wrong = |error: std::io::Error| refused(&error);
    let is_unix = family == AddressFamily::UNIX;
    let (descriptor, address, port) = if is_unix {
        let listener = UnixListener::from(descriptor);
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let name = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => path.display().to_string(),
            (None, name) => format!("@{}", String::from_utf8_lossy(name.unwrap_or_default())),
        };
        (OwnedFd::from(listener), format!("unix:{name}"), None)
    } else {
        let listener = TcpListener::from(descriptor);
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        (OwnedFd::from(listener), format!("http://{address}"), Some(address.port()))
    };
    let shown = format!("{address} (descriptor {number})");
    Ok((descriptor, Listener { is_unix, port, is_handed_over: true, ..named(shown) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_another_process_are_left_alone() {
        assert_eq!(count(Some("7"), Some("2"), 7).unwrap(), 2);
        assert_eq!(count(Some("8"), Some("2"), 7).unwrap(), 0);
        assert_eq!(count(None, Some("2"), 7).unwrap(), 0);
        assert_eq!(count(Some("7"), None, 7).unwrap(), 0);
        for wrong in ["-1", "65", "two"] {
            assert!(count(Some("7"), Some(wrong), 7).is_err());
        }
    }

    #[test]
    fn only_listening_stream_sockets_are_taken() {
        let is_refused = |descriptor: OwnedFd, why: &str| {
            let failure = socket(5, Ok(descriptor)).expect_err("refused").to_string();
            assert!(failure.starts_with("descriptor 5") && failure.contains(why), "{failure}");
        };
        is_refused(std::fs::File::open("/dev/null").unwrap().into(), "no socket");
        is_refused(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(), "no stream");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        is_refused(std::net::TcpStream::connect(address).unwrap().into(), "does not listen");
        let (_, taken) = socket(5, Ok(listener.into())).ok().unwrap();
        assert_eq!(taken.shown, format!("http://{address} (descriptor 5)"));
        assert!(!taken.is_unix && taken.file.is_none());
    }
}
