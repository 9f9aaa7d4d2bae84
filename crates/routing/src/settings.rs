//! The settings that the supervisor gives the front: resolved and checked, with absolute paths. Descriptors are numbers of
//! files that the supervisor has opened for it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::countries::Countries;
use crate::derived::Derived;
pub use crate::network::Network;
pub use crate::rate::RateLimit;
use crate::rules::rule::Rule;
use crate::rules::table::Table;
pub use compression::{Coding, Codings};

/// All settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// Port of the first listener for https.
    pub https_port: Option<u16>,
    /// Descriptor of the access log, if there is one.
    pub access_log: Option<i32>,
    /// Descriptor of the spool's file, if there is one.
    pub spool: Option<i32>,
    /// Format of the access log.
    pub access_log_format: LogFormat,
    /// Threads.
    pub threads: usize,
    /// The proxies whose forwarding headers are believed and passed on.
    pub proxies: Vec<Network>,
    /// The load balancers that begin each connection with a PROXY header.
    pub proxy_protocol: Vec<Network>,
    /// Which forwarding headers these proxies write.
    pub proxy_headers: ProxyHeaders,
    /// Limits.
    pub limits: Limits,
    /// Whether HTTP/2 is spoken.
    pub http2: bool,
    /// Streams of an HTTP/2 connection at once.
    pub http2_streams: u64,
    /// Fields of a head over HTTP/2, with each crumb of Cookie.
    pub http2_fields: u64,
    /// Bytes of a head over HTTP/2, as HTTP/1.1 would write it.
    pub http2_head: u64,
    /// Bytes that HTTP/2 may hold for clients that do not read.
    pub http2_memory: u64,
    /// Whether the applications are under development: the front asks what has changed.
    pub is_dev: bool,
    /// The applications, in the supervisor's order.
    pub applications: Vec<Application>,
    /// How many tables of countries there are. Their files come with the settings.
    pub country_tables: usize,
    /// These tables, read by [`Settings::take_countries`].
    #[serde(skip)]
    pub countries: Vec<Arc<Countries>>,
}

impl Settings {
    /// Compiles the rules of all applications. They have been checked before, so a failure is a fault.
    pub fn compile(&mut self) -> Result<(), String> {
        for application in &mut self.applications {
            application.table = Table::new(&application.route)?;
        }
        Ok(())
    }

    /// Reads the tables of countries.
    pub fn take_countries(&mut self, files: &[OwnedFd]) -> io::Result<()> {
        self.countries =
            files.iter().map(|file| Countries::from_file(file).map(Arc::new)).collect::<io::Result<_>>()?;
        Ok(())
    }
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFormat {
    /// The combined format, followed by the duration.
    #[default]
    Combined,
    /// An object of JSON per line.
    Json,
}

/// The headers by which proxies name the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyHeaders {
    /// X-Forwarded-For, -Proto, -Port.
    #[default]
    XForwarded,
    /// Forwarded.
    Forwarded,
}

/// Which symbolic links are followed that lead out of the root and the directories of `follow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Links {
    /// Those whose owner owns what they name, and root's own ([`crate::route::links`]).
    #[default]
    Owner,
    /// None.
    Inside,
}

/// The rules of the cache: [`cache::Rules`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheRules {
    /// Only what says that it may be shared.
    #[default]
    Safe,
    /// RFC 9111.
    Rfc9111,
}

impl From<CacheRules> for cache::Rules {
    fn from(rules: CacheRules) -> cache::Rules {
        match rules {
            CacheRules::Safe => cache::Rules::Safe,
            CacheRules::Rfc9111 => cache::Rules::Rfc9111,
        }
    }
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Names its socket. The sockets come with the settings, in the order of their listeners.
    pub id: u32,
    /// Whether it is a unix socket.
    pub unix: bool,
    /// Whether it is a metrics listener.
    pub admin: bool,
    /// Whether its clients speak TLS.
    pub tls: bool,
}

/// Limits and time-outs; times in milliseconds. docs/reference/configuration.md has the defaults.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Time for a request head, and idle time of a kept connection.
    pub header_timeout_ms: u64,
    /// Time between two parts of a request body.
    pub body_timeout_ms: u64,
    /// Time in which a client must take some of its response.
    pub send_timeout_ms: u64,
    /// Time for a handshake of TLS.
    pub handshake_timeout_ms: u64,
    /// Connections at once.
    pub max_connections: usize,
    /// Connections of one client address; 0: any number.
    pub client_connections: usize,
    /// What the front may hold of responses for slow clients.
    pub spool: SpoolLimits,
    /// What the front keeps of files, all threads together.
    pub file_cache: FileCacheLimits,
}

/// What is kept of files that were sent; a limit of 0: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCacheLimits {
    /// Files that are held open.
    pub files: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the largest file that is held in memory.
    pub body: u64,
    /// How long a file is held, and how long it is believed that it may be sent.
    pub time: std::time::Duration,
}

impl FileCacheLimits {
    /// The part of one of so many threads.
    pub fn share(self, threads: usize) -> FileCacheLimits {
        let threads = threads.max(1) as u64;
        FileCacheLimits { files: self.files / threads, memory: self.memory / threads, ..self }
    }
}

/// Bytes of responses that their clients have not taken yet; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolLimits {
    /// Of one response in memory.
    pub memory: u64,
    /// Of all responses in memory.
    pub memory_total: u64,
    /// Of one response in the file.
    pub disk: u64,
    /// Of all responses in the file.
    pub disk_total: u64,
}

impl SpoolLimits {
    /// Whether nothing is held.
    pub const fn is_off(&self) -> bool {
        self.memory == 0 && self.disk == 0
    }
}

/// The document root of a release that was served before. Files with a fingerprint in their names stay reachable there for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerRoot {
    /// The directory, absolute and resolved.
    pub root: PathBuf,
    /// Until when, in seconds since 1970.
    pub until: u64,
}

/// One application.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Application {
    /// For messages and logs.
    pub name: String,
    /// Id of the generation whose lanes take its requests.
    pub generation: u32,
    /// Document root, absolute and resolved.
    pub root: PathBuf,
    /// Document roots of releases that were served before, the last one first.
    #[serde(default)]
    pub former_roots: Vec<FormerRoot>,
    /// The phar that scripts are run from. The root is a directory into which it was unpacked.
    #[serde(default)]
    pub phar: Option<Phar>,
    /// Other directories that symbolic links in the root may lead to, resolved.
    pub follow: Vec<PathBuf>,
    /// Which symbolic links are followed elsewhere.
    pub links: Links,
    /// The number of the user that PHP runs as.
    pub php_user: u32,
    /// Directories whose files scripts may name by X-Sendfile, resolved.
    pub x_sendfile: Vec<PathBuf>,
    /// Directories whose files scripts may name by X-Accel-Redirect, resolved, by the prefixes that stand for them.
    pub x_accel_redirect: BTreeMap<String, PathBuf>,
    /// Path of the front controller below the root, for example `index.php`.
    pub front_controller: Option<String>,
    /// Names of a directory's index, also of the root's; `None`: [`crate::route::INDEX`], and the root is the front controller's.
    pub index: Option<Vec<String>>,
    /// Lower-case host names; `*.example` for all below. Empty: any.
    pub hosts: Vec<String>,
    /// Whether files that no site wants sent are denied ([`crate::rules::denials`]).
    pub default_denials: bool,
    /// Directories below which files with a fingerprint in their names may be kept for ever.
    pub fingerprinted: Vec<String>,
    /// The rules of the configuration, then those of the preset.
    pub route: Vec<Rule>,
    /// The same, compiled by [`Settings::compile`].
    #[serde(skip)]
    pub table: Table,
    /// Workers of each lane, at most.
    pub workers: usize,
    /// Workers of each lane, at least.
    pub min_workers: usize,
    /// Workers of all lanes together.
    pub max_workers: Option<usize>,
    /// Paths whose requests run in classic mode, and all below them.
    pub classic_paths: Vec<String>,
    /// Requests that warm a generation up before it takes clients' requests.
    pub warmup: Vec<Warmup>,
    /// Path that responds while there are workers.
    pub ping_path: Option<String>,
    /// Path that responds with the workers' state.
    pub status_path: Option<String>,
    /// Limits of a request.
    pub limits: RequestLimits,
    /// Bytes of stored responses; 0: no cache.
    pub cache_memory: u64,
    /// Whether purges are passed on to other nodes.
    #[serde(default)]
    pub shares_purges: bool,
    /// Bytes of the largest response that is stored.
    pub cache_object: u64,
    /// The rules of the cache.
    pub cache_rules: CacheRules,
    /// The cookies that tell visitors apart; `None`: each does.
    pub cache_cookies: Option<Vec<String>>,
    /// Scripts that know whether anything below a path has changed.
    pub validators: BTreeMap<String, String>,
    /// Headers that the front derives from each request.
    pub derive: Vec<Derived>,
    /// Whether the holes of pages are filled.
    pub esi: bool,
    /// Codings by which responses are compressed, the preferred one first.
    pub compression: Codings,
    /// Whether compressed files beside files are sent in their place.
    pub precompressed: bool,
    /// Who may purge by the methods of other caches.
    pub purge_from: Vec<Network>,
    /// How often a client may ask for a path.
    pub rate_limits: Vec<RateLimit>,
    /// Limits for paths and all below them; the longest path that fits counts.
    pub paths: Vec<(String, RequestLimits)>,
    /// Whether requests in clear are redirected to https; `None`: those to hosts that have a certificate here.
    pub https_redirect: Option<bool>,
    /// Value of the header Strict-Transport-Security.
    pub hsts: Option<String>,
    /// Whether responses say how long they took.
    pub server_timing: bool,
    /// After how long the supervisor is told that a request is slow, in milliseconds; 0: never.
    pub slow_ms: u64,
    /// Bytes of body; `None`: what PHP's post_max_size says.
    pub max_body: Option<u64>,
}

/// A phar that scripts are run from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phar {
    /// The root as PHP has it: `phar:///srv/app.phar/public`.
    pub scripts: PathBuf,
    /// The directory that its file lies in.
    pub directory: PathBuf,
    /// The path of its stub as a script, `/app.phar`, if the root is the whole phar.
    pub stub: Option<String>,
}

impl Settings {
    /// The port by which the visitors of an application come, if they come by https.
    pub fn https_port_of(&self, application: &Application) -> Option<u16> {
        application.https_redirect.unwrap_or(true).then_some(self.https_port)?
    }
}

impl Application {
    /// Whether the number of its workers changes.
    pub fn is_elastic(&self) -> bool {
        self.min_workers < self.workers || self.max_workers.is_some()
    }
}

/// Limits of a request; times in milliseconds. 0 means no limit, except for `places` and `queue_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLimits {
    /// A request is refused if its lane has this many requests, waiting ones included.
    pub places: usize,
    /// How long it may wait for a worker.
    pub queue_ms: u64,
    /// How long PHP may take; then it is told to end the request.
    pub soft_ms: u64,
    /// How long PHP may take; then its worker is killed.
    pub hard_ms: u64,
    /// KiB of memory of its own that its worker may hold; then it is killed.
    pub memory_kib: u64,
    /// Requests of one client address that may run or wait at once.
    pub client_requests: usize,
}

/// A request to warm an application up with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmup {
    /// The method.
    pub method: String,
    /// The target, with the query.
    pub path: String,
    /// The headers by name.
    pub headers: BTreeMap<String, String>,
}

impl Warmup {
    /// The page at this path.
    pub fn page(path: &(impl ToString + ?Sized)) -> Warmup {
        Warmup { method: "GET".to_owned(), path: path.to_string(), headers: BTreeMap::new() }
    }
}
