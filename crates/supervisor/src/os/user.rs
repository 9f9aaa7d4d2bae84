//! The users that processes run as. Only the supervisor runs as root, and PHP never does.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};
use serde::{Deserialize, Serialize};

/// A user to become before exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Login name.
    pub name: String,
    /// User id, never 0.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, the primary one included.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: String,
}

impl Identity {
    fn of(user: &User) -> Result<Identity, String> {
        if user.uid.is_root() || user.gid.as_raw() == 0 {
            return Err(format!(
                "user '{}' is root or in root's group; PHP and the front never run as root",
                user.name
            ));
        }
        let name = CString::new(user.name.as_str()).map_err(|_| "a user name with a zero byte".to_owned())?;
        let groups = nix::unistd::getgrouplist(&name, user.gid)
            .map_err(|error| format!("the groups of user '{}' cannot be read: {error}", user.name))?;
        Ok(Identity {
            name: user.name.clone(),
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).filter(|&gid| gid != 0).collect(),
            home: user.dir.to_string_lossy().into_owned(),
        })
    }

    /// The user of that name.
    pub fn named(name: &str) -> Result<Identity, String> {
        match User::from_name(name) {
            Ok(Some(user)) => Identity::of(&user),
            Ok(None) => Err(format!("there is no user '{name}' on this machine")),
            Err(error) => Err(format!("user '{name}' cannot be looked up: {error}")),
        }
    }

    fn numbered(uid: u32) -> Result<Option<Identity>, String> {
        match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => Identity::of(&user).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(format!("user {uid} cannot be looked up: {error}")),
        }
    }
}

/// The ids of an owner and a group; for an owner alone, the id of its primary group.
pub fn numbers(owner: Option<&str>, group: Option<&str>) -> Result<(Option<u32>, Option<u32>), String> {
    let missing = |what: &str, name: &str| format!("there is no {what} '{name}' on this machine");
    let owner = match owner {
        Some(name) => Some(User::from_name(name).ok().flatten().ok_or_else(|| missing("user", name))?),
        None => None,
    };
    let group = match group {
        Some(name) => Some(Group::from_name(name).ok().flatten().ok_or_else(|| missing("group", name))?.gid),
        None => owner.as_ref().map(|user| user.gid),
    };
    Ok((owner.map(|user| user.uid.as_raw()), group.map(Gid::as_raw)))
}

/// The name of a user id, if it has one.
pub fn name_of(uid: u32) -> Option<String> {
    nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name)
}

/// Whether this process may become other users.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}

/// The number of the user this process runs as.
pub fn own_uid() -> u32 {
    Uid::effective().as_raw()
}

/// The user this process runs as, for messages and the environment of its children.
pub fn current() -> Option<Identity> {
    let user = User::from_uid(Uid::effective()).ok()??;
    Some(Identity {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: Vec::new(),
        home: user.dir.to_string_lossy().into_owned(),
    })
}

/// The user that an application's PHP runs as, and why: the configured user, else the owner of its directory, else www-data.
/// Without root: `None`, everything stays the current user.
pub fn for_application(configured: Option<&str>, root: &Path) -> Result<Option<(Identity, &'static str)>, String> {
    if !is_root() {
        return match (configured, current()) {
            (Some(wanted), Some(user)) if wanted != user.name => {
                Err(format!("user = \"{wanted}\" needs root; this server runs as '{}'", user.name))
            }
            _ => Ok(None),
        };
    }
    if let Some(name) = configured {
        return Identity::named(name).map(|user| Some((user, "configured")));
    }
    let owner = std::fs::metadata(root).map_err(|error| format!("{}: {error}", root.display()))?.uid();
    if owner != 0 {
        if let Some(user) = Identity::numbered(owner)? {
            return Ok(Some((user, "owner of the directory")));
        }
    }
    Identity::named("www-data").map(|user| Some((user, "default: the directory's owner is root or has no name here")))
}

/// The user that the front runs as: the configured user, else `reprise` if there is one, else `nobody`.
pub fn for_front(configured: Option<&str>) -> Result<Option<Identity>, String> {
    if !is_root() {
        return Ok(None);
    }
    match configured {
        Some(name) => Identity::named(name).map(Some),
        None => Identity::named("reprise").or_else(|_| Identity::named("nobody")).map(Some),
    }
}

/// Bit of a file's mode: it may be read.
pub const READ: u32 = 4;
/// Bit of a directory's mode: it may be entered.
pub const ENTER: u32 = 1;

/// Whether permission bits let a user do that with a file of this owner, group and mode.
pub fn permits(user: &Identity, (owner, group, mode): (u32, u32, u32), wanted: u32) -> bool {
    let shift = if owner == user.uid {
        6
    } else if user.groups.contains(&group) || group == user.gid {
        3
    } else {
        0
    };
    mode >> shift & wanted == wanted
}

/// The first component of `path` that `user` cannot enter (or read, for the last), judged by permission bits. `None`
/// means that the bits allow it.
pub fn obstacle(user: &Identity, path: &Path) -> Option<String> {
    let mut prefixes: Vec<&Path> = path.ancestors().collect();
    prefixes.reverse();
    for prefix in prefixes {
        let metadata = match std::fs::metadata(prefix) {
            Ok(metadata) => metadata,
            Err(error) => return Some(format!("{}: {error}", prefix.display())),
        };
        let wanted = if metadata.is_dir() { ENTER } else { READ };
        if !permits(user, (metadata.uid(), metadata.gid(), metadata.mode()), wanted) {
            return Some(format!(
                "{} (mode {:o}) is closed to user {}",
                prefix.display(),
                metadata.mode() & 0o777,
                user.name
            ));
        }
    }
    None
}
