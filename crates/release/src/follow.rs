//! The process that follows a pool, for one application: it looks at the records, has releases fetched, and tells the supervisor what to
//! boot and when to switch. It serves nothing, and the site goes on without it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fault::Fault;
use crate::kept::{self, Kept};
use crate::node::{Action, Event, Look, Node, Seen};
use crate::pool::{Pool, Slot};
use crate::record::{Record, Release};
use crate::settings::Settings;
use crate::unpack;

/// How often records are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// And when one may come at any moment.
const LOOK_CLOSELY: Duration = Duration::from_millis(25);
/// In a pool behind a web server.
const LOOK_AT_WEB: Duration = Duration::from_secs(5);
/// How often the node says that it is there, though nothing has changed.
const REPORT: Duration = Duration::from_secs(2);
/// Between attempts to reach a pool that does not respond, at most.
const AWAY: Duration = Duration::from_secs(2);
/// How long the short-lived process may take.
const LONGEST_FETCH: Duration = Duration::from_secs(900);
/// Bytes of what it says.
const MAX_SAID: u64 = 16 << 10;

/// What the supervisor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing at the moment.
    Nothing,
    /// The generation is booted and warmed, and waits.
    Booted,
    /// It cannot serve; why.
    Failed(String),
    /// New requests go to it.
    Switched,
}

/// The way to the supervisor.
pub trait Link {
    /// What it has said.
    ///
    /// # Errors
    /// It is gone.
    fn receive(&self) -> io::Result<Said>;
    /// What to wait on.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// Boot a generation of a release, and hold it.
    ///
    /// # Errors
    /// It is gone.
    fn boot(&self, id: &str) -> io::Result<()>;
    /// Let new requests go to it.
    ///
    /// # Errors
    /// It is gone.
    fn switch(&self) -> io::Result<()>;
    /// Give it up.
    ///
    /// # Errors
    /// It is gone.
    fn abandon(&self) -> io::Result<()>;
    /// The server is to get no requests, and why; or again.
    ///
    /// # Errors
    /// It is gone.
    fn unready(&self, why: Option<&str>) -> io::Result<()>;
    /// Starts the short-lived process that fetches a release. It says nothing, or why it failed.
    ///
    /// # Errors
    /// It cannot be started.
    fn start_fetch(&self, settings: &Settings, release: &Release) -> io::Result<Child>;
    /// A line of the log.
    fn log(&self, level: &str, text: &str);
}

struct Follower<'a> {
    settings: &'a Settings,
    link: &'a dyn Link,
    node: Node,
    kept: Kept,
    pool: Option<Box<dyn Pool>>,
    fetching: Option<(Child, Instant)>,
    reported: Option<(Instant, Vec<u8>)>,
    next_look: Instant,
    /// What was logged last, by what it is about.
    refused: BTreeMap<&'static str, String>,
}

fn now_unix() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Follows until the supervisor is gone.
///
/// # Errors
/// The supervisor cannot be reached, or what is kept cannot be read.
pub fn run(settings: &Settings, link: &dyn Link, lifeline: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept::read(&settings.state).map_err(|why| io::Error::other(why.to_string()))?;
    let now = Instant::now();
    let uncertain = Duration::from_millis(settings.uncertain_ms);
    let serving = kept.serving.clone().filter(|one| settings.place(&one.id).is_dir());
    // What was served and is not there is followed again, but nothing older.
    let number = if serving.is_some() { kept.number } else { kept.number.saturating_sub(1) };
    let mut follower = Follower {
        node: Node::new(&settings.node, serving, number, uncertain, now),
        settings,
        link,
        kept,
        pool: None,
        fetching: None,
        reported: None,
        next_look: now,
        refused: BTreeMap::new(),
    };
    if follower.node.state().serving.is_none() {
        link.unready(Some("there is no release yet"))?;
    }
    loop {
        let mut watched = [
            PollFd::from_borrowed_fd(link.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(lifeline, PollFlags::empty()),
        ];
        let rest = follower.next_turn().saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        // EINTR and time-out both mean: look at everything again.
        let _ = poll(&mut watched, Some(&timeout));
        if !watched[1].revents().is_empty() {
            return Ok(());
        }
        match follower.turn() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            done => done?,
        }
    }
}

impl Drop for Follower<'_> {
    /// The short-lived process does not outlive this one.
    fn drop(&mut self) {
        self.stop_fetch();
    }
}

impl Follower<'_> {
    fn next_turn(&self) -> Instant {
        let soon = Instant::now() + LOOK_CLOSELY;
        if self.fetching.is_some() { self.next_look.min(soon) } else { self.next_look }
    }

    fn turn(&mut self) -> io::Result<()> {
        loop {
            let event = match self.link.receive()? {
                Said::Nothing => break,
                Said::Booted => Event::Booted,
                Said::Failed(why) => Event::BootFailed(why),
                Said::Switched => Event::Switched,
            };
            let actions = self.node.take(event, Instant::now());
            self.carry_out(actions)?;
        }
        if let Some(result) = self.fetched() {
            let actions = self.node.take(Event::Fetched(result), Instant::now());
            self.carry_out(actions)?;
        }
        if Instant::now() >= self.next_look {
            let look = self.look();
            let actions = self.node.look(&look, Instant::now());
            self.carry_out(actions)?;
            self.next_look = Instant::now() + self.pause(&look);
        }
        self.report();
        Ok(())
    }

    fn pause(&self, look: &Look) -> Duration {
        let is_web = self.pool.as_ref().is_some_and(|pool| pool.is_read_only());
        let pause = match look {
            Err(_) if self.node.is_waiting() => LOOK,
            Err(_) => AWAY,
            Ok(_) if is_web => LOOK_AT_WEB,
            Ok(_) if self.node.is_waiting() => LOOK_CLOSELY,
            Ok(_) => LOOK,
        };
        pause.mul_f64(0.75 + fastrand::f64() / 2.0)
    }

    fn look(&mut self) -> Look {
        match self.records() {
            Ok(seen) => Ok(seen),
            Err(fault) => {
                self.pool = None;
                Err(fault.to_string())
            }
        }
    }

    fn records(&mut self) -> Result<Seen, Fault> {
        if self.pool.is_none() {
            let pool = self.settings.open()?;
            if pool.is_read_only() {
                self.node.set_read_only();
            }
            self.pool = Some(pool);
        }
        let Some(pool) = &mut self.pool else { return Ok(Seen { prepare: None, serve: None }) };
        let is_web = pool.is_read_only();
        let serve = pool.read(Slot::Serve)?;
        // Nobody waits for nodes that say nothing.
        let prepare = if is_web { None } else { pool.read(Slot::Prepare)? };
        Ok(Seen { prepare: self.open(Slot::Prepare, prepare), serve: self.open(Slot::Serve, serve) })
    }

    /// A line of the log, unless the last one about that said the same.
    fn say_once(&mut self, level: &str, about: &'static str, text: String) {
        if self.refused.get(about) != Some(&text) {
            self.link.log(level, &text);
            self.refused.insert(about, text);
        }
    }

    /// A record whose signature is right. What else lies there is said once, and is not there.
    fn open(&mut self, slot: Slot, bytes: Option<Vec<u8>>) -> Option<Record> {
        let bytes = bytes?;
        let opened = self.settings.keys().and_then(|keys| Record::open(&bytes, &self.settings.application, &keys));
        match opened {
            Ok(record) => Some(record),
            Err(why) => {
                let text = format!("the record '{}' of the pool {why}", slot.word());
                self.say_once("error", slot.word(), text);
                None
            }
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> io::Result<()> {
        for action in actions {
            match action {
                Action::Log(level, text) => self.link.log(level, &text),
                Action::Fetch(release) => {
                    self.stop_fetch();
                    // A way back is there already, and takes no process.
                    if unpack::is_unpacked(&self.settings.place(&release.id), &release.digest, &self.settings.shared())
                    {
                        let further = self.node.take(Event::Fetched(Ok(())), Instant::now());
                        self.carry_out(further)?;
                        continue;
                    }
                    match self.link.start_fetch(self.settings, &release) {
                        Ok(child) => self.fetching = Some((child, Instant::now())),
                        Err(error) => {
                            let fault = Fault::refused(format!("a process cannot be started: {error}"));
                            let further = self.node.take(Event::Fetched(Err(fault)), Instant::now());
                            self.carry_out(further)?;
                        }
                    }
                }
                Action::Boot(release) => self.link.boot(&release.id)?,
                Action::Switch => self.link.switch()?,
                Action::Abandon => {
                    self.stop_fetch();
                    self.link.abandon()?;
                }
                Action::Unready(why) => self.link.unready(why.as_deref())?,
                Action::Keep(release, number) => self.keep(release, number),
            }
        }
        Ok(())
    }

    fn keep(&mut self, release: Release, number: u64) {
        self.kept.serve(release, number, now_unix());
        // What the short-lived process has removed to make room.
        self.kept.former.retain(|one| self.settings.place(&one.release.id).is_dir());
        let needed = self.node.needed().map(|release| release.id.clone());
        self.kept.clear(self.settings, needed.as_deref());
        if let Err(why) = kept::write(self.settings, &self.kept) {
            self.link.log("error", &format!("what is served cannot be kept for the next start: {why}"));
        }
    }

    fn stop_fetch(&mut self) {
        if let Some((mut child, _)) = self.fetching.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What the short-lived process has come to, if it has ended.
    fn fetched(&mut self) -> Option<Result<(), Fault>> {
        let (child, since) = self.fetching.as_mut()?;
        let ended: io::Result<Option<ExitStatus>> = child.try_wait();
        let result = match ended {
            Ok(None) if since.elapsed() < LONGEST_FETCH => return None,
            Ok(None) => Err(Fault::refused(format!("it was not fetched within {LONGEST_FETCH:?}"))),
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => {
                let mut said = String::new();
                if let Some(from) = child.stdout.take() {
                    let _ = from.take(MAX_SAID).read_to_string(&mut said);
                }
                let said = said.trim();
                Err(Fault::refused(if said.is_empty() {
                    format!("the process that fetches it ended with {status}")
                } else {
                    said.to_owned()
                }))
            }
            Err(error) => Err(Fault::refused(error)),
        };
        self.stop_fetch();
        Some(result)
    }

    /// Says in the pool what this node does. Who cannot write there is no member, and follows all the same.
    fn report(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        let Ok(text) = serde_json::to_vec(&self.node.state()) else { return };
        let is_due = self.reported.as_ref().is_none_or(|(at, said)| at.elapsed() > REPORT || *said != text);
        if !is_due {
            return;
        }
        if let Err(why) = pool.report(&self.settings.node, &text) {
            let why = format!("this node cannot say in the pool that it is there: {why}");
            self.say_once("warning", "report", why);
        }
        self.reported = Some((Instant::now(), text));
    }
}
