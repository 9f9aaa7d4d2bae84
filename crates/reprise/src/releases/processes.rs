//! The processes of releases, each a hidden subcommand: the one that follows a pool, the short-lived one that fetches for it, and the same
//! before the server starts.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ipc::control::{FromFollower, ToFollower};
use release::fault::Fault;
use release::fetch::fetch as bring;
use release::follow::{self, Link, Said};
use release::kept::{self, Kept};
use release::pool::Slot;
use release::record::{Kind, Record, Release};
use release::settings::Settings;
use serde::{Deserialize, Serialize};
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::os::user::Identity;
use supervisor::peers::boot;
use supervisor::peers::channel::{Channel, Received};

use crate::exit::{Code, Failure};

/// Bytes of what such a process is told.
const MAX_SETTINGS: u64 = 1 << 20;
/// Bytes of a reason.
const MAX_REASON: usize = 16 << 10;

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Internal, "release", error).hint("it is started by reprise serve")
}

/// What the short-lived process is to bring.
#[derive(Serialize, Deserialize)]
struct Wanted {
    settings: Settings,
    release: Release,
}

/// This program again, with something to read.
fn again(subcommand: &str, told: &[u8], user: Option<&Identity>) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("reprise-release").arg(subcommand).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    let mut child = command.spawn()?;
    if let Some(mut to) = child.stdin.take() {
        if let Err(error) = to.write_all(told) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
    Ok(child)
}

fn read_told<T: for<'de> Deserialize<'de>>() -> Result<T, Failure> {
    let mut text = Vec::new();
    io::stdin().take(MAX_SETTINGS).read_to_end(&mut text).map_err(internal)?;
    serde_json::from_slice(&text).map_err(internal)
}

/// Neither this process nor what it reads can write anything else, or start a program; and it ends with the one that it works for, so that
/// no two unpack at once.
fn confine(settings: &Settings) -> Result<(), Failure> {
    supervisor::os::sys::set_name(c"reprise-release");
    supervisor::os::sys::end_with_parent().map_err(internal)?;
    supervisor::os::sys::protect_memory().map_err(internal)?;
    for missing in supervisor::os::confine::release(&[&settings.directory, &settings.state]).map_err(internal)? {
        supervisor::logs::log::write(&format!(
            "notice the process that unpacks releases is not confined by {missing}\n"
        ));
    }
    Ok(())
}

/// The way to the supervisor.
struct ToSupervisor {
    channel: Channel<FromFollower, ToFollower>,
    /// The order that is under way. What is said of others comes too late.
    ticket: Cell<u64>,
}

impl ToSupervisor {
    fn send(&self, message: &FromFollower, text: Option<&str>) -> io::Result<()> {
        let file = text.map(|text| boot::sealed(text.as_bytes())).transpose()?;
        let attached: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
        self.channel.send_and_wait(message, &attached)
    }
}

fn reason(attached: &[OwnedFd]) -> String {
    let bytes = attached.first().and_then(|file| boot::read(file, MAX_REASON).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Link for ToSupervisor {
    fn receive(&self) -> io::Result<Said> {
        loop {
            let (said, ticket) = match self.channel.receive()? {
                Received::Message(ToFollower::Booted { ticket }, _) => (Said::Booted, ticket),
                Received::Message(ToFollower::BootFailed { ticket }, attached) => {
                    (Said::Failed(reason(&attached)), ticket)
                }
                Received::Message(ToFollower::SwitchedTo { ticket }, _) => (Said::Switched, ticket),
                Received::Nothing => return Ok(Said::Nothing),
                Received::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            if ticket == self.ticket.get() {
                return Ok(said);
            }
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    fn boot(&self, id: &str) -> io::Result<()> {
        self.ticket.set(self.ticket.get() + 1);
        self.send(&FromFollower::Boot { ticket: self.ticket.get() }, Some(id))
    }

    fn switch(&self) -> io::Result<()> {
        self.send(&FromFollower::SwitchTo { ticket: self.ticket.get() }, None)
    }

    fn abandon(&self) -> io::Result<()> {
        self.send(&FromFollower::GiveUpBoot { ticket: self.ticket.get() }, None)?;
        self.ticket.set(self.ticket.get() + 1);
        Ok(())
    }

    fn unready(&self, why: Option<&str>) -> io::Result<()> {
        self.send(&FromFollower::Unfit, Some(why.unwrap_or_default()))
    }

    fn start_fetch(&self, settings: &Settings, release: &Release) -> io::Result<Child> {
        let wanted = Wanted { settings: settings.clone(), release: release.clone() };
        again("release-fetch", &serde_json::to_vec(&wanted)?, None)
    }

    fn log(&self, level: &str, text: &str) {
        supervisor::logs::log::write(&format!("{level} {}\n", text.replace('\n', " ")));
    }
}

/// The hidden subcommand `release-follow`: follows a pool until the supervisor is gone.
pub fn follow() -> Result<Code, Failure> {
    supervisor::os::sys::set_name(c"reprise-release");
    supervisor::os::sys::protect_memory().map_err(internal)?;
    let channel: OwnedFd = inherited(FIRST_DESCRIPTOR).map_err(internal)?;
    let lifeline = inherited(FIRST_DESCRIPTOR + 1).map_err(internal)?;
    let mut text = Vec::new();
    // The file is this process' own, and its position too.
    File::from(inherited(FIRST_DESCRIPTOR + 2).map_err(internal)?).read_to_end(&mut text).map_err(internal)?;
    let settings: Settings = serde_json::from_slice(&text).map_err(internal)?;
    let link = ToSupervisor { channel: Channel::from_fd(channel), ticket: Cell::new(0) };
    follow::run(&settings, &link, lifeline.as_fd()).map_err(internal)?;
    Ok(Code::Success)
}

/// The hidden subcommand `release-fetch`: brings, checks and unpacks a release. It says why, if it cannot.
pub fn fetch() -> Result<Code, Failure> {
    let wanted: Wanted = read_told()?;
    confine(&wanted.settings)?;
    let mut kept = kept::read(&wanted.settings.state).map_err(internal)?;
    match bring(&wanted.settings, &mut kept, &wanted.release) {
        Ok(_) => Ok(Code::Success),
        Err(why) => {
            println!("{why}");
            Ok(Code::Internal)
        }
    }
}

/// What the pool says is served now, if that is newer than what is known.
fn current(settings: &Settings, kept: &Kept) -> Result<Option<Record>, Fault> {
    let mut pool = settings.open()?;
    let Some(bytes) = pool.read(Slot::Serve)? else { return Ok(None) };
    let record = Record::open(&bytes, &settings.application, &settings.keys()?)?;
    Ok(Some(record).filter(|record| record.kind == Kind::Serve && record.number > kept.number))
}

/// Has the release unpacked that was served last, then the one that is current, and `tell`s the id of each when it is there: the pool may take
/// longer than anybody waits. Says on standard error what went wrong.
fn choose(settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    let say = |level: &str, text: String| {
        supervisor::logs::log::write(&format!("{level}: application '{}': {text}\n", settings.application))
    };
    let mut kept = kept::read(&settings.state)?;
    let last = last(settings, &mut kept, &say);
    if let Ok(Some(id)) = &last {
        tell(id);
    }
    let newer = current(settings, &kept).unwrap_or_else(|why| {
        say("warning", format!("the pool is not asked for its current release: {why}"));
        None
    });
    if let Some(record) = newer {
        match bring(settings, &mut kept, &record.release) {
            Ok(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
                kept.serve(record.release.clone(), record.number, now.map_or(0, |since| since.as_secs()));
                kept.clear(settings, None);
                kept::write(settings, &kept)?;
                tell(&record.release.id);
                return Ok(());
            }
            Err(why) => say("error", format!("what the pool says is served is not to be had: {why}")),
        }
    }
    last.map(|_| ())
}

/// Has the release unpacked that was served last.
fn last(settings: &Settings, kept: &mut Kept, say: &dyn Fn(&str, String)) -> Result<Option<String>, Fault> {
    let Some(serving) = kept.serving.clone() else { return Ok(None) };
    if let Err(why) = bring(settings, kept, &serving) {
        if !settings.place(&serving.id).is_dir() {
            return Err(why);
        }
        say("error", format!("its release is served as it was unpacked before, and not as it would be now: {why}"));
    }
    kept::point(settings, kept)?;
    Ok(Some(serving.id))
}

/// The hidden subcommand `release-start`: what is to be served at the start.
pub fn start() -> Result<Code, Failure> {
    let settings: Settings = read_told()?;
    confine(&settings)?;
    let mut is_any = false;
    let chosen = choose(&settings, &mut |id| {
        is_any = true;
        println!("{id}");
    });
    if let Some(why) = chosen.err().filter(|_| !is_any) {
        let why = format!("error: application '{}': no release can be served: {why}\n", settings.application);
        supervisor::logs::log::write(&why);
    }
    Ok(Code::Success)
}

/// A process that chooses for an application.
pub(super) struct Choosing {
    application: String,
    child: Child,
}

/// Has such a process choose.
pub(super) fn begin(settings: &Settings, user: Option<&Identity>) -> Result<Choosing, Failure> {
    let text = serde_json::to_vec(settings).map_err(internal)?;
    let child = again("release-start", &text, user).map_err(internal)?;
    Ok(Choosing { application: settings.application.clone(), child })
}

impl Choosing {
    /// The application, and what was chosen for it when the process has ended. It is killed when the time is over; then what was there last counts.
    pub(super) fn end(mut self, until: Instant) -> Result<Option<(String, String)>, Failure> {
        let mut is_late = false;
        while self.child.try_wait().map_err(internal)?.is_none() {
            if Instant::now() > until && !is_late {
                is_late = true;
                let _ = self.child.kill();
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let mut ids = String::new();
        if let Some(from) = self.child.stdout.take() {
            from.take(1024).read_to_string(&mut ids).map_err(internal)?;
        }
        let id = ids.lines().rfind(|id| release::manifest::is_id(id)).map(str::to_owned);
        if is_late {
            let what = if id.is_some() { "with what it served last" } else { "without" };
            let why = "what its pool says is served was not there in time, and the server starts";
            supervisor::logs::log::write(&format!("error: application '{}': {why} {what}\n", self.application));
        }
        Ok(id.map(|id| (self.application, id)))
    }
}
