//! Files that a script has the front send: by `X-Sendfile`, a path of the file system within declared directories, or by
//! `X-Accel-Redirect`, a path that the configuration maps to a directory. The worker is free at once.
//!
//! The file is the one that the path leads to, links and all. It must lie in a declared directory, however the path is
//! spelled. Of an application that has declared directories the client never sees the header.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::files;
use crate::response_body::ResponseBody;
use inbound::request::Request;
use routing::refusal::Refusal;
use routing::route::Found;
use routing::settings::Application;
use routing::target;

const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");
/// What a response with X-Accel-Redirect keeps of the script's headers, as with nginx, and what the front itself has added.
const KEPT: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_DISPOSITION,
    header::ACCEPT_RANGES,
    header::SET_COOKIE,
    header::CACHE_CONTROL,
    header::EXPIRES,
    HeaderName::from_static("server-timing"),
];
/// What a response with X-Sendfile does not keep: it describes the script's own body.
const DROPPED: [HeaderName; 5] =
    [header::CONTENT_LENGTH, header::CONTENT_RANGE, header::CONTENT_ENCODING, header::ETAG, header::LAST_MODIFIED];
/// Bytes of a header that a line of the log shows.
const SHOWN: usize = 512;

/// The header by which a response names a file, if its application has declared directories for that.
fn naming<'a>(headers: &'a HeaderMap, application: &Application) -> Option<(HeaderName, &'a HeaderValue)> {
    let of = |name: HeaderName, is_on: bool| headers.get(&name).filter(|_| is_on).map(|value| (name, value));
    of(REDIRECT, !application.x_accel_redirect.is_empty()).or_else(|| of(SENDFILE, !application.x_sendfile.is_empty()))
}

/// Whether a response names a file that is to be sent in the place of its body.
pub fn is_named(headers: &HeaderMap, application: &Application) -> bool {
    naming(headers, application).is_some()
}

/// The file that a script's response names, with the headers that it keeps.
pub fn respond(
    script: &HeaderMap,
    application: &Application,
    request: &Request,
) -> Result<Response<ResponseBody>, Refusal> {
    let Some((name, value)) = naming(script, application) else { return Err(Refusal::BadResponse) };
    let found = find(&name, value, application).map_err(|why| {
        log(&format!(
            "{}: a file that a script named is not sent: {name}: {:?}: {}",
            application.name,
            shown(value),
            why.1
        ));
        why.0
    })?;
    let may_range = script.get(header::ACCEPT_RANGES).is_none_or(|word| word != "none");
    let mut response = files::send(&found, request, may_range)?;
    keep(&mut response, script, name == REDIRECT);
    Ok(response)
}

/// Adds the headers of the script's response that are kept.
fn keep(response: &mut Response<ResponseBody>, script: &HeaderMap, is_redirect: bool) {
    let status = response.status();
    let is_own_page = status == StatusCode::RANGE_NOT_SATISFIABLE;
    let is_kept = |name: &HeaderName| match is_redirect {
        _ if *name == SENDFILE || *name == REDIRECT => false,
        // Of a page of the front's own, and of a response without content, the type is not the file's.
        _ if *name == header::CONTENT_TYPE && (is_own_page || status == StatusCode::NOT_MODIFIED) => false,
        true => KEPT.contains(name),
        false => !DROPPED.contains(name),
    };
    for name in script.keys().filter(|name| is_kept(name)) {
        response.headers_mut().remove(name);
        for value in script.get_all(name) {
            response.headers_mut().append(name.clone(), value.clone());
        }
    }
}

/// What a path leads to, before it is opened for reading: a device or a pipe would act on that.
struct Placed {
    path: PathBuf,
    place: OwnedFd,
    stat: Stat,
    /// Without links.
    real: PathBuf,
}

impl Placed {
    fn look(path: PathBuf) -> io::Result<Placed> {
        let place = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        let real = std::fs::read_link(handle(&place))?;
        Ok(Placed { path, place, stat, real })
    }

    fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Opens the file that was looked at, not one that has taken its place since.
    fn open(self) -> io::Result<Found> {
        Ok(Found::new(File::open(handle(&self.place))?, self.path.into(), &self.stat, None))
    }
}

fn handle(place: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", place.as_raw_fd())
}

/// The refusal, and the reason for the log.
type Why = (Refusal, String);

fn find(name: &HeaderName, value: &HeaderValue, application: &Application) -> Result<Found, Why> {
    let (wanted, within) = if *name == REDIRECT {
        mapped(value, application)?
    } else {
        let wanted = PathBuf::from(OsStr::from_bytes(value.as_bytes()));
        if !wanted.is_absolute() {
            return Err((Refusal::SentFile, "it is no absolute path".to_owned()));
        }
        (wanted, &application.x_sendfile[..])
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => (Refusal::Forbidden, format!("the front may not read it: {error}")),
        _ => (Refusal::NotFound, error.to_string()),
    };
    let placed = Placed::look(wanted).map_err(failed)?;
    if !within.iter().any(|directory| placed.real.starts_with(directory)) {
        let why = format!("{} lies outside of the declared directories", placed.real.display());
        return Err((Refusal::SentFile, why));
    }
    if !placed.is_regular() {
        return Err((Refusal::NotFound, "it is no regular file".to_owned()));
    }
    placed.open().map_err(failed)
}

/// The path that X-Accel-Redirect names, and the directory that it must lie in: that of the longest prefix that fits.
fn mapped<'a>(value: &HeaderValue, application: &'a Application) -> Result<(PathBuf, &'a [PathBuf]), Why> {
    let placed = placed(value.as_bytes(), &application.x_accel_redirect);
    let (path, directory) = placed.map_err(|why| (Refusal::SentFile, why.to_owned()))?;
    Ok((path, std::slice::from_ref(directory)))
}

/// The same for these prefixes.
pub fn placed<'a>(
    value: &[u8],
    declared: &'a BTreeMap<String, PathBuf>,
) -> Result<(PathBuf, &'a PathBuf), &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "it is not UTF-8")?;
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let path = Some(path).filter(|path| path.starts_with('/')).and_then(|path| target::clean(path).ok());
    let path = path.ok_or("it is no path")?;
    let below = |prefix: &str| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/').as_bytes())?;
        rest.strip_prefix(b"/")
    };
    let fitting = declared.iter().filter_map(|(prefix, to)| Some((prefix.len(), below(prefix)?, to)));
    let (_, rest, directory) = fitting.max_by_key(|(length, ..)| *length).ok_or("no declared prefix fits")?;
    Ok((directory.join(OsStr::from_bytes(rest)), directory))
}

fn shown(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned()
}

/// Standard error is a pipe to the supervisor, which may be full or closed: then this line is lost.
fn log(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Tree(PathBuf);

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn site() -> (Tree, Application) {
        let root =
            std::env::temp_dir().join(format!("reprise-sent-{}-{:?}", std::process::id(), std::thread::current().id()));
        let _ = std::fs::remove_dir_all(&root);
        for directory in ["files/sub", "files-too", "other"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        let root = root.canonicalize().unwrap();
        for file in ["files/a b.txt", "files/sub/%41", "files-too/x", "other/x", "secret"] {
            std::fs::write(root.join(file), file).unwrap();
        }
        symlink("../secret", root.join("files/out")).unwrap();
        symlink("../other", root.join("files/across")).unwrap();
        symlink("sub/%41", root.join("files/in")).unwrap();
        let application = Application {
            x_sendfile: vec![root.join("files"), root.join("other")],
            x_accel_redirect: [("/p".to_owned(), root.join("files")), ("/p/other/".to_owned(), root.join("other"))]
                .into(),
            ..Application::default()
        };
        (Tree(root), application)
    }

    fn found(application: &Application, name: &HeaderName, value: &str) -> Result<PathBuf, Refusal> {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        find(name, &value, application).map(|found| found.path.to_path_buf()).map_err(|why| why.0)
    }

    #[test]
    fn paths_lead_to_declared_directories_alone() {
        let (tree, application) = site();
        let at = |path: &str| format!("{}/{path}", tree.0.display());
        for (path, expected) in [
            ("files/a b.txt", None),
            ("files/sub/%41", None),
            ("files/in", None),
            ("files/across/x", None),
            ("other/../files/a b.txt", None),
            ("files/out", Some(Refusal::SentFile)),
            ("files/../secret", Some(Refusal::SentFile)),
            ("files-too/x", Some(Refusal::SentFile)),
            ("secret", Some(Refusal::SentFile)),
            ("files", Some(Refusal::NotFound)),
            ("files/none", Some(Refusal::NotFound)),
            ("files/a%20b.txt", Some(Refusal::NotFound)),
        ] {
            assert_eq!(found(&application, &SENDFILE, &at(path)).err(), expected, "{path}");
        }
        for path in ["files/a b.txt", "", "~/x", "file:///etc/passwd"] {
            assert_eq!(found(&application, &SENDFILE, path).err(), Some(Refusal::SentFile), "{path}");
        }
    }

    #[test]
    fn redirects_are_mapped_by_the_longest_prefix() {
        let (_tree, application) = site();
        for (path, expected) in [
            ("/p/a%20b.txt", None),
            ("/p/a b.txt?x=1", None),
            ("/p/sub/%2541", None),
            ("/p/sub/../in", None),
            ("/p//in", None),
            ("/p/other/x", None),
            ("/p/sub/%41", Some(Refusal::NotFound)),
            ("/p/across/x", Some(Refusal::SentFile)),
            ("/p/out", Some(Refusal::SentFile)),
            ("/p/../../secret", Some(Refusal::SentFile)),
            ("/p/..%2f..%2fsecret", Some(Refusal::SentFile)),
            ("/p/%2e%2e/secret", Some(Refusal::SentFile)),
            ("/p/x%00", Some(Refusal::SentFile)),
            ("/px/a b.txt", Some(Refusal::SentFile)),
            ("/p", Some(Refusal::SentFile)),
            ("p/in", Some(Refusal::SentFile)),
            ("http://a/p/in", Some(Refusal::SentFile)),
            ("@named", Some(Refusal::SentFile)),
            ("/P/in", Some(Refusal::SentFile)),
            ("/p/", Some(Refusal::NotFound)),
            ("/p/other/none", Some(Refusal::NotFound)),
        ] {
            assert_eq!(found(&application, &REDIRECT, path).err(), expected, "{path}");
        }
    }
}
