//! The sockets that clients connect to. The supervisor has them open, so that they outlive every front; each front gets copies.
//! A reload brings others: a child opens them, the front gets them with its new settings, and this process closes those that
//! no configuration needs any more.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is known of a listener besides its socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Names the socket among those of a configuration and of the one that follows it.
    pub id: u32,
    /// What the configuration means, resolved: the same text is the same address.
    pub target: String,
    /// Its address for people: `http://127.0.0.1:8080` or `unix:/path`.
    pub shown: String,
    /// Whether it is a unix socket.
    pub is_unix: bool,
    /// Whether its clients speak TLS.
    pub is_tls: bool,
    /// Whether it is for monitoring.
    pub is_admin: bool,
    /// Whether a service manager has bound it.
    pub is_handed_over: bool,
    /// Its port, unless it is a unix socket.
    pub port: Option<u16>,
    /// The file to remove when it is closed, if it is a unix socket of our own.
    pub file: Option<PathBuf>,
}

impl Listener {
    /// The address, and what the listener is for.
    pub fn described(&self) -> String {
        if self.is_admin { format!("{} (metrics)", self.shown) } else { self.shown.clone() }
    }
}

/// What the log says of a change from some listeners to others.
pub(crate) fn difference(old: &[Listener], new: &[Listener]) -> Vec<String> {
    let line = |what: &'static str, these: &[Listener], others: &[Listener]| {
        let changed = these.iter().filter(|one| !others.contains(one));
        changed.map(|one| format!("{what} {}", one.described())).collect::<Vec<String>>()
    };
    [line("no longer listening on", old, new), line("listening on", new, old)].concat()
}

/// A socket, closed with its owner.
struct Open {
    id: u32,
    socket: OwnedFd,
    file: Option<PathBuf>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// All sockets that are open: those of the configuration in force, and those of one that is to follow.
#[derive(Default)]
pub(crate) struct Listeners {
    open: Vec<Open>,
}

impl Listeners {
    /// Takes the sockets of those listeners that are not open yet, in their order.
    pub(crate) fn add(&mut self, listeners: &[Listener], sockets: Vec<OwnedFd>) {
        let known = self.ids();
        let new = listeners.iter().filter(|one| !known.contains(&one.id));
        let open = new.zip(sockets).map(|(one, socket)| Open { id: one.id, socket, file: one.file.clone() });
        self.open.extend(open);
    }

    fn ids(&self) -> BTreeSet<u32> {
        self.open.iter().map(|one| one.id).collect()
    }

    /// The sockets of listeners, in their order.
    pub(crate) fn of(&self, listeners: &[Listener]) -> Vec<BorrowedFd<'_>> {
        let socket = |one: &Listener| self.open.iter().find(|open| open.id == one.id).map(|open| open.socket.as_fd());
        listeners.iter().filter_map(socket).collect()
    }

    /// Closes all sockets but those with these ids.
    pub(crate) fn keep(&mut self, ids: &BTreeSet<u32>) {
        self.open.retain(|one| ids.contains(&one.id));
    }
}

#[cfg(test)]
impl Listener {
    /// One for tests.
    pub(crate) fn for_test(id: u32, shown: &str) -> Listener {
        Listener {
            id,
            target: shown.to_owned(),
            shown: shown.to_owned(),
            is_unix: false,
            is_tls: shown.starts_with("https:"),
            is_admin: false,
            is_handed_over: false,
            port: None,
            file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn sockets_stay_open_as_long_as_a_configuration_has_them() {
        let file = std::env::temp_dir().join(format!("reprise-listeners-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let [a, b] = ["http://a", "http://b"].map(|shown| Listener::for_test(u32::from(shown == "http://b"), shown));
        let c = Listener { file: Some(file.clone()), ..Listener::for_test(2, "unix:/c") };
        let mut listeners = Listeners::default();
        listeners.add(&[a.clone(), b.clone()], vec![socket(), socket()]);
        // One that is open already has no other socket.
        listeners.add(&[b.clone(), c.clone()], vec![socket()]);
        assert_eq!(listeners.of(&[c.clone(), b.clone(), a.clone()]).len(), 3);
        listeners.keep(&BTreeSet::from([1, 2]));
        assert_eq!((listeners.of(std::slice::from_ref(&a)).len(), listeners.of(&[b, c]).len()), (0, 2));
        assert!(file.exists());
        listeners.keep(&BTreeSet::new());
        assert!(!file.exists(), "the file goes with its socket");
    }

    #[test]
    fn the_log_names_what_has_changed() {
        let old = [Listener::for_test(0, "http://a"), Listener::for_test(1, "http://b")];
        let tls = Listener { is_tls: true, shown: "https://b".to_owned(), ..old[1].clone() };
        let new = [old[0].clone(), tls, Listener { is_admin: true, ..Listener::for_test(2, "http://c") }];
        let lines = ["no longer listening on http://b", "listening on https://b", "listening on http://c (metrics)"];
        assert_eq!(difference(&old, &new), lines);
        assert!(difference(&old, &old).is_empty());
    }
}
