//! Targets and requests: URLs, and the mix of requests of a scenario's file.
//!
//! ```toml
//! [[request]]
//! name = "page"                 # default: method and path
//! path = "/post/5"              # default: that of the URL
//! method = "GET"
//! headers = { Accept = "text/html" }
//! body = "a=b"
//! weight = 9                    # its share beside the others'; default 1
//! status = 200
//! contains = "</html>"          # or length = 1234, or hash = "00c0ffee00c0ffee" (xxh3)
//!
//! [[request]]
//! path = "/slow.php"
//! weight = 0.2
//! refusable = true              # 503 is a refusal, counted by itself, and no error
//! hangs = true                  # occupies the server; in no throughput, and with percentiles of its own
//! ```
//! Without `contains`, `length` or `hash` the bodies have to be those that the server sent in the check.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use serde::Deserialize;

use crate::load::Class;
use crate::response::Expected;

/// Most requests of a scenario.
const MAX_REQUESTS: usize = 100;

/// A server to be measured.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in reports; without one the host and port.
    pub label: String,
    /// The URL as it was given.
    pub url: String,
    /// Its address.
    pub address: SocketAddr,
    /// The value of the Host header.
    pub host: String,
    /// Path and query.
    pub path: String,
}

/// A scenario's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    request: Vec<Request>,
}

/// One kind of request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Its name in reports.
    pub name: Option<String>,
    /// Path and query; without one those of the URL.
    pub path: Option<String>,
    /// The method.
    pub method: String,
    /// Headers besides Host and Connection.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// The weight.
    pub weight: f64,
    /// The status that the response has to have.
    pub status: u16,
    /// Text that has to be in the body.
    pub contains: Option<String>,
    /// Bytes of the body.
    pub length: Option<usize>,
    /// xxh3 of the body.
    pub hash: Option<String>,
    /// Whether 503 is no error.
    pub refusable: bool,
    /// Whether it is only to occupy the server.
    pub hangs: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            name: None,
            path: None,
            method: "GET".to_owned(),
            headers: BTreeMap::new(),
            body: String::new(),
            weight: 1.0,
            status: 200,
            contains: None,
            length: None,
            hash: None,
            refusable: false,
            hangs: false,
        }
    }
}

impl Target {
    /// From `[LABEL=]http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Target, String> {
        let labelled = text.split_once('=').filter(|(label, _)| !label.contains([':', '/']));
        let (label, url) = labelled.unwrap_or(("", text));
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(match url.split_once("://") {
                Some((scheme, _)) => format!("'{url}': {scheme} is not spoken here, only http"),
                None => format!("'{url}' is no URL: write http://HOST:PORT/PATH"),
            });
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        if host.is_empty() || host.contains('@') || path.contains(|one: char| one.is_control() || one == ' ') {
            return Err(format!("'{url}' is no URL that can be asked: write http://HOST:PORT/PATH"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let full = if has_port { host.to_owned() } else { format!("{host}:80") };
        let mut found = full.to_socket_addrs().map_err(|error| format!("'{url}': {host} is not found: {error}"))?;
        let address = found.next().ok_or_else(|| format!("'{url}': {host} has no address"))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let label = if label.is_empty() { host } else { label };
        Ok(Target { label: label.to_owned(), url: url.to_owned(), address, host: host.to_owned(), path })
    }

    /// Several targets, with different labels.
    ///
    /// # Errors
    ///
    /// What is wrong with a target, or that two have the same label.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Target>, String> {
        let mut targets = texts.iter().map(|text| Target::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let hosts: Vec<String> = targets.iter().map(|target| target.label.clone()).collect();
        let is_twice = |label: &String| hosts.iter().filter(|host| *host == label).count() > 1;
        for target in targets.iter_mut().filter(|target| target.label == target.host && is_twice(&target.label)) {
            target.label = format!("{}{}", target.host, target.path);
        }
        let labels: BTreeSet<&str> = targets.iter().map(|target| target.label.as_str()).collect();
        if labels.len() < targets.len() {
            return Err("two targets have one label: give them names, such as old=http://… new=http://…".to_owned());
        }
        Ok(targets)
    }
}

/// The requests of a file.
///
/// # Errors
///
/// The file cannot be read, or what is wrong in it.
pub fn read(path: &Path) -> Result<Vec<Request>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: File =
        toml::from_str(&text).map_err(|error| format!("{}: {}", path.display(), error.to_string().trim()))?;
    if file.request.is_empty() || file.request.len() > MAX_REQUESTS {
        return Err(format!("{}: a scenario has 1 to {MAX_REQUESTS} requests", path.display()));
    }
    file.request.iter().try_for_each(check).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
    if file.request.iter().all(|request| request.hangs) {
        return Err(format!("{}: all requests hang: nothing is left to be measured", path.display()));
    }
    Ok(file.request)
}

/// Checks a request.
///
/// # Errors
///
/// What is wrong with it.
pub fn check(request: &Request) -> Result<(), String> {
    let shown = request.shown("?");
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte))
    };
    if !is_token(&request.method) {
        return Err(format!("'{}' is no method", request.method));
    }
    if !request.weight.is_finite() || request.weight <= 0.0 {
        return Err(format!("{shown}: a weight is above zero, not {}", request.weight));
    }
    if request
        .path
        .as_ref()
        .is_some_and(|path| !path.starts_with('/') || path.contains(|one: char| one.is_control() || one == ' '))
    {
        return Err(format!("{shown}: a path begins with / and has no spaces"));
    }
    for (name, value) in &request.headers {
        let is_ours =
            ["host", "connection", "content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str());
        if !is_token(name) || value.contains(|one: char| one.is_control()) {
            return Err(format!("{shown}: '{name}: {value}' is no header"));
        }
        if is_ours && !name.eq_ignore_ascii_case("host") {
            return Err(format!("{shown}: {name} is set by the generator"));
        }
    }
    let hash = request.hash.as_ref();
    if hash.is_some_and(|hash| u64::from_str_radix(hash, 16).is_err()) {
        return Err(format!("{shown}: a hash has 16 hexadecimal digits"));
    }
    let given = [hash.is_some(), request.length.is_some(), request.contains.is_some()];
    if given.iter().filter(|is_given| **is_given).count() > 1 {
        return Err(format!("{shown}: give one of contains, length and hash"));
    }
    if !(100..600).contains(&request.status) {
        return Err(format!("{shown}: {} is no status", request.status));
    }
    Ok(())
}

impl Request {
    /// Its name.
    pub fn shown(&self, path: &str) -> String {
        let path = self.path.as_deref().unwrap_or(path);
        self.name
            .clone()
            .unwrap_or_else(|| if self.method == "GET" { path.to_owned() } else { format!("{} {path}", self.method) })
    }

    /// What its bodies have to be.
    pub fn told(&self) -> Option<Expected> {
        let hash = self.hash.as_ref().and_then(|hash| u64::from_str_radix(hash, 16).ok()).map(Expected::Hash);
        let contains = self.contains.as_ref().map(|text| Expected::Contains(text.clone().into_bytes()));
        hash.or(self.length.map(Expected::Length)).or(contains)
    }

    /// The bytes that are sent to a target.
    pub fn class(&self, target: &Target, keep_alive: bool, expected: Expected) -> Class {
        let path = self.path.as_deref().unwrap_or(&target.path);
        let host = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut text = format!(
            "{} {path} HTTP/1.1\r\nHost: {}\r\n",
            self.method,
            host.map_or(target.host.as_str(), |(_, host)| host)
        );
        for (name, value) in self.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        if !keep_alive {
            text.push_str("Connection: close\r\n");
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        Class {
            name: self.shown(&target.path),
            bytes: text.into_bytes(),
            is_head: self.method == "HEAD",
            expected,
            status: self.status,
            weight: self.weight,
            refusable: self.refusable,
            hangs: self.hangs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let target = Target::parse("new=http://127.0.0.1:8080/a?b=1#c").expect("a target");
        assert_eq!(
            (target.label.as_str(), target.host.as_str(), target.path.as_str()),
            ("new", "127.0.0.1:8080", "/a?b=1")
        );
        assert_eq!(Target::parse("http://127.0.0.1").expect("a target").address.port(), 80);
        assert_eq!(Target::parse("http://127.0.0.1:1?x=y").expect("a target").path, "/?x=y");
        for (text, words) in [
            ("https://127.0.0.1/", "only http"),
            ("127.0.0.1:80", "no URL"),
            ("http:///x", "no URL"),
            ("http://127.0.0.1/a b", "no URL"),
            ("http://no.such.host.invalid/", "not found"),
        ] {
            let wrong = Target::parse(text).expect_err(text);
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
        let both = Target::parse_all(&["http://127.0.0.1:1/a".into(), "http://127.0.0.1:1/b".into()]).expect("two");
        assert_eq!((both[0].label.as_str(), both[1].label.as_str()), ("127.0.0.1:1/a", "127.0.0.1:1/b"));
        Target::parse_all(&["x=http://127.0.0.1:1/a".into(), "x=http://127.0.0.1:1/b".into()]).expect_err("one label");
    }

    #[test]
    fn nonsense_is_refused() {
        let file = std::env::temp_dir().join(format!("reprise-scenario-{}", std::process::id()));
        for (text, words) in [
            ("", "request"),
            ("request = []", "1 to 100"),
            ("[[request]]\nweight = 0", "weight"),
            ("[[request]]\nwieght = 1", "wieght"),
            ("[[request]]\npath = \"x\"", "begins with /"),
            ("[[request]]\nmethod = \"G T\"", "no method"),
            ("[[request]]\nhangs = true", "nothing is left"),
            ("[[request]]\nlength = 1\ncontains = \"x\"", "one of"),
            ("[[request]]\nhash = \"xyz\"", "hexadecimal"),
            ("[[request]]\nheaders = { \"A B\" = \"c\" }", "no header"),
            ("[[request]]\nheaders = { Connection = \"close\" }", "set by the generator"),
            ("[[request]]\nstatus = 42", "no status"),
        ] {
            std::fs::write(&file, text).expect("a file");
            let wrong = read(&file).expect_err(text);
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
        std::fs::remove_file(&file).expect("the file");
        read(&file).expect_err("no file");
    }
}
