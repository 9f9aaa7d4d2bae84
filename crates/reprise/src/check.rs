//! `reprise check`: what would be served, without serving it.

use std::time::Duration;

use crate::acme;
use crate::certificates;
use crate::config;
use crate::country_files;
use crate::discover;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::installed::{self, Php, Phps};
use crate::isolation::{self, Finding};
use crate::options::{self, Config};
use crate::people::{self, People};
use crate::phar_plan;
use crate::phars;
use crate::php_ini;
use crate::plan;
use crate::presets;
use crate::survey;

/// How long the check may look at the trees of all applications together.
const LOOKING: Duration = Duration::from_millis(1500);

/// Prints a reference.
pub fn print(reference: &str) -> Result<Code, Failure> {
    print!("{reference}");
    Ok(Code::Success)
}

/// Reads the configuration, looks up users, and prints what would be served.
pub fn run(what: &What) -> Result<Code, Failure> {
    let done = look(what);
    // What was unpacked for the check.
    phars::sweep();
    done
}

fn look(what: &What) -> Result<Code, Failure> {
    let config = config::load(what)?;
    let phps = installed::choose(&config)?;
    let people = people::choose_users(&config)?;
    let finding = isolation::look(&config, &people, &phps);
    acme::check(&config, people.acme.as_ref())?;
    let certificates = certificates::check(&config, people.acme.as_ref())?;
    country_files::draft_in_child(&config)?;
    print!("{}", describe(&config, &people, &phps, &finding));
    for line in certificates.iter().flat_map(|loaded| &loaded.lines) {
        println!("  {:<13} {line}", "certificate");
    }
    certificates.iter().flat_map(|loaded| &loaded.notices).for_each(|notice| eprintln!("warning: {notice}"));
    phar_plan::notices(&config).for_each(|notice| eprintln!("warning: {notice}"));
    for rule in config.applications.iter().flat_map(|application| &application.preset_rules) {
        let does = rule.action.as_ref().map_or_else(|| "adds to the response".to_owned(), ToString::to_string);
        println!(
            "  {:<13} {}: {}: {}",
            "preset",
            rule.place,
            rule.on,
            if rule.also.is_php_off { "php = false" } else { &does }
        );
    }
    for ((application, user), php) in config.applications.iter().zip(&people.applications).zip(phps.each()) {
        for line in php_ini::unknown_settings(application, user.as_ref().map(|(user, _)| user), php)? {
            eprintln!("warning: {line}");
        }
    }
    Ok(Code::Success)
}

/// What would be served and why, for people.
pub fn describe(config: &Config, people: &People, phps: &Phps, finding: &Finding) -> String {
    let with_ini = |php: &Php| format!("PHP {}, php.ini of {}", php.version, php.ini);
    let versions: Vec<String> = phps.list.iter().map(with_ini).collect();
    let mut text = format!("Reprise {}, {}\n", env!("CARGO_PKG_VERSION"), versions.join("; "));
    let own = || supervisor::os::user::current().map_or("the current user".to_owned(), |user| user.name);
    let sender = people.front.as_ref().map_or_else(own, |user| format!("user {}", user.name));
    let patience = LOOKING / config.applications.len().max(1) as u32;
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<13} {value}\n"));
    let all = config.applications.iter().zip(&people.applications).zip(&people.entries).zip(phps.each());
    for (((application, user), entries), php) in all {
        let hosts = if application.hosts.is_empty() { "any host".to_owned() } else { application.hosts.join(", ") };
        line("application", format!("{} ({hosts})", application.name));
        if let Some(place) = application.places.of("") {
            line("described", place);
        }
        line("root", application.root.shown());
        if let Some(phar) = application.root.phar() {
            line("phar", phar.described.clone());
        }
        let controller = application.front_controller.as_deref();
        if !application.route.is_empty() {
            line("rules", application.route.len().to_string());
        }
        for (place, upstream) in plan::upstreams(&application.route) {
            let by = upstream.addresses.join(", ");
            line("upstream", format!("{} ({by}), {place}", upstream.name));
        }
        if let Some(preset) = application.preset.as_ref().filter(|_| !application.preset_rules.is_empty()) {
            let why = if application.is_preset_found { "the tree says so" } else { "the configuration says so" };
            line("preset", format!("{preset} ({why}), denies {}", presets::denials(&application.preset_rules)));
        }
        line("other paths", controller.map_or("404".to_owned(), |script| format!("go to {script}")));
        let found = survey::look(&plan::front_application(application), people.front.as_ref(), patience);
        // A preset knows the scripts of its application.
        let is_known = !application.is_controller_found || !application.preset_rules.is_empty();
        let of_scripts = controller.filter(|_| !is_known);
        if let Some(hint) = of_scripts.and_then(|script| found.hint_of_scripts(script)) {
            line("hint", hint);
        }
        if let Some(closed) = found.closed(&sender) {
            line("warning", closed);
        }
        if let Some(refused) = found.refused() {
            line("warning", refused);
        }
        let usual = routing::route::INDEX.map(str::to_owned);
        let names = application.index.as_deref().unwrap_or(&usual);
        if application.index.is_some() && !names.is_empty() {
            line("index", names.join(", "));
        }
        if !discover::has_index(&application.root, names) && controller.is_none() {
            let of = if names.is_empty() { "index".to_owned() } else { names.join(" or ") };
            line("no index", format!("there is no {of}: scripts and files are served by name, / is not"));
        }
        let user = match user {
            Some((user, why)) => format!("{} ({why})", user.name),
            None => supervisor::os::user::current().map_or("the current user".to_owned(), |user| user.name),
        };
        let workers = match application.max_workers {
            Some(most) => format!("at most {most} workers, shared by its lanes,"),
            None => format!("{} workers", application.workers()),
        };
        // With one version the first line says it.
        let version = if phps.list.len() > 1 { format!("{}, ", php.version) } else { String::new() };
        line("PHP", format!("{version}{workers} as user {user}"));
        for entry in entries {
            let (function, how) = match entry.is_worker_mode {
                true => ("reprise_handle_request or FRANKENPHP_WORKER", "worker mode".to_owned()),
                false => ("reprise_snapshot", format!("isolation {}", finding.described(application.isolation))),
            };
            let why =
                if entry.is_required { "the configuration says so".to_owned() } else { format!("it names {function}") };
            line("booted", format!("{} ({why}), {how}", entry.script));
        }
        if let Some((path, source)) = php_ini::chosen(application) {
            line("php.ini", format!("{} ({source})", path.display()));
        }
        for (name, value) in &application.ini {
            line("ini", format!("{name} = {value}"));
        }
        for (name, value) in &application.admin_ini {
            line("ini", format!("{name} = {value} (fixed)"));
        }
    }
    for (name, store) in config.applications.iter().filter_map(|one| Some((&one.name, crate::store::described(one)?))) {
        line("store", format!("{name}: {store}"));
    }
    line("isolation", finding.text.clone());
    if let Some(hint) = &finding.hint {
        line("hint", hint.clone());
    }
    let front = people.front.as_ref().map(|user| format!(", as user {}", user.name)).unwrap_or_default();
    let threads = if config.front_threads == 1 { "thread" } else { "threads" };
    line("front", format!("{} {threads} on {} CPUs{front}", config.front_threads, options::cpus()));
    line("memory", memory_line());
    line("access log", config.access_log.clone());
    if acme::automatic(config).next().is_some() {
        let user = people.acme.as_ref().map(|user| format!(", as user {}", user.name)).unwrap_or_default();
        line("authority", format!("{}{user}", config.acme.directory));
    }
    text
}

/// The memory there is, and the defaults that depend on it.
fn memory_line() -> String {
    let memory = options::memory();
    let defaults = format!(
        "defaults from it: {} workers, {} MiB for a cache, {} connections",
        options::usual_workers(),
        options::sized(64 << 20) >> 20,
        options::usual_connections()
    );
    format!("{} MiB ({}); {defaults}", memory.bytes >> 20, memory.file)
}
