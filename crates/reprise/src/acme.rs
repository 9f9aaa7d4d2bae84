//! Automatic certificates: what the process that orders them gets, its directory, and the hidden subcommand that the supervisor starts.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use acme::{Link, Settings};
use ipc::control::{FromAcme, ToAcme};
use supervisor::AcmeDraft;
use supervisor::os::sys::{FIRST_DESCRIPTOR, inherited};
use supervisor::os::user::{self, Identity};
use supervisor::peers::boot;
use supervisor::peers::channel::{Channel, Received};

use crate::exit::{Code, Failure};
use crate::options::{Certificate, Config};

/// The user of the process, unless the configuration names another.
pub const USER: &str = "reprise-acme";
/// The directory, if the server starts as root.
const OF_SYSTEM: &str = "/var/lib/reprise/acme";

/// The certificates that are ordered.
pub fn automatic(config: &Config) -> impl Iterator<Item = &Certificate> {
    config.certificates.iter().filter(|one| one.auto)
}

/// The directory with account, keys and certificates.
pub fn storage(config: &Config) -> Result<PathBuf, Failure> {
    if let Some(path) = &config.acme.storage {
        return std::path::absolute(path).map_err(|error| Failure::new(Code::Configuration, "acme.storage", error));
    }
    if user::is_root() {
        return Ok(PathBuf::from(OF_SYSTEM));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let why = "neither XDG_DATA_HOME nor HOME is set, below which certificates would be kept";
    let data = data
        .ok_or_else(|| Failure::new(Code::Configuration, "acme.storage", why).hint("storage = \"/…\" below [acme]"))?;
    Ok(data.join("reprise/acme"))
}

/// The user of the process; `None`: the server does not start as root, or orders nothing.
pub fn choose_user(config: &Config, others: &[&Identity]) -> Result<Option<Identity>, Failure> {
    if automatic(config).next().is_none() {
        return Ok(None);
    }
    let failed = |why: String| Failure::new(Code::Permission, "acme.user", why);
    let configured = config.acme.user.as_deref();
    if !user::is_root() {
        return match (configured, user::current()) {
            (Some(wanted), Some(user)) if wanted != user.name => {
                Err(failed(format!("\"{wanted}\" needs root; this server runs as '{}'", user.name)))
            }
            _ => Ok(None),
        };
    }
    let chosen = Identity::named(configured.unwrap_or(USER)).map_err(|why| {
        let hint = format!("adduser --system --group --no-create-home {USER}; or user = \"…\" below [acme]");
        failed(format!("auto = true takes a user of its own: {why}")).hint(hint)
    })?;
    match others.iter().find(|other| other.uid == chosen.uid) {
        Some(other) => Err(failed(format!(
            "'{}' is the user of the front or of an application, which could read the keys",
            other.name
        ))
        .hint("name a user that nothing else runs as")),
        None => Ok(Some(chosen)),
    }
}

/// What the process gets; `None`: nothing is ordered.
pub fn draft(config: &Config, user: Option<&Identity>) -> Result<Option<AcmeDraft>, Failure> {
    let hosts: Vec<String> = automatic(config).flat_map(|one| one.hosts.clone()).collect();
    if hosts.is_empty() {
        return Ok(None);
    }
    let acme = &config.acme;
    let settings = Settings {
        directory: acme.directory.clone(),
        contact: acme.contact.clone(),
        profile: acme.profile.clone(),
        challenges: acme.challenges.iter().map(|one| one.word().to_owned()).collect(),
        external_account: acme.eab_key_id.clone().zip(acme.eab_key_file.clone()),
        ca: acme.ca.clone(),
        storage: storage(config)?,
        hosts,
        retry: acme.retry.as_secs(),
    };
    let settings = serde_json::to_string(&settings);
    let settings = settings.map_err(|error| Failure::new(Code::Internal, "acme", error))?;
    Ok(Some(AcmeDraft { settings, user: user.cloned() }))
}

/// Looks at the files and the directory of the process, which need not be there yet.
pub fn check(config: &Config, user: Option<&Identity>) -> Result<(), Failure> {
    if automatic(config).next().is_none() {
        return Ok(());
    }
    for (option, path) in [("acme.eab_key_file", &config.acme.eab_key_file), ("acme.ca", &config.acme.ca)] {
        let Some(path) = path else { continue };
        let obstacle = match user {
            Some(user) => user::obstacle(user, path),
            None => File::open(path).err().map(|error| format!("{}: {error}", path.display())),
        };
        if let Some(why) = obstacle {
            return Err(
                Failure::new(Code::Permission, option, why).hint("the process that orders certificates reads it")
            );
        }
    }
    check_directory(&storage(config)?, user)
}

/// The directory belongs to the user alone, who reaches it.
fn check_directory(path: &Path, user: Option<&Identity>) -> Result<(), Failure> {
    let failed = |why: String| Failure::new(Code::Permission, format!("acme.storage {}", path.display()), why);
    let known = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known.map_err(|error| failed(error.to_string()))?,
    };
    let is_shut = known.mode() & 0o077 == 0;
    let owner = user.map(|user| user.uid);
    let name = user.map_or("the server's user", |user| &user.name);
    match () {
        () if !known.is_dir() => Err(failed("is no directory".to_owned())),
        () if owner.is_some_and(|owner| owner != known.uid()) => {
            Err(failed(format!("belongs to user {}, not to {name}", known.uid()))
                .hint(format!("chown -R {name} {}", path.display())))
        }
        () if !is_shut => {
            Err(failed(format!("is open to others (mode {:o}), and has keys in it", known.mode() & 0o777))
                .hint(format!("chmod 700 {}", path.display())))
        }
        () => match user.and_then(|user| path.parent().and_then(|above| user::obstacle(user, above))) {
            Some(why) => Err(failed(why)),
            None => Ok(()),
        },
    }
}

/// Makes the directory if it is missing. What is above it is everybody's to enter.
pub fn make_directory(config: &Config, user: Option<&Identity>) -> Result<(), Failure> {
    if automatic(config).next().is_none() {
        return Ok(());
    }
    check(config, user)?;
    let path = storage(config)?;
    let failed = |error: io::Error| Failure::new(Code::Permission, format!("acme.storage {}", path.display()), error);
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => {
            made.map_err(failed)?;
            let Some(user) = user else { return Ok(()) };
            std::os::unix::fs::lchown(&path, Some(user.uid), Some(user.gid)).map_err(failed)
        }
    }
}

/// The channel to the supervisor, in the form that the crate `acme` uses.
struct ToSupervisor(Channel<FromAcme, ToAcme>);

impl Link for ToSupervisor {
    fn send_answers(&self, number: u64, text: &[u8]) -> io::Result<()> {
        let file = boot::sealed(text)?;
        self.0.send_and_wait(&FromAcme::Answers { number }, &[file.as_fd()])
    }

    fn send_issued(&self) -> io::Result<()> {
        self.0.send_and_wait(&FromAcme::Issued, &[])
    }

    fn receive(&self) -> io::Result<Option<u64>> {
        Ok(match self.0.receive()? {
            Received::Message(ToAcme::AnswersTaken { number }, _) => Some(number),
            Received::Nothing => None,
            Received::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The hidden subcommand `acme`: orders certificates until the supervisor is gone.
pub fn run() -> Result<Code, Failure> {
    let failed = |error: io::Error| Failure::new(Code::Internal, "acme", error).hint("it is started by reprise serve");
    supervisor::os::sys::set_name(c"reprise-acme");
    supervisor::os::sys::protect_memory().map_err(failed)?;
    let channel: OwnedFd = inherited(FIRST_DESCRIPTOR).map_err(failed)?;
    let lifeline = inherited(FIRST_DESCRIPTOR + 1).map_err(failed)?;
    let mut text = Vec::new();
    // The file is this process' own, and its position too.
    File::from(inherited(FIRST_DESCRIPTOR + 2).map_err(failed)?).read_to_end(&mut text).map_err(failed)?;
    let settings: Settings = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    for missing in supervisor::os::confine::acme(&settings.storage).map_err(failed)? {
        supervisor::logs::log::write(&format!(
            "notice the process that orders certificates is not confined by {missing}\n"
        ));
    }
    acme::run(settings, Rc::new(ToSupervisor(Channel::from_fd(channel))), lifeline).map_err(failed)?;
    Ok(Code::Success)
}
