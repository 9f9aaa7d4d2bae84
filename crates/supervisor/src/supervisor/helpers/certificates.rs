//! Certificates, and the keys of TLS tickets.
//!
//! A child reads certificates and their keys, and sends a sealed memory file with them, which this process passes on to each front.
//! This process knows neither. It has a child look whether the files have changed, every [`LOOK_TURN`] and when `reprise reload
//! --certificates` asks. Files that cannot be served change nothing, and are reported once.
//!
//! The keys of tickets are made here, so that a client can resume a connection with the next front too.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ipc::control::ToFront;

use crate::logs::own::log;
use crate::os::sys;
use crate::peers::boot;
use crate::peers::control_socket::Client;
use crate::settings::drafts::{Certificates, LookedAt};
use crate::supervisor::Supervisor;

/// How often a child looks whether files have changed.
const LOOK_TURN: Duration = Duration::from_secs(10);
/// How often a new key encrypts tickets.
const KEY_TURN: Duration = Duration::from_secs(6 * 3600);
/// Keys that decrypt tickets: the last one is two to three turns old, as old as tickets may be.
const KEYS: usize = 3;
/// Bytes of a key, as the front splits them.
const KEY_SIZE: usize = 80;

/// What is served now, and what is under way.
pub(crate) struct Tending {
    current: Option<Rc<Certificates>>,
    /// What the plan in force came with. Its files may have changed since.
    planned: Option<Rc<Certificates>>,
    /// A child looks at this source, for these clients.
    looking: Option<(String, Vec<Client>)>,
    /// Clients that have asked while a child was on its way.
    asking: Vec<Client>,
    /// Clients that wait until the front has taken the certificates, with their response.
    untaken: Vec<(Vec<Client>, String)>,
    next_look: Instant,
    /// How the files were when they were refused last, and why.
    refused: Option<(String, String)>,
    ticket_keys: TicketKeys,
}

/// Keys of TLS tickets, the newest first.
struct TicketKeys {
    keys: Vec<[u8; KEY_SIZE]>,
    next: Instant,
}

impl TicketKeys {
    /// Adds a key if it is time. True: there is another now.
    fn turn(&mut self, now: Instant, make: impl FnOnce() -> io::Result<[u8; KEY_SIZE]>) -> io::Result<bool> {
        if now < self.next {
            return Ok(false);
        }
        self.keys.insert(0, make()?);
        self.keys.truncate(KEYS);
        self.next = now + KEY_TURN;
        Ok(true)
    }
}

/// What a look leads to.
enum Next {
    Nothing,
    Serve(Rc<Certificates>, Vec<String>, Vec<Client>),
    Refuse(String, Vec<Client>),
    Say(String, Vec<Client>),
}

impl Tending {
    pub(crate) fn new(planned: Option<Rc<Certificates>>, now: Instant) -> Tending {
        Tending {
            current: planned.clone(),
            planned,
            looking: None,
            asking: Vec::new(),
            untaken: Vec::new(),
            next_look: now + LOOK_TURN,
            refused: None,
            ticket_keys: TicketKeys { keys: Vec::new(), next: now },
        }
    }

    /// A plan has come into force. True: it came with certificates of its own.
    fn planned(&mut self, certificates: Option<&Rc<Certificates>>) -> bool {
        let is_known = match (certificates, &self.planned) {
            (Some(new), Some(old)) => Rc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if !is_known {
            self.planned = certificates.cloned();
            self.current = certificates.cloned();
            self.refused = None;
        }
        !is_known
    }

    /// When there is something to do although nobody asks.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.current.as_ref().map(|_| self.next_look.min(self.ticket_keys.next))
    }

    /// Begins a look if it is time, or if somebody asks: which source, and how its files were seen.
    fn look(&mut self, now: Instant) -> Option<(String, Option<String>)> {
        let current = &self.current.as_ref()?.draft;
        if self.looking.is_some() || (now < self.next_look && self.asking.is_empty()) {
            return None;
        }
        self.next_look = now + LOOK_TURN;
        let is_asked = !self.asking.is_empty();
        let seen = self.refused.as_ref().map_or(&current.seen, |(seen, _)| seen);
        let look = (current.source.clone(), (!is_asked).then(|| seen.clone()));
        self.looking = Some((current.source.clone(), std::mem::take(&mut self.asking)));
        Some(look)
    }

    /// A look has ended.
    fn found(&mut self, found: Result<(LookedAt, Option<OwnedFd>), String>) -> Next {
        let Some((source, clients)) = self.looking.take() else { return Next::Nothing };
        if self.current.as_ref().is_none_or(|current| current.draft.source != source) {
            // A reload has brought others meanwhile.
            return Next::Say("a reload has read the certificates meanwhile".to_owned(), clients);
        }
        match found {
            Ok((LookedAt::Unchanged, _)) => Next::Nothing,
            Ok((LookedAt::Read(draft, notices), Some(file))) => {
                self.refused = None;
                let read = Rc::new(Certificates { draft, file });
                self.current = Some(read.clone());
                Next::Serve(read, notices, clients)
            }
            Ok((LookedAt::Read(..), None)) => Next::Refuse("the process has not sent the file".to_owned(), clients),
            Ok((LookedAt::Broken(seen, why), _)) => {
                // Files that are being written may be broken in the same way more than once.
                let is_known = self.refused.as_ref().is_some_and(|(_, known)| *known == why) && clients.is_empty();
                self.refused = Some((seen, why.clone()));
                if is_known { Next::Nothing } else { Next::Refuse(why, clients) }
            }
            Err(why) => Next::Refuse(why, clients),
        }
    }
}

impl Supervisor {
    /// A client asks for the certificates to be read again.
    pub(crate) fn certificates_asked(&mut self, client: Client) {
        if self.certificates.current.is_none() {
            return self.respond(vec![client], Err("the configuration has no [[certificate]]"));
        }
        self.certificates.asking.push(client);
    }

    /// There is a new certificate: it is looked at without waiting for the next turn.
    pub(crate) fn certificates_issued(&mut self) {
        self.certificates.next_look = Instant::now();
    }

    /// Makes keys and looks at files when it is time.
    pub(crate) fn tend_certificates(&mut self) {
        if self.certificates.current.is_none() || self.shutdown.is_begun() {
            return;
        }
        let now = Instant::now();
        match self.certificates.ticket_keys.turn(now, || sys::random().map_err(io::Error::from)) {
            Ok(true) => self.send_ticket_keys(),
            Ok(false) => {}
            Err(error) => log("error", format_args!("no key of TLS tickets can be made: {error}")),
        }
        // While a reload reads or boots, its certificates are about to come.
        if self.reload.is_changing() {
            return;
        }
        if let Some((source, seen)) = self.certificates.look(now) {
            self.look_at_certificates(source, seen);
        }
    }

    fn send_ticket_keys(&mut self) {
        match boot::sealed(&self.certificates.ticket_keys.keys.concat()) {
            Ok(file) => self.front.send(&ToFront::TicketKeys, &[file.as_fd()]),
            Err(error) => log("error", format_args!("the keys of TLS tickets cannot be sent: {error}")),
        }
    }

    /// Sends a front what it needs before it opens.
    pub(crate) fn introduce_certificates(&mut self) {
        let Some(current) = self.certificates.current.clone() else { return };
        self.front.send(&ToFront::Certificates, &[current.file.as_fd()]);
        self.send_ticket_keys();
    }

    /// A plan has come into force.
    pub(crate) fn certificates_planned(&mut self) {
        let plan = self.reload.plan().clone();
        if self.certificates.planned(plan.certificates.as_ref()) {
            self.introduce_certificates();
        }
    }

    pub(crate) fn certificates_found(&mut self, found: Result<(LookedAt, Option<OwnedFd>), String>) {
        match self.certificates.found(found) {
            Next::Nothing => {}
            Next::Say(text, clients) => self.respond(clients, Ok(&text)),
            Next::Refuse(why, clients) => {
                log("error", format_args!("certificates: {why}. Those before stay in use"));
                self.respond(clients, Err(&why));
            }
            Next::Serve(read, notices, clients) => {
                notices.iter().for_each(|notice| log("warning", format_args!("{notice}")));
                log("notice", format_args!("certificates were read again: {}", read.draft.shown));
                self.certificates.untaken.push((clients, read.draft.shown.clone()));
                if self.front.is_running() {
                    self.front.send(&ToFront::Certificates, &[read.file.as_fd()]);
                } else {
                    // The next front gets them at its start.
                    self.certificates_taken(true);
                }
            }
        }
    }

    /// The front serves what was sent last, or has died: the next one gets the same.
    pub(crate) fn certificates_taken(&mut self, is_taken: bool) {
        for (clients, shown) in std::mem::take(&mut self.certificates.untaken) {
            let refused = Err("the front cannot use them; its message is in the log");
            self.respond(clients, if is_taken { Ok(shown.as_str()) } else { refused });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::drafts::CertificatesDraft;

    fn read(source: &str, seen: &str) -> (CertificatesDraft, OwnedFd) {
        let file = std::fs::File::open("/dev/null").unwrap().into();
        (CertificatesDraft { source: source.to_owned(), seen: seen.to_owned(), shown: seen.to_owned() }, file)
    }

    fn tending(now: Instant) -> Tending {
        let (draft, file) = read("files", "as first");
        Tending::new(Some(Rc::new(Certificates { draft, file })), now)
    }

    fn broken(seen: &str, why: &str) -> Result<(LookedAt, Option<OwnedFd>), String> {
        Ok((LookedAt::Broken(seen.to_owned(), why.to_owned()), None))
    }

    #[test]
    fn files_are_looked_at_each_turn_and_at_once_if_somebody_asks() {
        let now = Instant::now();
        let mut tending = tending(now);
        assert!(tending.look(now).is_none());
        let turn = now + LOOK_TURN;
        assert_eq!(tending.look(turn), Some(("files".to_owned(), Some("as first".to_owned()))));
        assert!(tending.look(turn + LOOK_TURN).is_none(), "one looks already");
        tending.asking.push(1);
        assert!(matches!(tending.found(Ok((LookedAt::Unchanged, None))), Next::Nothing));
        assert_eq!(tending.look(turn), Some(("files".to_owned(), None)), "they are read in any case");
    }

    #[test]
    fn broken_files_change_nothing_and_are_reported_once() {
        let now = Instant::now();
        let mut tending = tending(now);
        let mut look = |found| {
            tending.asking.clear();
            tending.next_look = now;
            let asked = tending.look(now);
            (asked.and_then(|(_, seen)| seen), tending.found(found))
        };
        assert!(matches!(look(broken("half", "cut")).1, Next::Refuse(..)));
        let (seen, next) = look(broken("more", "cut"));
        assert!(seen.as_deref() == Some("half") && matches!(next, Next::Nothing));
        assert!(matches!(look(broken("other", "mismatch")).1, Next::Refuse(..)));
        let (draft, file) = read("files", "good");
        let (_, next) = look(Ok((LookedAt::Read(draft, Vec::new()), Some(file))));
        assert!(matches!(next, Next::Serve(read, ..) if read.draft.seen == "good"));
        assert_eq!(look(Ok((LookedAt::Unchanged, None))).0.as_deref(), Some("good"));
    }

    #[test]
    fn what_a_reload_brings_is_not_replaced_by_an_older_look() {
        let now = Instant::now();
        let mut tending = tending(now);
        tending.asking.push(7);
        tending.look(now);
        let (draft, file) = read("other files", "new");
        let planned = Rc::new(Certificates { draft, file });
        assert!(tending.planned(Some(&planned)) && !tending.planned(Some(&planned)));
        let (draft, file) = read("files", "old");
        assert!(
            matches!(tending.found(Ok((LookedAt::Read(draft, Vec::new()), Some(file)))), Next::Say(_, clients) if clients == [7])
        );
        assert_eq!(tending.current.as_ref().map(|one| one.draft.seen.as_str()), Some("new"));
    }

    #[test]
    fn the_newest_ticket_key_is_first_and_old_ones_go() {
        let now = Instant::now();
        let mut keys = TicketKeys { keys: Vec::new(), next: now };
        for number in 0..5u8 {
            let at = now + KEY_TURN * u32::from(number);
            assert!(keys.turn(at, || Ok([number; KEY_SIZE])).unwrap());
            assert!(!keys.turn(at, || panic!("it is not time")).unwrap());
        }
        assert_eq!(keys.keys.iter().map(|key| key[0]).collect::<Vec<_>>(), [4, 3, 2]);
        assert!(keys.turn(now + KEY_TURN * 9, || Err(io::ErrorKind::Other.into())).is_err());
        assert_eq!(keys.keys.len(), KEYS, "those that there are stay");
    }
}
