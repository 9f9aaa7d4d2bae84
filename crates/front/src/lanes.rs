//! The lanes of all generations: which of them runs a script, and what each thread does with all of them.
//!
//! The supervisor says when lanes and generations of an application come and are replaced; the settings name the generation
//! that takes new requests. A request holds the [`View`] that it began with until it has its response. So one generation
//! both routes and runs it. A generation that no settings name is gone when no request holds it and its lanes are empty.
//! Then the front tells the supervisor.
//!
//! Each thread has a view of its own, which it renews when the version has changed, so that a request finds its lane
//! without a lock.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ipc::control::{FromFront, LaneId, LaneOffer, MAX_LANES};
use ipc::key::{Key, MAX_ORIGIN, Origin};
use ipc::slab::Slab;

use cache_store::stored::{Cached, Stored};
use inbound::control::Link;
use mailbox::lane::Lane;
use routing::settings::{Application, Settings};
use routing::target;

/// Most scripts of a generation of which the supervisor is told at once, and whose requests are counted until it is told again.
const MAX_ENTRIES: usize = 64;
/// Bytes of a key at most: the longest target and the longest origin.
const MAX_KEY: usize = routing::target::MAX_TARGET + MAX_ORIGIN;
/// Bytes of settings at most.
const MAX_SETTINGS: u64 = 64 << 20;

/// All lanes.
pub struct Lanes {
    link: Arc<dyn Link>,
    known: Mutex<Known>,
    /// Changes with every lane and with the settings.
    version: AtomicU64,
}

/// What the supervisor has said.
struct Known {
    settings: Arc<Settings>,
    /// The settings that a later `Switch` means.
    next: Option<Arc<Settings>>,
    generations: BTreeMap<u32, Generation>,
}

/// One generation of an application.
#[derive(Default)]
struct Generation {
    /// The lanes by number, that of classic mode first. There may be gaps.
    lanes: BTreeMap<u32, Arc<Lane>>,
    /// Every view that names the generation holds this.
    held: Arc<()>,
    /// Keys whose scripts have asked for a lane of their own in classic mode, and of which the supervisor was told at once.
    told: HashSet<String>,
    /// How often such keys were asked for since the supervisor was told last.
    entries: BTreeMap<String, Asked>,
    /// Paths whose pages differ from those of classic mode, in which they stay.
    classic: Arc<HashSet<Vec<u8>>>,
}

/// What scripts without a lane have asked for.
struct Asked {
    is_worker_mode: bool,
    times: u32,
}

/// The settings and lanes that a request is served by, from its first byte to its last.
pub struct View {
    /// The settings.
    pub settings: Arc<Settings>,
    /// The lanes of each application, in the settings' order.
    lanes: Vec<Vec<Arc<Lane>>>,
    /// The cache of each application, once a request has asked for it.
    stored: Vec<OnceLock<Option<Cached>>>,
    /// The paths of each application that stay in classic mode because their pages differ.
    classic: Vec<Arc<HashSet<Vec<u8>>>>,
    _held: Vec<Arc<()>>,
}

/// What a thread has of the lanes.
struct Seen {
    version: u64,
    view: Option<Arc<View>>,
    /// The lanes of all generations, also of those that take no more requests.
    lanes: Vec<Arc<Lane>>,
}

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen { version: 0, view: None, lanes: Vec::new() }) };
}

impl View {
    /// The cache of an application, if it has one.
    pub fn stored(&self, number: usize, all: &Stored) -> Option<&Cached> {
        let application = self.settings.applications.get(number)?;
        self.stored.get(number)?.get_or_init(|| all.of(application)).as_ref()
    }

    /// The lane that runs a script of an application now, for a request to that origin: the script's own lane while it is
    /// up, else that of classic mode.
    pub fn find(&self, application: usize, script: &str, origin: Origin<'_>) -> Option<&Arc<Lane>> {
        let others = self.lanes.get(application)?.get(1..)?;
        others.iter().find(|lane| lane.takes(script, origin)).or_else(|| self.classic(application))
    }

    /// The lane of that script that learns what its requests take in classic mode.
    pub fn compared(&self, application: usize, script: &str, origin: Origin<'_>) -> Option<&Arc<Lane>> {
        self.lanes.get(application)?.get(1..)?.iter().find(|lane| lane.is_compared_for(script, origin))
    }

    /// The lane of classic mode, for every script without a lane of its own.
    pub fn classic(&self, application: usize) -> Option<&Arc<Lane>> {
        self.lanes.get(application)?.first().filter(|lane| lane.is_classic())
    }

    /// Whether a path stays in classic mode because its page differs.
    pub fn stays_classic(&self, application: usize, path: &[u8]) -> bool {
        self.classic.get(application).is_some_and(|paths| paths.contains(path))
    }

    /// All lanes of an application.
    pub fn of_application(&self, application: usize) -> &[Arc<Lane>] {
        self.lanes.get(application).map_or(&[], Vec::as_slice)
    }
}

impl Known {
    fn view(&self, settings: &Arc<Settings>) -> View {
        let generations = || settings.applications.iter().map(|one| self.generations.get(&one.generation));
        View {
            settings: settings.clone(),
            lanes: generations()
                .map(|one| one.map_or(Vec::new(), |one| one.lanes.values().cloned().collect()))
                .collect(),
            stored: settings.applications.iter().map(|_| OnceLock::new()).collect(),
            classic: generations().map(|one| one.map_or_else(Arc::default, |one| one.classic.clone())).collect(),
            _held: generations().flatten().map(|one| one.held.clone()).collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.generations.values().flat_map(|generation| generation.lanes.values())
    }

    /// What is configured for a generation, now or next.
    fn application(&self, number: u32) -> Option<&Application> {
        let both = self.settings.applications.iter().chain(self.next.iter().flat_map(|next| &next.applications));
        both.into_iter().find(|application| application.generation == number)
    }
}

impl Lanes {
    /// For the applications of these settings, without lanes yet.
    pub fn new(settings: Settings, link: Arc<dyn Link>) -> Lanes {
        let known = Known { settings: Arc::new(settings), next: None, generations: BTreeMap::new() };
        Lanes { link, known: Mutex::new(known), version: AtomicU64::new(1) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane that a message is about, if its epoch is the message's.
    pub fn of(&self, id: LaneId) -> Option<Arc<Lane>> {
        let known = self.known();
        let lane = known.generations.get(&id.generation)?.lanes.get(&id.lane)?;
        (lane.id() == id).then(|| lane.clone())
    }

    /// The lanes of a lane's generation, itself among them.
    pub fn beside(&self, lane: &Lane) -> Vec<Arc<Lane>> {
        let known = self.known();
        let generation = known.generations.get(&lane.generation());
        generation.map_or(Vec::new(), |generation| generation.lanes.values().cloned().collect())
    }

    /// All lanes.
    pub fn all(&self) -> Vec<Arc<Lane>> {
        self.known().all().cloned().collect()
    }

    /// Whether every application can be served.
    pub fn are_complete(&self) -> bool {
        let known = self.known();
        let view = known.view(&known.settings);
        (0..view.settings.applications.len()).all(|number| view.classic(number).is_some())
    }

    /// Requests posted and not finished.
    pub fn in_flight(&self) -> usize {
        self.known().all().map(|lane| lane.in_flight()).sum()
    }

    /// Takes a lane from the supervisor: its slab, and its key unless it is the lane of classic mode. If the front already
    /// has the lane in this epoch, it has a new template, or a new prototype that may take bodies of another size. False:
    /// the lane's generation takes no requests any more, or never will, and the supervisor did not know that yet.
    pub fn take(&self, offer: &LaneOffer, attached: &[OwnedFd]) -> io::Result<bool> {
        let wrong = |what: &'static str| io::Error::other(what);
        let text = match (offer.id.lane, attached.get(1)) {
            (0, _) => String::new(),
            (_, Some(file)) => read(file)?,
            (_, None) => return Err(wrong("a lane without a key")),
        };
        if let Some(lane) = self.of(offer.id) {
            // The requests that wait in the lane were made to another host.
            if lane.key() != text {
                return Err(wrong("a lane with another key than it had"));
            }
            lane.bodies.learn(&offer.bodies);
            lane.set_up(true);
            return Ok(true);
        }
        let key = match text.as_str() {
            "" => None,
            text => Some(Key::parse(text).ok_or_else(|| wrong("a lane with a broken key"))?),
        };
        let slab = attached.first().ok_or_else(|| wrong("a lane without a slab"))?;
        let slab =
            Slab::map(slab.as_raw_fd(), offer.geometry).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let mut known = self.known();
        if offer.id.lane as usize >= MAX_LANES {
            return Err(wrong("more lanes than there may be"));
        }
        let Some(application) = known.application(offer.id.generation) else { return Ok(false) };
        let lane = Arc::new(Lane::new(slab, offer, key, application, self.link.clone()));
        known.generations.entry(offer.id.generation).or_default().lanes.insert(offer.id.lane, lane);
        drop(known);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }

    /// Has paths of a generation stay in classic mode, by a file that lists them. One that is gone needs none.
    pub fn stay_classic(&self, generation: u32, attached: &[OwnedFd]) -> io::Result<()> {
        let file = File::from(attached.first().ok_or_else(|| io::Error::other("no list of paths"))?.try_clone()?);
        let mut bytes = vec![0; file.metadata()?.len().min(MAX_SETTINGS) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let paths: Vec<String> = serde_json::from_slice(&bytes)?;
        let paths = paths.into_iter().filter_map(|path| target::clean(&path).ok()).collect();
        let mut known = self.known();
        if known.application(generation).is_some() {
            known.generations.entry(generation).or_default().classic = Arc::new(paths);
        }
        drop(known);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Forgets the settings that came last: no switch to them will follow.
    pub fn expect_none(&self) {
        self.known().next = None;
    }

    /// Takes settings that a later switch means, with their tables and sockets. Returns the sockets.
    pub fn expect(&self, attached: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
        let mut attached = attached.into_iter();
        let file = File::from(attached.next().ok_or_else(|| io::Error::other("settings without a file"))?);
        let mut bytes = Vec::new();
        let size = file.metadata()?.len();
        if size > MAX_SETTINGS {
            return Err(io::Error::other("settings that are too large"));
        }
        bytes.resize(size as usize, 0);
        file.read_exact_at(&mut bytes, 0)?;
        let mut settings: Settings = serde_json::from_slice(&bytes)?;
        let tables: Vec<OwnedFd> = attached.by_ref().take(settings.country_tables).collect();
        if attached.len() != settings.listeners.len() {
            return Err(io::Error::other("settings without the sockets of their listeners"));
        }
        settings.take_countries(&tables)?;
        settings.compile().map_err(io::Error::other)?;
        self.known().next = Some(Arc::new(settings));
        Ok(attached.collect())
    }

    /// Switches to the settings that came last.
    pub fn switch(&self) {
        let mut known = self.known();
        if let Some(next) = known.next.take() {
            known.settings = next;
        }
        drop(known);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Refuses the requests that wait in a generation.
    pub fn give_up(&self, generation: u32) {
        let known = self.known();
        let lanes = known.generations.get(&generation).map(|one| one.lanes.values().cloned().collect::<Vec<_>>());
        drop(known);
        lanes.into_iter().flatten().for_each(|lane| lane.give_up());
    }

    /// Forgets generations that no settings name, that no request holds, and whose lanes are empty.
    pub fn retire(&self) {
        let mut known = self.known();
        let is_over = |number: u32, generation: &Generation| {
            known.application(number).is_none()
                && Arc::strong_count(&generation.held) == 1
                && generation.lanes.values().all(|lane| lane.in_flight() == 0)
        };
        let over: Vec<u32> = known
            .generations
            .iter()
            .filter(|(number, one)| is_over(**number, one))
            .map(|(number, _)| *number)
            .collect();
        if over.is_empty() {
            return;
        }
        let gone: Vec<_> = over.iter().filter_map(|number| known.generations.remove(number)).collect();
        drop(known);
        drop(gone);
        self.version.fetch_add(1, Ordering::AcqRel);
        for generation in over {
            self.link.send(&FromFront::Retired { generation });
        }
    }

    /// Tells the supervisor something.
    pub fn tell(&self, message: &FromFront) {
        self.link.send(message);
    }

    /// The view that serves a request that begins now.
    pub fn view(&self) -> Arc<View> {
        let fresh = || {
            let known = self.known();
            Arc::new(known.view(&known.settings))
        };
        self.with_seen(|seen| seen.view.clone()).unwrap_or_else(fresh)
    }

    /// The view for a request to a certain generation, which may not take clients' requests yet, and the number of its
    /// application there.
    pub fn view_of(&self, generation: u32) -> Option<(Arc<View>, usize)> {
        let known = self.known();
        let settings = known.next.iter().chain([&known.settings]).find_map(|settings| {
            let number = settings.applications.iter().position(|one| one.generation == generation)?;
            Some((settings, number))
        });
        settings.map(|(settings, number)| (Arc::new(known.view(settings)), number))
    }

    /// Does the same with each lane.
    pub fn each(&self, each: impl Fn(&Lane)) {
        self.with_seen(|seen| seen.lanes.iter().for_each(|lane| each(lane)));
    }

    fn with_seen<R>(&self, use_it: impl FnOnce(&Seen) -> R) -> R {
        SEEN.with_borrow_mut(|seen| {
            let version = self.version.load(Ordering::Acquire);
            if seen.version != version {
                let known = self.known();
                *seen = Seen {
                    version,
                    view: Some(Arc::new(known.view(&known.settings))),
                    lanes: known.all().cloned().collect(),
                };
            }
            use_it(seen)
        })
    }

    /// Notes that a script in classic mode asked for a snapshot for this request, or is a worker script. The first time the supervisor
    /// learns of it before the request ends: what a warm-up finds is booted before visitors come.
    pub fn count_entry(&self, generation: u32, key: Key<'_>, is_worker_mode: bool) {
        let key = key.to_string();
        let mut known = self.known();
        let Some(one) = known.generations.get_mut(&generation) else { return };
        if one.told.len() < MAX_ENTRIES && one.told.insert(key.clone()) {
            drop(known);
            return self.report_entry(generation, &key, &Asked { is_worker_mode, times: 1 });
        }
        if one.entries.len() < MAX_ENTRIES || one.entries.contains_key(&key) {
            let asked = one.entries.entry(key).or_insert(Asked { is_worker_mode, times: 0 });
            asked.times = asked.times.saturating_add(1);
        }
    }

    /// Tells the supervisor which scripts those were, and how often each. One thread does so, several times a second.
    pub fn report_entries(&self) {
        let mut known = self.known();
        let take = |(number, one): (&u32, &mut Generation)| (*number, std::mem::take(&mut one.entries));
        let all: Vec<_> = known.generations.iter_mut().filter(|(_, one)| !one.entries.is_empty()).map(take).collect();
        drop(known);
        for (generation, entries) in all {
            entries.iter().for_each(|(key, asked)| self.report_entry(generation, key, asked));
        }
    }

    fn report_entry(&self, generation: u32, key: &str, asked: &Asked) {
        // If there is no descriptor left, there is no lane: classic mode serves on.
        let Ok(file) = rustix::fs::memfd_create("reprise-entry", rustix::fs::MemfdFlags::CLOEXEC) else { return };
        if rustix::io::pwrite(&file, key.as_bytes(), 0) == Ok(key.len()) {
            let (is_worker_mode, times) = (asked.is_worker_mode, asked.times);
            self.link.send_with(&FromFront::Entry { generation, is_worker_mode, times }, &[file.as_fd()]);
        }
    }
}

fn read(file: &OwnedFd) -> io::Result<String> {
    let file = File::from(file.try_clone()?);
    let mut bytes = vec![0; MAX_KEY];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    String::from_utf8(bytes).map_err(io::Error::other)
}
