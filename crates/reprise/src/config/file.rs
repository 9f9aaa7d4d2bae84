//! The configuration file read: every value by its row, every mistake with its line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use front::settings::{LogFormat, ProxyHeaders, Warmup};
use front::target::is_clean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::control::Isolation;

use super::{Application, Config, RequestLimits, application, defaults, resolve, resolve_in_part};
use crate::exit::{Code, Failure};
use crate::options::{Kind, Scope, describe, find, nearest, parse_size, parse_time};

/// Bytes of a configuration file.
const MAX_SIZE: u64 = 4 << 20;

/// A file while it is read.
pub(super) struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

pub(super) type Item<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    pub(super) fn fail(&self, at: usize, why: impl std::fmt::Display) -> Failure {
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

    pub(super) fn wrong(&self, item: &Item<'_>, name: &str, kind: Kind) -> Failure {
        self.fail(item.span().start, format!("'{name}' takes a {}", describe(kind)))
    }

    pub(super) fn text(&self, name: &str, item: &Item<'_>) -> Result<String, Failure> {
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

    fn signed(&self, scope: Scope, name: &str, item: &Item<'_>) -> Result<i64, Failure> {
        let Some(kind @ Kind::Signed(low, high)) = find(scope, name).map(|row| row.kind) else {
            return Err(self.fail(item.span().start, format!("'{name}' is no number")));
        };
        let number = match item.get_ref() {
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix()).ok(),
            _ => None,
        };
        number.filter(|number| (low..=high).contains(number)).ok_or_else(|| self.wrong(item, name, kind))
    }

    fn switch(&self, name: &str, item: &Item<'_>) -> Result<bool, Failure> {
        match item.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong(item, name, Kind::Switch)),
        }
    }

    /// A path of a URL, or `None` if it is empty.
    fn path(&self, name: &str, item: &Item<'_>) -> Result<Option<String>, Failure> {
        let text = self.text(name, item)?;
        let is_plain = text.starts_with('/') && !text.contains(['?', '#', '%']) && is_clean(&text);
        if !text.is_empty() && !is_plain {
            let failure =
                self.fail(item.span().start, format!("'{name}' takes a path such as \"/{name}\", not \"{text}\""));
            return Err(failure.hint("it begins with / and has no ?, #, % or .. in it"));
        }
        Ok((!text.is_empty()).then_some(text))
    }

    /// Permissions in octal.
    fn permissions(&self, name: &str, item: &Item<'_>) -> Result<u32, Failure> {
        let text = self.text(name, item)?;
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.ok_or_else(|| {
            self.fail(
                item.span().start,
                format!("'{name}' takes permissions in octal such as \"0660\", not \"{text}\""),
            )
        })
    }

    /// The environment; `$NAME` stands for a variable of the server's own.
    fn environment(&self, name: &str, item: &Item<'_>) -> Result<BTreeMap<String, String>, Failure> {
        let mut pairs = self.table(name, item)?;
        for (key, value) in &mut pairs {
            let Some(source) = value.strip_prefix('$') else { continue };
            *value = std::env::var(source).map_err(|_| {
                let why = format!("env.{key} is to be {value}, which the server's environment does not have");
                self.fail(item.span().start, why)
            })?;
        }
        Ok(pairs)
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

    /// Takes an option that may be said of paths too; false: it is none.
    fn request_limit(&self, limits: &mut RequestLimits, name: &str, item: &Item<'_>) -> Result<bool, Failure> {
        let number = || self.number(Scope::Application, name, item).map(|number| number as usize);
        let time = || self.time(Scope::Application, name, item);
        match name {
            "queue" => limits.queue = number()?,
            "queue_timeout" => limits.queue_timeout = time()?,
            "request_timeout" => limits.request_timeout = time()?,
            "soft_timeout" => limits.soft_timeout = time()?,
            "request_memory" => limits.request_memory = self.size(name, item)?,
            "client_requests" => limits.client_requests = number()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Limits by path; what they leave out is as in `general`.
    fn path_limits(
        &self,
        name: &str,
        item: &Item<'_>,
        general: &RequestLimits,
    ) -> Result<BTreeMap<String, RequestLimits>, Failure> {
        let DeValue::Table(table) = item.get_ref() else { return Err(self.wrong(item, name, Kind::Table)) };
        let mut all = BTreeMap::new();
        for (path, value) in table.iter() {
            let (at, path) = (path.span().start, path.get_ref().to_string());
            if !is_clean(&path) {
                return Err(self.fail(at, format!("'{path}' is no path: \"/export\", without query or %")));
            }
            let DeValue::Table(table) = value.get_ref() else {
                let failure = self.fail(value.span().start, format!("'{name}' takes a table for each path"));
                return Err(failure.hint("limits.\"/export\" = { request_timeout = \"10m\" }"));
            };
            let mut limits = general.clone();
            for (key, value) in table.iter() {
                if !self.request_limit(&mut limits, key.get_ref(), value)? {
                    let why = format!("the limits of a path have no '{}'", key.get_ref());
                    return Err(self.fail(key.span().start, why).hint(
                        "request_timeout, soft_timeout, request_memory, queue, queue_timeout and client_requests",
                    ));
                }
            }
            all.insert(path, limits);
        }
        Ok(all)
    }

    /// Requests as paths, or as tables.
    fn requests(&self, name: &str, item: &Item<'_>) -> Result<Vec<Warmup>, Failure> {
        let DeValue::Array(items) = item.get_ref() else { return Err(self.wrong(item, name, Kind::Requests)) };
        items.iter().map(|item| self.request(name, item)).collect()
    }

    fn request(&self, name: &str, item: &Item<'_>) -> Result<Warmup, Failure> {
        let mut request = Warmup { method: "GET".to_owned(), path: String::new(), headers: BTreeMap::new() };
        match item.get_ref() {
            DeValue::String(path) => request.path = path.to_string(),
            DeValue::Table(table) => {
                for (key, value) in table.iter() {
                    match key.get_ref().as_ref() {
                        "method" => request.method = self.text("method", value)?.to_ascii_uppercase(),
                        "path" => request.path = self.text("path", value)?,
                        "headers" => request.headers = self.table("headers", value)?,
                        other => {
                            let failure =
                                self.fail(key.span().start, format!("a request of '{name}' has no '{other}'"));
                            return Err(failure.hint("method, path and headers"));
                        }
                    }
                }
            }
            _ => return Err(self.wrong(item, name, Kind::Requests)),
        }
        if !request.path.starts_with('/') {
            let why = format!("the path of a request of '{name}' begins with /, not \"{}\"", request.path);
            return Err(self.fail(item.span().start, why));
        }
        Ok(request)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, name: &str, item: &Item<'_>, words: &[(&str, T)]) -> Result<T, Failure> {
        let text = self.text(name, item)?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let choices: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.fail(item.span().start, format!("'{name}' takes {}, not \"{text}\"", choices.join(" or ")))
        })
    }
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Config, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Configuration, path.display().to_string(), error);
    let mut text = String::new();
    let mut source = process::files::open_regular(path).map_err(failed)?.take(MAX_SIZE + 1);
    source.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(failed(std::io::Error::other(format!("it is larger than {MAX_SIZE} bytes"))));
    }
    let file = File { path, text: &text };
    let document =
        DeTable::parse(&text).map_err(|error| file.fail(error.span().map_or(0, |span| span.start), error.message()))?;
    let base = path.parent().unwrap_or(Path::new(""));
    let mut config = defaults();
    file.each(Scope::Server, document.get_ref(), |name, item| {
        match name {
            "admin_listen" => config.admin_listen = file.texts(name, item)?,
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
            "access_log_format" => {
                let words = [("combined", LogFormat::Combined), ("json", LogFormat::Json)];
                config.access_log_format = file.word(name, item, &words)?;
            }
            "proxy_headers" => {
                let words = [("x-forwarded", ProxyHeaders::XForwarded), ("forwarded", ProxyHeaders::Forwarded)];
                config.proxy_headers = file.word(name, item, &words)?;
            }
            "socket_mode" => config.sockets.mode = file.permissions(name, item)?,
            "socket_owner" => config.sockets.owner = Some(file.text(name, item)?),
            "socket_group" => config.sockets.group = Some(file.text(name, item)?),
            "front_user" => config.front_user = Some(file.text(name, item)?),
            "front_threads" => config.front_threads = file.number(Scope::Server, name, item)? as usize,
            "max_connections" => config.max_connections = Some(file.number(Scope::Server, name, item)?),
            "client_connections" => config.client_connections = file.number(Scope::Server, name, item)?,
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
    name.split('.').all(|label| !label.is_empty()) && name.bytes().all(fine)
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
    application.written_root = base.join(file.text("root", root)?);
    let (mut path_limits, mut front_controller, mut modes) = (None, None, None);
    file.each(Scope::Application, table, |name, item| {
        match name {
            "root" => {}
            "name" => application.name = file.text(name, item)?,
            // Where links may lead is known at the end.
            "front_controller" => front_controller = Some(item),
            "hosts" => {
                // The front looks for names without the dot that ends them.
                let plain = |host: &String| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                application.hosts = file.texts(name, item)?.iter().map(plain).collect();
                if let Some(host) = application.hosts.iter().find(|host| !is_host_pattern(host)) {
                    let failure = file.fail(item.span().start, format!("'{host}' is no host name"));
                    return Err(failure.hint("a name without scheme, port or path; \"*.example.org\" for all below"));
                }
            }
            "watch" => application.watch = file.switch(name, item)?,
            "watch_except" => {
                let paths = file.texts(name, item)?;
                application.watch_except = paths.iter().map(|path| resolve_in_part(&base.join(path))).collect();
            }
            "user" => application.user = Some(file.text(name, item)?),
            "workers" => application.workers = Some(file.number(Scope::Application, name, item)? as usize),
            "min_workers" => {
                application.min_workers = Some(file.number(Scope::Application, name, item)? as usize);
            }
            "max_workers" => {
                application.max_workers = Some(file.number(Scope::Application, name, item)? as usize);
            }
            "max_age" => application.max_age = file.time(Scope::Application, name, item)?,
            "max_memory" => application.max_memory = file.size(name, item)?,
            // What paths leave out is known at the end.
            "limits" => path_limits = Some(item),
            "slow_timeout" => application.slow_timeout = file.time(Scope::Application, name, item)?,
            "server_timing" => application.server_timing = file.switch(name, item)?,
            "slow_headers" => application.slow_headers = file.texts(name, item)?,
            "max_body" => application.max_body = Some(file.size(name, item)?),
            "follow" => {
                let paths = file.texts(name, item)?;
                let resolved: Result<_, _> = paths.iter().map(|path| resolve(&base.join(path))).collect();
                application.follow = resolved.map_err(|why| file.fail(item.span().start, why))?;
            }
            "php_ini" => application.php_ini = Some(resolve_in_part(&base.join(file.text(name, item)?))),
            "ini" => application.ini = file.table(name, item)?,
            "admin_ini" => application.admin_ini = file.table(name, item)?,
            "env" => application.env = file.environment(name, item)?,
            "clear_env" => application.clear_env = file.switch(name, item)?,
            "rlimit_files" => application.limits.files = Some(file.number(Scope::Application, name, item)?),
            "rlimit_processes" => application.limits.processes = Some(file.number(Scope::Application, name, item)?),
            "rlimit_core" => application.limits.core = Some(file.size(name, item)?),
            "priority" => application.limits.priority = Some(file.signed(Scope::Application, name, item)? as i32),
            "capabilities" => {
                application.limits.no_capabilities = file.word(name, item, &[("keep", false), ("none", true)])?;
            }
            "ping_path" => application.ping_path = file.path(name, item)?,
            "status_path" => application.status_path = file.path(name, item)?,
            "isolation" => {
                let words = [("auto", Isolation::Auto), ("rewind", Isolation::Rewind), ("fork", Isolation::Fork)];
                application.isolation = file.word(name, item, &words)?;
            }
            "mode" => modes = Some(item),
            "classic_paths" => {
                application.classic_paths = file.texts(name, item)?;
                if let Some(path) = application.classic_paths.iter().find(|path| !is_clean(path)) {
                    let why = format!("'{path}' is no path as it stands after the host: \"/cart\", without query or %");
                    return Err(file.fail(item.span().start, why));
                }
            }
            "warmup" => application.warmup = file.requests(name, item)?,
            "warmup_failure" => {
                application.is_warmup_optional = file.word(name, item, &[("refuse", false), ("log", true)])?;
            }
            "max_requests" => application.max_requests = file.number(Scope::Application, name, item)?,
            "lane_timeout" => application.lane_timeout = file.time(Scope::Application, name, item)?,
            "boot_timeout" => application.boot_timeout = file.time(Scope::Application, name, item)?,
            other if file.request_limit(&mut application.request, other, item)? => {}
            other => unreachable!("option {other} has a row but is not read"),
        }
        Ok(())
    })?;
    if let Some(item) = front_controller {
        application.front_controller = file.front_controller("front_controller", item, &application)?;
        application.is_controller_found = false;
    }
    if let Some(item) = modes {
        application.modes = file.modes("mode", item, &application)?;
    }
    if let Some(item) = path_limits {
        application.path_limits = file.path_limits("limits", item, &application.request)?;
    }
    Ok(application)
}
