//! Options of applications that come from a pool as releases.

use std::path::PathBuf;

use release::keys::PublicKey;
use release::manifest::path_fault;
use routing::settings::FormerRoot;

use super::{Application, Given, Value};
use crate::exit::Failure;
use crate::root::Phar;

/// The release that an application is.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpacked {
    /// Its id; `None`: there is none yet.
    pub id: Option<String>,
    /// The directory of opcache's file cache.
    pub opcache: PathBuf,
    /// The document roots of those before.
    pub former: Vec<FormerRoot>,
    /// The phars that some of these are in.
    pub former_phars: Vec<Phar>,
}

/// The URL of a pool, or its directory.
pub(super) fn pool(given: &Given<'_, '_>, _: &Application) -> Result<Option<String>, Failure> {
    let text = String::read(given)?;
    // A relative directory starts where others do.
    let text = match text.contains("://") {
        true => text,
        false => given.file.base.join(text).to_string_lossy().into_owned(),
    };
    let absolute = if text.contains("://") { Ok(PathBuf::from(&text)) } else { std::path::absolute(&text) };
    let text = absolute.map_err(|error| given.fail(error.to_string()))?.to_string_lossy().into_owned();
    release::pool::kind(&text).map_err(|why| given.fail(format!("'{}' {why}", given.name)))?;
    Ok(Some(text))
}

/// Public keys.
pub(super) fn release_keys(given: &Given<'_, '_>, _: &Application) -> Result<Vec<String>, Failure> {
    let keys = Vec::<String>::read(given)?;
    for text in &keys {
        PublicKey::parse(text).map_err(|why| given.fail(format!("a key of '{}' {why}", given.name)))?;
    }
    Ok(keys)
}

/// Directories in a release. None lies in another.
pub(super) fn writable(given: &Given<'_, '_>, _: &Application) -> Result<Vec<String>, Failure> {
    let paths = Vec::<String>::read(given)?;
    for path in &paths {
        if let Some(why) = path_fault(path) {
            return Err(
                given.fail(format!("'{path}' {why}: name a directory of the release, such as \"public/uploads\""))
            );
        }
        let lies_in = |other: &&String| path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if let Some(other) = paths.iter().find(lies_in) {
            return Err(given.fail(format!("'{path}' lies in '{other}', which is writable already")));
        }
    }
    Ok(paths)
}

/// The document root in a release.
pub(super) fn root(given: &Given<'_, '_>, named: &str) -> Result<PathBuf, Failure> {
    match path_fault(named) {
        None => Ok(PathBuf::from(named)),
        Some(_) if named == "." => Ok(PathBuf::new()),
        Some(why) => Err(given
            .fail(format!("root '{named}' {why}; with release_pool it is a path in the release"))
            .hint("root = \"public\", or root = \".\"")),
    }
}
