//! `reprise serve`: everything that needs this user's rights is opened here, then the supervisor takes over.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use supervisor::logs::log;
use supervisor::os::notify::Notify;
use supervisor::os::state::{self, StateDirectory};
use supervisor::os::sys::{FIRST_DESCRIPTOR, Signals};
use supervisor::os::user::{self, Identity};
use supervisor::{
    CertificatesDraft, Draft, Listener, Outcome, Plan, Service, Supervisor, open_access_log as open_access_log_file,
};

use crate::acme;
use crate::certificates;
use crate::comparison;
use crate::config;
use crate::country_files;
use crate::development;
use crate::exit::{Code, Failure};
use crate::extensions;
use crate::flags::What;
use crate::installed::{self, Php, Phps};
use crate::isolation;
use crate::listen;
use crate::options::{self, Application, Config};
use crate::people::{People, choose_users};
use crate::phar_plan;
use crate::phars;
use crate::plan::{self, Opened};
use crate::releases;

/// Descriptors of the front before the others: channel, lifeline, settings.
pub const BEFORE_OTHERS: i32 = 3;
/// Descriptors that this process and the front need besides those of connections.
const SPARE_FILES: u64 = 256;

/// Descriptors for each further application: its processes and lanes have descriptors here.
const FILES_OF_APPLICATION: u64 = 32;
/// The server does not start if there can only be fewer connections.
const LEAST_CONNECTIONS: u64 = 16;

/// Connections that there may be at once.
fn connections(config: &Config, files: u64) -> Result<u64, Failure> {
    let further = (config.applications.len() as u64).saturating_sub(1);
    let own = SPARE_FILES + FILES_OF_APPLICATION * further;
    let least = own + LEAST_CONNECTIONS;
    if files < least {
        let why = format!(
            "{files} are allowed, at least {least} are needed: {own} for the server's processes, {LEAST_CONNECTIONS} for connections"
        );
        return Err(Failure::new(Code::Permission, "limit of open files", why)
            .hint("raise the hard limit: ulimit -Hn 65536 before the start, or LimitNOFILE=65536 in the unit"));
    }
    Ok(config.max_connections.unwrap_or_else(options::usual_connections).min(files - own))
}

/// The configuration with the releases that are current. They are brought before anything else is started.
fn with_releases(what: &What, config: Config) -> Result<Config, Failure> {
    if !releases::has_any(&config) {
        return Ok(config);
    }
    let user = releases::choose_user(&config)?;
    releases::make_directories(&config, user.as_ref())?;
    let chosen = releases::settle(&config, &installed::choose(&config)?, user.as_ref())?;
    config::load_with(what, &chosen)
}

/// Serves until told to stop.
pub fn run(what: What, audit: bool) -> Result<Code, Failure> {
    let internal = |what: &'static str| move |error: std::io::Error| Failure::new(Code::Internal, what, error);
    // Comes before anything is opened: a number that was handed over closed must not get one of our descriptors.
    let handed = listen::handed_over()?;
    what.dev.iter().try_for_each(|dev| dev.refuse_handed_over(handed.len()))?;
    // Signals are caught from the first moment: process 1 of a container would not get them otherwise.
    let signals = Signals::watch().map_err(internal("signals"))?;
    let mut config = with_releases(&what, config::load(&what)?)?;
    let files = supervisor::os::sys::raise_file_limit().map_err(internal("limit of open files"))?;
    let connections = connections(&config, files)?;
    let phps = installed::choose(&config)?;
    let people = choose_users(&config)?;
    releases::make_writable(&config, &people.applications)?;
    acme::make_directory(&config, people.acme.as_ref())?;
    let certificates = certificates::draft_in_child(&config, people.acme.as_ref())?;
    let countries = country_files::draft_in_child(&config)?;
    let (mut sockets, handed): (Vec<OwnedFd>, Vec<Listener>) = handed.into_iter().unzip();
    let listening = listen::open(&config, &handed)?;
    let path = config.state_dir.clone().unwrap_or_else(|| state::default_path(&config.name));
    let state = StateDirectory::open(&path).map_err(|why| {
        let code = if why.contains("in use") { Code::AddressInUse } else { Code::Permission };
        Failure::new(code, "cannot start", why)
    })?;
    if let Some(file) = &what.config {
        state.note_config(file).map_err(|why| Failure::new(Code::Permission, "cannot start", why))?;
    }
    if config.state_dir.is_none() {
        state::clear_leftovers(&state.path);
    }
    let finding = isolation::look(&config, &people, &phps);
    log::write(&crate::check::describe(&config, &people, &phps, &finding));
    log::write(&format!("  {:<13} {connections} at once ({files} open files allowed)\n", "connections"));
    let public: Vec<String> =
        listening.listeners.iter().filter(|one| listen::is_public(one)).map(Listener::described).collect();
    if !public.is_empty() {
        log::write(&format!("  {:<13} from other machines: {}\n", "reachable", public.join(" ")));
    }
    if user::is_root() && !supervisor::os::capabilities::may_limit() {
        log::write(&format!(
            "  {:<13} without CAP_SETPCAP the front keeps a bounding set; it has no capability all the same\n",
            "capabilities"
        ));
    }
    supervisor::os::sys::protect_memory().map_err(internal("memory"))?;
    let first = FIRST_DESCRIPTOR + BEFORE_OTHERS;
    let log = open_access_log(&config.access_log)?;
    let spool = open_spool(&config)?;
    let opened = Opened {
        // The supervisor opens the last one again.
        access_log: log.is_some().then_some(first + i32::from(spool.is_some())),
        spool: spool.is_some().then_some(first),
        connections: connections as usize,
        audit,
    };
    let mut draft = plan::make(&config, &people, &phps, &listening.listeners, &opened, &finding)?;
    let mut files = phps.open()?;
    files.extend(phar_plan::descriptors(&config)?);
    files.extend(countries);
    let notices = attach(&mut draft, &mut files, certificates);
    notices
        .iter()
        .chain(phar_plan::notices(&config))
        .for_each(|notice| log::line("warning", "supervisor", format_args!("{notice}")));
    let plan = Plan::new(draft, files);
    // These are the only copies in this process: the supervisor drops them when it drains.
    sockets.extend(listening.into_sockets());
    let descriptors = spool.into_iter().chain(log.map(OwnedFd::from)).collect();
    let addresses: Vec<String> = plan.listeners.iter().map(Listener::described).collect();
    let is_dev = what.dev.is_some();
    let watcher = what.dev.as_ref().map(|dev| dev.watcher(&people)).transpose()?;
    let what = Rc::new(what);
    // The plan holds the directories of phars, and lets them go when another has taken its place.
    phar_plan::let_go(&mut config);
    let mut service = service(config, what.clone(), opened, descriptors, people.front, signals)?;
    service.watcher = watcher;
    service.listeners = sockets;
    service.control_socket = Some(state.listen().map_err(|why| Failure::new(Code::Permission, "cannot start", why))?);
    let url = development::url(&addresses);
    service.console = what.dev.as_ref().and_then(|dev| dev.console(&url));
    let has_keys = service.console.is_some();
    let supervisor = Supervisor::new(service, plan).map_err(internal("supervisor"))?;
    let ready = move |took: Duration| {
        log::write(&format!("ready after {} ms: {}\n", took.as_millis(), addresses.join(" ")));
        what.dev.iter().for_each(|dev| dev.ready(&url, has_keys));
    };
    let outcome = supervisor.run(&ready).map_err(internal("supervisor"))?;
    // The descriptors that kept unpacked phars are closed now.
    phars::sweep();
    match outcome {
        Outcome::Drained => Ok(Code::Success),
        Outcome::CutOff => Ok(if is_dev { Code::Success } else { Code::Internal }),
        Outcome::NotBooted(name, what) => {
            let why = format!("{what} did not start; PHP's message is above");
            Err(Failure::new(Code::NotBooted, format!("application '{name}'"), why))
        }
        Outcome::WarmUpFailed(name, request) => {
            let why = format!("its warm-up request {request} failed; the response is above");
            Err(Failure::new(Code::NotBooted, format!("application '{name}'"), why)
                .hint("warmup_failure = \"log\" starts the server anyway"))
        }
        Outcome::NoFront => Err(Failure::new(Code::Internal, "front", "did not start; its message is above")),
    }
}

fn service(
    config: Config,
    what: Rc<What>,
    opened: Opened,
    descriptors: Vec<OwnedFd>,
    front_user: Option<Identity>,
    signals: Signals,
) -> Result<Service, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Internal, "front", error);
    let (is_dev, shows_requests) = (what.dev.is_some(), config.access_log != "off");
    Ok(Service {
        front: OwnedFd::from(File::open("/proc/self/exe").map_err(failed)?),
        front_arguments: vec!["reprise-front".to_owned(), "front".to_owned()],
        front_user,
        front_descriptors: descriptors,
        listeners: Vec::new(),
        access_log: is_file(&config.access_log).then(|| config.access_log.clone().into()),
        front_threads: config.front_threads,
        userfaultfd: isolation::open_device().map(OwnedFd::from).ok(),
        cpus: options::cpus(),
        control_socket: None,
        signals,
        notify: Notify::from_environment(),
        read: Box::new(move |plan, release| {
            read_again(&what, &config, &opened, plan, release).map_err(|failure| {
                // What was unpacked for it is nobody's now.
                phars::sweep();
                failure.to_string()
            })
        }),
        settings: Box::new(plan::settings_file),
        verify: Box::new(comparison::judge),
        certificates: Box::new(certificates::look),
        watcher: None,
        console: None,
        shows_requests,
        may_drain: if is_dev { development::MAY_DRAIN } else { 1 },
        stop_timeout: is_dev.then_some(development::STOP_TIMEOUT),
    })
}

/// The current configuration, if this server can change to it without a restart.
fn read_again(
    what: &What,
    now: &Config,
    opened: &Opened,
    plan: &Plan,
    release: Option<(&str, &str)>,
) -> Result<(Draft, Vec<OwnedFd>), Failure> {
    let served = plan.applications.iter().filter_map(|one| Some((one.name.clone(), one.release.as_ref()?.id.clone()?)));
    let ordered = release.map(|(application, id)| (application.to_owned(), id.to_owned()));
    let mut next = config::load_with(what, &served.chain(ordered).collect())?;
    release.into_iter().for_each(|(ordered, _)| releases::warm(&mut next, ordered));
    releases::make_directories(&next, releases::choose_user(&next)?.as_ref())?;
    if !now.is_named && !next.is_named {
        // The name is that of an address, which may have changed.
        next.name.clone_from(&now.name);
    }
    plan::obstacle(now, &next)?;
    let phps = installed::choose(&next)?;
    let people = choose_users(&next)?;
    releases::make_writable(&next, &people.applications)?;
    let finding = isolation::look(&next, &people, &phps);
    // Last, because what is bound for a refused reload keeps its address for a moment.
    acme::make_directory(&next, people.acme.as_ref())?;
    let certificates = certificates::draft(&next, people.acme.as_ref())?;
    let countries = country_files::draft(&next)?;
    let listening = listen::open(&next, &plan.listeners)?;
    let mut draft = plan::make(&next, &people, &phps, &listening.listeners, opened, &finding)?;
    draft.notices = missing_extensions(&next, &people, &phps, plan);
    let mut files = phps.open()?;
    files.extend(phar_plan::descriptors(&next)?);
    files.extend(countries);
    let notices = attach(&mut draft, &mut files, certificates);
    draft.notices.extend(notices);
    draft.notices.extend(phar_plan::notices(&next).cloned());
    let sockets = listening.into_sockets();
    draft.opened = sockets.len();
    files.extend(sockets);
    Ok((draft, files))
}

/// Adds certificates to a draft, and their file to its descriptors. Returns what is to be said of them.
fn attach(
    draft: &mut Draft,
    files: &mut Vec<OwnedFd>,
    certificates: Option<(CertificatesDraft, OwnedFd, Vec<String>)>,
) -> Vec<String> {
    let Some((certificates, file, notices)) = certificates else { return Vec::new() };
    draft.certificates = Some(certificates);
    files.push(file);
    notices
}

/// For each application whose version of PHP changes: what the new version lacks. A boot that needs it fails, and says less. A version
/// that cannot be asked is no reason to refuse the reload: its boot tells.
fn missing_extensions(next: &Config, people: &People, phps: &Phps, plan: &Plan) -> Vec<String> {
    let all = next.applications.iter().zip(&people.applications).zip(phps.each());
    let line = |((application, user), php): ((&Application, &Option<(Identity, _)>), &Php)| {
        let old = plan.applications.iter().find(|old| old.name == application.name)?;
        let old = installed::of_version(old.php_version.parse().ok().filter(|version| *version != php.minor)?)?;
        let extensions = |php| extensions::of(application, user.as_ref().map(|(user, _)| user), php).ok();
        let lacking = extensions::lacking(php, &extensions(php)?, &old, &extensions(&old)?)?;
        let place = application.php.as_ref().map(|wanted| format!("{}: ", wanted.place)).unwrap_or_default();
        Some(format!("{place}application '{}': {lacking}", application.name))
    };
    all.filter_map(line).collect()
}

/// The file for responses that slow clients have not taken. Without one they are held in memory alone; only a directory that
/// the configuration names has to be usable.
fn open_spool(config: &Config) -> Result<Option<OwnedFd>, Failure> {
    if config.spool_disk == 0 {
        return Ok(None);
    }
    let directory = config.spool_dir.as_deref().unwrap_or(Path::new("/var/tmp"));
    let why = match supervisor::os::files::open_nameless(directory) {
        Ok(file) => return Ok(Some(file)),
        Err(error) => format!("{}: {error}", directory.display()),
    };
    if config.spool_dir.is_some() {
        let failure = Failure::new(Code::Permission, "spool_dir", why);
        return Err(failure.hint("name a directory that the server's user can write to, or set spool_disk = 0"));
    }
    log::write(&format!("  {:<13} in memory alone: {why}\n", "spool"));
    Ok(None)
}

fn is_file(target: &str) -> bool {
    !["off", "stdout"].contains(&target)
}

fn open_access_log(target: &str) -> Result<Option<File>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Permission, format!("access log {target}"), error)
            .hint("access_log = \"off\" turns the log off")
    };
    match target {
        "off" => Ok(None),
        "stdout" => {
            let stdout = std::io::stdout();
            // If that is not possible, the front polls before each write.
            let own = log::own_description(stdout.as_fd());
            own.or_else(|_| stdout.as_fd().try_clone_to_owned()).map(|fd| Some(File::from(fd))).map_err(failed)
        }
        path => open_access_log_file(Path::new(path)).map(|file| Some(File::from(file))).map_err(failed),
    }
}
