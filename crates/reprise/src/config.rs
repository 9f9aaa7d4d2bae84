//! Flags and file made into one configuration. A mistake in the file is named with its line and the nearest name.

mod file;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use front::settings::{LogFormat, Network, ProxyHeaders, Warmup};
use process::sys::ProcessLimits;
use wire::control::Isolation;

use crate::What;
use crate::discover;
use crate::exit::{Code, Failure};
use crate::options::{Kind, Scope, find};

/// What is to be served, complete but for what depends on users and descriptors.
#[derive(Debug)]
pub struct Config {
    /// Addresses as written.
    pub listen: Vec<String>,
    /// Addresses for health checks and metrics.
    pub admin_listen: Vec<String>,
    /// Names the state directory.
    pub name: String,
    /// Overrides where it is.
    pub state_dir: Option<PathBuf>,
    /// stdout, off or a path.
    pub access_log: String,
    /// Format of its lines.
    pub access_log_format: LogFormat,
    /// Which headers proxies write.
    pub proxy_headers: ProxyHeaders,
    /// Of unix sockets.
    pub sockets: crate::listen::Permissions,
    /// Whose forwarding headers are believed.
    pub proxies: Vec<Network>,
    /// User of the front.
    pub front_user: Option<String>,
    /// Threads of the front.
    pub front_threads: usize,
    /// Connections at once.
    pub max_connections: Option<u64>,
    /// As its row says; 0: any number.
    pub client_connections: u64,
    /// Time-outs.
    pub header_timeout: Duration,
    /// As its row says.
    pub body_timeout: Duration,
    /// As its row says.
    pub send_timeout: Duration,
    /// As its row says.
    pub drain_timeout: Duration,
    /// At least one.
    pub applications: Vec<Application>,
}

/// One application.
#[derive(Debug)]
pub struct Application {
    /// For messages.
    pub name: String,
    /// Absolute, resolved.
    pub root: PathBuf,
    /// As it stands in the file.
    pub written_root: PathBuf,
    /// A reload follows when that comes to lead elsewhere, and when loaded files change.
    pub watch: bool,
    /// Directories whose files may change; absolute.
    pub watch_except: Vec<PathBuf>,
    /// Below the root.
    pub front_controller: Option<String>,
    /// Nobody has named it: it was there.
    pub is_controller_found: bool,
    /// Lower-case.
    pub hosts: Vec<String>,
    /// As configured.
    pub user: Option<String>,
    /// Of each lane, at most.
    pub workers: Option<usize>,
    /// Of each lane, at least.
    pub min_workers: Option<usize>,
    /// Of all lanes.
    pub max_workers: Option<usize>,
    /// What a request may have.
    pub request: RequestLimits,
    /// The same of paths.
    pub path_limits: BTreeMap<String, RequestLimits>,
    /// As its row says; zero: never.
    pub slow_timeout: Duration,
    /// As its row says.
    pub slow_headers: Vec<String>,
    /// As its row says.
    pub server_timing: bool,
    /// As its row says.
    pub max_body: Option<u64>,
    /// Resolved.
    pub follow: Vec<PathBuf>,
    /// Read in place of the profile's; absolute.
    pub php_ini: Option<PathBuf>,
    /// php.ini settings.
    pub ini: BTreeMap<String, String>,
    /// php.ini settings that scripts cannot change.
    pub admin_ini: BTreeMap<String, String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Nothing else of the server's environment.
    pub clear_env: bool,
    /// Of its processes.
    pub limits: ProcessLimits,
    /// Answers while there are workers.
    pub ping_path: Option<String>,
    /// Answers with the state of the workers.
    pub status_path: Option<String>,
    /// How requests of snapshot lanes are kept apart.
    pub isolation: Isolation,
    /// Scripts (`/index.php`) whose mode is said outright.
    pub modes: BTreeMap<String, Mode>,
    /// As its row says.
    pub boot_timeout: Duration,
    /// As its row says.
    pub lane_timeout: Duration,
    /// As its row says; 0: any number.
    pub max_requests: u64,
    /// As its row says; zero: any.
    pub max_age: Duration,
    /// As its row says; 0: any number of bytes.
    pub max_memory: u64,
    /// As its row says.
    pub warmup: Vec<Warmup>,
    /// As the row of `warmup_failure` says.
    pub is_warmup_optional: bool,
    /// As its row says.
    pub classic_paths: Vec<String>,
}

/// What a request may have, each as its row says.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestLimits {
    /// Waiting requests.
    pub queue: usize,
    /// As its row says.
    pub queue_timeout: Duration,
    /// As its row says; zero: none.
    pub request_timeout: Duration,
    /// As its row says; zero: none.
    pub soft_timeout: Duration,
    /// Bytes; 0: any number.
    pub request_memory: u64,
    /// As its row says; 0: any number.
    pub client_requests: usize,
}

impl Application {
    /// Requests that there may be at once in a lane, waiting ones included.
    pub fn most_requests(&self) -> usize {
        let queues = self.path_limits.values().map(|limits| limits.queue);
        self.workers() + queues.fold(self.request.queue, usize::max)
    }

    /// Workers of each lane, at most.
    pub fn workers(&self) -> usize {
        self.workers.or(self.max_workers).unwrap_or(4 * cpus())
    }

    /// Workers of each lane that are always there.
    pub fn least_workers(&self) -> usize {
        let default = if self.max_workers.is_some() { 1 } else { self.workers() };
        self.min_workers.unwrap_or(default).min(self.workers())
    }
}

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// As it asks for.
    Auto,
    /// Never from a snapshot.
    Classic,
    /// From a snapshot, or the server does not start.
    Snapshot,
    /// In a loop of its own, or the server does not start.
    Worker,
}

/// CPUs this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The configuration of a command line.
pub fn load(what: &What) -> Result<Config, Failure> {
    let mut config = match (&what.config, &what.directory) {
        (Some(file), _) => file::read(file)?,
        (None, Some(directory)) => from_directory(directory)?,
        (None, None) => {
            return Err(
                Failure::new(Code::Usage, "serve", "wants a directory or --config FILE").hint("reprise serve .")
            );
        }
    };
    if !what.listen.is_empty() {
        config.listen.clone_from(&what.listen);
    }
    if let Some(target) = &what.access_log {
        config.access_log.clone_from(target);
    }
    for application in &mut config.applications {
        if let Some(workers) = what.workers {
            let Some(crate::options::Row { kind: Kind::Number(low, high), .. }) = find(Scope::Application, "workers")
            else {
                unreachable!("workers is a number");
            };
            if !(*low..=*high).contains(&workers) {
                return Err(Failure::new(Code::Usage, "--workers", format!("{workers} is not within {low} to {high}")));
            }
            application.workers = Some(workers as usize);
        }
        if let Some(mode) = what.mode {
            let Some(script) = &application.front_controller else {
                let why = format!("application '{}' has no front controller whose mode it could say", application.name);
                return Err(Failure::new(Code::Usage, "--mode", why)
                    .hint("mode.\"NAME.php\" = \"…\" in a configuration file says that of a script"));
            };
            application.modes.insert(format!("/{script}"), mode);
        }
        if let Some(user) = &what.user {
            application.user = Some(user.clone());
        }
        application.ini.extend(pairs("--ini", &what.ini)?);
        application.env.extend(pairs("--env", &what.env)?);
    }
    if config.listen.is_empty() {
        return Err(
            Failure::new(Code::Configuration, "listen", "names no address").hint("listen = [\"127.0.0.1:8080\"]")
        );
    }
    config.listen.iter().chain(&config.admin_listen).try_for_each(|address| crate::listen::check(address))?;
    if config.name.is_empty() {
        config.name =
            config.listen[0].chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    }
    if config.name.contains('/') || config.name.starts_with('.') {
        let why = "must be a plain name, without / and not beginning with a dot";
        return Err(Failure::new(Code::Configuration, format!("name \"{}\"", config.name), why));
    }
    check_together(&config)?;
    Ok(config)
}

fn pairs(flag: &str, texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let split = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(Code::Usage, flag, format!("'{text}' is not NAME=VALUE"))),
    };
    texts.iter().map(split).collect()
}

/// What no single option can have wrong.
fn check_together(config: &Config) -> Result<(), Failure> {
    let any = [String::from("any host")];
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for application in &config.applications {
        let hosts = if application.hosts.is_empty() { &any[..] } else { &application.hosts };
        for host in hosts {
            if let Some(other) = seen.insert(host, &application.name) {
                let why = format!("both '{other}' and '{}' answer for {host}", application.name);
                return Err(
                    Failure::new(Code::Configuration, "hosts", why).hint("give each application hosts of its own")
                );
            }
        }
        for (name, workers) in [("workers", application.workers), ("min_workers", application.min_workers)] {
            if let Some((workers, most)) = workers.zip(application.max_workers).filter(|(workers, most)| workers > most)
            {
                let why = format!(
                    "'{}' has {name} {workers} for each lane, and max_workers {most} for all",
                    application.name
                );
                return Err(Failure::new(Code::Configuration, "max_workers", why)
                    .hint(format!("leave {name} out, or raise max_workers")));
            }
        }
        if let Some(name) = application.admin_ini.keys().find(|name| application.ini.contains_key(*name)) {
            let why = format!("'{name}' of application '{}' stands in ini and in admin_ini", application.name);
            return Err(Failure::new(Code::Configuration, "admin_ini", why).hint("keep one of them"));
        }
        for (name, value) in application.ini.iter().chain(&application.admin_ini).chain(&application.env) {
            if name.is_empty() || name.contains(['=', '\n', '\0']) || value.contains(['\n', '\0']) {
                let why =
                    format!("'{name}' of application '{}' must be one line without '=' in its name", application.name);
                return Err(Failure::new(Code::Configuration, "ini or env", why));
            }
        }
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = config.applications.iter().find(|application| !names.insert(&application.name)) {
        let why = format!("two applications are named '{}'", twice.name);
        return Err(
            Failure::new(Code::Configuration, "name", why).hint("name = \"…\" below one of the [[application]]")
        );
    }
    Ok(())
}

fn defaults() -> Config {
    Config {
        listen: vec!["127.0.0.1:8080".to_owned()],
        admin_listen: Vec::new(),
        name: String::new(),
        state_dir: None,
        access_log: "stdout".to_owned(),
        access_log_format: LogFormat::Combined,
        proxy_headers: ProxyHeaders::XForwarded,
        sockets: crate::listen::Permissions::default(),
        proxies: Vec::new(),
        front_user: None,
        front_threads: (cpus() / 4).clamp(1, 16),
        max_connections: None,
        client_connections: 0,
        header_timeout: Duration::from_secs(15),
        body_timeout: Duration::from_secs(60),
        send_timeout: Duration::from_secs(60),
        drain_timeout: Duration::from_secs(30),
        applications: Vec::new(),
    }
}

fn application(root: PathBuf) -> Application {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    // "public" and its like say nothing; the directory above does.
    let name = match named(&root) {
        Some(name) if ["public", "web", "htdocs"].contains(&name.as_str()) => root.parent().and_then(named),
        other => other,
    };
    Application {
        name: name.unwrap_or_else(|| "app".to_owned()),
        front_controller: discover::front_controller(&root),
        is_controller_found: true,
        written_root: root.clone(),
        watch: false,
        watch_except: Vec::new(),
        root,
        hosts: Vec::new(),
        user: None,
        workers: None,
        min_workers: None,
        max_workers: None,
        request: RequestLimits {
            queue: 1024,
            queue_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(300),
            soft_timeout: Duration::ZERO,
            request_memory: 0,
            client_requests: 0,
        },
        path_limits: BTreeMap::new(),
        slow_timeout: Duration::ZERO,
        slow_headers: Vec::new(),
        server_timing: false,
        max_body: None,
        follow: Vec::new(),
        php_ini: None,
        ini: BTreeMap::new(),
        admin_ini: BTreeMap::new(),
        env: BTreeMap::new(),
        clear_env: true,
        limits: ProcessLimits::default(),
        ping_path: None,
        status_path: None,
        isolation: Isolation::Auto,
        modes: BTreeMap::new(),
        boot_timeout: Duration::from_secs(60),
        lane_timeout: Duration::from_secs(600),
        max_requests: 0,
        max_age: Duration::ZERO,
        max_memory: 0,
        warmup: Vec::new(),
        is_warmup_optional: false,
        classic_paths: Vec::new(),
    }
}

fn resolve(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// As far as it is there, without symbolic links; the rest as it is written.
fn resolve_in_part(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, resolved)) = found else { return absolute };
    let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
    // Without a slash at its end.
    resolved.join(rest).components().collect()
}

fn from_directory(directory: &Path) -> Result<Config, Failure> {
    let root = discover::document_root(directory)?;
    let root = resolve(&root).map_err(|why| Failure::new(Code::Permission, "document root", why))?;
    Ok(Config { applications: vec![application(root)], ..defaults() })
}
