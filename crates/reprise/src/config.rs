//! Flags and file made into one configuration. A mistake in the file is named with its line and the nearest name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use front::settings::Network;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::What;
use crate::discover;
use crate::exit::{Code, Failure};
use crate::options::{Kind, Scope, describe, find, nearest, parse_size, parse_time};

/// What is to be served, complete but for what depends on users and descriptors.
#[derive(Debug)]
pub struct Config {
    /// Addresses as written.
    pub listen: Vec<String>,
    /// Names the state directory.
    pub name: String,
    /// Overrides where it is.
    pub state_dir: Option<PathBuf>,
    /// stdout, off or a path.
    pub access_log: String,
    /// Whose forwarding headers are believed.
    pub proxies: Vec<Network>,
    /// User of the front.
    pub front_user: Option<String>,
    /// Threads of the front.
    pub front_threads: usize,
    /// Connections at once.
    pub max_connections: Option<u64>,
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
    /// Below the root.
    pub front_controller: Option<String>,
    /// Lower-case.
    pub hosts: Vec<String>,
    /// As configured.
    pub user: Option<String>,
    /// Count.
    pub workers: usize,
    /// Waiting requests.
    pub queue: usize,
    /// As its row says.
    pub queue_timeout: Duration,
    /// As its row says; zero: none.
    pub request_timeout: Duration,
    /// As its row says.
    pub max_body: Option<u64>,
    /// Resolved.
    pub follow: Vec<PathBuf>,
    /// php.ini settings.
    pub ini: BTreeMap<String, String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
}

/// CPUs this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The configuration of a command line.
pub fn load(what: &What) -> Result<Config, Failure> {
    let mut config = match (&what.config, &what.directory) {
        (Some(file), _) => from_file(file)?,
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
            application.workers = workers as usize;
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
    config.listen.iter().try_for_each(|address| crate::listen::check(address))?;
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
        for (name, value) in application.ini.iter().chain(&application.env) {
            if name.is_empty() || name.contains(['=', '\n', '\0']) || value.contains(['\n', '\0']) {
                let why =
                    format!("'{name}' of application '{}' must be one line without '=' in its name", application.name);
                return Err(Failure::new(Code::Configuration, "ini or env", why));
            }
        }
    }
    Ok(())
}

fn defaults() -> Config {
    Config {
        listen: vec!["127.0.0.1:8080".to_owned()],
        name: String::new(),
        state_dir: None,
        access_log: "stdout".to_owned(),
        proxies: Vec::new(),
        front_user: None,
        front_threads: (cpus() / 4).clamp(1, 16),
        max_connections: None,
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
        root,
        hosts: Vec::new(),
        user: None,
        workers: 4 * cpus(),
        queue: 1024,
        queue_timeout: Duration::from_secs(30),
        request_timeout: Duration::from_secs(300),
        max_body: None,
        follow: Vec::new(),
        ini: BTreeMap::new(),
        env: BTreeMap::new(),
    }
}

fn resolve(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

fn from_directory(directory: &Path) -> Result<Config, Failure> {
    let root = discover::document_root(directory)?;
    let root = resolve(&root).map_err(|why| Failure::new(Code::Permission, "document root", why))?;
    Ok(Config { applications: vec![application(root)], ..defaults() })
}

/// A file while it is read.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

type Item<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    fn fail(&self, at: usize, why: impl std::fmt::Display) -> Failure {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        Failure::new(Code::Configuration, format!("{}:{line}", self.path.display()), why)
    }

    /// Checks that every name in a table is an option, and calls `take` with each.
    fn each<'i>(
        &self,
        scope: Scope,
        table: &'i DeTable<'i>,
        mut take: impl FnMut(&str, &'i Item<'i>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (name, item) in table.iter() {
            let text = name.get_ref().as_ref();
            if text == "application" && scope == Scope::Server {
                continue;
            }
            if find(scope, text).is_none() {
                let other = if scope == Scope::Server { Scope::Application } else { Scope::Server };
                let failure = self.fail(name.span().start, format!("there is no option '{text}' here"));
                return Err(match (find(other, text), nearest(scope, text)) {
                    (Some(_), _) if other == Scope::Application => {
                        failure.hint(format!("'{text}' belongs below [[application]]"))
                    }
                    (Some(_), _) => {
                        failure.hint(format!("'{text}' belongs to the top of the file, above [[application]]"))
                    }
                    (None, Some(near)) => failure.hint(format!("did you mean '{near}'?")),
                    (None, None) => failure.hint("reprise check --options lists them all"),
                });
            }
            take(text, item)?;
        }
        Ok(())
    }

    fn wrong(&self, item: &Item<'_>, name: &str, kind: Kind) -> Failure {
        self.fail(item.span().start, format!("'{name}' takes a {}", describe(kind)))
    }

    fn text(&self, name: &str, item: &Item<'_>) -> Result<String, Failure> {
        match item.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(item, name, Kind::Text)),
        }
    }

    fn texts(&self, name: &str, item: &Item<'_>) -> Result<Vec<String>, Failure> {
        let DeValue::Array(items) = item.get_ref() else { return Err(self.wrong(item, name, Kind::Texts)) };
        items.iter().map(|item| self.text(name, item)).collect()
    }

    fn number(&self, scope: Scope, name: &str, item: &Item<'_>) -> Result<u64, Failure> {
        let Some(kind @ Kind::Number(low, high)) = find(scope, name).map(|row| row.kind) else {
            return Err(self.fail(item.span().start, format!("'{name}' is no number")));
        };
        let number = match item.get_ref() {
            DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
            _ => None,
        };
        number.filter(|number| (low..=high).contains(number)).ok_or_else(|| self.wrong(item, name, kind))
    }

    fn time(&self, scope: Scope, name: &str, item: &Item<'_>) -> Result<Duration, Failure> {
        let Some(kind @ Kind::Time(low, high)) = find(scope, name).map(|row| row.kind) else {
            return Err(self.fail(item.span().start, format!("'{name}' is no time")));
        };
        let time = match item.get_ref() {
            DeValue::String(text) => parse_time(text),
            DeValue::Integer(digits) => parse_time(digits.as_str()),
            _ => None,
        };
        // A part of a second is a time too where zero is not meant to be one.
        let within = |time: &Duration| *time <= Duration::from_secs(high) && (low == 0 || !time.is_zero());
        time.filter(within).ok_or_else(|| self.wrong(item, name, kind))
    }

    fn size(&self, name: &str, item: &Item<'_>) -> Result<u64, Failure> {
        let size = match item.get_ref() {
            DeValue::String(text) => parse_size(text),
            DeValue::Integer(digits) => parse_size(digits.as_str()),
            _ => None,
        };
        size.ok_or_else(|| self.wrong(item, name, Kind::Size))
    }

    /// Values as PHP and the environment spell them: true is 1, false is 0.
    fn table(&self, name: &str, item: &Item<'_>) -> Result<BTreeMap<String, String>, Failure> {
        let DeValue::Table(table) = item.get_ref() else { return Err(self.wrong(item, name, Kind::Table)) };
        let mut pairs = BTreeMap::new();
        for (key, value) in table.iter() {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(digits) => digits.as_str().to_owned(),
                DeValue::Float(digits) => digits.as_str().to_owned(),
                DeValue::Boolean(value) => if *value { "1" } else { "0" }.to_owned(),
                DeValue::Table(_) => {
                    let why = format!("'{}' holds a table; quote names with dots: \"{0}.…\" = …", key.get_ref());
                    return Err(self.fail(value.span().start, why));
                }
                _ => return Err(self.fail(value.span().start, format!("'{}' takes one value", key.get_ref()))),
            };
            pairs.insert(key.get_ref().to_string(), text);
        }
        Ok(pairs)
    }
}

fn from_file(path: &Path) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Code::Configuration, path.display().to_string(), error))?;
    let file = File { path, text: &text };
    let document =
        DeTable::parse(&text).map_err(|error| file.fail(error.span().map_or(0, |span| span.start), error.message()))?;
    let base = path.parent().unwrap_or(Path::new(""));
    let mut config = defaults();
    file.each(Scope::Server, document.get_ref(), |name, item| {
        match name {
            "listen" => config.listen = file.texts(name, item)?,
            "name" => config.name = file.text(name, item)?,
            "state_dir" => config.state_dir = Some(base.join(file.text(name, item)?)),
            "access_log" => {
                let target = file.text(name, item)?;
                let is_word = ["stdout", "off"].contains(&target.as_str());
                config.access_log = if is_word { target } else { base.join(target).to_string_lossy().into_owned() };
            }
            "proxies" => {
                let parse = |text: &String| {
                    text.parse().map_err(|()| {
                        let failure = file.fail(item.span().start, format!("'{text}' is no address or network"));
                        failure.hint("127.0.0.1, 10.0.0.0/8, fd00::/8 or unix:")
                    })
                };
                config.proxies = file.texts(name, item)?.iter().map(parse).collect::<Result<_, _>>()?;
            }
            "front_user" => config.front_user = Some(file.text(name, item)?),
            "front_threads" => config.front_threads = file.number(Scope::Server, name, item)? as usize,
            "max_connections" => config.max_connections = Some(file.number(Scope::Server, name, item)?),
            "header_timeout" => config.header_timeout = file.time(Scope::Server, name, item)?,
            "body_timeout" => config.body_timeout = file.time(Scope::Server, name, item)?,
            "send_timeout" => config.send_timeout = file.time(Scope::Server, name, item)?,
            "drain_timeout" => config.drain_timeout = file.time(Scope::Server, name, item)?,
            other => unreachable!("option {other} has a row but is not read"),
        }
        Ok(())
    })?;
    let Some(applications) = document.get_ref().get("application") else {
        return Err(file.fail(text.len(), "describes no [[application]]").hint("[[application]]\nroot = \"…\""));
    };
    let DeValue::Array(list) = applications.get_ref() else {
        return Err(file.fail(applications.span().start, "write [[application]], with two brackets"));
    };
    if list.is_empty() {
        let failure = file.fail(applications.span().start, "describes no [[application]]");
        return Err(failure.hint("[[application]]\nroot = \"…\""));
    }
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(file.fail(item.span().start, "write [[application]], with two brackets"));
        };
        config.applications.push(read_application(&file, base, table, item.span().start)?);
    }
    Ok(config)
}

/// A name, an address, or `*.` and a name.
fn is_host_pattern(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_v6 = name.starts_with('[') && name.ends_with(']');
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte) || (is_v6 && b"[]:".contains(&byte));
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(fine)
}

fn read_application(file: &File<'_>, base: &Path, table: &DeTable<'_>, at: usize) -> Result<Application, Failure> {
    let Some(root) = table.get("root") else {
        return Err(file.fail(at, "this [[application]] has no root").hint("root = \"/srv/site/public\""));
    };
    let named = file.text("root", root)?;
    if named.is_empty() {
        return Err(file.fail(root.span().start, "root is empty"));
    }
    let path = resolve(&base.join(named)).map_err(|why| file.fail(root.span().start, why))?;
    if !path.is_dir() {
        return Err(file.fail(root.span().start, format!("root {} is not a directory", path.display())));
    }
    let mut application = application(path);
    file.each(Scope::Application, table, |name, item| {
        match name {
            "root" => {}
            "name" => application.name = file.text(name, item)?,
            "front_controller" => {
                let script = file.text(name, item)?;
                let script = script.trim_start_matches('/');
                let path = application.root.join(script);
                if path.canonicalize().is_ok_and(|path| !path.starts_with(&application.root)) || script.contains("..") {
                    return Err(file.fail(item.span().start, format!("front controller {script} is outside the root")));
                }
                if !script.is_empty() && !path.is_file() {
                    let why = format!("front controller {script} is not a file in {}", application.root.display());
                    return Err(file.fail(item.span().start, why));
                }
                application.front_controller = (!script.is_empty()).then(|| script.to_owned());
            }
            "hosts" => {
                application.hosts = file.texts(name, item)?.iter().map(|host| host.to_ascii_lowercase()).collect();
                if let Some(host) = application.hosts.iter().find(|host| !is_host_pattern(host)) {
                    let failure = file.fail(item.span().start, format!("'{host}' is no host name"));
                    return Err(failure.hint("a name without scheme, port or path; \"*.example.org\" for all below"));
                }
            }
            "user" => application.user = Some(file.text(name, item)?),
            "workers" => application.workers = file.number(Scope::Application, name, item)? as usize,
            "queue" => application.queue = file.number(Scope::Application, name, item)? as usize,
            "queue_timeout" => application.queue_timeout = file.time(Scope::Application, name, item)?,
            "request_timeout" => application.request_timeout = file.time(Scope::Application, name, item)?,
            "max_body" => application.max_body = Some(file.size(name, item)?),
            "follow" => {
                let paths = file.texts(name, item)?;
                let resolved: Result<_, _> = paths.iter().map(|path| resolve(&base.join(path))).collect();
                application.follow = resolved.map_err(|why| file.fail(item.span().start, why))?;
            }
            "ini" => application.ini = file.table(name, item)?,
            "env" => application.env = file.table(name, item)?,
            other => unreachable!("option {other} has a row but is not read"),
        }
        Ok(())
    })?;
    Ok(application)
}
