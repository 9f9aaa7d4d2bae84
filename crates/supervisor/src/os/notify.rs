//! Notifications to the service manager: sd_notify(3), without its library. A packet has one or more lines `NAME=value`.
//!
//! | when | what |
//! |---|---|
//! | begun | `EXTEND_TIMEOUT_USEC`: how long a boot may take by the configuration |
//! | everything serves | `READY=1` |
//! | a reload begins | `RELOADING=1`, `MONOTONIC_USEC`, `EXTEND_TIMEOUT_USEC` |
//! | it is over, done or refused | `READY=1` |
//! | told to stop | `STOPPING=1`, `EXTEND_TIMEOUT_USEC` |
//! | half of `WATCHDOG_USEC` has passed | `WATCHDOG=1` |

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Variables of a service manager. They are for the process it has started, and for none of its children.
pub const VARIABLES: [&str; 8] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "FDSTORE",
];

/// Messages that wait because the manager does not read; older ones are dropped then.
const MAX_WAITING: usize = 16;
/// Bytes of a status.
const MAX_STATUS: usize = 400;
/// How long after a failed try waiting messages are sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// The service manager, if there is one.
#[derive(Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    waiting: VecDeque<String>,
    /// How often it is told that this process is alive, and when next.
    watchdog: Option<(Duration, Instant)>,
}

impl Notify {
    /// By this process' environment. An address that cannot be used is reported and done without.
    pub fn from_environment() -> Notify {
        let text = |name: &str| std::env::var(name).ok();
        let mut notify = Notify::default();
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return notify };
        match address(&socket).and_then(|address| Ok((open()?, address))) {
            Ok(to) => notify.to = Some(to),
            Err(error) => {
                let text = format!("NOTIFY_SOCKET={}: {error}", socket.to_string_lossy());
                crate::logs::log::line("warning", "supervisor", format_args!("{text}"));
                return notify;
            }
        }
        let every = watchdog(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref(), std::process::id());
        notify.watchdog = every.map(|every| (every, Instant::now()));
        notify
    }

    /// Tells the manager a state, with a status for people. The next state may take as long as `patience`.
    pub fn tell(&mut self, state: &str, status: &dyn Display, patience: Option<Duration>) {
        if self.to.is_none() {
            return;
        }
        let mut message = format!("{state}\nSTATUS={}", one_line(&status.to_string()));
        if let Some(patience) = patience {
            message.push_str(&format!("\nEXTEND_TIMEOUT_USEC={}", patience.as_micros()));
        }
        self.waiting.push_back(message.trim_start().to_owned());
        if self.waiting.len() > MAX_WAITING {
            self.waiting.pop_front();
        }
        self.send_waiting();
    }

    /// Tells that a reload begins.
    pub fn tell_reloading(&mut self, patience: Duration) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"), &"reloading", Some(patience));
    }

    /// Does what is due: tells that this process is alive, sends what waits.
    pub fn turn(&mut self, now: Instant) {
        self.send_waiting();
        if let Some((every, next)) = &mut self.watchdog {
            if *next <= now {
                *next = now + *every;
                // If this message gets lost, another follows.
                let _ = self.send("WATCHDOG=1");
            }
        }
    }

    /// When [`turn`](Notify::turn) is due.
    pub fn next_turn(&self, now: Instant) -> Option<Instant> {
        let retry = (!self.waiting.is_empty()).then(|| now + PAUSE);
        self.watchdog.map(|(_, next)| next).into_iter().chain(retry).min()
    }

    fn send(&self, message: &str) -> std::io::Result<()> {
        let Some((socket, address)) = &self.to else { return Ok(()) };
        socket.send_to_addr(message.as_bytes(), address).map(|_| ())
    }

    /// Sends messages in order, without waiting for a manager that does not read. If it is gone, they are dropped.
    fn send_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            if self.send(message).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

fn open() -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A path, or a name beginning with `@`.
fn address(socket: &OsStr) -> std::io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(std::io::Error::other("neither a path nor an abstract name; the service manager gets no messages")),
    }
}

/// Half the time after which the manager takes this process for dead, if it watches it at all.
fn watchdog(microseconds: Option<&str>, pid: Option<&str>, us: u32) -> Option<Duration> {
    let limit: u64 = microseconds?.parse().ok().filter(|limit| *limit > 0)?;
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(us));
    is_ours.then(|| Duration::from_micros(limit / 2).max(Duration::from_millis(1)))
}

fn one_line(text: &str) -> String {
    let mut line = text.replace(|one: char| one.is_control(), " ");
    if line.len() > MAX_STATUS {
        let end = (0..=MAX_STATUS).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_somebody_else_is_none() {
        assert_eq!(watchdog(Some("400000"), None, 7), Some(Duration::from_millis(200)));
        assert_eq!(watchdog(Some("400000"), Some("7"), 7), Some(Duration::from_millis(200)));
        assert_eq!(watchdog(Some("1"), Some("7"), 7), Some(Duration::from_millis(1)));
        for (microseconds, pid) in [(Some("400000"), Some("8")), (Some("0"), None), (Some("x"), None), (None, None)] {
            assert_eq!(watchdog(microseconds, pid, 7), None);
        }
    }

    #[test]
    fn what_a_manager_does_not_read_waits_in_order() {
        let name = format!("reprise-notify-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        manager.set_nonblocking(true).unwrap();
        let to = Some((open().unwrap(), address(OsStr::new(&format!("@{name}"))).unwrap()));
        let mut notify = Notify { to, ..Notify::default() };
        let now = Instant::now();
        let mut told = 0;
        while notify.next_turn(now).is_none() {
            told += 1;
            notify.tell("READY=1", &format_args!("{told}\n{}", "ä".repeat(300)), Some(Duration::from_secs(1)));
        }
        let mut bytes = [0; 1024];
        let mut heard = 0;
        while let Ok(size) = manager.recv(&mut bytes) {
            heard += 1;
            let text = std::str::from_utf8(&bytes[..size]).unwrap();
            assert!(text.starts_with(&format!("READY=1\nSTATUS={heard} ää")), "{text}");
            assert!(text.ends_with("ä…\nEXTEND_TIMEOUT_USEC=1000000"), "{text}");
            notify.turn(now);
        }
        assert_eq!((heard, notify.next_turn(now)), (told, None));
    }

    #[test]
    fn other_addresses_are_refused() {
        assert!(address(OsStr::new("/run/systemd/notify")).is_ok());
        assert!(address(OsStr::new("vsock:2:1")).is_err());
        assert!(address(OsStr::new("notify")).is_err());
    }
}
