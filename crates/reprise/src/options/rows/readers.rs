//! Parsers of options that need more than the parser of their type. Each function is named in a row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data_cache::layout::Geometry;
use routing::settings::Network;
use routing::target::is_clean;
use toml::de::DeValue;

use super::super::WantedPhp;
use super::super::option_table::Options;
use super::super::reader::Given;
use super::super::value::Value;
use super::{Application, Config, RequestLimits};
use crate::comparison::LogIn;
use crate::exit::Failure;
use crate::phars;
use crate::root::Root;

/// The names of presets.
pub const PRESETS: [&str; 12] = [
    "wordpress",
    "mediawiki",
    "dokuwiki",
    "symfony",
    "laravel",
    "drupal",
    "nextcloud",
    "phpmyadmin",
    "roundcube",
    "kanboard",
    "mybb",
    "shaarli",
];

/// The real path, without symbolic links.
pub fn resolve(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// The part of a path that exists without symbolic links, the rest as it is written.
fn resolve_in_part(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, resolved)) = found else { return absolute };
    let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
    // Removes a slash at the end.
    resolved.join(rest).components().collect()
}

/// A path, relative to the file's directory.
pub(super) fn path(given: &Given<'_, '_>, _: &Config) -> Result<Option<PathBuf>, Failure> {
    Ok(Some(given.file.base.join(String::read(given)?)))
}

/// A file, relative to the file's directory.
pub(super) fn file<T>(given: &Given<'_, '_>, _: &T) -> Result<PathBuf, Failure> {
    Ok(given.file.base.join(String::read(given)?))
}

/// The same, for an option that may be missing.
pub(super) fn optional_file<T>(given: &Given<'_, '_>, before: &T) -> Result<Option<PathBuf>, Failure> {
    file(given, before).map(Some)
}

/// Names of a directory's index.
pub(super) fn index<T>(given: &Given<'_, '_>, _: &T) -> Result<Option<Vec<String>>, Failure> {
    let names = Vec::<String>::read(given)?;
    let odd = |name: &&String| {
        name.is_empty()
            || name.len() > 255
            || name.starts_with('.')
            || name.contains('/')
            || name.chars().any(char::is_control)
    };
    if let Some(name) = names.iter().find(odd) {
        let failure = given.fail(format!("'{}' takes names of files, not {name:?}", given.name));
        return Err(failure.hint("a name has at most 255 bytes, no slash, and does not begin with a dot"));
    }
    if names.len() > 16 {
        return Err(given.fail(format!("'{}' takes at most 16 names, not {}", given.name, names.len())));
    }
    Ok(Some(names))
}

/// A URL of https.
pub(super) fn url<T>(given: &Given<'_, '_>, _: &T) -> Result<String, Failure> {
    let text = String::read(given)?;
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !rest.contains(['@', '#']);
    if !is_plain || rest.split('/').next().is_none_or(str::is_empty) {
        return Err(given.fail(format!("'{}' takes a URL that begins with https://, not \"{text}\"", given.name)));
    }
    Ok(text)
}

/// Mail addresses, as they are written or as URLs.
pub(super) fn mail_addresses<T>(given: &Given<'_, '_>, _: &T) -> Result<Vec<String>, Failure> {
    let address = |text: String| {
        let address = text.strip_prefix("mailto:").unwrap_or(&text).to_owned();
        let is_fine = address.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
        match is_fine && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') {
            true => Ok(address),
            false => Err(given.fail(format!("'{text}' is no mail address"))),
        }
    };
    Vec::<String>::read(given)?.into_iter().map(address).collect()
}

/// A path, or one of two words.
pub(super) fn log_target(given: &Given<'_, '_>, _: &Config) -> Result<String, Failure> {
    let target = String::read(given)?;
    let is_word = ["stdout", "off"].contains(&target.as_str());
    Ok(if is_word { target } else { given.file.base.join(target).to_string_lossy().into_owned() })
}

/// Permissions in octal.
pub(super) fn permissions(given: &Given<'_, '_>, _: &Config) -> Result<u32, Failure> {
    let text = String::read(given)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        given.fail(format!("'{}' takes permissions in octal such as \"0660\", not \"{text}\"", given.name))
    })
}

/// The size of a data cache.
pub(super) fn data_memory(given: &Given<'_, '_>, _: &Application) -> Result<u64, Failure> {
    let size = u64::read(given)?;
    let is_fine = size == 0 || Geometry::of(size).is_some();
    is_fine.then_some(size).ok_or_else(|| given.fail(format!("'{}' takes a size from 1M to 4G, or 0", given.name)))
}

/// The size of a head over HTTP/2.
pub(super) fn http2_head(given: &Given<'_, '_>, _: &Config) -> Result<u64, Failure> {
    let size = u64::read(given)?;
    let is_fine = (1 << 10..=64 << 10).contains(&size);
    is_fine.then_some(size).ok_or_else(|| given.fail(format!("'{}' takes a size from 1K to 64K", given.name)))
}

/// Addresses and networks.
pub(super) fn networks<S>(given: &Given<'_, '_>, _: &S) -> Result<Vec<Network>, Failure> {
    let parse = |text: &String| {
        text.parse().map_err(|()| {
            let failure = given.fail(format!("'{text}' is no address or network"));
            failure.hint("127.0.0.1, 10.0.0.0/8, fd00::/8 or unix:")
        })
    };
    Vec::<String>::read(given)?.iter().map(parse).collect()
}

/// Addresses and networks of servers, as they are written.
pub(super) fn server_networks<S>(given: &Given<'_, '_>, _: &S) -> Result<Vec<String>, Failure> {
    let texts = Vec::<String>::read(given)?;
    match texts.iter().find(|text| text.as_str() == "unix:" || text.parse::<Network>().is_err()) {
        Some(text) => {
            Err(given.fail(format!("'{text}' is no address or network")).hint("10.0.0.0/8, 192.0.2.7 or fd00::/8"))
        }
        None => Ok(texts),
    }
}

/// Scripts by path.
pub(super) fn validators(given: &Given<'_, '_>, _: &Application) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for (key, value) in given.table()?.iter() {
        let (path, at) = (key.get_ref().to_string(), value.span().start);
        if !is_clean(&path) {
            let why = format!("'{path}' is no path: \"/blog\", without query or %");
            return Err(given.file.fail(key.span().start, why));
        }
        let script = match value.get_ref() {
            DeValue::String(script) if is_clean(script) && script.ends_with(".php") => script.to_string(),
            _ => {
                let failure = given.file.fail(at, format!("'{path}' takes the path of a script below the root"));
                return Err(failure.hint("validators.\"/blog\" = \"/changed.php\""));
            }
        };
        all.insert(path, script);
    }
    Ok(all)
}

/// A directory that exists, or a phar, or a directory in one; with a pool, a path in its releases.
pub(super) fn root(given: &Given<'_, '_>, before: &Application) -> Result<Root, Failure> {
    let named = String::read(given)?;
    if named.is_empty() {
        return Err(given.fail("root is empty"));
    }
    if before.release_pool.is_some() {
        return super::released::root(given, &named).map(Root::directory);
    }
    let path = given.file.base.join(named);
    if let Some((file, inside)) = phars::part(&path) {
        return phars::open(&file, &inside).map_err(|why| given.fail(why));
    }
    let path = resolve(&path).map_err(|why| given.fail(why))?;
    if !path.is_dir() {
        let failure = given.fail(format!("root {} is neither a directory nor a phar", path.display()));
        return Err(failure.hint("a phar is a file whose name ends in .phar"));
    }
    Ok(Root::directory(path))
}

/// Paths that need not exist.
pub(super) fn paths_in_part(given: &Given<'_, '_>, _: &Application) -> Result<Vec<PathBuf>, Failure> {
    let paths = Vec::<String>::read(given)?;
    Ok(paths.iter().map(|path| resolve_in_part(&given.file.base.join(path))).collect())
}

/// One such path.
pub(super) fn path_in_part(given: &Given<'_, '_>, _: &Application) -> Result<Option<PathBuf>, Failure> {
    Ok(Some(resolve_in_part(&given.file.base.join(String::read(given)?))))
}

/// A version of PHP. Whether it is installed is looked up when the whole configuration is known.
pub(super) fn php(given: &Given<'_, '_>, _: &Application) -> Result<Option<WantedPhp>, Failure> {
    let text = match given.item.get_ref() {
        DeValue::Float(_) | DeValue::Integer(_) => Err(given.wrong().hint("php = \"8.4\", with quotes")),
        _ => String::read(given),
    }?;
    let version = text.parse().map_err(|why| given.fail(format!("'{}' takes {why}", given.name)))?;
    Ok(Some(WantedPhp { version, place: given.place() }))
}

/// The name of a preset; empty: there is none.
pub(super) fn preset(given: &Given<'_, '_>, _: &Application) -> Result<Option<String>, Failure> {
    let name = String::read(given)?;
    if name.is_empty() {
        return Ok(None);
    }
    let known = PRESETS.iter().any(|known| *known == name);
    if known {
        return Ok(Some(name));
    }
    let near = PRESETS.iter().min_by_key(|known| strsim::levenshtein(known, &name));
    let failure = given.fail(format!("there is no preset '{name}': {}", PRESETS.join(", ")));
    Err(near.into_iter().fold(failure, |failure, near| failure.hint(format!("did you mean '{near}'?"))))
}

/// Paths that exist.
pub(super) fn real_paths(given: &Given<'_, '_>, _: &Application) -> Result<Vec<PathBuf>, Failure> {
    let paths = Vec::<String>::read(given)?;
    let resolved: Result<_, _> = paths.iter().map(|path| resolve(&given.file.base.join(path))).collect();
    resolved.map_err(|why| given.fail(why))
}

/// Directories by paths of URLs.
pub(super) fn directories(given: &Given<'_, '_>, _: &Application) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut all = BTreeMap::new();
    for (path, directory) in given.table()?.iter() {
        let (at, path) = (path.span().start, path.get_ref().to_string());
        if !is_clean(&path) {
            return Err(given.file.fail(at, format!("'{path}' is no path: \"/protected\", without query or %")));
        }
        let named = String::read(&given.part(given.name, directory))?;
        let failed = |why: String| given.file.fail(directory.span().start, why);
        let resolved = resolve(&given.file.base.join(named)).map_err(failed)?;
        if !resolved.is_dir() {
            return Err(failed(format!("{} is not a directory", resolved.display())));
        }
        all.insert(path, resolved);
    }
    Ok(all)
}

/// A name, an address, or `*.` and a name.
fn is_host_pattern(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_v6 = name.starts_with('[') && name.ends_with(']');
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte) || (is_v6 && b"[]:".contains(&byte));
    name.split('.').all(|label| !label.is_empty()) && name.bytes().all(fine)
}

/// Host names, in lower case and without a dot at the end, as the front looks them up.
pub(super) fn hosts<T>(given: &Given<'_, '_>, _: &T) -> Result<Vec<String>, Failure> {
    let plain = |host: &String| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let hosts: Vec<String> = Vec::<String>::read(given)?.iter().map(plain).collect();
    match hosts.iter().find(|host| !is_host_pattern(host)) {
        Some(host) => {
            let failure = given.fail(format!("'{host}' is no host name"));
            Err(failure.hint("a name without scheme, port or path; \"*.example.org\" for all below"))
        }
        None => Ok(hosts),
    }
}

/// A value of Strict-Transport-Security (RFC 6797 §6.1).
pub(super) fn hsts(given: &Given<'_, '_>, _: &Application) -> Result<Option<String>, Failure> {
    let text = String::read(given)?;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split(';').map(str::trim);
    let has_age = parts.next().and_then(|part| part.strip_prefix("max-age=")).is_some_and(is_number);
    let is_fine = has_age && parts.all(|part| ["includeSubDomains", "preload"].contains(&part));
    if !text.is_empty() && !is_fine {
        let failure = given.fail(format!("'hsts' takes the value of the header, not \"{text}\""));
        return Err(failure.hint("\"max-age=31536000\", perhaps with \"; includeSubDomains\" and \"; preload\""));
    }
    Ok((!text.is_empty()).then_some(text))
}

/// A path of a URL, or `None` if it is empty.
pub(super) fn url_path(given: &Given<'_, '_>, _: &Application) -> Result<Option<String>, Failure> {
    let (text, name) = (String::read(given)?, given.name);
    let is_plain = text.starts_with('/') && !text.contains(['?', '#', '%']) && is_clean(&text);
    if !text.is_empty() && !is_plain {
        let failure = given.fail(format!("'{name}' takes a path such as \"/{name}\", not \"{text}\""));
        return Err(failure.hint("it begins with / and has no ?, #, % or .. in it"));
    }
    Ok((!text.is_empty()).then_some(text))
}

/// Paths of URLs.
pub(super) fn url_paths(given: &Given<'_, '_>, _: &Application) -> Result<Vec<String>, Failure> {
    let paths = Vec::<String>::read(given)?;
    match paths.iter().find(|path| !is_clean(path)) {
        Some(path) => {
            let why = format!("'{path}' is no path as it stands after the host: \"/cart\", without query or %");
            Err(given.fail(why))
        }
        None => Ok(paths),
    }
}

/// Paths of URLs, or none.
pub(super) fn fingerprinted(given: &Given<'_, '_>, application: &Application) -> Result<Option<Vec<String>>, Failure> {
    url_paths(given, application).map(Some)
}

/// Variables of the environment; `$NAME` is the value of the server's own variable.
pub(super) fn environment(given: &Given<'_, '_>, _: &Application) -> Result<BTreeMap<String, String>, Failure> {
    let mut pairs = BTreeMap::<String, String>::read(given)?;
    for (key, value) in &mut pairs {
        let Some(source) = value.strip_prefix('$') else { continue };
        *value = std::env::var(source).map_err(|_| {
            given.fail(format!("env.{key} is to be {value}, which the server's environment does not have"))
        })?;
    }
    Ok(pairs)
}

/// How two users log in; `$NAME` is the value of the server's own variable.
pub(super) fn logins(given: &Given<'_, '_>, _: &Application) -> Result<Vec<String>, Failure> {
    let mut users = Vec::<String>::read(given)?;
    for user in &mut users {
        if let Some(source) = user.strip_prefix('$') {
            *user = std::env::var(source).map_err(|_| {
                given.fail(format!("'{}' names ${source}, which the server's environment does not have", given.name))
            })?;
        }
        LogIn::parse(user, "localhost").map_err(|why| given.fail(format!("'{}': {why}", given.name)))?;
    }
    if ![0, 2].contains(&users.len()) {
        let why =
            format!("'{}' names two users, not {}: one's data could not show up for another", given.name, users.len());
        return Err(given.fail(why));
    }
    Ok(users)
}

/// Limits by path. Options that are left out are those of the application.
pub(super) fn path_limits(
    given: &Given<'_, '_>,
    application: &Application,
) -> Result<BTreeMap<String, RequestLimits>, Failure> {
    let mut all = BTreeMap::new();
    for (path, value) in given.table()?.iter() {
        let (at, path) = (path.span().start, path.get_ref().to_string());
        if !is_clean(&path) {
            return Err(given.file.fail(at, format!("'{path}' is no path: \"/export\", without query or %")));
        }
        let DeValue::Table(table) = value.get_ref() else {
            let failure = given.file.fail(value.span().start, format!("'{}' takes a table for each path", given.name));
            return Err(failure.hint("limits.\"/export\" = { request_timeout = \"10m\" }"));
        };
        let known = |name: &str| RequestLimits::ROWS.iter().any(|row| row.name == name);
        if let Some(key) = table.keys().find(|key| !known(key.get_ref())) {
            let why = format!("the limits of a path have no '{}'", key.get_ref());
            let names: Vec<&str> = RequestLimits::ROWS.iter().map(|row| row.name).collect();
            return Err(given.file.fail(key.span().start, why).hint(names.join(", ")));
        }
        let mut limits = application.request.clone();
        limits.read(given.file, table)?;
        all.insert(path, limits);
    }
    Ok(all)
}
