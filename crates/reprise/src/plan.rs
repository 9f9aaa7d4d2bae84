//! What a reload replaces: the configuration in the form that the supervisor and the front use.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use routing::rules::rule::{Action, Rule, Upstream};
use routing::settings::{FileCacheLimits, Limits, Listener, LogFormat, RequestLimits, Settings, SpoolLimits, Warmup};
use supervisor::os::notify;
use supervisor::os::user::{self, Identity};
use supervisor::{Verification, VerifiedPage};

use crate::acme;
use crate::country_files;
use crate::discover;
use crate::exit::{Code, Failure};
use crate::installed::Phps;
use crate::isolation::Finding;
use crate::options::{self, Application, Config, Mode, Options, WarmupFailure};
use crate::people::{self, People};
use crate::phars;
use crate::php_ini;
use crate::releases;
use crate::store;

/// What is opened once and stays open.
#[derive(Clone)]
pub struct Opened {
    /// The front's descriptor of the access log, if there is one.
    pub access_log: Option<i32>,
    /// The front's descriptor of the spool's file, if there is one.
    pub spool: Option<i32>,
    /// Connections at once.
    pub connections: usize,
    /// Whether all memory is compared after each rewind.
    pub audit: bool,
}

/// Makes the draft of a plan from a configuration.
pub fn make(
    config: &Config,
    people: &People,
    phps: &Phps,
    listeners: &[supervisor::Listener],
    opened: &Opened,
    finding: &Finding,
) -> Result<supervisor::Draft, Failure> {
    let https_port = listeners.iter().find(|one| one.is_tls).and_then(|one| one.port);
    let mut settings = Settings {
        listeners: listeners.iter().map(front_listener).collect(),
        https_port,
        access_log: opened.access_log,
        spool: opened.spool,
        threads: config.front_threads,
        limits: Limits {
            header_timeout_ms: milliseconds(config.header_timeout),
            body_timeout_ms: milliseconds(config.body_timeout),
            send_timeout_ms: milliseconds(config.send_timeout),
            handshake_timeout_ms: milliseconds(config.tls_handshake_timeout),
            max_connections: opened.connections,
            client_connections: config.client_connections as usize,
            spool: SpoolLimits {
                memory: config.spool_memory,
                memory_total: config.spool_memory_total,
                disk: config.spool_disk,
                disk_total: config.spool_disk_total,
            },
            file_cache: FileCacheLimits {
                files: config.file_cache_files,
                memory: config.file_cache_memory,
                body: config.file_cache_body,
                time: config.file_cache_time,
            },
        },
        applications: config.applications.iter().map(front_application).collect(),
        is_dev: config.is_dev,
        ..Settings::default()
    };
    config.give_to_front(&mut settings);
    country_files::number(config, &mut settings);
    let files = settings.country_tables;
    let all = config.applications.iter().zip(&people.applications).zip(&people.entries).zip(&phps.of);
    let applications = all.map(|(((application, user), entries), php)| {
        let mut made = php_application(config, application, user.as_ref().map(|(user, _)| user), entries);
        made.php = *php;
        made.is_https = https_port.is_some() && application.https_redirect != Some(false);
        made.php_version = phps.list.get(*php).map_or_else(String::new, |php| php.minor.to_string());
        if opened.audit {
            made.settings.push(("audit".to_owned(), String::new()));
        }
        made.compares = finding.leaves_to_comparison(application.isolation);
        if made.compares && !made.settings.iter().any(|(name, _)| name == "measure") {
            made.settings.push(("measure".to_owned(), String::new()));
        }
        made.settings.extend(finding.needs.iter().map(|needs| ("needs".to_owned(), needs.clone())));
        made
    });
    let mut applications: Vec<supervisor::Application> = applications.collect();
    let mut copies = phps.list.len()..;
    for (made, configured) in applications.iter_mut().zip(&config.applications) {
        made.store = store::draft(configured)?;
        let php = phps.list.get(made.php).map_or("", |php| &php.version);
        made.release = releases::draft(config, configured, php, people.release.as_ref())?;
        if let Some(phar) = &mut made.phar {
            phar.copy = copies.next().unwrap_or_default();
        }
    }
    let settings = serde_json::to_string(&settings);
    Ok(supervisor::Draft {
        applications,
        drain_timeout: config.drain_timeout,
        shutdown_delay: config.shutdown_delay,
        isolation: finding.said(),
        notices: Vec::new(),
        listeners: listeners.to_vec(),
        opened: 0,
        certificates: None,
        acme: acme::draft(config, people.acme.as_ref())?,
        settings: settings.map_err(|error| Failure::new(Code::Internal, "the front's settings", error))?,
        files,
    })
}

/// Fails if a running server cannot change from one configuration to another without a restart.
pub fn obstacle(now: &Config, next: &Config) -> Result<(), Failure> {
    let pairs = now.applications.iter().filter_map(|old| {
        let new = next.applications.iter().find(|new| new.name == old.name)?;
        Some((old, new))
    });
    let of_application = |(old, new): (&Application, &Application)| {
        old.needs_restart(new).or_else(|| old.request.needs_restart(&new.request))
    };
    match now.needs_restart(next).or_else(|| pairs.into_iter().find_map(of_application)) {
        Some(name) => Err(Failure::new(
            Code::Configuration,
            name,
            "the value has changed, and a change of this option takes a restart",
        )
        .hint("restart the server, or restore the old value")),
        None => Ok(()),
    }
}

/// The server's environment, without the variables that its service manager meant for the server alone, and without values
/// that are not text, which PHP could not read.
fn inherited_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !notify::VARIABLES.contains(&name.as_str()))
        .collect()
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn request_limits(limits: &options::RequestLimits, workers: usize) -> RequestLimits {
    RequestLimits {
        places: workers + limits.queue,
        queue_ms: milliseconds(limits.queue_timeout),
        soft_ms: milliseconds(limits.soft_timeout),
        hard_ms: milliseconds(limits.request_timeout),
        memory_kib: limits.request_memory.div_ceil(1024),
        client_requests: limits.client_requests,
    }
}

fn front_listener(one: &supervisor::Listener) -> Listener {
    Listener { id: one.id, unix: one.is_unix, admin: one.is_admin, tls: one.is_tls }
}

/// What the front has of an application.
pub fn front_application(application: &Application) -> routing::settings::Application {
    let limits = |limits| request_limits(limits, application.workers());
    let mut made = routing::settings::Application {
        // The supervisor sets this.
        generation: 0,
        workers: application.workers(),
        min_workers: application.least_workers(),
        limits: limits(&application.request),
        paths: application.limits.iter().map(|(path, of_path)| (path.clone(), limits(of_path))).collect(),
        fingerprinted: application.fingerprinted.clone().unwrap_or_default(),
        slow_ms: milliseconds(application.slow_timeout),
        shares_purges: store::staleness(application) > 0,
        former_roots: application.unpacked.iter().flat_map(|one| one.former.clone()).collect(),
        root: application.root.to_path_buf(),
        php_user: people::php_user(application),
        phar: application.root.phar().map(|phar| routing::settings::Phar {
            scripts: phar.scripts(),
            directory: phar.directory(),
            stub: phar.stub(),
        }),
        ..routing::settings::Application::default()
    };
    application.give_to_front(&mut made);
    let mut first = 0;
    for rule in &mut made.route {
        if let Some(Action::Upstream(upstream)) = &mut rule.action {
            upstream.first_address = first;
            first += upstream.addresses.len() as u32;
        }
    }
    made.route.extend(application.preset_rules.iter().cloned());
    made
}

/// What the front would have of the applications, with their rules compiled.
pub fn front_applications(config: &Config) -> Result<Vec<routing::settings::Application>, Failure> {
    let mut settings =
        Settings { applications: config.applications.iter().map(front_application).collect(), ..Settings::default() };
    settings.compile().map_err(|why| Failure::new(Code::Configuration, "rules", why))?;
    Ok(settings.applications)
}

fn php_application(
    config: &Config,
    application: &Application,
    user: Option<&Identity>,
    entries: &[discover::Entry],
) -> supervisor::Application {
    let mut settings = Vec::new();
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    set("name", application.name.clone());
    set("isolation", application.isolation.word().to_owned());
    if !application.warmup.is_empty() {
        set("warmup", serde_json::to_string(&application.warmup).unwrap_or_else(|_| "[]".to_owned()));
    }
    application.error_page.iter().for_each(|page| set("error-page", page.clone()));
    let hosts: Vec<String> = application.hosts.iter().filter(|host| !host.starts_with('*')).cloned().collect();
    if !hosts.is_empty() {
        set("hosts", serde_json::to_string(&hosts).unwrap_or_else(|_| "[]".to_owned()));
    }
    let limits = [
        ("max-requests", application.max_requests),
        ("max-age", application.max_age.as_secs()),
        ("max-memory-kib", application.max_memory / 1024),
    ];
    limits.iter().filter(|(_, limit)| *limit > 0).for_each(|(name, limit)| set(name, limit.to_string()));
    set("data-wait", application.data_cache_wait.as_millis().to_string());
    set("data-staleness", store::staleness(application).to_string());
    if let Some((unpacked, id)) = application.unpacked.as_ref().and_then(|one| Some((one, one.id.clone()?))) {
        set("file-cache", unpacked.opcache.to_string_lossy().into_owned());
        set("release", id);
    }
    if application.kept_connections > 0 {
        set("kept-connections", application.kept_connections.to_string());
        set("kept-networks", application.kept_networks.join(","));
    }
    let is_logged = config.access_log_format == LogFormat::Json && config.access_log != "off";
    let switches = [
        ("scrub", application.scrub),
        ("watch", application.watch),
        ("measure", is_logged || application.status_path.is_some()),
    ];
    switches.iter().filter(|(_, is_on)| *is_on).for_each(|(name, _)| set(name, String::new()));
    let excepted = application.watch_except.iter().filter(|_| application.watch);
    excepted.for_each(|path| set("watch-except", path.to_string_lossy().into_owned()));
    settings.extend(php_ini::settings(application));
    settings.extend(php_ini::of_phar(application));
    let current = user.cloned().or_else(user::current);
    // Later entries win.
    let mut variables: BTreeMap<String, String> = match application.clear_env {
        true => BTreeMap::new(),
        false => inherited_environment(),
    };
    if let Some(user) = current {
        variables.extend([("USER".to_owned(), user.name), ("HOME".to_owned(), user.home)]);
    }
    variables.extend(application.env.clone());
    let environment = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let is_classic = application.mode.iter().filter(|(_, mode)| **mode == Mode::Classic);
    supervisor::Application {
        name: application.name.clone(),
        // The caller knows the list.
        php: 0,
        is_https: false,
        php_version: String::new(),
        settings,
        environment,
        user: user.cloned(),
        limits: application.process_limits(),
        data_cache: application.data_cache_memory,
        store: None,
        release: None,
        workers: application.workers(),
        min_workers: application.least_workers(),
        max_workers: application.max_workers,
        // The requests may come to any of the front's threads.
        exchanges: application.most_requests().next_multiple_of(64) * config.front_threads,
        root: application.root.to_path_buf(),
        phar: application.root.phar().map(|phar| supervisor::Phar {
            file: phar.file.clone(),
            scripts: phar.scripts(),
            stub: phar.stub(),
            // The caller knows the list.
            copy: 0,
            seen: phar.seen,
            watched: application.watch.then(|| phars::file_of(&application.written_root)),
        }),
        watched: (application.watch && application.root.phar().is_none()).then(|| application.written_root.clone()),
        hosts,
        entries: entries
            .iter()
            .map(|entry| supervisor::Entry {
                script: entry.script.clone(),
                is_required: entry.is_required,
                is_worker_mode: entry.is_worker_mode,
            })
            .collect(),
        classic: is_classic.map(|(script, _)| script.clone()).collect(),
        isolation: application.isolation,
        // The caller knows what is possible here.
        compares: false,
        warmup: application.warmup.iter().map(|request| format!("{} {}", request.method, request.path)).collect(),
        verification: verification(application),
        is_warmup_optional: application.warmup_failure == WarmupFailure::Log,
        boot_timeout: application.boot_timeout,
        lane_timeout: application.lane_timeout,
        slow_timeout: application.slow_timeout,
        slow_headers: application.slow_headers.clone(),
        decorates_output: application.decorate_output,
        upstreams: upstreams(&application.route).flat_map(|(_, upstream)| upstream.addresses.clone()).collect(),
    }
}

/// What is compared with classic mode before visitors come: pages that a visitor who is nobody could have asked for.
fn verification(application: &Application) -> Verification {
    let is_nobody_s = |request: &&Warmup| {
        let names = || request.headers.keys().map(|name| name.to_ascii_lowercase());
        request.method == "GET" && !names().any(|name| ["cookie", "authorization"].contains(&name.as_str()))
    };
    let first = application.hosts.iter().find(|host| !host.starts_with('*')).map_or("localhost", String::as_str);
    let page = |request: &Warmup| {
        let mut headers = request.headers.clone();
        let host = headers.keys().find(|name| name.eq_ignore_ascii_case("host")).cloned();
        let host = host.and_then(|name| headers.remove(&name)).unwrap_or_else(|| first.to_owned());
        VerifiedPage { path: request.path.clone(), host, headers }
    };
    let pages = application.warmup.iter().filter(|_| application.verify_on_reload).filter(is_nobody_s).map(page);
    Verification { pages: pages.collect(), users: application.verify_users.clone() }
}

/// The upstreams that rules name, in their order, with the places of these rules.
pub fn upstreams(rules: &[Rule]) -> impl Iterator<Item = (&str, &Upstream)> {
    rules.iter().filter_map(|rule| match &rule.action {
        Some(Action::Upstream(upstream)) => Some((rule.place.as_str(), &**upstream)),
        _ => None,
    })
}

/// The settings of a [`supervisor::Draft`], in a memory file, because the front may not be allowed to read this user's
/// files.
pub fn settings_file(settings: &str, generations: &[u32]) -> std::io::Result<OwnedFd> {
    let mut settings: Settings = serde_json::from_str(settings)?;
    for (application, generation) in settings.applications.iter_mut().zip(generations) {
        application.generation = *generation;
    }
    let file = rustix::fs::memfd_create("reprise-settings", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    serde_json::to_writer(&mut file, &settings)?;
    file.flush()?;
    file.rewind()?;
    Ok(file.into())
}
