//! A lane without a server: this process is its supervisor and its front.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::control::{FromForker, Isolation, ToForker};
use ipc::front::{self, Posting, Progress};
use ipc::head::Writer;
use ipc::layout::{Activity, Geometry};
use ipc::slab::{self, Slab};
use rustix::event::{EventfdFlags, eventfd};
use supervisor::os::sys::{self, Program};
use supervisor::os::user;
use supervisor::peers::channel::{Channel, Received};

use crate::memory::Memory;

/// Requests in flight at most: exchanges of the slab.
pub const MAX_DEPTH: usize = 64;
/// The number of the slab among successive ones: there is only one.
const EPOCH: u64 = 0;
/// How long to poll without yielding the processor. A process that yields sees the moment late.
const SPIN: Duration = Duration::from_millis(10);
/// A measurement is not used if the moment may have been seen later than this.
const BLUR: Duration = Duration::from_micros(1);

/// What to measure.
#[derive(Default)]
pub struct Plan {
    /// Absolute path of the script.
    pub script: String,
    /// Isolation: rewind, fork or none.
    pub isolation: String,
    /// Requests before the measurement.
    pub warm: usize,
    /// Requests that are measured.
    pub requests: usize,
    /// Requests in flight. With one, the clone sleeps between them; with more it always finds the next, as under load.
    pub depth: usize,
    /// Workers.
    pub clones: usize,
    /// URIs, used in turn; `{n}` becomes the request's number.
    pub uris: Vec<String>,
    /// NAME=value.
    pub environment: Vec<String>,
    /// NAME=value.
    pub ini: Vec<String>,
    /// Whether the first responses are printed.
    pub show: bool,
    /// Whether all memory is compared after each rewind.
    pub audit: bool,
}

/// Sums over the clones.
pub struct Counters {
    /// Processor time.
    pub cpu_us: f64,
    /// Rewinds without a scan.
    pub fast: u64,
    /// Rewinds with a scan.
    pub scanned: u64,
    /// Pages copied.
    pub pages: u64,
}

/// A request in flight.
struct Flight {
    number: usize,
    posting: Posting,
    response: Vec<u8>,
    since: Instant,
}

/// A running lane.
pub struct Lane {
    script: String,
    _lifeline: OwnedFd,
    _prototype: Forker,
    forker: Forker,
    slab: Slab,
    descriptor: OwnedFd,
    door: OwnedFd,
    pids: Vec<i32>,
    tail: u64,
    sequence: u32,
    /// Whether the isolation is fork: each request has a clone of its own.
    respawns: bool,
    /// Microseconds from each complete response until its clone was ready for the next request: see [`Lane::follow`].
    pub rewinds_us: Vec<f64>,
    /// Time from the first request for a clone until all clones wait.
    pub started_ms: f64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The supervisor's end of the channel to a prototype or a template.
type Forker = Channel<ToForker, FromForker>;

/// Waits for a message that `take` accepts; `what` names it for errors.
fn wait_for<T>(channel: &Forker, what: &str, take: impl Fn(FromForker) -> Option<T>) -> Result<T, String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match channel.receive().map_err(text)? {
            Received::Message(message, _) => match (take(message), message) {
                (Some(taken), _) => return Ok(taken),
                (None, FromForker::Dead { pid, status, .. } | FromForker::TemplateDead { pid, status, .. }) => {
                    return Err(format!("process {pid} ended with status {status:#x}"));
                }
                (None, _) => {}
            },
            Received::Closed => return Err("reprise-php ended; its message is above".to_owned()),
            _ if Instant::now() > deadline => return Err(format!("waited in vain for {what}")),
            _ => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

fn head(script: &str, uri: &str, is_boot: bool, buffer: &mut [u8]) -> Result<usize, String> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let root = script.rsplit_once('/').map_or("", |(root, _)| root);
    let name = &script[root.len()..];
    let mut head = Writer::new(buffer);
    let add = |head: &mut Writer<'_>, name: &str, value: &str| {
        head.add(&[name.as_bytes()], &[value.as_bytes()]).map_err(|_| "the head is too large".to_owned())
    };
    head.head.query = add(&mut head, "QUERY_STRING", query)?;
    head.head.method = add(&mut head, "REQUEST_METHOD", "GET")?;
    head.head.script = add(&mut head, "SCRIPT_FILENAME", script)?;
    head.head.uri = add(&mut head, "REQUEST_URI", uri)?;
    for (key, value) in [
        ("SCRIPT_NAME", name),
        ("PHP_SELF", name),
        ("DOCUMENT_URI", path),
        ("DOCUMENT_ROOT", root),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_SCHEME", "http"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "reprise"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", "40000"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", "80"),
        ("SERVER_NAME", "localhost"),
        ("HTTP_HOST", "localhost"),
        ("HTTP_ACCEPT", "*/*"),
    ] {
        add(&mut head, key, value)?;
    }
    if is_boot {
        add(&mut head, "REPRISE_BOOT", "1")?;
    }
    head.finish().map_err(|_| "the head is too large".to_owned())
}

fn memory_file(bytes: &[u8]) -> Result<OwnedFd, String> {
    let file = rustix::fs::memfd_create("head", rustix::fs::MemfdFlags::CLOEXEC).map_err(text)?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(text)?;
    Ok(file.into())
}

impl Lane {
    /// Starts prototype, template and clones.
    pub fn start(plan: &Plan) -> Result<Lane, String> {
        let program = supervisor::os::programs::find_php().into_iter().next().ok_or("reprise-php is not found")?.path;
        let program = File::open(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        let (ours, theirs): (Forker, _) = Channel::pair().map_err(text)?;
        let lifeline = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)?;
        let user = user::is_root().then(|| user::Identity::named("www-data")).transpose()?;
        let mut settings: Vec<(String, String)> = [("control", "4"), ("lifeline", "5"), ("name", "bench")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .to_vec();
        if plan.isolation != "none" {
            settings.push(("isolation".to_owned(), plan.isolation.clone()));
        }
        settings.extend(plan.ini.iter().map(|pair| ("ini".to_owned(), pair.clone())));
        settings.extend(plan.audit.then(|| ("audit".to_owned(), String::new())));
        let settings = supervisor::settings_file(&settings).map_err(text)?;
        sys::start(&Program {
            executable: program.as_fd(),
            arguments: ["reprise-php", "--settings-file", "3", "--name", "bench"].map(str::to_owned).to_vec(),
            environment: plan.environment.clone(),
            descriptors: vec![settings.as_fd(), theirs.as_fd(), lifeline.0.as_fd()],
            messages: None,
            output: None,
            user: user.as_ref(),
            limits: sys::ProcessLimits::default(),
        })
        .map_err(text)?;
        drop(theirs);
        wait_for(&ours, "the prototype", |message| matches!(message, FromForker::PrototypeReady { .. }).then_some(()))?;

        let geometry = Geometry::new(MAX_DEPTH, plan.clones, 1);
        let descriptor = sys::own(slab::create(geometry).map_err(|errno| format!("errno {}", errno.0))?);
        let slab = Slab::map(descriptor.as_raw_fd(), geometry).map_err(|errno| format!("errno {}", errno.0))?;
        let door = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(text)?;
        let is_classic = plan.isolation == "none";
        let forker = if is_classic { None } else { Some(boot(&ours, &plan.script)?) };
        let (forker, prototype) = match forker {
            Some(forker) => (forker, ours),
            None => (ours, Channel::pair().map_err(text)?.0),
        };
        let mut lane = Lane {
            script: plan.script.clone(),
            _lifeline: lifeline.1,
            _prototype: prototype,
            forker,
            slab,
            descriptor,
            door,
            pids: Vec::new(),
            tail: 0,
            sequence: 0,
            respawns: plan.isolation == "fork",
            rewinds_us: Vec::new(),
            started_ms: 0.0,
        };
        lane.forker
            .send(&ToForker::Slab { geometry, epoch: EPOCH }, &[lane.descriptor.as_fd(), lane.door.as_fd()])
            .map_err(text)?;
        let began = Instant::now();
        for slot in 0..plan.clones {
            let pid = lane.spawn(slot as u32)?;
            lane.pids.push(pid);
        }
        while !lane.is_idle() {
            if began.elapsed() > Duration::from_secs(60) {
                return Err("the clones do not start".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        lane.started_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(lane)
    }

    fn spawn(&mut self, slot: u32) -> Result<i32, String> {
        self.forker.send(&ToForker::Spawn { slot, epoch: EPOCH }, &[]).map_err(text)?;
        let forked = |message| match message {
            FromForker::Spawned { pid, .. } => Some(Ok(pid)),
            FromForker::NotSpawned { error, .. } => Some(Err(format!("no clone: errno {error}"))),
            _ => None,
        };
        wait_for(&self.forker, "a clone", forked)?
    }

    fn is_idle(&self) -> bool {
        (0..self.pids.len()).all(|slot| self.activity(slot) == Some(Activity::Idle as u32))
    }

    fn activity(&self, slot: usize) -> Option<u32> {
        self.slab.slot(slot).map(|line| line.activity.load(Ordering::Acquire))
    }

    /// Sends `count` requests, `depth` at a time, numbered from `first`; each response, head included, goes to `each`.
    pub fn run(
        &mut self,
        plan: &Plan,
        first: usize,
        count: usize,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), String> {
        let mut flights = VecDeque::new();
        for number in first..first + count {
            if flights.len() == plan.depth {
                self.land(&mut flights, &mut each)?;
            }
            let uri = plan.uris[number % plan.uris.len()].replace("{n}", &number.to_string());
            flights.push_back(self.post(&uri, number, (number % plan.depth) as u32)?);
        }
        while !flights.is_empty() {
            self.land(&mut flights, &mut each)?;
        }
        Ok(())
    }

    fn land(&mut self, flights: &mut VecDeque<Flight>, each: &mut impl FnMut(usize, &[u8])) -> Result<(), String> {
        let Some(flight) = flights.pop_front() else { return Ok(()) };
        let number = flight.number;
        each(number, &self.follow(flight)?);
        Ok(())
    }

    fn post(&mut self, uri: &str, number: usize, exchange: u32) -> Result<Flight, String> {
        let mut buffer = [0; 8192];
        let size = head(&self.script, uri, false, &mut buffer)?;
        self.sequence = self.sequence.wrapping_add(1);
        let since = Instant::now();
        let mut posting = Posting::new(&self.slab, exchange, self.sequence, &buffer[..size], &[], false);
        posting.enqueue(&self.slab, &mut self.tail).map_err(|_| "the queue is full")?;
        front::wake_one(&self.slab);
        Ok(Flight { number, posting, response: Vec::new(), since })
    }

    /// Waits for a response. With a single clone this process, on another processor, also measures the rewind behind it:
    /// from the moment at which the response is complete, which is the clone's last step before the rewind (unless the
    /// script finished its response early), until the clone says that it looks for the next request, which is its first
    /// step after the rewind. Both moments count only if this process was looking right before. It cannot see whether the
    /// clone was interrupted in between, hence the median.
    fn follow(&mut self, mut flight: Flight) -> Result<Vec<u8>, String> {
        let posting = &mut flight.posting;
        let mut is_done = false;
        // The last time at which the response was certainly not complete: taken before each look.
        let mut before = flight.since;
        loop {
            let looks = Instant::now();
            let progress = posting.progress(&self.slab).map_err(|_| "the slab is broken")?;
            if progress == Progress::Done && !is_done {
                is_done = true;
                let now = Instant::now();
                if self.pids.len() == 1 && !self.respawns && now - before < BLUR {
                    self.time_rewind(now);
                }
            }
            before = looks;
            let count = posting.receivable(&self.slab).map_err(|_| "the slab is broken")?;
            let at = flight.response.len();
            flight.response.resize(at + count, 0);
            if count > 0 {
                posting.receive(&self.slab, &mut flight.response[at..]);
            } else if is_done {
                break;
            }
            if flight.since.elapsed() > SPIN {
                std::thread::yield_now();
            }
            if flight.since.elapsed() > Duration::from_secs(60) {
                return Err("no response within 60 s".to_owned());
            }
        }
        flight.posting.release(&self.slab, true);
        if self.respawns {
            let slot_of = |message| if let FromForker::Dead { slot, .. } = message { Some(slot) } else { None };
            let slot = wait_for(&self.forker, "the end of a clone", slot_of)?;
            front::forget_slot(&self.slab, slot as usize);
            self.pids[slot as usize] = self.spawn(slot)?;
        }
        Ok(flight.response)
    }

    fn time_rewind(&mut self, done: Instant) {
        let mut before = done;
        loop {
            let looks = Instant::now();
            let is_over =
                ![Activity::Finishing, Activity::Rewinding].iter().any(|one| self.activity(0) == Some(*one as u32));
            if is_over {
                let now = Instant::now();
                if now - before < BLUR {
                    self.rewinds_us.push((now - done).as_secs_f64() * 1e6);
                }
                return;
            }
            if looks - done > Duration::from_millis(100) {
                return;
            }
            before = looks;
        }
    }

    /// What the clones have used so far. Waits until they sleep: the time of a running process is exact to a tick only.
    pub fn counters(&self) -> Result<Counters, String> {
        let began = Instant::now();
        while !self.is_idle() && began.elapsed() < Duration::from_secs(1) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2));
        let mut sums = Counters { cpu_us: 0.0, fast: 0, scanned: 0, pages: 0 };
        for (slot, pid) in self.pids.iter().enumerate() {
            let schedstat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).map_err(text)?;
            let nanoseconds = schedstat.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            sums.cpu_us += nanoseconds.unwrap_or(0.0) / 1e3;
            if let Some(line) = self.slab.slot(slot) {
                sums.fast += line.fast_rewinds.load(Ordering::Relaxed);
                sums.scanned += line.scanned_rewinds.load(Ordering::Relaxed);
                sums.pages += line.pages.load(Ordering::Relaxed);
            }
        }
        Ok(sums)
    }

    /// The memory of each clone.
    pub fn memory(&self) -> Result<Vec<Memory>, String> {
        self.pids.iter().map(|pid| Memory::of(*pid)).collect()
    }

    /// The clone that has served most.
    pub fn busiest(&self) -> usize {
        let requests = |slot: &usize| self.slab.slot(*slot).map_or(0, |line| line.requests.load(Ordering::Relaxed));
        (0..self.pids.len()).max_by_key(requests).unwrap_or(0)
    }
}

/// Makes the prototype boot the script, and waits until its snapshot is taken.
fn boot(prototype: &Forker, script: &str) -> Result<Forker, String> {
    let (ours, theirs): (Forker, _) = Channel::pair().map_err(text)?;
    let mut buffer = [0; 8192];
    let size = head(script, "/", true, &mut buffer)?;
    let file = memory_file(&buffer[..size])?;
    let message = ToForker::Boot { lane: 1, isolation: Isolation::Auto };
    prototype.send(&message, &[theirs.as_fd(), file.as_fd()]).map_err(text)?;
    let forked = |message| match message {
        FromForker::TemplateSpawned { .. } => Some(Ok(())),
        FromForker::TemplateNotSpawned { error, .. } => Some(Err(format!("no template: errno {error}"))),
        _ => None,
    };
    wait_for(prototype, "the template", forked)??;
    drop(theirs);
    wait_for(&ours, "the snapshot", |message| matches!(message, FromForker::TemplateReady { .. }).then_some(()))?;
    Ok(ours)
}
