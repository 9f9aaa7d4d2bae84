//! Every option, one row each. `option_table.rs` says what a row is; `scripts/references` writes the reference.

mod authority;
mod derived_headers;
mod readers;
mod released;
mod routes;
mod rule_limits;
mod scripts;
mod upstreams;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipc::control::Isolation;
use routing::derived::Derived;
use routing::rules::rule::Rule;
use routing::settings::{CacheRules, Codings, Links, LogFormat, Network, ProxyHeaders, RateLimit, Settings, Warmup};
use toml::de::DeTable;

use super::Kind::{Number, Rates, Requests, Rules, Signed, Size, Switch, Table, Text, Texts, Time};
use super::option_table::{Options, option_table};
use super::reader::{File, Given, Places};
use super::value::Value;
use super::{Capabilities, Change, ClientCertificate, Mode, Row, WantedPhp, WarmupFailure, cpus, sized};
use crate::exit::Failure;
use crate::root::Root;
use derived_headers::derive;
use readers::{
    data_memory, directories, environment, file, fingerprinted, hosts, hsts, http2_head, index, log_target, logins,
    networks, optional_file, path, path_in_part, path_limits, paths_in_part, permissions, php, preset, real_paths,
    root, server_networks, url_path, url_paths, validators,
};
use released::{pool, release_keys, writable};
use routes::routes;
use scripts::{front_controller, modes};

pub use authority::Acme;
#[cfg(test)]
pub use readers::PRESETS;
pub use readers::resolve;
pub use released::Unpacked;
pub use routes::read_rules;
pub use scripts::{missing, refused};

const DAY: u64 = 86400;

option_table! {
    /// The configuration. It is complete but for users and descriptors.
    pub struct Config => Settings {
        listen: Vec<String> = vec!["127.0.0.1:8080".to_owned()], "[\"127.0.0.1:8080\"]", Texts, Reload,
            "Addresses: http://HOST:PORT, https://HOST:PORT, or unix:/PATH. HOST:PORT alone is http. PORT alone is 127.0.0.1:PORT; \
             *:PORT and :PORT are all addresses, IPv4 and IPv6. https takes a `[[certificate]]` (docs/guides/tls.md).";
        admin_listen: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Addresses of the metrics listener, as in `listen`, without https: /healthz, /readyz and /metrics (docs/operations/monitoring.md). Whoever \
             reaches them may read them.";
        socket_mode: u32 = 0o666, "\"0666\"", Text, Restart,
            "Permissions of unix sockets, in octal. They decide which local users may connect.", by permissions;
        socket_owner: Option<String> = None, "who starts the server", Text, Restart,
            "Owner of unix sockets. An owner other than the server's user needs root.";
        socket_group: Option<String> = None, "the owner's", Text, Restart,
            "Group of unix sockets.";
        name: String = String::new(), "the first address, with - for other signs than letters, digits and dots", Text, Restart,
            "Names the state directory. Two servers on one machine need two names.";
        state_dir: Option<PathBuf> = None, "/run/reprise/NAME; without root $XDG_RUNTIME_DIR/reprise/NAME, or /tmp/reprise-UID/NAME", Text, Restart,
            "Directory for lock, process id and control socket, removed at a clean end. It is created with mode 0700. Its \
             path has 90 bytes at most.", by path;
        conf_d: String = "conf.d".to_owned(), "\"conf.d\", if there is such a directory", Text, Reload,
            "Directory whose files *.toml describe further applications; \"\" for none. Relative paths start at the \
             directory of the configuration file. Two servers whose configuration files lie side by side need two directories.";
        access_log: String = "stdout".to_owned(), "\"stdout\"", Text, Restart,
            "\"stdout\", \"off\" or a file; SIGUSR1 opens it again.", by log_target;
        access_log_format: LogFormat = LogFormat::Combined, "\"combined\"", Text, Restart,
            "\"combined\": the combined format, then the duration in seconds. \"json\": one object per line, with PHP's \
             processor time and memory (docs/reference/logs.md).", to front;
        proxies: Vec<Network> = Vec::new(), "[]", Texts, Reload,
            "Addresses and networks of proxies (10.0.0.0/8, unix:). Their forwarding headers say who the client is and \
             what it asked for; PHP sees that in $_SERVER. Such headers from others are dropped.", by networks, to front;
        proxy_headers: ProxyHeaders = ProxyHeaders::XForwarded, "\"x-forwarded\"", Text, Reload,
            "Which headers the proxies write: \"x-forwarded\" (X-Forwarded-For, -Proto, -Port) or \"forwarded\" (RFC \
             7239). The other kind can only come from a client, and is dropped.", to front;
        proxy_protocol: Vec<Network> = Vec::new(), "[]", Texts, Reload,
            "Addresses and networks of load balancers that begin each connection with a PROXY header, version 1 or 2 \
             (docs/guides/load-balancer.md). A connection of these without one is closed; a header from others is a \
             malformed request. Not for `admin_listen`.", by networks, to front;
        front_user: Option<String> = None, "reprise if there is such a user, else nobody", Text, Restart,
            "User of the HTTP front if the server starts as root. This user must be able to read static files.";
        front_threads: usize = (cpus() / 4).clamp(1, 16), "one per four CPUs", Number(1, 16), Restart,
            "Threads of the HTTP front.";
        max_connections: Option<u64> = None, "65536; one per 128K of memory at most, and no more than open files allow", Number(1, 1_000_000), Restart,
            "Most connections at once. Further ones wait in the kernel.";
        client_connections: u64 = 0, "0", Number(0, 1_000_000), Reload,
            "Most connections at once from one client address (for IPv6 from one /64); 0: no limit. Further ones are \
             closed at once, and counted. Declared `proxies`, unix sockets and `admin_listen` have no such limit.";
        header_timeout: Duration = Duration::from_secs(15), "\"15s\"", Time(1, DAY), Reload,
            "Longest time in which a client may send a request's head, and longest idle time of a kept connection.";
        body_timeout: Duration = Duration::from_secs(60), "\"60s\"", Time(1, DAY), Reload,
            "Longest time between two parts of a request's body. After that the response is 408.";
        send_timeout: Duration = Duration::from_secs(60), "\"60s\"", Time(1, DAY), Reload,
            "Time in which a client must read a part of its response. After that its connection is closed.";
        spool_memory: u64 = 1 << 20, "\"1M\"", Size, Reload,
            "Most bytes of one response that the front holds in memory for a client that takes it slower than PHP writes it \
             (docs/operations/spool.md); 0: none.";
        spool_memory_total: u64 = sized(64 << 20), "\"64M\", 1/16 of the memory at most", Size, Reload,
            "The same, of all responses together.";
        spool_disk: u64 = 256 << 20, "\"256M\"", Size, Reload,
            "Most bytes of one response that the front holds on disk for a slow client, after spool_memory; 0: none. With \
             more PHP waits for the client.";
        spool_disk_total: u64 = 2 << 30, "\"2G\"", Size, Reload,
            "The same, of all responses together.";
        spool_dir: Option<PathBuf> = None, "/var/tmp", Text, Restart,
            "Directory for the file of spool_disk, which has no name there. The server's user has to be able to write to \
             it; a file system in memory would count twice.", by path;
        file_cache_files: u64 = 1000, "1000", Number(0, 1_000_000), Reload,
            "Most files that the front holds open because they were sent a moment ago (docs/operations/files.md); 0: none.";
        file_cache_memory: u64 = sized(32 << 20), "\"32M\", 1/16 of the memory at most", Size, Reload,
            "Most memory for what the front holds of such files; 0 switches the cache off.";
        file_cache_body: u64 = 128 << 10, "\"128K\"", Size, Reload,
            "Largest file whose bytes are held in memory. Larger ones are held open, and read for each response.";
        file_cache_time: Duration = Duration::from_secs(1), "\"1s\"", Time(0, 3600), Reload,
            "How long a file is held. A file that was written to, replaced or removed is noticed at once. What is noticed only \
             after this time: a directory or link on the way to it that became another, if the same file is still found by \
             that way; and bytes that were written through a memory mapping.";
        tls_handshake_timeout: Duration = Duration::from_secs(10), "\"10s\"", Time(1, DAY), Reload,
            "Longest time from the beginning of an https connection to the end of its handshake. After that it is closed.";
        tls_ticket_keys: Option<PathBuf> = None, "keys of this server alone", Text, Reload,
            "File with keys of 80 bytes each (`openssl rand 80`) for tickets by which clients resume connections. Servers \
             behind one address share it. The first key encrypts, all keys decrypt; write a new one in front every few \
             hours. Without the file the server makes keys and replaces them by itself.", by path;
        drain_timeout: Duration = Duration::from_secs(30), "\"30s\"", Time(0, DAY), Reload,
            "Longest time that a stop waits for running requests.";
        shutdown_delay: Duration = Duration::ZERO, "\"0s\"", Time(0, DAY), Reload,
            "How long the server serves on after it was told to stop, while /readyz answers 503 and responses say `Connection: close`: the time in \
             which a load balancer finds out and sends its clients elsewhere. Then it drains. Another signal ends the delay.";
        release_dir: Option<PathBuf> = None, "/run/reprise_releases; without root below $XDG_RUNTIME_DIR", Text, Restart,
            "Directory into which releases are unpacked (docs/guides/releases.md), best a file system in memory. It has to be the same path on \
             all nodes, and where releases are built.", by path;
        release_state: Option<PathBuf> = None, "/var/lib/reprise/releases; without root below $XDG_DATA_HOME", Text, Restart,
            "Directory on a disk in which the files of releases are kept, so that a node starts without its pool.", by path;
        release_shared: Option<PathBuf> = None, "/var/lib/reprise/shared; without root below $XDG_DATA_HOME", Text, Restart,
            "Directory in which the directories of `release_writable` lie, below the application's name.", by path;
        release_user: Option<String> = None, "reprise-release", Text, Restart,
            "User of the processes that follow pools, fetch releases and unpack them, if the server starts as root. Nothing else may run as it.";
        release_node: Option<String> = None, "the machine's name", Text, Restart,
            "Name of this server among the nodes of its pools: letters, digits, dots, dashes and underlines.";
        http2: bool = true, "true", Switch, Reload,
            "Whether clients may speak HTTP/2. In clear they begin with its preface (\"prior knowledge\"). These options \
             count for new connections.", to front;
        http2_streams: u64 = 100, "100", Number(1, 10_000), Reload,
            "Most requests at once of an HTTP/2 connection. A client that begins more has to repeat them.", to front;
        http2_fields: u64 = 256, "256", Number(16, 10_000), Reload,
            "Most header fields of a request over HTTP/2; each pair of Cookie that is sent by itself counts. Beyond it the \
             response is 431.", to front;
        http2_head: u64 = 32 << 10, "\"32K\"", Size, Reload,
            "Largest head of a request over HTTP/2, as it would be over HTTP/1.1, where the limit is 32K; 1K to 64K, of which \
             PHP gets 32K at most. Beyond it the response is 431.", by http2_head, to front;
        http2_memory: u64 = sized(128 << 20), "\"128M\", 1/16 of the memory at most", Size, Reload,
            "Most memory that requests and responses of all HTTP/2 connections hold for clients that do not read. Beyond it \
             each connection still has one response at a time, and those that have read nothing for a second and hold more \
             than 64 KiB are closed.", to front;
    }
    beside {
        /// At least one.
        applications: Vec<Application> = Vec::new();
        /// At least one, if an address is https.
        certificates: Vec<Certificate> = Vec::new();
        /// Whether its name is written, not taken from its first address.
        is_named: bool = false;
        /// The authority that issues certificates.
        acme: Acme = Acme::defaults();
        /// Whether it is a server of development (`reprise dev`).
        is_dev: bool = false;
    }
}

option_table! {
    /// One application.
    pub struct Application => routing::settings::Application {
        name: String = String::new(), "from `root` as it is written", Text, Reload,
            "Names the application in messages, logs, status, metrics and commands. Under another name it is another application: an empty \
             data cache, other keys in data_cache_store, no releases, generations from 1. Without it the name is the last directory of `root`, links not \
             followed, but for public, public_html, web, htdocs, httpdocs, current, live, latest, and releases with what lies in it; \
             applications that would have one name get the directory before, too (a/site, b/site).", to front;
        release_pool: Option<String> = None, "none: the application lies in `root`", Text, Reload,
            "Where the application's releases come from: a directory, valkey://HOST:6379 (redis://; valkeys:// by TLS), or https://HOST/PATH \
             (docs/guides/releases.md). `root` is then a path in the release: \"public\", or \".\".", by pool;
        release_keys: Vec<String> = Vec::new(), "[]: only of a directory on this machine, unsigned", Texts, Reload,
            "Public keys whose signatures are taken, as `reprise release keygen` prints them.", by release_keys;
        release_ca: Option<PathBuf> = None, "the system's authorities", Text, Reload,
            "Certificates of the authorities that the pool's certificate is checked against, in PEM.", by optional_file;
        release_memory: u64 = 1 << 30, "\"1G\"", Size, Reload,
            "Most bytes of all unpacked releases of the application together, and of one. The oldest ones go; the one that is served and the \
             one before stay.";
        release_keep: u64 = 3, "3", Number(2, 50), Reload,
            "Releases that stay unpacked, the one that is served included.";
        release_uncertain: Duration = Duration::from_secs(30), "\"30s\"", Time(0, 3600), Reload,
            "Longest time for which the server is unready because it cannot know which release the other nodes serve. Then it serves what it has.";
        release_writable: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Directories of the release to which the application may write, shared by all of its releases: [\"public/uploads\"]. \
             Everything else is read-only.", by writable;
        asset_grace: Duration = Duration::from_secs(3600), "\"1h\"", Time(0, 30 * DAY), Reload,
            "How long files with a fingerprint in their names stay reachable when a release follows that does not have them.";
        root: Root = Root::default(), "required", Text, Reload,
            "Document root: a directory, a phar, or a directory in a phar (docs/guides/phar.md). Relative paths start at the directory of the \
             configuration file.", by root;
        watch: bool = false, "false", Switch, Reload,
            "Whether Reprise reloads by itself, within a second or two, when the root's symbolic link leads elsewhere or \
             a file that opcache has loaded changes.";
        watch_except: Vec<PathBuf> = Vec::new(), "[]", Texts, Reload,
            "Directories whose files may change without a reload, such as caches of PHP files that the application \
             writes. Relative paths start at the directory of the configuration file.", by paths_in_part;
        follow: Vec<PathBuf> = Vec::new(), "[]", Texts, Reload,
            "Directories outside the root that symbolic links may lead to, whoever owns link and target; [\"/\"]: anywhere.", by real_paths, to front;
        links: Links = Links::Owner, "\"owner\"", Text, Reload,
            "Which symbolic links may lead out of the root and the directories of `follow`: \"owner\" (those that have the owner of what they \
             name, and root's if PHP's user cannot write to the directory of what they name) or \"inside\" (none). What is not followed gets \
             403 (docs/guides/routing.md#symbolic-links).", to front;
        x_sendfile: Vec<PathBuf> = Vec::new(), "[]", Texts, Reload,
            "Directories whose files a script may have sent by the header X-Sendfile (docs/guides/sent-files.md). The \
             front's user must be able to read them. Without this option the header goes to the client.", by real_paths, to front;
        x_accel_redirect: BTreeMap<String, PathBuf> = BTreeMap::new(), "{}", Table, Reload,
            "Directories whose files a script may have sent by the header X-Accel-Redirect, by the path that stands for \
             them: x_accel_redirect.\"/protected\" = \"/srv/files\". Without this option the header goes to the client.", by directories, to front;
        front_controller: Option<String> = None, "\"index.php\" if the root has one", Text, Reload,
            "Script below the root that gets all paths without a file; \"\" for none.", by front_controller, to front;
        index: Option<Vec<String>> = None, "[\"index.php\", \"index.html\"]; the root is the front controller's", Texts, Reload,
            "Names of the file that responds for a directory, the first that exists, also for the root; [] for none. At most 16. \
             Without such a file the directory is the front controller's.", by index, to front;
        default_denials: bool = true, "true", Switch, Reload,
            "Whether files that no site wants sent get 403: databases, dumps, private keys, kept copies, Composer's files \
             (docs/guides/routing.md#default-denials). Hidden files and PHP's source are never sent.", to front;
        fingerprinted: Option<Vec<String>> = None, "what the preset says", Texts, Reload,
            "Paths below which files with a fingerprint of their content in their names (app.3f2a9c1b.js, x-BxY3kd9z.css) are sent \
             with Cache-Control: public, max-age=31536000, immutable (docs/operations/files.md#names-with-a-fingerprint); [] for none.", by fingerprinted;
        route: Vec<Rule> = Vec::new(), "[]", Rules, Reload,
            "Rules, matched in order: which path is denied, redirected, rewritten, run by which script, guarded by a \
             password, sent with which headers. Each is a table [[application.route]] (docs/guides/routing.md#rules).", by routes, to front;
        preset: Option<String> = None, "what the tree says", Text, Reload,
            "What usual configurations of nginx deny and rewrite for an application, behind those of `route`: \"wordpress\", \"mediawiki\" and \
             others (docs/guides/routing.md#presets); \"\" for none.", by preset;
        hosts: Vec<String> = Vec::new(), "[] (any host)", Texts, Reload,
            "Host names; \"*.example.org\" matches all names below. Other hosts get 421. Snapshots per host \
             (docs/guides/snapshot.md) exist for names without a pattern.", by hosts, to front;
        user: Option<String> = None, "owner of the root; www-data if that is root", Text, Reload,
            "User of PHP's processes if the server starts as root; never root.";
        workers: Option<usize> = None, "`max_workers`; four per CPU, one per 64M of memory at most", Number(1, 1024), Reload,
            "PHP workers of each lane. Each runs one request at a time. Without `max_workers`, classic mode beside a \
             snapshot lane has at most four per CPU, and lanes of scripts that `mode` does not name share this number by \
             need.";
        min_workers: Option<usize> = None, "as `workers`; 1 with `max_workers`", Number(1, 1024), Reload,
            "Workers of each lane that always run; with `max_workers` at most that number divided by the number of lanes. \
             If it is lower than `workers`, more workers start within some 50 ms when requests wait. One worker a second \
             ends when no request has waited for ten seconds, or when other lanes need workers.";
        max_workers: Option<usize> = None, "any number", Number(1, 1024), Reload,
            "Most PHP workers of all lanes of a generation together. A lane with waiting requests takes the places of \
             idle workers of other lanes. If all lanes have waiting requests, each gets the same number. A busy worker \
             ends after its request. Each lane has at least one worker, so the limit may be exceeded for a while. During \
             a reload there are two generations.", to front;
        kept_connections: u64 = 0, "0", Number(0, 1024), Reload,
            "How many workers of each snapshot lane keep the connections open that their hooks have opened (docs/guides/connections.md). \
             0: none. More workers open their own for each request. Each lane has so many connections to each server, and twice as many \
             during a reload: stay below the server's own limit.";
        kept_networks: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Addresses and networks of servers to which connections may be kept, beside this machine's own: [\"10.0.0.0/8\"]. What is sent there is \
             not encrypted.", by server_networks;
        limits: BTreeMap<String, RequestLimits> = BTreeMap::new(), "{}", Table, Reload,
            "Other values of request_timeout, soft_timeout, request_memory, queue, queue_timeout and client_requests for \
             a path and all paths below it. The longest matching path counts: limits.\"/export\" = { request_timeout = \
             \"10m\", queue = 4 }. `queue` is then the number of requests of the lane that may wait when a request for \
             the path comes. `client_requests` counts only requests for the path.", by path_limits;
        rate_limits: Vec<RateLimit> = Vec::new(), "[]", Rates, Reload,
            "How often one client address (for IPv6 one /64) may ask for a path and all below it: \
             [{ path = \"/login\", rate = \"10/m\" }]. More get 429 (docs/operations/limits.md).", to front;
        cache_memory: u64 = sized(64 << 20), "\"64M\", 1/16 of the memory at most", Size, Reload,
            "Most memory for stored responses that many visitors get; 0 switches the cache off (docs/guides/cache.md).", to front;
        data_cache_memory: u64 = sized(64 << 20), "\"64M\", 1/16 of the memory at most", Size, Reload,
            "Memory of the data cache, in which reprise_cache() keeps PHP values for all workers of the application (docs/guides/data-cache.md): 1M \
             to 4G; 0 switches it off. Only what is used is taken. Another size starts with an empty cache.", by data_memory;
        data_cache_wait: Duration = Duration::from_secs(10), "\"10s\"", Time(0, 3600), Reload,
            "How long reprise_cache() waits for a value that another worker computes, until it computes it, too.";
        data_cache_store: Option<String> = None, "none: the cache is this server's alone", Text, Reload,
            "Store that the application's nodes share, so that a value is computed once for all of them and what one removes is gone on all: \
             \"valkey://USER:PASSWORD@HOST:6379/0\" or redis://; valkeys:// or rediss:// by TLS; valkey+unix:///PATH \
             (docs/guides/data-cache.md#several-nodes).";
        data_cache_secret: Option<String> = None, "required with data_cache_store", Text, Reload,
            "Signs what lies in data_cache_store, so that nobody who can write there can put values into PHP: at least 16 bytes, the same on all \
             nodes.";
        data_cache_staleness: Duration = Duration::from_secs(10), "\"10s\"", Time(1, 3600), Reload,
            "For how long a value may be given out when nothing is heard from data_cache_store, so that another node may have removed it.";
        data_cache_store_timeout: Duration = Duration::from_millis(250), "\"250ms\"", Time(0, 60), Reload,
            "How long data_cache_store may take to connect, and for each response. A request that finds it slower goes on without it.";
        data_cache_store_ca: Option<PathBuf> = None, "the system's authorities", Text, Reload,
            "Certificates of the authorities that data_cache_store's certificate is checked against, in PEM.", by optional_file;
        cache_object: u64 = 4 << 20, "\"4M\"", Size, Reload,
            "Largest body of a response that is stored. A larger one is passed on.", to front;
        cache_rules: CacheRules = CacheRules::Safe, "\"safe\"", Text, Reload,
            "\"safe\" stores only what says that shared caches may keep it, and lets no client ask for something newer; \"rfc9111\" \
             follows RFC 9111 in both (docs/guides/cache.md#rules).", to front;
        cache_cookies: Option<Vec<String>> = None, "none: every cookie does", Texts, Reload,
            "Names of the cookies that tell visitors apart: [\"session\", \"cart_*\"]. A request that has only others counts as one \
             without a cookie, and scripts see none if the response is to be shared (docs/guides/cache.md#visitors). \
             [] if no cookie matters.", to front;
        validators: BTreeMap<String, String> = BTreeMap::new(), "{}", Table, Reload,
            "Scripts that know whether a page has changed, by path: validators.\"/blog\" = \"/changed.php\". A GET with If-None-Match or \
             If-Modified-Since for /blog and all paths below it runs that script first: if it answers 304, the page's own script does not run \
             (docs/guides/cache.md#304-without-making-the-page).", by validators, to front;
        derive: Vec<Derived> = Vec::new(), "{}", Table, Reload,
            "Headers that are made of each request, with a few values each, so that pages which name them in Vary are shared: derive.X-Device = \
             \"device\", derive.X-Language = \"language: de, en\", derive.X-Known = \"has cookie: session, cart_*\", derive.X-Country = \
             \"cookie country: de, at\", derive.X-Group = \"bucket: 4\", derive.X-GeoIP-Country = { file = \"/var/lib/GeoIP/GeoLite2-Country.mmdb\", \
             countries = [\"DE\", \"AT\"] } (docs/guides/cache.md#derived-headers). A reload reads the file again.", by derive, to front;
        esi: bool = false, "false", Switch, Reload,
            "Whether `<esi:include src=…/>` in responses with Surrogate-Control: content=\"ESI/1.0\" is replaced by what that URL of the \
             same host responds. Scripts learn of it by Surrogate-Capability (docs/guides/cache.md#pages-with-holes).", to front;
        purge_from: Vec<Network> = Vec::new(), "[]", Texts, Reload,
            "Addresses and networks that may purge by requests with the methods PURGE, BAN, PURGETAGS and PURGEKEYS, as plugins for \
             Varnish send them (docs/guides/cache.md#purges). Others get 403. [] leaves these methods to the application.", by networks, to front;
        compression: Codings = Codings::NONE, "[]: nothing is compressed", Texts, Reload,
            "Codings by which responses of PHP and of upstreams are compressed, the preferred one first: [\"zstd\", \"br\", \"gzip\"] \
             (docs/guides/compression.md).", to front;
        precompressed: bool = false, "false", Switch, Reload,
            "Whether app.js.zst, app.js.br or app.js.gz is sent in the place of app.js to clients that accept it, if it is not older \
             (docs/guides/compression.md#files).", to front;
        slow_timeout: Duration = Duration::ZERO, "0 (never)", Time(0, DAY), Reload,
            "Wall-clock time after which the log shows a request once, with its target and PHP's backtrace, while it \
             runs.";
        slow_headers: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Request headers that the log shows with a slow request: [\"User-Agent\"].";
        https_redirect: Option<bool> = None, "true for hosts with a certificate, if `listen` has https", Switch, Reload,
            "Whether requests in clear are redirected to https: GET and HEAD with 301, others with 308. \
             /.well-known/acme-challenge/ is not, and a proxy's requests are only if it says that its client came in clear.", to front;
        hsts: Option<String> = None, "none", Text, Reload,
            "Value of Strict-Transport-Security in responses by https: \"max-age=31536000; includeSubDomains\". Browsers then \
             ask for the host by https alone, for so many seconds. A header of the application's own wins.", by hsts, to front;
        server_timing: bool = false, "false", Switch, Reload,
            "Whether responses have a header Server-Timing with the time that the request waited and the time that PHP \
             took. Clients see it.", to front;
        max_body: Option<u64> = None, "php.ini's post_max_size", Size, Reload,
            "Longest request body in bytes; a longer one gets 413. 0: no limit. If this option is missing, PHP decides \
             for scripts with a .user.ini in their directory or above it.", to front;
        mode: BTreeMap<String, Mode> = BTreeMap::new(), "{}", Table, Reload,
            "How a script runs: mode.\"index.php\" = \"auto\" (from a snapshot if it calls reprise_snapshot(), as a \
             worker script if it calls reprise_handle_request()), \"classic\" (neither), or \"snapshot\" or \"worker\" \
             (it boots before the server is ready; if the boot fails, the server does not start). Eight scripts of an \
             application at most run in another mode than classic: those that are named here, then those that are asked \
             for most (`lane_timeout`).", by modes;
        classic_paths: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Paths that run in classic mode, with all paths below them: \"/cart\" is /cart and /cart/checkout. For pages \
             in which `reprise verify` finds differences.", by url_paths, to front;
        isolation: Isolation = Isolation::Auto, "\"auto\"", Text, Reload,
            "How requests from a snapshot are isolated: \"rewind\" (memory is restored after each), \"fork\" (a process \
             for each) or \"auto\" (rewind if the kernel supports it and requests leave no threads; if not, \"fork\" or \
             classic mode, whichever turns out to be cheaper). A rewind finds what \
             was written by \"userfaultfd\" (Linux 6.7) or by \"soft-dirty\" bits (older kernels, and containers that \
             forbid userfaultfd): the first that works, or the one that is named here.";
        scrub: bool = false, "false", Switch, Reload,
            "Whether a rewind also fills with zeroes what a request has written to pages of PHP's heap that were free at \
             the snapshot. Without it those bytes stay in free memory until PHP uses it again, as under PHP-FPM.";
        warmup: Vec<Warmup> = Vec::new(), "[]", Requests, Reload,
            "Requests that the server makes to the application before it is ready, and to new code before a reload \
             switches to it. They go to the first host, by https if visitors come by that, unless their headers name another \
             host (Host) or scheme (X-Forwarded-Proto). A boot gets them from reprise_warmup_requests(), and can run them before its snapshot.", to front;
        warmup_failure: WarmupFailure = WarmupFailure::Refuse, "\"refuse\"", Text, Reload,
            "What a 5xx response to a warm-up request does: \"refuse\" (the server does not start; a reload is refused) \
             or \"log\".";
        verify_on_reload: bool = false, "false", Switch, Reload,
            "Whether the pages of `warmup` (those with GET and without Cookie and Authorization) are compared with the same pages in classic mode, as \
             `reprise verify` does it, before visitors come: at the start, and before a reload switches. A page that differs, or that could not be \
             compared, stays in classic mode, and the log says why (docs/guides/snapshot.md#compared-before-visitors-come).";
        verify_users: Vec<String> = Vec::new(), "[]: guests alone", Texts, Reload,
            "Two users as whom the same pages are compared too, by the request that logs each of them in: \
             [\"POST /login name=anna&password=secret\", \"$OTTO\"]. $NAME is the value of the server's own variable. The page of that path is asked for \
             first, and its hidden fields are sent along.", by logins;
        max_requests: u64 = 0, "0 (any number)", Number(0, 1_000_000_000), Reload,
            "Number of requests after which a worker is replaced, a tenth more or less. For code that leaks. Workers from \
             a snapshot keep nothing and ignore it.";
        max_age: Duration = Duration::ZERO, "0 (any)", Time(0, 30 * DAY), Reload,
            "Age at which a worker is replaced after its request, a tenth more or less. Workers from a snapshot ignore \
             it.";
        max_memory: u64 = 0, "0 (any)", Size, Reload,
            "Most private memory that a worker may hold after a request; a worker that holds more is replaced. Workers \
             from a snapshot ignore it, because their memory is restored.";
        boot_timeout: Duration = Duration::from_secs(60), "\"60s\"", Time(1, DAY), Reload,
            "Longest time a script may take to reach its snapshot or loop. After that its requests run in classic mode, \
             and Reprise tries again.";
        lane_timeout: Duration = Duration::from_secs(600), "\"10m\"", Time(1, DAY), Reload,
            "How often the requests of the eight lanes with a snapshot or a loop are compared with those of scripts and hosts \
             that found no lane. One that was asked for more than twice as often as a lane since then, and ten times at \
             least, takes its place, in a new generation. A lane that the configuration names is never replaced.";
        php: Option<WantedPhp> = None, "the newest that is installed", Text, Reload,
            "Version of PHP, such as \"8.4\". Its reprise-php has to be installed (docs/guides/php-versions.md).", by php;
        php_ini: Option<PathBuf> = None, "that of PHP's profile", Text, Reload,
            "A php.ini that replaces the profile's (/etc/php/8.4/fpm/php.ini with PHP 8.4); the profile's conf.d is still read. \
             Without this option, PHPRC in the server's environment may name a php.ini, or its directory, for all \
             applications.", by path_in_part;
        ini: BTreeMap<String, String> = BTreeMap::new(), "{}", Table, Reload,
            "php.ini settings; they win over php.ini. Scripts and .user.ini may change them. Error levels may be written \
             as in php.ini: \"E_ALL & ~E_DEPRECATED\".";
        admin_ini: BTreeMap<String, String> = BTreeMap::new(), "{}", Table, Reload,
            "php.ini settings that neither scripts nor .user.ini can change (PHP-FPM's php_admin_value).";
        env: BTreeMap<String, String> = BTreeMap::new(), "{}", Table, Reload,
            "Environment variables for PHP, besides USER and HOME. \"$NAME\" takes the value from the server's own \
             environment.", by environment;
        clear_env: bool = true, "true", Switch, Reload,
            "Whether the rest of the server's environment, which may contain secrets, is hidden from PHP.";
        decorate_output: bool = true, "true", Switch, Reload,
            "Whether lines that PHP's processes write to their standard output and standard error get time, level and application before them in the \
             log, and are escaped (docs/reference/logs.md#messages). false is for collectors that read JSON: a line is passed on as it is, so \
             scripts can write lines that look like the server's (PHP-FPM's decorate_workers_output = no).";
        rlimit_files: Option<u64> = None, "the server's hard limit", Number(1100, 1_048_576), Reload,
            "Most open files of each PHP process. Reprise's own descriptors have numbers above 1000 and need some room.";
        rlimit_core: Option<u64> = None, "what the server was started with", Size, Reload,
            "Largest core file of PHP in bytes; 0: none.";
        rlimit_processes: Option<u64> = None, "what the server was started with", Number(16, 1_048_576), Reload,
            "Most processes and threads of PHP's user, in all programs and applications of this user. A fork above the \
             limit fails. Each worker and each lane is a process; a reload has them twice.";
        priority: Option<i32> = None, "0", Signed(-20, 19), Reload,
            "Nice value of PHP's processes. A value below the server's needs root.";
        capabilities: Capabilities = Capabilities::Keep, "\"keep\"", Text, Reload,
            "Capabilities of programs that PHP starts: \"keep\" (a set-user-ID program such as sudo, or a mailer, has its \
             rights) or \"none\" (the bounding set is empty: such a program runs as its user, without root's \
             capabilities). \"none\" needs root with CAP_SETPCAP.";
        ping_path: Option<String> = None, "\"\" (none)", Text, Reload,
            "Path with the response \"pong\" while PHP workers run, else 503. For load balancers; open to all clients.", by url_path, to front;
        status_path: Option<String> = None, "\"\" (none)", Text, Reload,
            "Path of PHP-FPM's status page: text, ?json, ?openmetrics, and ?full with each worker. Only for clients on \
             this machine; others get 403.", by url_path, to front;
    }
    beside {
        /// Limits of a request.
        request: RequestLimits = RequestLimits::defaults();
        /// The root as it is written in the file.
        written_root: PathBuf = PathBuf::new();
        /// The release that it is, if it comes from a pool.
        unpacked: Option<Unpacked> = None;
        /// Where it is described.
        places: Places = Places::default();
        /// The rules of its preset.
        preset_rules: Vec<Rule> = Vec::new();
        /// Whether the preset was found, not configured.
        is_preset_found: bool = false;
        /// Whether the front controller was found, not configured.
        is_controller_found: bool = true;
        /// The page that errors get under development, as PHP code.
        error_page: Option<String> = None;
    }
}

option_table! {
    /// One certificate.
    pub struct Certificate => () {
        hosts: Vec<String> = Vec::new(), "the names in the certificate", Texts, Reload,
            "Host names that it is for; \"*.example.org\" stands for one label. A client gets the certificate for the name \
             that it asks for: that with the exact name, else that with the wildcard, else the first in the file.", by hosts;
        auto: bool = false, "false", Switch, Reload,
            "Whether Reprise has the certificate issued by the authority of `[acme]`, and renewed: one for each of `hosts` \
             (docs/guides/tls.md#automatic-certificates).";
        chain: PathBuf = PathBuf::new(), "required without `auto`", Text, Reload,
            "PEM file with the certificate and those that lead to its root, in this order. Relative paths start at the \
             directory of the configuration file. A changed file is noticed within ten seconds; `reprise reload \
             --certificates` reads all files at once.", by file;
        key: PathBuf = PathBuf::new(), "required without `auto`", Text, Reload,
            "PEM file with its private key. The user who starts the server has to be able to read it; the front's and \
             PHP's users need not.", by file;
        client_ca: Option<PathBuf> = None, "none: clients need no certificate", Text, Reload,
            "PEM file with the authorities whose certificates clients show. PHP finds them in $_SERVER[\"SSL_CLIENT_…\"].", by optional_file;
        client_certificate: ClientCertificate = ClientCertificate::Require, "\"require\"", Text, Reload,
            "With `client_ca`: \"require\" (a client without a certificate of these authorities is refused) or \"request\" \
             (a client may have none; a wrong one is refused).";
    }
    beside {
        /// Where it is described.
        place: String = String::new();
    }
}

option_table! {
    /// Limits of a request: options of an application, and of the paths in its `limits`.
    pub struct RequestLimits => () {
        queue: usize = 1024, "1024", Number(1, 3000), Reload,
            "Requests that may wait for a worker while all workers are busy. One more gets 503.";
        queue_timeout: Duration = Duration::from_secs(30), "\"30s\"", Time(1, DAY), Reload,
            "How long a request waits for a worker, then 503.";
        request_timeout: Duration = Duration::from_secs(300), "\"5m\"", Time(0, DAY), Reload,
            "Longest wall-clock time of a request in PHP. After that its worker is killed, and the client gets 504. 0: no limit.";
        soft_timeout: Duration = Duration::ZERO, "0 (none)", Time(0, DAY), Reload,
            "Wall-clock time after which PHP itself ends a request with a fatal error that names the line. PHP cannot end a \
             request that waits outside of PHP, for a database for example; request_timeout then ends it.";
        request_memory: u64 = 0, "0 (any)", Size, Reload,
            "Most memory that a worker may hold while it runs a request, without the memory of the process that it was forked \
             from (the snapshot's memory, if there is one). Checked four times a second. A worker that holds more is killed, and the client gets 502.";
        client_requests: usize = 0, "0 (any number)", Number(0, 1_000_000), Reload,
            "Most PHP requests at once from one client address, waiting ones included. One more gets 429.";
    }
    beside {}
}
