//! Makes one configuration of flags and file. A message about a mistake in the file has its line and the nearest name.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use process::sys::ProcessLimits;

use crate::discover;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::listen::Permissions;
use crate::options::{Application, Capabilities, Config, Options, Scope, cpus, find, resolve};

impl Config {
    /// Who may connect to unix sockets.
    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.socket_mode, owner: self.socket_owner.clone(), group: self.socket_group.clone() }
    }
}

impl Application {
    /// Requests that a lane may have at once, waiting ones included.
    pub fn most_requests(&self) -> usize {
        let queues = self.limits.values().map(|limits| limits.queue);
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

/// The configuration of a command line.
pub fn load(what: &What) -> Result<Config, Failure> {
    let mut config = match (&what.config, &what.directory) {
        (Some(file), _) => file::read(file)?,
        (None, Some(directory)) => from_directory(directory)?,
        (None, None) => {
            return Err(Failure::new(
                Code::Usage,
                "serve",
                "name a directory, or a configuration file with --config FILE",
            )
            .hint("reprise serve ."));
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
            let (low, high) = find(Scope::Application, "workers").map_or((1, 1), |row| row.kind.bounds());
            if !(low..=high).contains(&workers.into()) {
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
            application.mode.insert(format!("/{script}"), mode);
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

/// Checks that concern more than one option.
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

/// Sets the options of an application that are not written and follow from its root.
fn complete(application: &mut Application, is_named: bool, has_controller: bool) {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    if !is_named {
        // "public" and similar names say nothing about the application; the directory above it does.
        let name = match named(&application.root) {
            Some(name) if ["public", "web", "htdocs"].contains(&name.as_str()) => {
                application.root.parent().and_then(named)
            }
            other => other,
        };
        application.name = name.unwrap_or_else(|| "app".to_owned());
    }
    application.is_controller_found = !has_controller;
    if !has_controller {
        application.front_controller = discover::front_controller(&application.root);
    }
}

fn from_directory(directory: &Path) -> Result<Config, Failure> {
    let root = discover::document_root(directory)?;
    let root = resolve(&root).map_err(|why| Failure::new(Code::Permission, "document root", why))?;
    let mut application = Application { written_root: root.clone(), root, ..Application::defaults() };
    complete(&mut application, false, false);
    Ok(Config { applications: vec![application], ..Config::defaults() })
}
