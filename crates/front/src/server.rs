//! Threads, what the supervisor says, and how the front ends. Each thread has a runtime of its own, and a door
//! ([`crate::doors`]).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ipc::control::{FromFront, ToFront};
use ipc::layout::Phase;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::access;
use crate::cache_questions;
use crate::dev;
use crate::dev::fence::Told;
use crate::doors;
use crate::file_body::READERS;
use crate::listening::{Follower, Listening};
use crate::preparing::{self, Wanted};
use crate::shared::{Life, Shared, told_to_stop};
use crate::spool::Numbers;
use inbound::control::Link;
use routing::route::file_cache;
use routing::settings::Settings;

/// How often the front checks time-outs and writes logs.
const TICK: Duration = Duration::from_millis(250);
/// How many times as long passes between two looks at which pages are shared.
const TICKS_OF_NEWS: u64 = 4;
/// How long a front whose supervisor is gone finishes what it has.
const LAST_DRAIN: Duration = Duration::from_secs(ipc::shared::LAST_DRAIN_SECONDS);

/// Descriptors that the supervisor has opened.
pub struct Inherited {
    /// The socket for messages.
    pub link: Arc<dyn Link>,
    /// The lifeline: it hangs up when the supervisor is gone.
    pub lifeline: OwnedFd,
    /// Listeners, in the order of the settings.
    pub listeners: Vec<OwnedFd>,
    /// Tables of countries, as many as the settings say.
    pub countries: Vec<OwnedFd>,
    /// The access log, if the settings name one.
    pub access_log: Option<OwnedFd>,
    /// The spool's file, if there is one: for reading and writing, and nobody else's.
    pub spool: Option<OwnedFd>,
}

/// Serves until the supervisor says to stop or is gone, and every request has its response.
pub fn run(mut settings: Settings, mut inherited: Inherited) -> io::Result<()> {
    settings.compile().map_err(io::Error::other)?;
    settings.take_countries(&std::mem::take(&mut inherited.countries))?;
    let shared = Arc::new(Shared::new(settings, inherited.link.clone(), inherited.spool.take()));
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let doors: Vec<OwnedFd> = (0..shared.settings.threads).map(|_| eventfd(0, flags)).collect::<Result<_, _>>()?;
    let attached: Vec<_> = doors.iter().map(AsFd::as_fd).collect();
    inherited.link.send_with(&FromFront::Doors, &attached);
    let (stop, stopped) = watch::channel(Life::Open);
    let mut listening = Listening::new(&shared.settings.listeners, std::mem::take(&mut inherited.listeners));
    let mut sockets = None;
    let (to_warm, wanted) = mpsc::unbounded_channel();
    let mut wanted = Some(wanted);
    let mut threads = Vec::new();
    let mut doors = doors.into_iter();
    let last = loop {
        let came = wait_for_message(&inherited)?;
        if threads.iter().any(JoinHandle::is_finished) {
            return Err(io::Error::other("a thread of the front has ended"));
        }
        match came {
            Came::Message(message, descriptors) => match message {
                ToFront::Lane { offer } => {
                    if !shared.lanes.take(&offer, &descriptors)? {
                        continue;
                    }
                    inherited.link.send(&FromFront::LaneTaken { lane: offer.id });
                    if threads.is_empty() && shared.lanes.are_complete() {
                        for (number, door) in doors.by_ref().enumerate() {
                            let told = Tells {
                                stopped: stopped.clone(),
                                listening: listening.follow(),
                                wanted: wanted.take(),
                            };
                            threads.push(start_thread(number, door, &shared, &inherited, told)?);
                        }
                        inherited.link.send(&FromFront::Ready);
                    }
                }
                ToFront::AccessLog => shared.renew_access_log(descriptors),
                ToFront::DataCounts { generation, counts } => {
                    if let Some((view, number)) = shared.lanes.view_of(generation) {
                        shared.data_counts.told(&view.settings.applications[number].name, counts);
                    }
                }
                ToFront::Cache { ticket } => cache_questions::answer(&shared, &*inherited.link, ticket, &descriptors),
                ToFront::Certificates => {
                    let taken = descriptors.first().map_or(Err("no file".to_owned()), |file| shared.tls.take(file));
                    if let Err(why) = &taken {
                        let _ = writeln!(io::stderr(), "certificates cannot be used, those before stay: {why}");
                    }
                    inherited.link.send(&FromFront::CertificatesTaken { is_taken: taken.is_ok() });
                }
                ToFront::Answers { number } => {
                    let taken =
                        descriptors.first().map_or(Err("no file".to_owned()), |file| shared.tls.take_answers(file));
                    if let Err(why) = &taken {
                        let _ =
                            writeln!(io::stderr(), "responses to authorities cannot be used, those before stay: {why}");
                    }
                    inherited.link.send(&FromFront::AnswersTaken { number });
                }
                ToFront::Unfit => shared.fitness.take(&descriptors)?,
                ToFront::TicketKeys => {
                    descriptors.first().map_or(Ok(()), |file| shared.tls.take_ticket_keys(file))?;
                }
                ToFront::Settings => {
                    sockets = Some(shared.lanes.expect(descriptors)?);
                }
                ToFront::SettingsWithdrawn => {
                    shared.lanes.expect_none();
                    sockets = None;
                }
                ToFront::Changed { ticket, changes, fresh, serving, made } => dev_changed(
                    &shared,
                    Told { ticket, changes, fresh, serving, made, ..Told::default() },
                    &descriptors,
                ),
                ToFront::Switch => {
                    shared.lanes.switch();
                    shared.dev.iter().for_each(|dev| dev.fence.switched());
                    if let Some(sockets) = sockets.take() {
                        listening.switch(&shared.lanes.view().settings.listeners, sockets);
                    }
                    inherited.link.send(&FromFront::Switched);
                }
                ToFront::Open => drop(shared.is_open.send_replace(true)),
                ToFront::Leave => shared.is_leaving.store(true, Ordering::Relaxed),
                // The receiver is gone only if the front has ended.
                ToFront::WarmUp { generation } => drop(to_warm.send(Wanted::WarmUp(generation))),
                ToFront::Verify { generation } => {
                    descriptors.into_iter().for_each(|socket| drop(to_warm.send(Wanted::Verify(generation, socket))))
                }
                ToFront::StayClassic { generation } => shared.lanes.stay_classic(generation, &descriptors)?,
                ToFront::Learned { generation } => {
                    if let Some((view, number)) = shared.lanes.view_of(generation) {
                        shared.stored.restore(&view.settings.applications[number].name, &descriptors);
                    }
                }
                ToFront::Drain => break None,
                ToFront::Connecting { ticket, error } => shared.upstreams.openings.came(ticket, error, descriptors),
                loss => note_loss(&shared, loss),
            },
            Came::Nothing => {}
            Came::Orphaned => break Some(LAST_DRAIN),
        }
    };
    // The listeners are closed first, so that another server can bind their addresses.
    let _ = stop.send(Life::Stopping);
    shared.dev.iter().for_each(|dev| dev.fence.end());
    listening.close();
    let ended = finish(&shared, threads, &inherited, last);
    // Workers must not wait for clients that were cut off.
    let phase = if shared.lanes.in_flight() == 0 { Phase::Draining } else { Phase::Closed };
    shared.lanes.all().iter().for_each(|lane| lane.end(phase));
    ended
}

/// The supervisor says what has changed, and with a file why it cannot be loaded.
fn dev_changed(shared: &Shared, mut told: Told, attached: &[OwnedFd]) {
    let Some(dev) = &shared.dev else { return };
    told.obstacle = attached.first().map(|file| dev::reason(file).into());
    dev.changed(told, shared.lanes.in_flight() > 0);
}

/// Handles the supervisor's messages about workers, templates and generations that end, as long as there are requests.
fn note_loss(shared: &Shared, message: ToFront) {
    let of = |lane| shared.lanes.of(lane).into_iter();
    match message {
        ToFront::GiveUp { generation } => shared.lanes.give_up(generation),
        ToFront::WorkerDead { lane, slot } => of(lane).for_each(|lane| lane.worker_died(slot)),
        ToFront::LaneDown { lane } => of(lane).for_each(|lane| lane.set_up(false)),
        ToFront::Compare { lane } => of(lane).for_each(|lane| lane.compare()),
        ToFront::TooHeavy { lane, request } => of(lane).for_each(|lane| lane.was_too_heavy(request)),
        // These messages can be dropped while the front ends.
        ToFront::Lane { .. }
        | ToFront::AccessLog
        | ToFront::Cache { .. }
        | ToFront::DataCounts { .. }
        | ToFront::Certificates
        | ToFront::TicketKeys
        | ToFront::Answers { .. }
        | ToFront::Unfit
        | ToFront::Settings
        | ToFront::SettingsWithdrawn
        | ToFront::Switch
        | ToFront::Changed { .. }
        | ToFront::WarmUp { .. }
        | ToFront::Verify { .. }
        | ToFront::StayClassic { .. }
        | ToFront::Learned { .. }
        | ToFront::Open
        | ToFront::Leave
        | ToFront::Connecting { .. }
        | ToFront::Drain => {}
    }
}

enum Came {
    Message(ToFront, Vec<OwnedFd>),
    Nothing,
    Orphaned,
}

fn wait_for_message(inherited: &Inherited) -> io::Result<Came> {
    loop {
        if let Some((message, descriptors)) = inherited.link.receive()? {
            return Ok(Came::Message(message, descriptors));
        }
        let channel = inherited.link.descriptor();
        let mut watched = [PollFd::new(&channel, PollFlags::IN), PollFd::new(&inherited.lifeline, PollFlags::empty())];
        let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut watched, Some(&second)) {
            Ok(0) => return Ok(Came::Nothing),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !watched[1].revents().is_empty() {
            return Ok(Came::Orphaned);
        }
    }
}

/// Waits for the threads, and handles deaths of workers meanwhile.
fn finish(
    shared: &Shared,
    threads: Vec<JoinHandle<io::Result<()>>>,
    inherited: &Inherited,
    mut patience: Option<Duration>,
) -> io::Result<()> {
    let mut began = std::time::Instant::now();
    while threads.iter().any(|thread| !thread.is_finished()) {
        if patience.is_some_and(|patience| began.elapsed() > patience) {
            return Ok(());
        }
        let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let channel = inherited.link.descriptor();
        let mut watched = [PollFd::new(&channel, PollFlags::IN), PollFd::new(&inherited.lifeline, PollFlags::empty())];
        // If the supervisor is gone, its socket is readable for ever. Then only the tick is waited for.
        let all = if patience.is_some() { &mut watched[..0] } else { &mut watched[..] };
        let _ = poll(all, Some(&tick));
        if patience.is_none() && !watched[1].revents().is_empty() {
            (patience, began) = (Some(LAST_DRAIN), std::time::Instant::now());
        }
        while let Some((message, attached)) = inherited.link.receive()? {
            match message {
                ToFront::Connecting { ticket, error } => shared.upstreams.openings.came(ticket, error, attached),
                ToFront::Changed { ticket, changes, fresh, serving, made } => {
                    dev_changed(shared, Told { ticket, changes, fresh, serving, made, ..Told::default() }, &attached)
                }
                loss => note_loss(shared, loss),
            }
        }
    }
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread of the front panicked"))??;
    }
    Ok(())
}

/// What a thread is told while it runs.
struct Tells {
    stopped: watch::Receiver<Life>,
    listening: Follower,
    /// What is to be done for generations before visitors come; one thread does that.
    wanted: Option<mpsc::UnboundedReceiver<Wanted>>,
}

fn start_thread(
    number: usize,
    door: OwnedFd,
    shared: &Arc<Shared>,
    inherited: &Inherited,
    told: Tells,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let log = inherited.access_log.as_ref().map(OwnedFd::try_clone).transpose()?;
    let Tells { stopped, listening, wanted } = told;
    let shared = shared.clone();
    let link = inherited.link.clone();
    std::thread::Builder::new().name(format!("front-{number}")).spawn(move || {
        doors::open(number, shared.clone());
        access::open(log.map(File::from), shared.settings.access_log_format);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(doors::before_park)
            .on_thread_unpark(doors::after_unpark)
            .max_blocking_threads(READERS)
            .build()?;
        if let Some(wanted) = wanted {
            runtime.spawn(preparing::run(shared.clone(), link, wanted));
        }
        let result = runtime.block_on(run_thread(number == 0, door, listening, shared, stopped));
        access::flush();
        // A thread that waits for a file may wait for ever.
        runtime.shutdown_background();
        result
    })
}

/// Tells the supervisor what the spool holds, if that is not as it was.
fn tell_of_spool(shared: &Shared, told: &mut Numbers) {
    let now = shared.spool.numbers();
    if std::mem::replace(told, now) != now {
        let Numbers { memory, disk, responses, full, errors } = now;
        shared.lanes.tell(&FromFront::Spool { memory, disk, responses, full, errors });
    }
}

/// Has this thread hold no file for longer than the settings say, and none from before a reload.
fn tend_files(shared: &Shared, known: &mut Option<Arc<Settings>>) {
    let now = shared.lanes.view().settings.clone();
    let is_renewed = known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &now));
    file_cache::tend(now.limits.file_cache.share(now.threads), is_renewed, Instant::now());
    *known = Some(now);
}

async fn run_thread(
    is_first: bool,
    door: OwnedFd,
    listening: Follower,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<Life>,
) -> io::Result<()> {
    // The eventfd is registered and never read: each write is an event of its own, and its only purpose is to wake the
    // thread. The function is deprecated because someone else could close the descriptor; this one is owned. The
    // alternative is unsafe code.
    #[allow(deprecated)]
    let _door = AsyncFd::with_interest(door, Interest::READABLE)?;
    tokio::spawn(listening.run(shared.clone()));
    let ticking = shared.clone();
    let tick = async move {
        let mut ticks = tokio::time::interval(TICK);
        let mut spool = Numbers::default();
        let (mut log_version, mut settings) = (0, None);
        for count in 0u64.. {
            ticks.tick().await;
            tend_files(&ticking, &mut settings);
            ticking.follow_access_log(&mut log_version);
            doors::collect();
            doors::each_lane(|shared, lane, door| {
                lane.sweep(door);
                doors::look(shared, lane, door);
            });
            ticking.lanes.retire();
            if is_first {
                ticking.lanes.report_entries();
                tell_of_spool(&ticking, &mut spool);
                if count % TICKS_OF_NEWS == 0 {
                    ticking.stored.tell_learned();
                }
            }
            access::flush();
            if ticking.connections.load(Ordering::Acquire) == 0 && ticking.lanes.in_flight() == 0 {
                ticking.idle.notify_waiters();
            }
        }
    };
    tokio::pin!(tick);
    tokio::select! {
        () = &mut tick => {}
        () = told_to_stop(&mut stopped) => {}
    }
    let idle = async {
        loop {
            let notified = shared.idle.notified();
            if shared.connections.load(Ordering::Acquire) == 0 && shared.lanes.in_flight() == 0 {
                return;
            }
            notified.await;
        }
    };
    tokio::select! {
        () = tick => {}
        () = idle => {}
    }
    Ok(())
}
