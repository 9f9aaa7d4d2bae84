//! Finds what responds to a host and path: monitoring, a file, a script, a redirect, or nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, Stat};

use crate::routing::denials;
use crate::settings::Application;
use crate::target::{is_hidden, is_overlong, is_source, split_script};

/// What responds to a request.
#[derive(Debug)]
pub enum Route {
    /// A file, checked and opened.
    File(Found),
    /// The path at which monitoring asks whether there are workers.
    Ping,
    /// The path at which monitoring asks what the workers do.
    Status,
    /// A script: its path below the root and the path info.
    Script(Arc<Script>),
    /// A redirect to the same path with a slash at its end.
    Directory,
    /// 404.
    Nobody,
    /// 403: the file is there, but closed to the front.
    Closed,
    /// 403: the file is there, and no site wants such a file sent.
    Denied,
}

impl Route {
    fn script(name: Vec<u8>, path_info: &[u8]) -> Route {
        Route::Script(Arc::new(Script { name, path_info: path_info.to_owned() }))
    }
}

/// A script to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// For example `/index.php`.
    pub name: Vec<u8>,
    /// For example `/posts/5`, or empty.
    pub path_info: Vec<u8>,
}

impl Script {
    /// The script's name as lanes and configuration have it. A name that is not UTF-8 has no lane.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok()
    }

    fn is_front_controller(&self, application: &Application) -> bool {
        application.front_controller.as_ref().is_some_and(|name| self.name[1..] == *name.as_bytes())
    }
}

/// An open file and what the system knows of it.
#[derive(Debug)]
pub struct Found {
    /// Opened for reading.
    pub file: File,
    /// The file's name, for the content type.
    pub path: PathBuf,
    /// Size and times.
    pub stat: Stat,
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

enum Kind {
    File(Found),
    Directory,
    Script,
    Missing,
    Closed,
    Denied,
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
    let route = decide(application, path);
    if let Route::Script(script) = &route {
        if !script.is_front_controller(application) || path == b"/" || path == script.name {
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

fn decide(application: &Application, path: &[u8]) -> Route {
    // The path info behind a script's name is not checked: it is up to the script.
    let (name, path_info) = split_script(path).unwrap_or((path, b""));
    if is_hidden(name) || is_overlong(name) {
        return fallback(application);
    }
    if name.ends_with(b".php") {
        return match look(application, name) {
            Kind::Script => Route::script(name.to_owned(), path_info),
            Kind::Closed => Route::Closed,
            Kind::Denied => Route::Denied,
            _ => fallback(application),
        };
    }
    match look(application, path) {
        Kind::File(_) if path.ends_with(b"/") => fallback(application),
        Kind::File(found) => Route::File(found),
        Kind::Directory if path.ends_with(b"/") => index(application, path),
        Kind::Directory => match index(application, &[path, b"/"].concat()) {
            // A directory without an index is the front controller's, with the path as it is.
            Route::Script(script) if script.is_front_controller(application) => Route::Script(script),
            Route::Script(_) | Route::File(_) => Route::Directory,
            other => other,
        },
        Kind::Closed => Route::Closed,
        Kind::Denied if path.ends_with(b"/") => fallback(application),
        Kind::Denied => Route::Denied,
        Kind::Missing | Kind::Script => fallback(application),
    }
}

fn fallback(application: &Application) -> Route {
    match &application.front_controller {
        Some(name) => Route::script([b"/", name.as_bytes()].concat(), b""),
        None => Route::Nobody,
    }
}

/// index.php, then index.html, then the front controller. For the root: the front controller, if there is one.
fn index(application: &Application, directory: &[u8]) -> Route {
    if directory == b"/" && application.front_controller.is_some() {
        return fallback(application);
    }
    let script = [directory, b"index.php"].concat();
    match look(application, &script) {
        Kind::Script => return Route::script(script, b""),
        Kind::Denied => return Route::Denied,
        _ => {}
    }
    match look(application, &[directory, b"index.html"].concat()) {
        Kind::File(found) => Route::File(found),
        Kind::Closed => Route::Closed,
        Kind::Denied => Route::Denied,
        _ => fallback(application),
    }
}

/// The file at a cleaned path below the root. Symbolic links are followed, but their target must lie in the root or in a
/// directory that `follow` names. The target must not be hidden, and must not be source unless it is run as a script by its
/// own name.
fn look(application: &Application, path: &[u8]) -> Kind {
    let wanted = application.root.join(OsStr::from_bytes(&path[1..]));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = match rustix::fs::open(&wanted, flags, Mode::empty()) {
        Ok(place) => place,
        Err(rustix::io::Errno::ACCESS) => return Kind::Closed,
        Err(_) => return Kind::Missing,
    };
    let (Ok(stat), Ok(real)) = (rustix::fs::fstat(&place), real_path(&place)) else { return Kind::Missing };
    let Some(below) = below_root(application, &real) else { return Kind::Missing };
    if is_hidden(below.as_os_str().as_bytes()) {
        return Kind::Missing;
    }
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => Kind::Directory,
        rustix::fs::FileType::RegularFile => {
            if is_denied(application, path, below) {
                return Kind::Denied;
            }
            let is_script = |path: &Path| path.extension().is_some_and(|ending| ending == "php");
            if is_script(&wanted) && is_script(&real) {
                return Kind::Script;
            }
            if is_source(path) || is_source(real.as_os_str().as_bytes()) {
                return Kind::Missing;
            }
            open(&place, wanted, stat)
        }
        _ => Kind::Missing,
    }
}

/// Whether a default denial concerns a file, by its path or by its real path below the root.
fn is_denied(application: &Application, path: &[u8], below: &Path) -> bool {
    let is_published = || path.starts_with(b"/.well-known/");
    let is_composers = |vendor: &[u8]| {
        let vendor = application.root.join(OsStr::from_bytes(&vendor[1..]));
        vendor.join("autoload.php").is_file() && vendor.join("composer").is_dir()
    };
    application.default_denials
        && !is_published()
        && (denials::of_name(path).or_else(|| denials::of_name(below.as_os_str().as_bytes())).is_some()
            || denials::vendors(path).any(is_composers))
}

/// Opens the file that was checked, not one that has taken its place since.
fn open(place: &impl AsFd, path: PathBuf, stat: Stat) -> Kind {
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place.as_fd()));
    match File::open(handle) {
        Ok(file) => Kind::File(Found { file, path, stat }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Kind::Closed,
        Err(_) => Kind::Missing,
    }
}

fn real_path(place: &impl AsFd) -> io::Result<PathBuf> {
    let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place.as_fd()));
    std::fs::read_link(handle)
}

fn below_root<'a>(application: &Application, real: &'a Path) -> Option<&'a Path> {
    std::iter::once(&application.root).chain(&application.follow).find_map(|root| real.strip_prefix(root).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn application(root: &Path, hosts: &[&str]) -> Application {
        Application {
            name: "test".into(),
            root: root.canonicalize().unwrap(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            workers: 1,
            min_workers: 1,
            default_denials: true,
            ..Application::default()
        }
    }

    fn tree(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("reprise-route-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("www/sub")).unwrap();
        std::fs::create_dir_all(root.join("www/.git")).unwrap();
        std::fs::create_dir_all(root.join("shared")).unwrap();
        for file in ["www/index.php", "www/a.txt", "www/.git/config", "www/sub/index.html", "shared/b.css", "secret"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        symlink("../secret", root.join("www/out.txt")).unwrap();
        symlink("index.php", root.join("www/source.txt")).unwrap();
        symlink(".git/config", root.join("www/config.txt")).unwrap();
        symlink("../shared", root.join("www/assets")).unwrap();
        symlink("../secret", root.join("www/secret.php")).unwrap();
        symlink("a.txt", root.join("www/text.php")).unwrap();
        for directory in ["own", "bare"] {
            std::fs::create_dir_all(root.join("www").join(directory)).unwrap();
        }
        std::fs::write(root.join("www/own/index.php"), "x").unwrap();
        root
    }

    fn kind(application: &Application, path: &str) -> &'static str {
        match decide(application, path.as_bytes()) {
            Route::Ping | Route::Status => "monitoring",
            Route::File(_) => "file",
            Route::Script(_) => "script",
            Route::Directory => "directory",
            Route::Nobody => "nobody",
            Route::Closed => "closed",
            Route::Denied => "denied",
        }
    }

    #[test]
    fn nothing_outside_hidden_or_source_is_served() {
        let root = tree("safe");
        let mut site = application(&root.join("www"), &[]);
        for (path, expected) in [
            ("/a.txt", "file"),
            ("/index.php", "script"),
            ("/index.php/x", "script"),
            ("/", "script"),
            ("/sub", "directory"),
            ("/sub/", "file"),
            ("/a.txt/", "nobody"),
            ("/out.txt", "nobody"),
            ("/source.txt", "nobody"),
            ("/config.txt", "nobody"),
            ("/.git/config", "nobody"),
            ("/secret.php", "nobody"),
            ("/text.php", "nobody"),
            ("/own", "directory"),
            ("/bare", "nobody"),
            ("/assets/b.css", "nobody"),
            ("/none.php", "nobody"),
            ("/index.PHP", "nobody"),
        ] {
            assert_eq!(kind(&site, path), expected, "{path}");
        }
        site.follow.push(root.join("shared").canonicalize().unwrap());
        assert_eq!(kind(&site, "/assets/b.css"), "file");
        site.front_controller = Some("index.php".into());
        assert_eq!(kind(&site, "/anything/else"), "script");
        for (path, expected) in [("/own", "directory"), ("/bare", "script"), ("/sub/", "file")] {
            assert_eq!(kind(&site, path), expected, "{path}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn default_denials_concern_files_that_are_there() {
        let root = tree("denied");
        let mut site = application(&root.join("www"), &[]);
        for file in [
            "data/db.sqlite",
            "backup.sql",
            "vendor/autoload.php",
            "vendor/composer/installed.json",
            "vendor/a/run.php",
            "vendor/a/index.php",
            "vendor/a/b.css",
            "lib/vendor/a.txt",
            ".well-known/keys.pem",
        ] {
            let path = root.join("www").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        symlink("data/db.sqlite", root.join("www/innocent.txt")).unwrap();
        for (path, expected) in [
            ("/data/db.sqlite", "denied"),
            ("/data/none.sqlite", "nobody"),
            ("/data/db.sqlite/", "nobody"),
            ("/backup.sql", "denied"),
            ("/innocent.txt", "denied"),
            ("/vendor/autoload.php", "denied"),
            ("/vendor/composer/installed.json", "denied"),
            ("/vendor/a/run.php/info", "denied"),
            ("/vendor/a/", "denied"),
            ("/vendor/a/b.css", "file"),
            ("/vendor/", "nobody"),
            ("/vendor/none", "nobody"),
            ("/lib/vendor/a.txt", "file"),
            ("/.well-known/keys.pem", "file"),
        ] {
            assert_eq!(kind(&site, path), expected, "{path}");
        }
        site.front_controller = Some("index.php".into());
        for (path, expected) in [
            ("/data/db.sqlite", "denied"),
            ("/data/none.sqlite", "script"),
            ("/vendor/none", "script"),
            ("/vendor", "script"),
        ] {
            assert_eq!(kind(&site, path), expected, "{path}");
        }
        site.default_denials = false;
        for path in ["/data/db.sqlite", "/innocent.txt", "/vendor/composer/installed.json"] {
            assert_eq!(kind(&site, path), "file", "{path}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn scripts_are_believed_for_a_second_and_what_is_missing_never() {
        let root = tree("believed");
        let file = |name: &str| root.join("www").join(name);
        let mut site = application(&root.join("www"), &[]);
        let began = Instant::now();
        let named = |site: &Application, path: &str, ms| match route(
            site,
            path.as_bytes(),
            began + Duration::from_millis(ms),
        ) {
            Route::Script(script) => script.text().unwrap_or_default().to_owned(),
            Route::File(_) => "a file".to_owned(),
            _ => "nobody".to_owned(),
        };
        for name in ["one.php", "two.php"] {
            std::fs::write(file(name), "x").unwrap();
        }
        for path in ["/one.php", "/two.php/info"] {
            assert_eq!(named(&site, path, 0), path[..8], "{path}");
        }
        for name in ["one.php", "two.php"] {
            std::fs::remove_file(file(name)).unwrap();
        }
        for path in ["/one.php", "/two.php/info"] {
            assert_eq!(
                (named(&site, path, 999), named(&site, path, 1000)),
                (path[..8].to_owned(), "nobody".to_owned())
            );
        }
        site.generation += 1;
        assert_eq!(named(&site, "/one.php", 0), "nobody", "another generation may have other files");

        site.front_controller = Some("index.php".into());
        for path in ["/late.txt", "/", "/index.php"] {
            assert_eq!(named(&site, path, 0), "/index.php", "{path}");
        }
        std::fs::write(file("late.txt"), "x").unwrap();
        std::fs::remove_file(file("index.php")).unwrap();
        site.front_controller = None;
        assert_eq!(named(&site, "/late.txt", 0), "a file");
        assert_eq!((named(&site, "/", 0), named(&site, "/index.php", 0)), ("/index.php".into(), "/index.php".into()));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn monitoring_has_its_paths() {
        let site = Application {
            ping_path: Some("/ping".into()),
            status_path: Some("/status".into()),
            ..Application::default()
        };
        let now = Instant::now();
        assert!(matches!(route(&site, b"/ping", now), Route::Ping));
        assert!(matches!(route(&site, b"/status", now), Route::Status));
        assert!(matches!(route(&site, b"/.none", now), Route::Nobody));
    }

    #[test]
    fn hosts_choose_the_application() {
        let root = std::env::temp_dir();
        let all = [
            application(&root, &["a.example"]),
            application(&root, &["*.example"]),
            application(&root, &["*.b.example"]),
            application(&root, &[]),
        ];
        let of = [("a.example", 0), ("x.example", 1), ("x.b.example", 2), ("other", 3), ("example", 3)];
        for (host, expected) in of.into_iter().chain([(".example", 3), ("something.else", 3)]) {
            assert_eq!(super::application(&all, host).map(|(number, _)| number), Some(expected), "{host}");
        }
        assert!(super::application(&all[..1], "other").is_none());
    }
}
