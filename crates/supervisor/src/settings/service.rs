//! What the supervisor is told to run.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ipc::control::Isolation;
use ipc::key::Origin;
use serde::{Deserialize, Serialize};

use crate::listeners::Listener;
use crate::os::files::Seen;
use crate::os::notify::Notify;
use crate::os::sys::{ProcessLimits, Signals};
use crate::os::user::Identity;
use crate::settings::drafts::AcmeDraft;
use crate::settings::drafts::Console;
use crate::settings::drafts::{Certificates, CertificatesDraft, LookAtCertificates};
use crate::settings::verification::{PageFound, Verification};

/// What stays the same as long as the supervisor runs.
pub struct Service {
    /// `reprise` itself, opened; it is the front too.
    pub front: OwnedFd,
    /// argv of the front, its name first.
    pub front_arguments: Vec<String>,
    /// Whom the front runs as.
    pub front_user: Option<Identity>,
    /// Descriptors of the front after its channel, the lifeline and its settings; listeners and the plan's files follow.
    pub front_descriptors: Vec<OwnedFd>,
    /// The sockets of the plan's listeners, in their order.
    pub listeners: Vec<OwnedFd>,
    /// The access log, if it is a file: the last of those descriptors.
    pub access_log: Option<PathBuf>,
    /// Threads of the front.
    pub front_threads: usize,
    /// /dev/userfaultfd, if this user may open it. It works where the system call is not allowed.
    pub userfaultfd: Option<OwnedFd>,
    /// CPUs this server may use.
    pub cpus: usize,
    /// Where `reprise reload` and its like connect to.
    pub control_socket: Option<UnixListener>,
    /// Watched before any process was started.
    pub signals: Signals,
    /// systemd, or who else watches over this server.
    pub notify: Notify,
    /// Reads the configuration again, and opens each `reprise-php` that it needs. It gets the plan in force. It is called in a child,
    /// so it may take long. An error says what is wrong, where, and what to do.
    pub read: Box<ReadAgain>,
    /// Makes a file of settings for the front; these generations run the applications.
    pub settings: Box<MakeSettings>,
    /// Compares the pages of a generation. Runs in a child.
    pub verify: Box<VerifyPages>,
    /// Looks at the files of certificates, in a child.
    pub certificates: Box<LookAtCertificates>,
    /// The process that watches files, if there is to be one.
    pub watcher: Option<WatcherDraft>,
    /// The terminal whose keys are commands, if there is one.
    pub console: Option<Box<dyn Console>>,
    /// Whether the access log is shown there.
    pub shows_requests: bool,
    /// How many generations of an application may drain at once.
    pub may_drain: usize,
    /// Longest time that a stop waits for running requests, if not `drain_timeout`.
    pub stop_timeout: Option<Duration>,
}

/// What the process that watches files is told.
pub struct WatcherDraft {
    /// Its settings.
    pub settings: String,
    /// Whom it runs as.
    pub user: Option<Identity>,
}

/// Reads what the next plan is made of, beside the plan in force, with another release of an application, if one is named.
pub type ReadAgain = dyn Fn(&Plan, Option<(&str, &str)>) -> Result<(Draft, Vec<OwnedFd>), String>;

/// Compares pages of a generation, which a socket leads to, with those of classic mode; as that user, if one is named.
pub type VerifyPages = dyn Fn(&Verification, Option<&Identity>, OwnedFd) -> Result<Vec<PageFound>, String>;

/// Makes a file of settings for these generations.
pub type MakeSettings = dyn Fn(&str, &[u32]) -> io::Result<OwnedFd>;

/// A plan on its way from the process that has read the configuration.
#[derive(Serialize, Deserialize)]
pub struct Draft {
    /// In the order of the front's settings. Their names differ.
    pub applications: Vec<Application>,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How long the server serves on after it was told to stop.
    pub shutdown_delay: Duration,
    /// Whether snapshots can be rewound, and why not: said at the start and when it changes.
    pub isolation: String,
    /// What the log says of the change to this configuration.
    pub notices: Vec<String>,
    /// Where clients connect to.
    pub listeners: Vec<Listener>,
    /// How many of them were opened for this draft. Their sockets are the last descriptors.
    pub opened: usize,
    /// The certificates, if there are any. Their file is the last of the descriptors before that.
    pub certificates: Option<CertificatesDraft>,
    /// What the process that orders certificates gets, if it is to run.
    pub acme: Option<AcmeDraft>,
    /// The front's settings, without the generations.
    pub settings: String,
    /// How many files the front gets with them. They are the descriptors before the certificates'.
    pub files: usize,
}

/// The configuration in force. A reload replaces it as a whole.
pub struct Plan {
    /// Each `reprise-php` that an application needs, opened; then the copies of phars, and the locks of the directories they are unpacked in.
    opened: Vec<Rc<OwnedFd>>,
    /// In the order of the front's settings. Their names differ.
    pub applications: Vec<Rc<Application>>,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How long the server serves on after it was told to stop.
    pub shutdown_delay: Duration,
    /// Whether snapshots can be rewound, and why not: said at the start and when it changes.
    pub isolation: String,
    /// What the log says of the change to this configuration.
    pub notices: Vec<String>,
    /// Where clients connect to.
    pub listeners: Vec<Listener>,
    /// The certificates that it came with, if there are any.
    pub certificates: Option<Rc<Certificates>>,
    /// What the process that orders certificates gets, if it is to run.
    pub acme: Option<AcmeDraft>,
    /// The front's settings, without the generations.
    pub settings: String,
    /// What the front gets with them: sealed memory files, whose meaning the settings say.
    pub(crate) files: Vec<OwnedFd>,
}

impl Plan {
    /// Of a draft and the executables that its applications name by number, opened; then the front's files and the file of its certificates.
    pub fn new(draft: Draft, mut opened: Vec<OwnedFd>) -> Plan {
        let certificates = draft.certificates.and_then(|draft| Some(Certificates::new(draft, opened.pop()?)));
        let files = opened.split_off(opened.len().saturating_sub(draft.files));
        Plan {
            certificates: certificates.map(Rc::new),
            acme: draft.acme,
            opened: opened.into_iter().map(Rc::new).collect(),
            applications: draft.applications.into_iter().map(Rc::new).collect(),
            drain_timeout: draft.drain_timeout,
            shutdown_delay: draft.shutdown_delay,
            isolation: draft.isolation,
            notices: draft.notices,
            listeners: draft.listeners,
            settings: draft.settings,
            files,
        }
    }

    /// What the prototypes of an application are started with.
    pub(crate) fn programs(&self, application: &Application) -> io::Result<Programs> {
        let opened =
            |number: usize, what: &'static str| self.opened.get(number).cloned().ok_or_else(|| io::Error::other(what));
        let phar = application.phar.as_ref().map(|phar| opened(phar.copy, "its phar was not opened")).transpose()?;
        Ok(Programs { php: opened(application.php, "its reprise-php was not opened")?, phar })
    }
}

/// What a prototype is started with, opened.
#[derive(Clone)]
pub(crate) struct Programs {
    /// `reprise-php`.
    pub(crate) php: Rc<OwnedFd>,
    /// The copy of the phar that the application's scripts are in, if they are in one.
    pub(crate) phar: Option<Rc<OwnedFd>>,
}

/// The phar that an application's scripts are in. The root is a directory into which it was unpacked.
#[derive(Clone, Serialize, Deserialize)]
pub struct Phar {
    /// Its file, resolved.
    pub file: PathBuf,
    /// The root as PHP has it: `phar:///srv/app.phar/public`.
    pub scripts: PathBuf,
    /// The path of its stub as a script, `/app.phar`, if the root is the whole phar.
    pub stub: Option<String>,
    /// Which of the plan's descriptors is the sealed copy of it that PHP reads.
    pub copy: usize,
    /// The file when it was read.
    pub seen: Seen,
    /// The path by which the configuration names it, if a reload is to follow when another phar lies there.
    pub watched: Option<PathBuf>,
}

/// Isolation as a number: its crate has no serialization.
mod isolation {
    use ipc::control::Isolation;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(isolation: &Isolation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i32(*isolation as i32)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Isolation, D::Error> {
        let number = i32::deserialize(from)?;
        Isolation::ALL
            .into_iter()
            .find(|one| *one as i32 == number)
            .ok_or_else(|| serde::de::Error::custom("no isolation"))
    }
}

/// One application.
#[derive(Serialize, Deserialize)]
pub struct Application {
    /// For messages; no other application has the same.
    pub name: String,
    /// Which of the plan's executables its prototype is.
    pub php: usize,
    /// The minor version of PHP that this is for.
    pub php_version: String,
    /// Options of reprise-php with their values, which may be secrets. In the arguments every user could read them.
    pub settings: Vec<(String, String)>,
    /// Its whole environment.
    pub environment: Vec<String>,
    /// Whom PHP runs as.
    pub user: Option<Identity>,
    /// What PHP may use.
    pub limits: ProcessLimits,
    /// Bytes of its data cache; 0: it has none.
    pub data_cache: u64,
    /// Settings of the process that talks to the store which its nodes share, if they share one. There are secrets in it.
    pub store: Option<String>,
    /// The release that it is, and what the process gets that follows its pool, if it comes from one.
    pub release: Option<ReleaseDraft>,
    /// Workers of each lane, at most.
    pub workers: usize,
    /// Workers of each lane, at least.
    pub min_workers: usize,
    /// Workers of all lanes of a generation together, at most.
    pub max_workers: Option<usize>,
    /// Requests in flight in each lane, waiting ones included.
    pub exchanges: usize,
    /// Document root, resolved.
    pub root: PathBuf,
    /// The phar that the root is in.
    pub phar: Option<Phar>,
    /// The root as it is configured, if a reload is to follow when that path leads elsewhere.
    pub watched: Option<PathBuf>,
    /// Host names that it answers to, patterns left out.
    pub hosts: Vec<String>,
    /// Whether its visitors come by https.
    pub is_https: bool,
    /// Scripts that are booted before the server is ready.
    pub entries: Vec<Entry>,
    /// Scripts that are never booted.
    pub classic: BTreeSet<String>,
    /// How requests of snapshot lanes are kept apart.
    #[serde(with = "isolation")]
    pub isolation: Isolation,
    /// Whether a process for each request is all that is possible here, and may give way to classic mode.
    pub compares: bool,
    /// The requests that the front makes before visitors' come, as people read them: `GET /`.
    pub warmup: Vec<String>,
    /// What is compared with classic mode before visitors come; nothing by default.
    pub verification: Verification,
    /// A warm-up request that fails stops nothing.
    pub is_warmup_optional: bool,
    /// How long a boot may take.
    pub boot_timeout: Duration,
    /// A lane that has had no request for so long may be evicted.
    pub lane_timeout: Duration,
    /// A request that takes longer is slow: the log says where it is.
    pub slow_timeout: Duration,
    /// Headers of a slow request that the log shows.
    pub slow_headers: Vec<String>,
    /// Whether lines of its standard output and error get a prefix in the log, and are escaped.
    pub decorates_output: bool,
    /// Addresses that the front may have connections to: `127.0.0.1:9000`, or `unix:` and a path.
    pub upstreams: Vec<String>,
}

impl Application {
    /// The root that PHP has for a script, and below which it finds the script.
    pub fn root_of(&self, script: &str) -> &Path {
        match &self.phar {
            None => &self.root,
            Some(phar) if phar.stub.as_deref() == Some(script) => phar.file.parent().unwrap_or(&phar.file),
            Some(phar) => &phar.scripts,
        }
    }

    /// The origin that a script boots with, unless its lane is for another.
    pub fn first_origin(&self) -> Origin<'_> {
        Origin { is_https: self.is_https, host: self.hosts.first().map_or("localhost", String::as_str) }
    }

    /// Whether the configuration says the same of it: its processes may stay. What only a boot looks at does not count.
    pub(crate) fn is_same(&self, other: &Application) -> bool {
        let value = |one: &Application| {
            let mut value = serde_json::to_value(one).ok()?;
            for of_boots in ["warmup", "is_warmup_optional", "verification"] {
                value.as_object_mut()?.remove(of_boots);
            }
            let settings = value.get_mut("settings").and_then(serde_json::Value::as_array_mut);
            settings.into_iter().for_each(|all| all.retain(|one| one.get(0) != Some(&"warmup".into())));
            Some(value)
        };
        value(self).is_some_and(|one| value(other) == Some(one))
    }

    /// Whether there may be lanes for that origin: the configuration has to name its host.
    pub fn answers_to(&self, origin: Origin<'_>) -> bool {
        let is_port = |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        self.hosts.iter().any(|host| host == origin.name()) && origin.port().is_none_or(is_port)
    }
}

#[cfg(test)]
impl Application {
    /// One for tests, without scripts of its own.
    pub(crate) fn for_test(name: &str) -> Application {
        Application {
            name: name.to_owned(),
            php: 0,
            php_version: "8.4".to_owned(),
            settings: Vec::new(),
            environment: Vec::new(),
            user: None,
            limits: ProcessLimits::default(),
            workers: 2,
            min_workers: 2,
            max_workers: None,
            exchanges: 4,
            root: PathBuf::from("/srv").join(name),
            phar: None,
            watched: None,
            hosts: Vec::new(),
            is_https: false,
            entries: Vec::new(),
            classic: BTreeSet::new(),
            isolation: Isolation::Auto,
            compares: false,
            warmup: Vec::new(),
            verification: Verification::default(),
            is_warmup_optional: false,
            boot_timeout: Duration::from_secs(30),
            lane_timeout: Duration::from_secs(60),
            slow_timeout: Duration::from_secs(5),
            slow_headers: Vec::new(),
            decorates_output: true,
            upstreams: Vec::new(),
            data_cache: 0,
            store: None,
            release: None,
        }
    }
}

#[cfg(test)]
impl Plan {
    /// One for tests, with these applications.
    pub(crate) fn for_test(names: &[&str], settings: &str) -> Plan {
        Plan {
            opened: vec![Rc::new(std::fs::File::open("/dev/null").unwrap().into())],
            applications: names.iter().map(|name| Rc::new(Application::for_test(name))).collect(),
            drain_timeout: Duration::from_secs(30),
            shutdown_delay: Duration::ZERO,
            isolation: String::new(),
            notices: Vec::new(),
            listeners: Vec::new(),
            certificates: None,
            acme: None,
            settings: settings.to_owned(),
            files: Vec::new(),
        }
    }
}

/// What the process that follows the pool of an application's releases is told, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseDraft {
    /// Its settings.
    pub settings: String,
    /// Whom it runs as.
    pub user: Option<Identity>,
    /// The release that the application is; `None`: it has none yet.
    pub id: Option<String>,
}

/// A script with a lane of its own.
#[derive(Clone, Serialize, Deserialize)]
pub struct Entry {
    /// `/index.php`, or a [`ipc::key::Key`] as text.
    pub script: String,
    /// The server does not start without it.
    pub is_required: bool,
    /// It handles requests in a loop; else it takes a snapshot.
    pub is_worker_mode: bool,
}
