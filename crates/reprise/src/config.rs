//! Makes one configuration of flags and file. A message about a mistake in the file has its line and the nearest name.

mod file;
mod naming;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use routing::rules::faults::{self, Fault};
use supervisor::os::sys::ProcessLimits;
use supervisor::plan::MAX_LISTENERS;

use crate::discover;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::listen::Permissions;
use crate::options::{
    Application, Capabilities, Challenge, Config, Options, Scope, WantedPhp, find, refused, resolve, usual_workers,
};
use crate::phars;
use crate::plan;
use crate::presets;
use crate::releases::{self, Chosen};
use crate::root::Root;

impl Config {
    /// Who may connect to unix sockets.
    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.socket_mode, owner: self.socket_owner.clone(), group: self.socket_group.clone() }
    }
}

impl Application {
    /// Requests that a lane may have at once, waiting ones included.
    pub fn most_requests(&self) -> usize {
        let of_rules = self.route.iter().filter_map(|rule| rule.also.limits.as_ref()?.queue);
        let queues = self.limits.values().map(|limits| limits.queue).chain(of_rules);
        self.workers() + queues.fold(self.request.queue, usize::max)
    }

    /// Workers of each lane, at most.
    pub fn workers(&self) -> usize {
        self.workers.or(self.max_workers).unwrap_or_else(usual_workers)
    }

    /// Workers of each lane that are always there.
    pub fn least_workers(&self) -> usize {
        let default = if self.max_workers.is_some() { 1 } else { self.workers() };
        self.min_workers.unwrap_or(default).min(self.workers())
    }

    /// Limits of its processes.
    pub fn process_limits(&self) -> ProcessLimits {
        ProcessLimits {
            files: self.rlimit_files,
            processes: self.rlimit_processes,
            core: self.rlimit_core,
            priority: self.priority,
            no_capabilities: self.capabilities == Capabilities::None,
        }
    }
}

/// The configuration of a command line. Applications that come from a pool are the releases that this server serves, or served last.
pub fn load(what: &What) -> Result<Config, Failure> {
    load_with(what, &Chosen::new())
}

/// The same, with these releases of applications.
pub fn load_with(what: &What, releases: &Chosen) -> Result<Config, Failure> {
    let mut config = match (&what.config, &what.directory) {
        (Some(file), _) => file::read(file, releases)?,
        (None, Some(directory)) => from_directory(directory)?,
        (None, None) => {
            let why = "name its directory, or a configuration file with --config FILE";
            return Err(Failure::new(Code::Usage, "no application", why).hint("a dot is the current directory"));
        }
    };
    naming::settle(&mut config);
    if !what.listen.is_empty() {
        config.listen.clone_from(&what.listen);
    }
    if !what.admin_listen.is_empty() {
        config.admin_listen.clone_from(&what.admin_listen);
    }
    if let Some(target) = &what.access_log {
        config.access_log.clone_from(target);
    }
    for application in &mut config.applications {
        if let Some(workers) = what.workers {
            let (low, high) = find(Scope::Application, "workers").map_or((1, 1), |row| row.kind.bounds());
            if !(low..=high).contains(&workers.into()) {
                return Err(Failure::new(Code::Usage, "--workers", format!("{workers} is not within {low} to {high}")));
            }
            application.workers = Some(workers as usize);
            application.places.set_by("--workers", "workers".to_owned());
        }
        if let Some(mode) = what.mode {
            let Some(script) = &application.front_controller else {
                let why = format!("application '{}' has no front controller whose mode it could say", application.name);
                return Err(Failure::new(Code::Usage, "--mode", why)
                    .hint("mode.\"NAME.php\" = \"…\" in a configuration file says that of a script"));
            };
            application.mode.insert(format!("/{script}"), mode);
        }
        if let Some(version) = what.php {
            application.php = Some(WantedPhp { version, place: "--php".to_owned() });
        }
        if what.keep_env {
            application.clear_env = false;
        }
        if let Some(user) = &what.user {
            application.user = Some(user.clone());
        }
        for (name, value) in pairs("--ini", &what.ini)? {
            application.places.set_by("--ini", format!("ini.{name}"));
            application.ini.insert(name, value);
        }
        application.env.extend(pairs("--env", &what.env)?);
    }
    if let Some(dev) = &what.dev {
        dev.apply(&mut config)?;
    }
    what.private.iter().try_for_each(|private| private.apply(&mut config))?;
    if config.listen.is_empty() {
        return Err(
            Failure::new(Code::Configuration, "listen", "names no address").hint("listen = [\"127.0.0.1:8080\"]")
        );
    }
    let count = config.listen.len() + config.admin_listen.len();
    if count > MAX_LISTENERS {
        let why = format!("with admin_listen these are {count} addresses; there can be {MAX_LISTENERS}");
        return Err(Failure::new(Code::Configuration, "listen", why));
    }
    config.listen.iter().chain(&config.admin_listen).try_for_each(|address| crate::listen::check(address))?;
    settle_name(&mut config)?;
    check_together(&config)?;
    check_certificates(&config)?;
    Ok(config)
}

/// The options of the server that a file has; its applications are not looked at.
pub fn load_server(file: &Path) -> Result<Config, Failure> {
    let mut config = file::read_server(file)?;
    settle_name(&mut config)?;
    Ok(config)
}

/// The name of a server whose first address is this one, in any spelling of the address.
pub fn name_of(address: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let address = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
    let host = if address.parse::<u16>().is_ok() { "127.0.0.1:" } else { "" };
    format!("{host}{address}").trim_matches(|c| plain(c) == '-').chars().map(plain).collect()
}

/// The server's name, by default that of its first address.
fn settle_name(config: &mut Config) -> Result<(), Failure> {
    config.is_named = !config.name.is_empty();
    if let Some(first) = config.listen.first().filter(|_| config.name.is_empty()) {
        config.name = name_of(first);
    }
    if config.name.contains('/') || config.name.starts_with('.') {
        let why = "must be a plain name, without / and not beginning with a dot";
        return Err(Failure::new(Code::Configuration, format!("name \"{}\"", config.name), why));
    }
    Ok(())
}

fn pairs(flag: &str, texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let split = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(Code::Usage, flag, format!("'{text}' is not NAME=VALUE"))),
    };
    texts.iter().map(split).collect()
}

/// A failure that concerns several options of an application, or of two applications: the file and line of one of them.
fn conflict(application: &Application, option: &str, why: impl std::fmt::Display) -> Failure {
    let place = application.places.of(option);
    Failure::new(Code::Configuration, place.unwrap_or_else(|| option.to_owned()), why)
}

/// Checks that concern more than one option.
fn check_together(config: &Config) -> Result<(), Failure> {
    let any = [String::from("any host")];
    let at = |other: &Application, option| other.places.of(option).unwrap_or_default();
    let (mut names, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for application in &config.applications {
        let name = &application.name;
        if let Some(other) = names.insert(name, application) {
            let why = format!("two applications are named '{name}'; the other one is at {}", at(other, "name"));
            return Err(conflict(application, "name", why).hint("name = \"…\" below one of the [[application]]"));
        }
        let hosts = if application.hosts.is_empty() { &any[..] } else { &application.hosts };
        for host in hosts {
            if let Some(other) = seen.insert(host, application) {
                let why = format!(
                    "both '{}' and '{name}' answer for {host}; '{}' is at {}",
                    other.name,
                    other.name,
                    at(other, "hosts")
                );
                return Err(
                    conflict(application, "hosts", why).hint("give each application hosts of its own: hosts = [\"…\"]")
                );
            }
        }
        check_workers(application)?;
        check_settings(application)?;
        check_rules(application)?;
        check_links(application)?;
        releases::check(application)?;
    }
    check_upstreams(config)
}

/// Addresses and certificates.
fn check_certificates(config: &Config) -> Result<(), Failure> {
    if let Some(address) = config.admin_listen.iter().find(|address| crate::listen::is_tls(address)) {
        return Err(Failure::new(Code::Configuration, format!("admin_listen '{address}'"), "takes no https")
            .hint("http://HOST:PORT on an address that only monitoring reaches"));
    }
    if let Some(address) = config.listen.iter().find(|address| crate::listen::is_tls(address)) {
        if config.certificates.is_empty() {
            let why = "there is no certificate for it";
            return Err(Failure::new(Code::Configuration, format!("listen address '{address}'"), why)
                .hint("[[certificate]] with chain = \"…\" and key = \"…\" in the configuration file"));
        }
    }
    check_automatic(config)?;
    config.applications.iter().try_for_each(crate::store::check)?;
    Ok(())
}

/// Hosts whose certificates are to be issued.
fn check_automatic(config: &Config) -> Result<(), Failure> {
    let answers = |host: &str| {
        let is_for = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            None => pattern == host,
        };
        config.applications.iter().any(|one| one.hosts.is_empty() || one.hosts.iter().any(is_for))
    };
    let mut seen = BTreeMap::new();
    for certificate in config.certificates.iter().filter(|one| one.auto) {
        let wrong = |why: String| Failure::new(Code::Configuration, &certificate.place, why);
        for host in &certificate.hosts {
            if host.starts_with("*.") {
                let why = format!(
                    "{host} with auto = true: authorities check a wildcard by DNS alone (DNS-01), which Reprise cannot do"
                );
                return Err(wrong(why)
                    .hint("name each host; or get the certificate by a tool that can, and give its chain and key"));
            }
            if !answers(host) {
                let why = format!("auto = true for {host}, which is no host of an application");
                return Err(wrong(why).hint("add it to the hosts of its [[application]], or leave it out here"));
            }
            let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
            if is_address && !config.acme.challenges.contains(&Challenge::Http01) {
                return Err(wrong(format!("auto = true for {host}: addresses take the challenge http-01")));
            }
            if let Some(other) = seen.insert(host, &certificate.place) {
                return Err(wrong(format!("auto = true for {host}, as at {other}")));
            }
        }
        if certificate.hosts.is_empty() {
            return Err(wrong("auto = true with an empty list of hosts".to_owned()));
        }
    }
    Ok(())
}

/// Rules that are broken, contradict themselves, loop or never match.
fn check_rules(application: &Application) -> Result<(), Failure> {
    let all = [application.route.clone(), application.preset_rules.clone()].concat();
    match faults::find(&all, &application.hosts).into_iter().next() {
        None => Ok(()),
        Some(Fault { place, why }) => {
            let number = all.iter().position(|rule| rule.place == place);
            let (number, on) = number.map_or((0, String::new()), |at| (at + 1, all[at].on.to_string()));
            Err(Failure::new(Code::Configuration, place, format!("rule {number} ({on}) {why}")))
        }
    }
}

/// Scripts that options name: symbolic links that the front does not follow.
fn check_links(application: &Application) -> Result<(), Failure> {
    match refused(application, &plan::front_application(application)) {
        None => Ok(()),
        Some((option, refused)) => {
            let directory = refused.directory().display().to_string();
            let hint = format!("follow = [\"{directory}\"] allows symbolic links to lead there");
            Err(conflict(application, option, refused).hint(hint))
        }
    }
}

/// Upstreams that are this server itself: a request would come back for ever.
fn check_upstreams(config: &Config) -> Result<(), Failure> {
    let own = |address: &str| config.listen.iter().any(|listen| crate::listen::is_same(listen, address));
    for application in &config.applications {
        let mut all = plan::upstreams(&application.route);
        if let Some((place, upstream)) = all.find(|(_, upstream)| upstream.addresses.iter().any(|one| own(one))) {
            let why =
                format!("the upstream {} is an address of 'listen': requests would come back for ever", upstream.name);
            return Err(Failure::new(Code::Configuration, place.to_owned(), why).hint("the address of another server"));
        }
    }
    Ok(())
}

/// Numbers of workers.
fn check_workers(application: &Application) -> Result<(), Failure> {
    for (name, workers) in [("workers", application.workers), ("min_workers", application.min_workers)] {
        if let Some((workers, most)) = workers.zip(application.max_workers).filter(|(workers, most)| workers > most) {
            let why =
                format!("'{}' has {name} {workers} for each lane, and max_workers {most} for all", application.name);
            return Err(conflict(application, name, why).hint(format!("leave {name} out, or raise max_workers")));
        }
    }
    Ok(())
}

/// Settings of php.ini and the environment.
fn check_settings(application: &Application) -> Result<(), Failure> {
    if let Some(name) = application.admin_ini.keys().find(|name| application.ini.contains_key(*name)) {
        let why = format!("'{name}' of application '{}' stands in ini and in admin_ini", application.name);
        return Err(conflict(application, "admin_ini", why).hint("keep one of them"));
    }
    let of = [("ini", &application.ini), ("admin_ini", &application.admin_ini), ("env", &application.env)];
    for (option, (name, value)) in of.iter().flat_map(|(option, pairs)| pairs.iter().map(move |pair| (*option, pair))) {
        if name.is_empty() || name.contains(['=', '\n', '\0']) || value.contains(['\n', '\0']) {
            let why = format!(
                "{option}: '{name}' of application '{}' must be one line without '=' in its name",
                application.name
            );
            return Err(conflict(application, option, why));
        }
    }
    Ok(())
}

/// Sets the options of an application that are not written and follow from its root.
fn complete(application: &mut Application, has_controller: bool, has_preset: bool) -> Result<(), Failure> {
    application.is_controller_found = !has_controller;
    if !has_controller {
        let stub = application.root.phar().and_then(|phar| phar.stub()?.strip_prefix('/').map(str::to_owned));
        application.front_controller = discover::front_controller(&application.root).or(stub);
    }
    application.is_preset_found = !has_preset;
    let found = if has_preset { None } else { presets::of_root(&application.root) };
    if let Some(preset) = found.or_else(|| presets::named(application.preset.as_deref()?)) {
        application.preset = Some(preset.name.to_owned());
        application.preset_rules = preset.rules()?;
        if application.fingerprinted.is_none() {
            application.fingerprinted = Some(preset.fingerprinted()?);
        }
    }
    Ok(())
}

/// The root of what the command line names, and its path as it is written: an application's directory, or a phar, or a directory in one.
fn root_of(named: &Path) -> Result<(Root, PathBuf), Failure> {
    let Some((file, inside)) = phars::part(named) else {
        let written = discover::document_root(named)?;
        let root = resolve(&written).map_err(|why| Failure::new(Code::Permission, "document root", why))?;
        return Ok((Root::directory(root), written));
    };
    let failed = |why: String| Failure::new(Code::Configuration, "document root", why);
    let root = phars::open(&file, &inside).map_err(failed)?;
    // As in a directory, a root that usual names stand for comes before the whole.
    let below = ["public", "web", "htdocs"].into_iter().filter(|_| inside.is_empty());
    let root = match below.into_iter().find(|name| discover::has_index(&root.join(name), &routing::route::INDEX)) {
        Some(name) => phars::open(&file, name).map_err(failed)?,
        None => root,
    };
    Ok((root, named.to_owned()))
}

fn from_directory(directory: &Path) -> Result<Config, Failure> {
    let (root, written_root) = root_of(directory)?;
    let mut application = Application { written_root, root, ..Application::defaults() };
    complete(&mut application, false, false)?;
    Ok(Config { applications: vec![application], ..Config::defaults() })
}
