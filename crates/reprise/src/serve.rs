//! `reprise serve`: everything that needs this user's rights is opened here, then the supervisor takes over.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use front::settings::{Limits, Listener, LogFormat, Settings};
use process::state::{self, StateDirectory};
use process::supervisor::{self, Outcome, Service, Supervisor};
use process::sys::FIRST_DESCRIPTOR;
use process::user::{self, Identity};
use wire::control::Isolation;

use crate::What;
use crate::config::{self, Config, Mode};
use crate::discover;
use crate::exit::{Code, Failure};
use crate::listen::{self, Bound};
use crate::version::{self, Php};

/// Descriptors of the front before the listeners: channel, lifeline, settings.
pub const BEFORE_LISTENERS: i32 = 3;
/// Descriptors this process and the front need beside connections.
const SPARE_FILES: u64 = 256;

/// Who runs what; `None` everywhere without root.
pub struct People {
    /// The front's user.
    pub front: Option<Identity>,
    /// Each application's user and why.
    pub applications: Vec<Option<(Identity, &'static str)>>,
}

/// Chooses users and checks that they reach what they need.
pub fn choose_users(config: &Config) -> Result<People, Failure> {
    let permission = |why: String| Failure::new(Code::Permission, "users", why);
    let front = user::for_front(config.front_user.as_deref()).map_err(permission)?;
    let mut applications = Vec::new();
    for application in &config.applications {
        let chosen = user::for_application(application.user.as_deref(), &application.root)
            .map_err(|why| permission(format!("application '{}': {why}", application.name)))?;
        let entry = match &application.front_controller {
            Some(script) => application.root.join(script),
            None => application.root.clone(),
        };
        if let Some(obstacle) = chosen.as_ref().and_then(|(user, _)| user::obstacle(user, &entry)) {
            let hint =
                "PHP never runs as root: move the application, open its directories, or name a user that may read it";
            return Err(permission(format!("application '{}': {obstacle}", application.name)).hint(hint));
        }
        if let Some(obstacle) = front.as_ref().and_then(|user| user::obstacle(user, &application.root)) {
            let hint = "the front serves static files: open the directories to it, or name another front_user";
            return Err(permission(format!("application '{}': {obstacle}", application.name)).hint(hint));
        }
        if let Some(why) = application.limits.forbidden() {
            return Err(permission(format!("application '{}': {why}", application.name)));
        }
        applications.push(chosen);
    }
    Ok(People { front, applications })
}

/// Serves until told to stop.
pub fn run(what: &What, audit: bool) -> Result<Code, Failure> {
    let config = config::load(what)?;
    let internal = |what: &'static str| move |error: std::io::Error| Failure::new(Code::Internal, what, error);
    let php = version::find_php()?;
    let people = choose_users(&config)?;
    let files = process::sys::raise_file_limit().map_err(internal("limit of open files"))?;
    let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
    for address in &config.listen {
        let (socket, bound) = listen::bind(address, &config.sockets)?;
        sockets.push(socket);
        listeners.push(bound);
    }
    let path = config.state_dir.clone().unwrap_or_else(|| state::default_path(&config.name));
    let _state = StateDirectory::open(&path).map_err(|why| {
        let code = if why.contains("in use") { Code::AddressInUse } else { Code::Permission };
        Failure::new(code, "cannot start", why)
    })?;
    eprint!("{}", crate::check::describe(&config, &people, &php));
    let connections = config.max_connections.unwrap_or(65536).min(files.saturating_sub(SPARE_FILES).max(1));
    eprintln!("  {:<13} {connections} at once ({files} open files allowed)", "connections");
    for listener in &listeners {
        eprintln!("  {:<13} {}", "listening", listener.shown);
    }
    process::sys::protect_memory().map_err(internal("memory"))?;
    let mut service = service(&config, &people, &php, &listeners, sockets, connections as usize)?;
    if audit {
        service.applications.iter_mut().for_each(|application| application.arguments.push("--audit".to_owned()));
    }
    let supervisor = Supervisor::new(service).map_err(internal("supervisor"))?;
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.shown.clone()).collect();
    let ready = move |took: Duration| eprintln!("ready after {} ms: {}", took.as_millis(), addresses.join(" "));
    match supervisor.run(&ready).map_err(internal("supervisor"))? {
        Outcome::Drained => Ok(Code::Success),
        Outcome::CutOff => Ok(Code::Internal),
        Outcome::NotBooted(name, what) => {
            let why = format!("{what} did not start; its message is above");
            Err(Failure::new(Code::NotBooted, format!("application '{name}'"), why))
        }
        Outcome::NoFront => Err(Failure::new(Code::Internal, "front", "did not start; its message is above")),
    }
}

fn service(
    config: &Config,
    people: &People,
    php: &Php,
    listeners: &[Bound],
    sockets: Vec<OwnedFd>,
    connections: usize,
) -> Result<Service, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Internal, "front", error);
    let first = FIRST_DESCRIPTOR + BEFORE_LISTENERS;
    let log = open_access_log(&config.access_log)?;
    let settings = Settings {
        listeners: listeners
            .iter()
            .enumerate()
            .map(|(number, one)| Listener { descriptor: first + number as i32, unix: one.file.is_some() })
            .collect(),
        access_log_format: config.access_log_format,
        access_log: log.is_some().then_some(first + listeners.len() as i32),
        threads: config.front_threads,
        proxies: config.proxies.clone(),
        proxy_headers: config.proxy_headers,
        limits: Limits {
            header_timeout_ms: milliseconds(config.header_timeout),
            body_timeout_ms: milliseconds(config.body_timeout),
            send_timeout_ms: milliseconds(config.send_timeout),
            max_connections: connections,
        },
        applications: config.applications.iter().map(front_application).collect(),
    };
    let mut descriptors = vec![settings_file(&settings).map_err(failed)?];
    // The only copies here: the supervisor drops them when it drains.
    descriptors.extend(sockets);
    descriptors.extend(log.map(OwnedFd::from));
    Ok(Service {
        front: OwnedFd::from(File::open("/proc/self/exe").map_err(failed)?),
        front_arguments: vec!["reprise-front".to_owned(), "front".to_owned()],
        front_user: people.front.clone(),
        front_descriptors: descriptors,
        access_log: is_file(&config.access_log).then(|| config.access_log.clone().into()),
        front_threads: config.front_threads,
        php: OwnedFd::from(php.open()?),
        // Where it is not there or not for us, PHP does what it can without.
        userfaultfd: OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").map(OwnedFd::from).ok(),
        cpus: config::cpus(),
        applications: config
            .applications
            .iter()
            .zip(&people.applications)
            .map(|(application, user)| php_application(config, application, user.as_ref().map(|(user, _)| user)))
            .collect(),
        drain_timeout: config.drain_timeout,
    })
}

/// The server's own environment; what is no text PHP could not read either.
fn inherited_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn is_file(target: &str) -> bool {
    !["off", "stdout"].contains(&target)
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn front_application(application: &config::Application) -> front::settings::Application {
    front::settings::Application {
        name: application.name.clone(),
        root: application.root.clone(),
        follow: application.follow.clone(),
        front_controller: application.front_controller.clone(),
        hosts: application.hosts.clone(),
        max_requests: application.workers + application.queue,
        workers: application.workers,
        ping_path: application.ping_path.clone(),
        status_path: application.status_path.clone(),
        queue_timeout_ms: milliseconds(application.queue_timeout),
        request_timeout_ms: milliseconds(application.request_timeout),
        max_body: application.max_body,
    }
}

fn php_application(
    config: &Config,
    application: &config::Application,
    user: Option<&Identity>,
) -> supervisor::Application {
    let mut arguments =
        ["--name", &application.name, "--isolation", word(application.isolation)].map(str::to_owned).to_vec();
    for (name, value) in &application.ini {
        arguments.extend(["--ini".to_owned(), format!("{name}={value}")]);
    }
    for (name, value) in &application.admin_ini {
        arguments.extend(["--admin-ini".to_owned(), format!("{name}={value}")]);
    }
    if !application.warmup.is_empty() {
        let requests = serde_json::to_string(&application.warmup).unwrap_or_else(|_| "[]".to_owned());
        arguments.extend(["--warmup".to_owned(), requests]);
    }
    if application.max_requests > 0 {
        arguments.extend(["--max-requests".to_owned(), application.max_requests.to_string()]);
    }
    if config.access_log_format == LogFormat::Json && config.access_log != "off" {
        arguments.push("--measure".to_owned());
    }
    let current = user.cloned().or_else(user::current);
    // What comes later wins.
    let mut variables: BTreeMap<String, String> = match application.clear_env {
        true => BTreeMap::new(),
        false => inherited_environment(),
    };
    if let Some(user) = current {
        variables.extend([("USER".to_owned(), user.name), ("HOME".to_owned(), user.home)]);
    }
    variables.extend(application.env.clone());
    let environment = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let is_classic = application.modes.iter().filter(|(_, mode)| **mode == Mode::Classic);
    supervisor::Application {
        name: application.name.clone(),
        arguments,
        environment,
        user: user.cloned(),
        limits: application.limits,
        workers: application.workers,
        // Whichever of the front's threads they come to.
        exchanges: (application.workers + application.queue).next_multiple_of(64) * config.front_threads,
        root: application.root.clone(),
        host: application
            .hosts
            .iter()
            .find(|host| !host.starts_with('*'))
            .map_or("localhost".to_owned(), String::clone),
        entries: discover::entries(application)
            .into_iter()
            .map(|entry| supervisor::Entry {
                script: entry.script,
                is_required: entry.is_required,
                is_loop: entry.is_loop,
            })
            .collect(),
        classic: is_classic.map(|(script, _)| script.clone()).collect(),
        isolation: application.isolation,
        boot_timeout: application.boot_timeout,
    }
}

/// An isolation's word in configuration, arguments and messages.
pub fn word(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Auto => "auto",
        Isolation::Rewind => "rewind",
        Isolation::Fork => "fork",
        Isolation::Loop => "none",
    }
}

/// The settings, in memory, for a front that may be allowed to read no file of ours.
fn settings_file(settings: &Settings) -> std::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("reprise-settings", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    serde_json::to_writer(&mut file, settings)?;
    file.flush()?;
    file.rewind()?;
    Ok(file.into())
}

fn open_access_log(target: &str) -> Result<Option<File>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Permission, format!("access log {target}"), error).hint("access_log = \"off\" does without")
    };
    match target {
        "off" => Ok(None),
        "stdout" => std::io::stdout().as_fd().try_clone_to_owned().map(|fd| Some(File::from(fd))).map_err(failed),
        path => OpenOptions::new().append(true).create(true).open(path).map(Some).map_err(failed),
    }
}
