//! Finds what responds to a host and path: monitoring, a file, a script, a redirect, or nothing.

pub mod file_cache;
mod found;
pub mod links;
mod look;
pub mod source;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::fingerprint;
use crate::rules::table;
use crate::settings::{Application, FormerRoot, Links};
use crate::target::{is_hidden, is_overlong, split_script};
pub use found::Found;
use look::{exists, look};

/// What responds to a request.
#[derive(Debug)]
pub enum Route {
    /// A file, checked and opened.
    File(Arc<Found>),
    /// The path at which monitoring asks whether there are workers.
    Ping,
    /// The path at which monitoring asks what the workers do.
    Status,
    /// A script: its path below the root and the path info.
    Script(Arc<Script>),
    /// A redirect to this path with a slash at its end.
    Directory(Vec<u8>),
    /// 404.
    Nobody,
    /// 403: the file is there, but closed to the front.
    Closed,
    /// 403: the file is there, and no site wants such a file sent, or a rule forbids scripts there.
    Denied,
    /// 403: the file is PHP's source by its first bytes, though not by its name.
    Source,
    /// 403: a symbolic link leads there, and is not followed.
    Link(Box<links::Refused>),
}

impl Route {
    fn script(name: Vec<u8>, path_info: &[u8]) -> Route {
        Route::Script(Arc::new(Script { name, path_info: path_info.to_owned(), mount: None }))
    }
}

/// A script to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// For example `/index.php`.
    pub name: Vec<u8>,
    /// For example `/posts/5`, or empty.
    pub path_info: Vec<u8>,
    /// If the script lies below a directory that is mounted: that directory, and how many bytes of the name lead there.
    pub mount: Option<(PathBuf, usize)>,
}

impl Script {
    /// The script's name as lanes and configuration have it. A name that is not UTF-8 has no lane, nor has a script that is
    /// not below the root.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok().filter(|_| self.mount.is_none())
    }

    /// The script's file as it lies on disk: a directory, and the path below it.
    pub fn place<'a>(&'a self, application: &'a Application) -> (&'a Path, &'a [u8]) {
        match &self.mount {
            Some((directory, skipped)) => (directory, self.name.get(*skipped..).unwrap_or_default()),
            None => (&application.root, &self.name),
        }
    }

    /// The same as PHP has it: that may be in a phar.
    pub fn file<'a>(&'a self, application: &'a Application) -> (&'a Path, &'a [u8]) {
        match &self.mount {
            Some(_) => self.place(application),
            None => (self.root(application), &self.name),
        }
    }

    /// The document root that PHP has for it.
    pub fn root<'a>(&self, application: &'a Application) -> &'a Path {
        match &application.phar {
            None => &application.root,
            // The stub is the phar's own file.
            Some(phar) if phar.stub.as_ref().is_some_and(|stub| *stub.as_bytes() == *self.name) => &phar.directory,
            Some(phar) => &phar.scripts,
        }
    }

    fn is_front_controller(&self, terms: &Terms<'_>) -> bool {
        terms.front_controller.is_some_and(|name| self.name[1..] == *name.as_bytes())
    }
}

/// The application for a host name (lower-case, without port): by the exact name, else by the longest wildcard, else one
/// that takes any host.
pub fn application<'a>(applications: &'a [Application], host: &str) -> Option<(usize, &'a Application)> {
    let score = |application: &Application| {
        if application.hosts.is_empty() {
            return Some(0);
        }
        let one = |name: &String| match name.strip_prefix('*') {
            None => (name == host).then_some(usize::MAX),
            Some(tail) => (host.len() > tail.len() && host.ends_with(tail)).then_some(tail.len()),
        };
        application.hosts.iter().filter_map(one).max()
    };
    let scored = applications.iter().enumerate().filter_map(|(number, one)| Some((score(one)?, number, one)));
    // Of equal ones the first.
    scored.rev().max_by_key(|(score, ..)| *score).map(|(_, number, one)| (number, one))
}

/// By what files and scripts are looked for.
pub struct Terms<'a> {
    /// Id of the application's generation: what was decided for another is not believed.
    pub generation: u32,
    /// Below which directory.
    pub root: &'a Path,
    /// Other directories that symbolic links may lead to.
    pub follow: &'a [PathBuf],
    /// Which further symbolic links are followed.
    pub links: Links,
    /// The number of PHP's user.
    pub php_user: u32,
    /// Document roots of releases that were served before.
    pub former: &'a [FormerRoot],
    /// The script for every path without a file, below the root and without its first slash.
    pub front_controller: Option<&'a str>,
    /// Names of a directory's index; `None`: [`INDEX`], and the root is the front controller's.
    pub index: Option<&'a [String]>,
    /// Whether files that no site wants sent are denied.
    pub has_denials: bool,
    /// Whether a rule allows what is found by its name or its bytes to be no file for visitors.
    pub is_allowed: bool,
    /// Whether scripts do not run by their own names.
    pub is_php_off: bool,
    /// The path of a phar's stub, which is a script.
    pub stub: Option<&'a str>,
}

impl<'a> Terms<'a> {
    /// Those of an application without rules.
    pub fn of(application: &'a Application) -> Terms<'a> {
        Terms {
            generation: application.generation,
            root: &application.root,
            follow: &application.follow,
            links: application.links,
            php_user: application.php_user,
            former: &application.former_roots,
            front_controller: application.front_controller.as_deref(),
            index: application.index.as_deref(),
            has_denials: application.default_denials,
            is_allowed: false,
            is_php_off: false,
            stub: application.phar.as_ref().and_then(|phar| phar.stub.as_deref()),
        }
    }

    /// The root, or the directory of `follow`, that a real path lies in, with the path below it.
    fn allowed<'p>(&self, real: &'p Path) -> Option<(&'a Path, &'p Path)> {
        let mut all = std::iter::once(self.root).chain(self.follow.iter().map(PathBuf::as_path));
        all.find_map(|base| Some((base, real.strip_prefix(base).ok()?)))
    }
}

/// Names of a directory's index if the configuration names none, the first that exists.
pub const INDEX: [&str; 2] = ["index.php", "index.html"];

enum Kind {
    File(Arc<Found>),
    Directory,
    Script,
    Missing,
    Closed,
    Denied,
    Source,
    Link(Box<links::Refused>),
}

/// The name of an open file in /proc.
fn handle(place: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
}

/// The path of what is open, without links.
fn real_path(place: &impl AsFd) -> io::Result<PathBuf> {
    std::fs::read_link(handle(place))
}

/// How long a script that was found is taken to exist. If it is gone by then, the worker responds with 404.
const BELIEVED: Duration = Duration::from_secs(1);
/// When a script was found, for which generation, and which script.
type Remembered = (Instant, u32, Arc<Script>);

/// Scripts remembered per thread.
const REMEMBERED: usize = 1024;

thread_local! {
    static SCRIPTS: RefCell<HashMap<Vec<u8>, Remembered>> = RefCell::new(HashMap::new());
}

/// Finds what responds to a cleaned path of an application. A script that is found by its own name is remembered for a
/// second. Missing files are not remembered, so a new file is served at once.
pub fn route(application: &Application, path: &[u8], now: Instant) -> Route {
    let is = |configured: &Option<String>| configured.as_ref().is_some_and(|known| *known.as_bytes() == *path);
    if is(&application.ping_path) {
        return Route::Ping;
    }
    if is(&application.status_path) {
        return Route::Status;
    }
    let known = SCRIPTS.with_borrow(|scripts| match scripts.get(path) {
        Some((since, of, script)) if *of == application.generation && now - *since < BELIEVED => Some(script.clone()),
        _ => None,
    });
    if let Some(script) = known {
        return Route::Script(script);
    }
    let terms = Terms::of(application);
    let route = decide(&terms, path);
    if let Route::Script(script) = &route {
        if !script.is_front_controller(&terms) || path == b"/" || path == script.name {
            SCRIPTS.with_borrow_mut(|scripts| {
                if scripts.len() >= REMEMBERED {
                    scripts.clear();
                }
                scripts.insert(path.to_owned(), (now, application.generation, script.clone()));
            });
        }
    }
    route
}

/// Finds it on these terms, without a look at what is remembered.
pub fn decide(terms: &Terms<'_>, path: &[u8]) -> Route {
    if let Some(path_info) = terms.stub.and_then(|stub| below_stub(stub, path)) {
        return match terms.is_php_off {
            true => Route::Denied,
            false => Route::script(path[..path.len() - path_info.len()].to_owned(), path_info),
        };
    }
    // The path info behind a script's name is not checked: it is up to the script.
    let (name, path_info) = split_script(path).unwrap_or((path, b""));
    if is_hidden(name) || is_overlong(name) {
        return fallback(terms);
    }
    if name.ends_with(b".php") {
        return match look(terms, name) {
            Kind::Script => Route::script(name.to_owned(), path_info),
            Kind::Closed => Route::Closed,
            Kind::Denied => Route::Denied,
            Kind::Link(refused) => Route::Link(refused),
            _ => fallback(terms),
        };
    }
    match look(terms, path) {
        Kind::File(_) if path.ends_with(b"/") => fallback(terms),
        Kind::File(found) => Route::File(found),
        Kind::Directory if path.ends_with(b"/") => index(terms, path),
        Kind::Directory => match index(terms, &[path, b"/"].concat()) {
            // A directory without an index is the front controller's, with the path as it is.
            Route::Script(script) if script.is_front_controller(terms) => Route::Script(script),
            Route::Script(_) | Route::File(_) => Route::Directory(path.to_owned()),
            other => other,
        },
        Kind::Closed => Route::Closed,
        Kind::Denied if path.ends_with(b"/") => fallback(terms),
        Kind::Denied => Route::Denied,
        Kind::Source => Route::Source,
        Kind::Link(refused) => Route::Link(refused),
        Kind::Missing | Kind::Script => former(terms, path).unwrap_or_else(|| fallback(terms)),
    }
}

/// A file with a fingerprint in its name that a release had which was served before: pages that were made by it still name the file.
fn former(terms: &Terms<'_>, path: &[u8]) -> Option<Route> {
    if terms.former.is_empty() || !fingerprint::is_named(path) {
        return None;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
    terms.former.iter().filter(|one| one.until > now).find_map(|one| {
        match look(&Terms { root: &one.root, former: &[], ..*terms }, path) {
            Kind::File(found) => Some(Route::File(found)),
            _ => None,
        }
    })
}

/// The path info of a path that names a phar's stub.
fn below_stub<'a>(stub: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    path.strip_prefix(stub.as_bytes()).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn fallback(terms: &Terms<'_>) -> Route {
    match terms.front_controller {
        Some(name) => Route::script([b"/", name.as_bytes()].concat(), b""),
        None => Route::Nobody,
    }
}

/// What a directory may have as its index, in order. The root is the front controller's, if there is one, unless the
/// configuration names indexes.
fn indexes<'a>(terms: &Terms<'a>, directory: &[u8]) -> impl Iterator<Item = &'a str> {
    let is_controllers = directory == b"/" && terms.front_controller.is_some();
    let usual = INDEX.iter().copied().filter(move |_| !is_controllers);
    let named = terms.index.map(|names| names.iter().map(String::as_str));
    let usual = named.is_none().then_some(usual);
    named.into_iter().flatten().chain(usual.into_iter().flatten())
}

/// A directory's index, else the front controller.
fn index(terms: &Terms<'_>, directory: &[u8]) -> Route {
    for name in indexes(terms, directory) {
        let path = [directory, name.as_bytes()].concat();
        match look(terms, &path) {
            Kind::Script => return Route::script(path, b""),
            Kind::File(found) => return Route::File(found),
            Kind::Closed => return Route::Closed,
            Kind::Denied => return Route::Denied,
            Kind::Source => return Route::Source,
            Kind::Link(refused) => return Route::Link(refused),
            Kind::Directory | Kind::Missing => {}
        }
    }
    fallback(terms)
}

/// The name of the file that is the index of a directory; `None`: the path is no directory, or it has none.
pub fn index_of<'a>(terms: &Terms<'a>, directory: &[u8]) -> Option<&'a str> {
    let is_there = |name: &&str| exists(terms, &[directory, name.as_bytes()].concat()) == Some(table::Kind::File);
    indexes(terms, directory).filter(|_| directory.ends_with(b"/") && !is_hidden(directory)).find(is_there)
}

/// Parts a path at a mounted directory, to which its first `prefix` bytes lead: the prefix without its slash, and the path below it.
pub fn below(path: &[u8], prefix: usize) -> (&[u8], &[u8]) {
    let prefix = path.get(..prefix).unwrap_or_default();
    path.split_at(prefix.strip_suffix(b"/").unwrap_or(prefix).len())
}

/// Finds what responds to a path below a mounted directory; its first `prefix` bytes lead there.
pub fn mounted(terms: &Terms<'_>, prefix: usize, path: &[u8]) -> Route {
    let (prefix, below) = below(path, prefix);
    if below.is_empty() {
        return Route::Directory(path.to_owned());
    }
    match decide(terms, below) {
        Route::Script(script) => Route::Script(Arc::new(Script {
            name: [prefix, &script.name].concat(),
            path_info: script.path_info.clone(),
            mount: Some((terms.root.to_owned(), prefix.len())),
        })),
        Route::Directory(below) => Route::Directory([prefix, &below].concat()),
        other => other,
    }
}

/// What rules ask of the file system.
pub struct Existing<'a>(pub &'a Terms<'a>);

impl table::Files for Existing<'_> {
    fn look(&self, path: &[u8]) -> table::Kind {
        let (name, _) = split_script(path).unwrap_or((path, b""));
        if is_hidden(name) || is_overlong(name) {
            return table::Kind::Nothing;
        }
        exists(self.0, name).unwrap_or(table::Kind::Nothing)
    }
}
