//! What all threads of the front share.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Notify, watch};

use crate::access;
use crate::clients::Clients;
use crate::data_counts::DataCaches;
use crate::dev::{Dev, Fence};
use crate::fitness::Fitness;
use crate::lanes::Lanes;
use crate::passwords::Passwords;
use crate::spool::Spool;
use crate::upstream::Upstreams;
use cache_store::stored::Stored;
use certificates::Tls;
use inbound::control::Link;
use inbound::verified::Token;
use routing::addresses::Addresses;
use routing::rate::Rates;
use routing::settings::Settings;

/// What all threads share.
pub struct Shared {
    /// The settings of the start. Only those that no reload changes are used.
    pub settings: Settings,
    /// The lanes, and the current settings.
    pub lanes: Lanes,
    /// Certificates and keys.
    pub tls: Tls,
    /// When this front began.
    pub began: SystemTime,
    /// Requests by client address.
    pub clients: Clients,
    /// Checks of passwords.
    pub passwords: Passwords,
    /// How often each address has asked.
    pub rates: Rates,
    /// Connections at the moment.
    pub connections: AtomicUsize,
    /// Of these, those that have their last response and are read from for a while.
    pub lingering: AtomicUsize,
    /// Connections by client address.
    pub addresses: Addresses,
    /// What slow clients have not taken yet of PHP's responses.
    pub spool: Arc<Spool>,
    /// Responses that are kept for many.
    pub stored: Stored,
    /// What the data caches of applications have done.
    pub data_counts: DataCaches,
    /// Which pages are asked for most.
    /// Whether this server is to get requests.
    pub fitness: Fitness,
    /// What lets requests of `reprise verify` choose their mode and pass by the cache.
    pub token: Token,
    /// Servers that respond in the place of PHP.
    pub upstreams: Upstreams,
    /// What has changed, for applications under development.
    pub dev: Option<Dev>,
    /// The access log that the supervisor has opened last, and how often it has done so.
    access_log: Mutex<Option<OwnedFd>>,
    log_version: AtomicU64,
    /// Notified when a connection has ended.
    pub room: Notify,
    /// Whether there is neither a connection nor a request.
    pub idle: Notify,
    /// Whether clients' connections are accepted.
    pub is_open: watch::Sender<bool>,
    /// The server is about to stop, and serves on.
    pub is_leaving: AtomicBool,
}

impl Shared {
    /// For a front that begins now.
    pub fn new(settings: Settings, link: Arc<dyn Link>, spool: Option<OwnedFd>) -> Shared {
        Shared {
            dev: settings.is_dev.then(|| Dev::new(Fence::new(link.clone()))),
            stored: Stored::new(link.clone()),
            lanes: Lanes::new(settings.clone(), link),
            tls: Tls::default(),
            began: SystemTime::now(),
            clients: Clients::default(),
            passwords: Passwords::new(),
            rates: Rates::default(),
            connections: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
            addresses: Addresses::default(),
            spool: Spool::new(spool.map(File::from)),
            data_counts: DataCaches::default(),
            fitness: Fitness::default(),
            token: Token::default(),
            upstreams: Upstreams::default(),
            access_log: Mutex::new(None),
            log_version: AtomicU64::new(0),
            room: Notify::new(),
            idle: Notify::new(),
            is_open: watch::Sender::new(false),
            is_leaving: AtomicBool::new(false),
            // A reload replaces them, and then nobody needs these any more.
            settings: Settings { countries: Vec::new(), ..settings },
        }
    }

    /// The supervisor has opened the log again: each thread switches to it at its next tick.
    pub fn renew_access_log(&self, descriptors: Vec<OwnedFd>) {
        *self.access_log.lock().unwrap_or_else(PoisonError::into_inner) = descriptors.into_iter().next();
        self.log_version.fetch_add(1, Ordering::AcqRel);
    }

    /// Switches to a log that was opened again; `seen` is the version that this thread has.
    pub fn follow_access_log(&self, seen: &mut u64) {
        let version = self.log_version.load(Ordering::Acquire);
        if *seen == version {
            return;
        }
        let log = self.access_log.lock().unwrap_or_else(PoisonError::into_inner);
        match log.as_ref().map(OwnedFd::try_clone).transpose() {
            Ok(Some(file)) => access::open(Some(File::from(file)), self.settings.access_log_format),
            Ok(None) => {}
            // There is no descriptor left: the next tick tries again.
            Err(_) => return,
        }
        *seen = version;
    }
}

/// Counts a connection for as long as it lives.
pub struct Counted(Arc<Shared>);

impl Counted {
    /// Counts one more.
    pub fn new(shared: &Arc<Shared>) -> Counted {
        shared.connections.fetch_add(1, Ordering::AcqRel);
        Counted(shared.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
        self.0.room.notify_one();
    }
}

/// What becomes of a listener and its connections, or of the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// They live.
    Open,
    /// The configuration does not name the listener any more.
    Removed,
    /// Its socket belongs to another listener now.
    Replaced,
    /// The front stops.
    Stopping,
}

/// Waits until that ends. Connections finish what they have begun.
pub async fn told_to_stop(life: &mut watch::Receiver<Life>) {
    // An error means that the sender is gone, and with it the listener.
    let _ = life.wait_for(|life| *life != Life::Open).await;
}
