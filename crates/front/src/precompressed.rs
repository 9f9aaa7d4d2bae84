//! Files that lie compressed beside others and are sent in their place: `app.js.br` for `app.js`.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use rustix::fs::{FileType, Mode, OFlags};

use crate::files;
use crate::response_body::ResponseBody;
use compression::negotiation;
use compression::{Coding, Codings, eligible};
use inbound::request::Request;
use routing::refusal::Refusal;
use routing::route::Found;

/// Responds with a file that the request is for, or with a compressed one beside it.
pub fn respond(found: &Found, request: &Request) -> Result<Response<ResponseBody>, Refusal> {
    if !eligible::is_text(&found.content_type) {
        return files::respond(found, request);
    }
    let is_read = request.head.method == Method::GET || request.head.method == Method::HEAD;
    let chosen = if is_read { choose(found, &request.head.headers) } else { None };
    let mut response = match chosen {
        Some((coding, found)) => coded(coding, &found, request)?,
        None => files::respond(found, request)?,
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Ok(response)
}

fn coded(coding: Coding, found: &Found, request: &Request) -> Result<Response<ResponseBody>, Refusal> {
    let mut response = files::send(found, request, false)?;
    let status = response.status();
    let headers = response.headers_mut();
    headers.remove(header::ACCEPT_RANGES);
    if status == StatusCode::OK {
        headers.insert(header::CONTENT_ENCODING, coding.value());
    }
    Ok(response)
}

/// The file that is sent in the place of another. Parts are parts of the file itself, unless a date says which one the client has: both have dates.
fn choose(found: &Found, request: &HeaderMap) -> Option<(Coding, Found)> {
    if request.contains_key(header::RANGE) && !eligible::resumes_by_date(request) {
        return None;
    }
    let mut codings = Codings::ALL;
    // What the client likes less is looked for if the best is not there.
    while let Some(coding) = negotiation::wanted(request, codings).coding {
        if let Some(beside) = beside(found, coding) {
            return Some((coding, beside));
        }
        codings = codings.without(coding);
    }
    None
}

/// The compressed file beside another, if it is as new. The other may be sent, so this one may be if it lies in the same directory and is no link: then
/// all that was asked of the other's directories and name is true of it.
fn beside(found: &Found, coding: Coding) -> Option<Found> {
    let with_ending = |path: &Path| {
        let mut name = OsString::from(path);
        name.push(coding.ending());
        PathBuf::from(name)
    };
    let path = with_ending(&found.path);
    // What is there may be a pipe, which must not be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(&path, flags, Mode::empty()).ok()?);
    let stat = rustix::fs::fstat(&file).ok()?;
    let real = |file: &File| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || real(&file)? != with_ending(&real(&found.file)?)
    {
        return None;
    }
    let mut beside = Found::new(file, path.into(), &stat, None);
    if beside.modified < found.modified {
        return None;
    }
    beside.content_type = found.content_type.clone();
    // It is another representation even if it has the same length and time.
    let etag = beside.etag.to_str().ok()?.strip_suffix('"').map(|etag| format!("{etag}-{}\"", coding.word()))?;
    beside.etag = HeaderValue::try_from(etag).ok()?;
    Some(beside)
}
