//! The load generator: one thread, HTTP/1.1 over TCP, a closed or an open loop.
//!
//! | loop | sends | shows |
//! |---|---|---|
//! | closed | on each connection the next request when the response has come | the highest rate of a server |
//! | open | at the times of a fixed rate, whether or not earlier ones are answered, over as many connections as it takes | what users see |
//!
//! In an open loop a latency counts from the time at which the request was due. If a server stands still for five seconds,
//! all requests of these five seconds are delayed. A closed loop sees one slow response per connection, because it sends
//! nothing meanwhile.
//!
//! A connection is called a line. A line is idle, or has a request, from the first byte sent to the last byte received.
//! Events are edge-triggered; a readable line is read until a read returns less than was asked for.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};

use crate::load::{Load, Outcome, Shape};
use crate::response::ResponseReader;

/// Consecutive failures that end a run.
const HOPELESS: u32 = 100;
/// How often the generator looks for requests that take too long.
const SWEEP: Duration = Duration::from_millis(100);
/// A connection that is lost this soon after sending was closed by the server while it was idle.
const IDLE_END: Duration = Duration::from_millis(50);
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Characters of a wrong body that a message shows.
const SHOWN: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Sending(usize),
    Reading,
}

struct Line {
    stream: Option<TcpStream>,
    state: State,
    class: usize,
    /// When the request was due and when it was sent, in nanoseconds since the run began.
    due: u64,
    sent: u64,
    /// Responses on this connection.
    served: u64,
    /// Whether a part of the response has come.
    has_begun: bool,
    reader: ResponseReader,
}

struct Run<'a> {
    load: &'a Load,
    epoll: OwnedFd,
    began: Instant,
    end: u64,
    lines: Vec<Line>,
    idle: Vec<usize>,
    /// Times of requests that wait for a connection.
    waiting: VecDeque<u64>,
    busy: usize,
    random: fastrand::Rng,
    weights: f64,
    piece: Vec<u8>,
    last_response: u64,
    failures: u32,
    outcome: Outcome,
}

/// Makes the requests of a load.
///
/// # Errors
///
/// If sockets cannot be made. What goes wrong with requests is in the outcome.
pub fn run(load: &Load) -> io::Result<Outcome> {
    let own = cpu_seconds();
    let mut run = Run::new(load)?;
    match load.shape {
        Shape::Closed { connections } => run.closed(connections)?,
        Shape::Open { rate, connections } => run.open(rate, connections)?,
    }
    run.outcome.own_cpu = cpu_seconds() - own;
    Ok(run.outcome)
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl<'a> Run<'a> {
    fn new(load: &'a Load) -> io::Result<Run<'a>> {
        Ok(Run {
            load,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            began: Instant::now(),
            end: load.duration.as_nanos() as u64,
            lines: Vec::new(),
            idle: Vec::new(),
            waiting: VecDeque::new(),
            busy: 0,
            random: fastrand::Rng::with_seed(load.seed),
            weights: load.classes.iter().map(|class| class.weight).sum(),
            piece: vec![0; PIECE],
            last_response: 0,
            failures: 0,
            outcome: Outcome::none(load),
        })
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn pick(&mut self) -> usize {
        if self.load.classes.len() == 1 {
            return 0;
        }
        let mut point = self.random.f64() * self.weights;
        for (number, class) in self.load.classes.iter().enumerate() {
            point -= class.weight;
            if point < 0.0 {
                return number;
            }
        }
        self.load.classes.len() - 1
    }

    fn is_hopeless(&self) -> bool {
        self.failures >= HOPELESS
    }

    fn closed(&mut self, connections: usize) -> io::Result<()> {
        for _ in 0..connections {
            let line = self.add_line();
            self.begin(line, 0);
        }
        let mut sweep = SWEEP.as_nanos() as u64;
        let limit = self.end + self.load.timeout.as_nanos() as u64;
        while self.busy > 0 && !self.is_hopeless() {
            let now = self.now();
            if now > limit {
                break;
            }
            sweep = self.sweep(now, sweep);
            let wake = if now < self.end { sweep.min(self.end) } else { sweep };
            self.events(Duration::from_nanos(wake.saturating_sub(now)), false)?;
            let now = self.now();
            while now < self.end && !self.is_hopeless() {
                let Some(line) = self.idle.pop() else { break };
                self.begin(line, now);
            }
        }
        self.without_response();
        self.note_pause(self.end);
        Ok(())
    }

    /// Requests without a response at the end: those that have taken too long are errors; the others are counted.
    fn without_response(&mut self) -> usize {
        let limit = (self.load.timeout.saturating_sub(2 * SWEEP)).as_nanos() as u64;
        let (now, mut count) = (self.now(), 0);
        for number in 0..self.lines.len() {
            let line = &self.lines[number];
            if line.state == State::Idle {
                continue;
            }
            count += 1;
            if now > line.sent + limit && !self.is_hopeless() {
                self.fail(number, &format!("no response within {:?}", self.load.timeout));
            }
        }
        count
    }

    fn open(&mut self, rate: f64, connections: usize) -> io::Result<()> {
        // The default timer slack of 50 µs would be in each latency.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let interval = 1e9 / rate;
        let (mut next, mut due) = (0_u64, 0_u64);
        let mut sweep = SWEEP.as_nanos() as u64;
        let limit = self.end + self.load.timeout.as_nanos() as u64;
        loop {
            let now = self.now();
            // Requests that have waited come first.
            while !self.waiting.is_empty() && !self.idle.is_empty() {
                let due = self.waiting.pop_front().unwrap_or(now);
                self.serve(due);
            }
            while due <= now && due < self.end {
                if !self.waiting.is_empty() || self.idle.is_empty() && self.lines.len() >= connections {
                    self.waiting.push_back(due);
                } else {
                    // A connection is free, so the delay is the generator's.
                    let _ = self.outcome.late.record((now - due).max(1));
                    self.serve(due);
                }
                next += 1;
                due = (next as f64 * interval) as u64;
            }
            let is_over = due >= self.end;
            if is_over && self.busy == 0 && self.waiting.is_empty() || now > limit || self.is_hopeless() {
                break;
            }
            sweep = self.sweep(now, sweep);
            let now = self.now();
            let wake = if is_over { sweep } else { sweep.min(due) };
            self.events(Duration::from_nanos(wake.saturating_sub(now)), true)?;
        }
        self.outcome.unsent = (self.waiting.len() + self.without_response()) as u64;
        self.note_pause(self.end);
        Ok(())
    }

    /// Sends the request that was due at a time, over an idle connection or a new one.
    fn serve(&mut self, due: u64) {
        let line = match self.idle.pop() {
            Some(line) => line,
            None => self.add_line(),
        };
        self.begin(line, due);
    }

    fn add_line(&mut self) -> usize {
        self.lines.push(Line {
            stream: None,
            state: State::Idle,
            class: 0,
            due: 0,
            sent: 0,
            served: 0,
            has_begun: false,
            reader: ResponseReader::default(),
        });
        self.lines.len() - 1
    }

    fn begin(&mut self, number: usize, due: u64) {
        let class = self.pick();
        self.busy += 1;
        let now = self.now();
        let line = &mut self.lines[number];
        (line.class, line.due, line.sent) = (class, due, now);
        self.send(number);
    }

    /// Sends the line's request from its first byte, over a new connection if it has none.
    fn send(&mut self, number: usize) {
        let line = &mut self.lines[number];
        line.state = State::Sending(0);
        line.has_begun = false;
        line.reader.clear();
        if line.stream.is_none() {
            line.served = 0;
            match connect(self.load.address, &self.epoll, number) {
                // The socket becomes writable when it is connected.
                Ok(stream) => line.stream = Some(stream),
                Err(error) => self.fail(number, &format!("cannot connect: {error}")),
            }
        } else {
            self.write(number);
        }
    }

    fn write(&mut self, number: usize) {
        loop {
            let line = &mut self.lines[number];
            let State::Sending(from) = line.state else { return };
            let bytes = &self.load.classes[line.class].bytes;
            let Some(stream) = &mut line.stream else { return };
            match stream.write(&bytes[from..]) {
                Ok(count) if from + count == bytes.len() => {
                    line.state = State::Reading;
                    return;
                }
                Ok(count) => line.state = State::Sending(from + count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A response may come before all is sent.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(number, &describe(&error)),
            }
        }
    }

    fn read(&mut self, number: usize) {
        loop {
            let line = &mut self.lines[number];
            let Some(stream) = &mut line.stream else { return };
            let class = &self.load.classes[line.class];
            match stream.read(&mut self.piece) {
                Ok(0) if line.state == State::Idle => {
                    line.stream = None;
                    return;
                }
                Ok(0) => match line.reader.ended(&class.expected) {
                    Ok(Some(response)) => return self.finish(number, &response),
                    Ok(None) => return self.broken(number, "closed without a response"),
                    Err(why) => return self.fail(number, &why),
                },
                Ok(_) if line.state == State::Idle => {
                    line.stream = None;
                    return self.count("bytes that nobody asked for".to_owned());
                }
                Ok(count) => {
                    line.has_begun = true;
                    match line.reader.feed(&self.piece[..count], class.is_head, &class.expected) {
                        Ok(Some(response)) => return self.finish(number, &response),
                        // The end of the connection may have come with these bytes, without an event of its own.
                        Ok(None) => {}
                        Err(why) => return self.fail(number, &why),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(number, &describe(&error)),
            }
        }
    }

    fn finish(&mut self, number: usize, response: &crate::response::Response) {
        let now = self.now();
        let line = &mut self.lines[number];
        let class = &self.load.classes[line.class];
        let is_refusal = response.status == 503 && class.refusable;
        if response.status != class.status && !is_refusal {
            let wrong = format!("status {} for {}, not {}", response.status, class.name, class.status);
            return self.fail(number, &wrong);
        }
        if !response.is_expected && !is_refusal {
            let (body, _) = line.reader.seen();
            let shown: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
            let begins = if shown.is_empty() { String::new() } else { format!("; it begins {shown:?}") };
            let wrong = format!("another body for {} ({} bytes){begins}", class.name, response.length);
            return self.fail(number, &wrong);
        }
        if line.state != State::Reading {
            return self.fail(number, "answered before all of the request was sent");
        }
        if is_refusal {
            let _ = self.outcome.refused.record((now - line.sent).max(1));
        } else {
            let responses = &mut self.outcome.classes[line.class];
            let _ = responses.latency.record((now - line.due).max(1));
            let _ = responses.service.record((now - line.sent).max(1));
        }
        line.served += 1;
        line.state = State::Idle;
        if response.closes || !self.load.keep_alive {
            line.stream = None;
        }
        let hangs = class.hangs;
        self.failures = 0;
        self.outcome.total += u64::from(!is_refusal);
        if now < self.end && !hangs && !is_refusal {
            self.outcome.answered += 1;
            if let Some(count) = self.outcome.per_second.get_mut((now / 1_000_000_000) as usize) {
                *count += 1;
            }
        }
        if !hangs {
            self.note_pause(now);
        }
        self.busy -= 1;
        self.idle.push(number);
    }

    fn note_pause(&mut self, now: u64) {
        let now = now.min(self.end);
        self.outcome.pause = self.outcome.pause.max(now.saturating_sub(self.last_response) as f64 / 1e9);
        self.last_response = self.last_response.max(now);
    }

    /// The connection can no longer be used. If the server closed it while it was idle, that is no error.
    fn broken(&mut self, number: usize, why: &str) {
        let now = self.now();
        let line = &mut self.lines[number];
        if line.state == State::Idle {
            line.stream = None;
            return;
        }
        if line.served > 0 && !line.has_begun && now < line.sent + IDLE_END.as_nanos() as u64 {
            line.stream = None;
            self.outcome.retries += 1;
            return self.send(number);
        }
        self.fail(number, why);
    }

    fn fail(&mut self, number: usize, why: &str) {
        let line = &mut self.lines[number];
        line.stream = None;
        if line.state != State::Idle {
            line.state = State::Idle;
            self.busy -= 1;
            self.idle.push(number);
        }
        self.failures += 1;
        self.count(why.to_owned());
    }

    fn count(&mut self, what: String) {
        const KINDS: usize = 20;
        let errors = &mut self.outcome.errors;
        let what = if errors.len() < KINDS || errors.contains_key(&what) { what } else { "others".to_owned() };
        *errors.entry(what).or_default() += 1;
    }

    /// Ends requests that take too long, if it is time to look. Returns the next time.
    fn sweep(&mut self, now: u64, at: u64) -> u64 {
        if now < at {
            return at;
        }
        let limit = self.load.timeout.as_nanos() as u64;
        for number in 0..self.lines.len() {
            if self.lines[number].state != State::Idle && now > self.lines[number].sent + limit {
                self.fail(number, &format!("no response within {:?}", self.load.timeout));
            }
        }
        now + SWEEP.as_nanos() as u64
    }

    /// Waits for events for at most this time, and handles them. epoll itself would round the time up to milliseconds.
    fn events(&mut self, patience: Duration, is_exact: bool) -> io::Result<()> {
        const NOTHING: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        if is_exact && !self.epoll_is_readable(&timeout)? {
            return Ok(());
        }
        let timeout = if is_exact { NOTHING } else { timeout };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let (number, flags) = (event.data.u64() as usize, event.flags);
            if flags.contains(epoll::EventFlags::OUT) && matches!(self.lines[number].state, State::Sending(_)) {
                self.write(number);
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.read(number);
            }
        }
        Ok(())
    }

    fn epoll_is_readable(&self, timeout: &Timespec) -> io::Result<bool> {
        let descriptor = self.epoll.as_fd();
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(timeout)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset".to_owned(),
        _ => error.to_string(),
    }
}

/// Begins a connection, whose events carry that number.
fn connect(address: SocketAddr, epoll: &OwnedFd, number: usize) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let wanted = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(epoll, &socket, epoll::EventData::new_u64(number as u64), wanted)?;
    Ok(TcpStream::from(socket))
}
