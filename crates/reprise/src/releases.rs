//! Applications that come from a pool as releases: where they lie on this machine, which one an application is, and what the processes get
//! that follow pools ([`processes`]).
//!
//! | directory | what | owner |
//! |---|---|---|
//! | `release_dir`/NAME | a directory for each unpacked release; `current` leads to the one that is served | `release_user` |
//! | `release_state`/NAME | files of releases, and what is known of the pool; nobody else reads it | `release_user` |
//! | `release_shared`/NAME | the directories of `release_writable` | the application's user |

mod processes;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use release::kept;
use release::manifest::{is_id, is_name};
use release::pool::{self, Kind};
use release::settings::Settings;
use release::unpack::{CODE, OPCACHE};
use routing::settings::{FormerRoot, Warmup};
use supervisor::ReleaseDraft;
use supervisor::os::user::{self, Identity};

use crate::exit::{Code, Failure};
use crate::installed::Phps;
use crate::options::{Application, Config, Unpacked, missing};
use crate::phars;
use crate::root::Root;

pub use processes::{fetch, follow, start};

/// Releases of applications, by their names.
pub type Chosen = BTreeMap<String, String>;

/// The user of the processes, unless the configuration names another.
pub const USER: &str = "reprise-release";
/// Where releases are unpacked, if the server starts as root.
pub const DIRECTORY: &str = "/run/reprise_releases";
/// The directory in the place of a release where there is none yet.
const NONE: &str = ".none";
/// What responds there.
const PLACEHOLDER: &str = "<?php http_response_code(503); header('Retry-After: 5'); header('Content-Type: text/plain');\n\
    echo \"There is no release of this application yet.\\n\";\n";

fn failed(what: impl Into<String>, why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Configuration, what, why)
}

fn below(variable: &str, rest: &str, of_system: &str) -> Result<PathBuf, Failure> {
    if user::is_root() {
        return Ok(PathBuf::from(of_system));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/share"));
    let base = absolute(variable).or_else(home);
    let base = base.ok_or_else(|| failed("release_dir", format!("neither {variable} nor HOME is set")))?;
    Ok(base.join(rest))
}

/// Where releases are unpacked.
pub fn directory(config: &Config) -> Result<PathBuf, Failure> {
    let path = match &config.release_dir {
        Some(path) => path.clone(),
        None => below("XDG_RUNTIME_DIR", "reprise-releases", DIRECTORY)?,
    };
    std::path::absolute(path).map_err(|error| failed("release_dir", error))
}

fn state(config: &Config) -> Result<PathBuf, Failure> {
    let path = match &config.release_state {
        Some(path) => path.clone(),
        None => below("XDG_DATA_HOME", "reprise/releases", "/var/lib/reprise/releases")?,
    };
    std::path::absolute(path).map_err(|error| failed("release_state", error))
}

fn shared(config: &Config) -> Result<PathBuf, Failure> {
    let path = match &config.release_shared {
        Some(path) => path.clone(),
        None => below("XDG_DATA_HOME", "reprise/shared", "/var/lib/reprise/shared")?,
    };
    std::path::absolute(path).map_err(|error| failed("release_shared", error))
}

/// Whether any application comes from a pool.
pub fn has_any(config: &Config) -> bool {
    config.applications.iter().any(|one| one.release_pool.is_some())
}

fn each(config: &Config) -> impl Iterator<Item = &Application> {
    config.applications.iter().filter(|one| one.release_pool.is_some())
}

/// Makes a release the root of its application: the chosen one, else the one that this server serves.
pub fn resolve(config: &Config, application: &mut Application, chosen: &Chosen) -> Result<(), Failure> {
    let wrong = |application: &Application, option: &str, why: String| {
        failed(application.places.of(option).unwrap_or_else(|| option.to_owned()), why)
    };
    if !is_name(&application.name) {
        let why = format!(
            "an application with release_pool takes a name of its releases, and '{}' is none",
            application.name
        );
        return Err(wrong(application, "name", why)
            .hint("name = \"shop\": letters, digits, dots, dashes and underlines, 64 at most"));
    }
    let base = directory(config)?;
    let place = base.join(&application.name);
    let current = || Some(fs::read_link(place.join(kept::CURRENT)).ok()?.to_str()?.to_owned());
    if let Some(id) = chosen.get(&application.name).filter(|id| !place.join(id).is_dir()) {
        return Err(wrong(application, "release_pool", format!("the release {id} is not unpacked")));
    }
    let id = chosen.get(&application.name).cloned().or_else(current);
    let id = id.filter(|id| is_id(id) && place.join(id).is_dir());
    let inside = application.root.to_path_buf();
    let none = base.join(NONE).join(&application.name);
    let here = id.as_ref().map_or(none, |id| place.join(id));
    let root_of = |id: &str| place.join(id).join(CODE).join(&inside);
    let root = here.join(CODE).join(&inside);
    if let Some(id) = id.as_ref().filter(|_| !root.is_dir() && phars::part(&root).is_none()) {
        let why = format!("the release {id} has no directory or phar '{}'", inside.display());
        return Err(wrong(application, "root", why));
    }
    for path in &application.release_writable {
        application.follow.push(shared(config)?.join(&application.name).join(path));
    }
    // Only who serves can read it, and only who serves needs it.
    let known = kept::read(&state(config)?.join(&application.name)).unwrap_or_default();
    let until = |since: u64| since.saturating_add(application.asset_grace.as_secs());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // What serves while its successor boots is not a former one yet, and will be at the switch.
    let serving = known.serving.iter().map(|one| (one, now));
    let former = serving.chain(known.former.iter().map(|one| (&one.release, one.until)));
    let former = former.filter(|(release, since)| Some(&release.id) != id.as_ref() && until(*since) > now);
    let mut former_phars = Vec::new();
    let former = former.map(|(release, since)| {
        let mut root = root_of(&release.id);
        // Without the files of a former release this one is served all the same.
        if let Some(Ok(opened)) = phars::part(&root).map(|(file, inside)| phars::open(&file, &inside)) {
            root = opened.to_path_buf();
            former_phars.extend(opened.phar().cloned());
        }
        FormerRoot { root, until: until(since) }
    });
    let former = former.collect();
    if id.is_none() {
        // Nothing of it is there that could boot.
        application.mode.clear();
        application.warmup.clear();
    }
    let opcache = here.join(OPCACHE);
    application.unpacked = Some(Unpacked { id, opcache, former, former_phars });
    application.root = match phars::part(&root) {
        Some((file, inside)) => phars::open(&file, &inside).map_err(|why| wrong(application, "root", why))?,
        None => Root::directory(root),
    };
    match application.unpacked.as_ref().and_then(|one| one.id.as_ref()).and(missing(application)) {
        Some((option, why)) => Err(wrong(application, option, format!("script {why}"))),
        None => Ok(()),
    }
}

/// A release that is ordered has to respond to `GET /` before it is served, if the configuration names no requests for that. A server that
/// starts does not: it may start before its database does.
pub fn warm(config: &mut Config, ordered: &str) {
    let of = |one: &&mut Application| one.name == ordered && !one.places.has("warmup");
    for application in config.applications.iter_mut().filter(of) {
        application.warmup = vec![Warmup::page("/")];
    }
}

/// Whether the options about releases agree.
pub fn check(application: &Application) -> Result<(), Failure> {
    let wrong = |option: &str, why: &str| failed(format!("application {}: {option}", application.name), why);
    let Some(text) = &application.release_pool else {
        let said = [
            ("release_keys", application.release_keys.is_empty()),
            ("release_writable", application.release_writable.is_empty()),
        ];
        return match said.iter().find(|(_, is_empty)| !is_empty) {
            Some((option, _)) => Err(wrong(option, "says nothing without release_pool")),
            None => Ok(()),
        };
    };
    let kind = pool::kind(text).map_err(|why| wrong("release_pool", &why))?;
    if application.release_keys.is_empty() && !matches!(kind, Kind::Directory(_)) {
        return Err(wrong(
            "release_keys",
            "is missing: a release is code, and this pool is not a directory of this machine",
        )
        .hint("reprise release keygen prints a key; release_keys = [\"reprise-release-public:…\"]"));
    }
    if application.release_memory == 0 {
        return Err(wrong("release_memory", "is 0: no release could be unpacked"));
    }
    Ok(())
}

/// The user of the processes; `None`: the server does not start as root, or no application comes from a pool.
pub fn choose_user(config: &Config) -> Result<Option<Identity>, Failure> {
    if !has_any(config) {
        return Ok(None);
    }
    let failed = |why: String| Failure::new(Code::Permission, "release_user", why);
    let configured = config.release_user.as_deref();
    if !user::is_root() {
        return match (configured, user::current()) {
            (Some(wanted), Some(user)) if wanted != user.name => {
                Err(failed(format!("\"{wanted}\" needs root; this server runs as '{}'", user.name)))
            }
            _ => Ok(None),
        };
    }
    Identity::named(configured.unwrap_or(USER)).map(Some).map_err(|why| {
        let hint = format!("adduser --system --group --no-create-home {USER}; or release_user = \"…\"");
        failed(format!("release_pool takes a user of its own: {why}")).hint(hint)
    })
}

/// Whether nothing else runs as that user: it could write the code of applications.
pub fn check_user<'a>(user: Option<&Identity>, mut others: impl Iterator<Item = &'a Identity>) -> Result<(), Failure> {
    let Some(user) = user else { return Ok(()) };
    match others.find(|other| other.uid == user.uid) {
        None => Ok(()),
        Some(other) => Err(Failure::new(
            Code::Permission,
            "release_user",
            format!("'{}' is the user of the front or of an application, which could change its own code", other.name),
        )
        .hint("name a user that nothing else runs as")),
    }
}

fn make(path: &Path, mode: u32, owner: Option<&Identity>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(Code::Permission, path.display().to_string(), error);
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => {
            made.map_err(failed)?;
            if let Some(owner) = owner {
                std::os::unix::fs::lchown(path, Some(owner.uid), Some(owner.gid)).map_err(failed)?;
            }
        }
    }
    let known = fs::symlink_metadata(path).map_err(failed)?;
    match owner {
        _ if !known.is_dir() => Err(Failure::new(Code::Permission, path.display().to_string(), "is no directory")),
        Some(owner) if owner.uid != known.uid() => {
            let why = format!("belongs to user {}, not to {}", known.uid(), owner.name);
            Err(Failure::new(Code::Permission, path.display().to_string(), why).hint(format!(
                "chown -R {} {}",
                owner.name,
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Makes the directories of releases, if they are missing, with what responds where there is no release yet.
pub fn make_directories(config: &Config, owner: Option<&Identity>) -> Result<(), Failure> {
    if !has_any(config) {
        return Ok(());
    }
    let base = directory(config)?;
    for application in each(config) {
        let place = base.join(&application.name);
        make(&place, 0o755, owner)?;
        make(&state(config)?.join(&application.name), 0o700, owner)?;
        let Some(unpacked) = &application.unpacked else { continue };
        if unpacked.id.is_none() {
            let failed =
                |error: io::Error| Failure::new(Code::Permission, application.root.display().to_string(), error);
            DirBuilder::new().recursive(true).mode(0o755).create(&application.root).map_err(failed)?;
            let controller = application.front_controller.as_deref().filter(|name| !name.is_empty());
            for name in controller.into_iter().chain(["index.php"]) {
                let path = application.root.join(name);
                path.parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| fs::write(&path, PLACEHOLDER))
                    .map_err(failed)?;
            }
        }
    }
    // opcache knows files by their resolved paths, which have to be those with which they were compiled.
    match fs::canonicalize(&base) {
        Ok(real) if real == base => Ok(()),
        Ok(real) => Err(failed("release_dir", format!("{} leads to {}", base.display(), real.display()))
            .hint(format!("release_dir = \"{}\"", real.display()))),
        Err(error) => Err(failed("release_dir", error)),
    }
}

/// Makes the directories to which applications may write. What is above them stays this user's: nobody else can put a link there.
pub fn make_writable(config: &Config, users: &[Option<(Identity, &'static str)>]) -> Result<(), Failure> {
    for (application, user) in config.applications.iter().zip(users) {
        for path in &application.release_writable {
            let base = shared(config)?.join(&application.name);
            let parts: Vec<_> = Path::new(path).parent().into_iter().flat_map(Path::components).collect();
            let above =
                (0..=parts.len()).map(|count| parts[..count].iter().fold(base.clone(), |path, part| path.join(part)));
            above.into_iter().try_for_each(|path| make_own(&path))?;
            make(&base.join(path), 0o755, user.as_ref().map(|(user, _)| user))?;
        }
    }
    Ok(())
}

/// Makes a directory in which nobody but this user can put anything, or finds it there. One that was an application's has links that it made.
fn make_own(path: &Path) -> Result<(), Failure> {
    make(path, 0o755, None)?;
    let known = fs::symlink_metadata(path);
    let known = known.map_err(|error| Failure::new(Code::Permission, path.display().to_string(), error))?;
    let us = rustix::process::geteuid().as_raw();
    if known.uid() == us {
        return Ok(());
    }
    let why = format!("belongs to user {}, and a directory below it is to be made by user {us}", known.uid());
    Err(Failure::new(Code::Permission, path.display().to_string(), why)
        .hint("release_writable named this directory before: name it again, or move what is in it and remove it"))
}

/// The name of this server among nodes.
fn node(config: &Config) -> Result<String, Failure> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name = match &config.release_node {
        Some(name) => name.clone(),
        None => {
            let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            name.trim().chars().map(plain).collect()
        }
    };
    match is_name(&name) {
        true => Ok(name),
        false => {
            Err(failed("release_node", format!("'{name}' cannot be a node's name")).hint("release_node = \"web-1\""))
        }
    }
}

/// What the processes of an application get.
fn settings(config: &Config, application: &Application, php: &str) -> Result<Settings, Failure> {
    let writable = application.release_writable.iter();
    let to = shared(config)?.join(&application.name);
    Ok(Settings {
        application: application.name.clone(),
        node: node(config)?,
        pool: application.release_pool.clone().unwrap_or_default(),
        ca: application.release_ca.clone(),
        keys: application.release_keys.clone(),
        directory: directory(config)?.join(&application.name),
        state: state(config)?.join(&application.name),
        keep: application.release_keep as usize,
        memory: application.release_memory,
        uncertain_ms: application.release_uncertain.as_millis() as u64,
        shared: writable.map(|path| (path.clone(), to.join(path))).collect(),
        php: php.to_owned(),
    })
}

/// What the supervisor gets of an application that comes from a pool.
pub fn draft(
    config: &Config,
    application: &Application,
    php: &str,
    user: Option<&Identity>,
) -> Result<Option<ReleaseDraft>, Failure> {
    let Some(unpacked) = &application.unpacked else { return Ok(None) };
    let settings = serde_json::to_string(&settings(config, application, php)?);
    let settings = settings.map_err(|error| Failure::new(Code::Internal, "releases", error))?;
    Ok(Some(ReleaseDraft { settings, user: user.cloned(), id: unpacked.id.clone() }))
}

/// How long the server waits at its start for the release that is current.
const PATIENCE: Duration = Duration::from_secs(60);

/// Before the server starts: the releases that are current, unpacked. A pool that does not respond leaves what this server served last.
pub fn settle(config: &Config, phps: &Phps, user: Option<&Identity>) -> Result<Chosen, Failure> {
    let until = Instant::now() + PATIENCE;
    let theirs =
        config.applications.iter().zip(phps.each()).filter(|(application, _)| application.release_pool.is_some());
    // Side by side: a pool that does not respond takes no time from another one.
    let all: Vec<processes::Choosing> = theirs
        .map(|(application, php)| processes::begin(&settings(config, application, &php.version)?, user))
        .collect::<Result<_, _>>()?;
    let mut chosen = Chosen::new();
    for one in all {
        chosen.extend(one.end(until)?);
    }
    Ok(chosen)
}
