//! A rule of an application as its settings have it: what it matches, and what it does. The text of the configuration has the
//! same names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use crate::network::Network;

/// Most rules of an application, those of its preset included.
pub const MAX_RULES: usize = 1000;

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Where it is written: `reprise.toml:12`, or `preset wordpress, rule 3`.
    pub place: String,
    /// Whether it belongs to a preset: its denials can be lifted by `allow`, and rules of the configuration come before it.
    pub is_preset: bool,
    /// What it matches.
    pub on: Match,
    /// What it does besides, which does not end matching.
    pub also: Also,
    /// What it does with the request, which ends matching.
    pub action: Option<Action>,
}

/// What a rule matches: everything that is given has to fit. Of a list one entry has to fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// Whole paths.
    pub path: Vec<String>,
    /// Paths with all below them. `/a` is `/a` and `/a/b`, `/a/` is `/a/` and `/a/b`.
    pub prefix: Vec<String>,
    /// A regular expression that is searched for in the path.
    pub pattern: Option<String>,
    /// Hosts, lower-case; `*.example` for all below.
    pub host: Vec<String>,
    /// Methods, upper-case.
    pub method: Vec<String>,
    /// Headers by name: `*` is any value, `~` begins a regular expression, else the whole value.
    pub header: BTreeMap<String, String>,
    /// Addresses of clients.
    pub address: Vec<Network>,
    /// Addresses that clients may not have.
    pub not_address: Vec<Network>,
    /// What exists.
    pub exists: Option<Exists>,
}

/// Whether there is a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exists {
    /// The path is a file, or a script.
    File,
    /// The path is a directory.
    Directory,
    /// The path is one of them.
    Any,
    /// The path is neither.
    Nothing,
    /// There is a file at this other path below the root.
    Other(String),
}

/// What accumulates: several rules may say it of one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Also {
    /// Headers of the response; an empty value removes one.
    pub headers: BTreeMap<String, String>,
    /// How long the response may be kept.
    pub expires: Option<Expires>,
    /// Who may come in.
    pub users: Option<Users>,
    /// Whether scripts run by their own names.
    pub is_php_off: bool,
    /// Pages of statuses that the front itself gives.
    pub error_pages: BTreeMap<u16, String>,
    /// Other limits.
    pub limits: Option<Box<Limits>>,
}

/// How long a response may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expires {
    /// For so many seconds.
    Seconds(u64),
    /// For ever: the file's name changes with its content.
    Immutable,
    /// Not without asking again.
    Never,
}

/// Basic authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// What the client's dialogue says.
    pub realm: String,
    /// Hashes by user, as an htpasswd file has them.
    pub hashes: BTreeMap<String, String>,
}

/// What ends matching.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// A refusal with this status: 403, 404 or 410.
    Deny(u16),
    /// The path is served as if there were no default denials and no denials of the preset.
    Allow,
    /// A redirect: status and target.
    Redirect(u16, String),
    /// Matching begins again with another path, and perhaps another query.
    Rewrite(String),
    /// A script below the root runs.
    Script(String),
    /// Files are sent and scripts run; for everything else this script runs.
    FrontController(String),
    /// What lies below the rule's prefix is looked for in this directory.
    Mount(PathBuf),
    /// 503 with a page.
    Maintenance(String),
    /// Another server responds.
    Upstream(Box<Upstream>),
}

/// A server that responds in the place of PHP. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upstream {
    /// `http://127.0.0.1:9000` or `unix:/run/app.sock`, as it is configured.
    pub name: String,
    /// What its name stood for when the configuration was read: `127.0.0.1:9000`, or `unix:` and a path.
    pub addresses: Vec<String>,
    /// The number of the first of these addresses among all of its application.
    pub first_address: u32,
    /// What it is asked for; `None`: the path of the request.
    pub target: Option<String>,
    /// Time to connect.
    pub connect_ms: u64,
    /// Time to the head of its response, once it has the request.
    pub response_ms: u64,
    /// Time between two parts of a body, and of silence in a WebSocket.
    pub idle_ms: u64,
    /// Requests and WebSockets at once.
    pub connections: usize,
}

impl Action {
    /// Its name in the configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::Deny(_) => "deny",
            Action::Allow => "allow",
            Action::Redirect(..) => "redirect",
            Action::Rewrite(_) => "rewrite",
            Action::Script(_) => "script",
            Action::FrontController(_) => "front_controller",
            Action::Mount(_) => "mount",
            Action::Maintenance(_) => "maintenance",
            Action::Upstream(_) => "upstream",
        }
    }
}

/// Bytes of a rule's name.
const MAX_NAME: usize = 100;

impl Rule {
    /// Its name where requests are counted: its number among the rules of the configuration, or among those of the preset, and what it
    /// matches. It fits on a line.
    pub fn name(&self, number: usize) -> String {
        let of = if self.is_preset { "preset " } else { "" };
        let text = format!("{of}{number}: {}", self.on).replace(char::is_control, " ");
        match (0..=MAX_NAME).rev().find(|end| text.is_char_boundary(*end)) {
            Some(end) if end < text.len() => format!("{}…", &text[..end]),
            _ => text,
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Deny(status) => write!(text, "deny = {status}"),
            Action::Allow => write!(text, "allow = true"),
            Action::Redirect(status, target) => write!(text, "redirect = \"{target}\", status = {status}"),
            Action::Mount(directory) => write!(text, "mount = \"{}\"", directory.display()),
            Action::Upstream(upstream) => {
                write!(text, "upstream = \"{}{}\"", upstream.name, upstream.target.as_deref().unwrap_or(""))
            }
            Action::Rewrite(target)
            | Action::Script(target)
            | Action::FrontController(target)
            | Action::Maintenance(target) => {
                write!(text, "{} = \"{target}\"", self.name())
            }
        }
    }
}

impl std::fmt::Display for Match {
    /// The conditions in a line.
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        for (name, list) in
            [("path", &self.path), ("prefix", &self.prefix), ("host", &self.host), ("method", &self.method)]
        {
            if !list.is_empty() {
                parts.push(format!("{name} {}", list.join(" ")));
            }
        }
        parts.extend(self.pattern.iter().map(|pattern| format!("pattern {pattern}")));
        parts.extend(self.header.iter().map(|(name, value)| format!("header {name}: {value}")));
        if !self.address.is_empty() {
            parts.push("address".to_owned());
        }
        if !self.not_address.is_empty() {
            parts.push("not_address".to_owned());
        }
        parts.extend(self.exists.iter().map(|exists| match exists {
            Exists::File => "exists file".to_owned(),
            Exists::Directory => "exists directory".to_owned(),
            Exists::Any => "exists any".to_owned(),
            Exists::Nothing => "exists nothing".to_owned(),
            Exists::Other(path) => format!("exists {path}"),
        }));
        if parts.is_empty() { text.write_str("every path") } else { text.write_str(&parts.join(", ")) }
    }
}
