//! A server of development: the front's own paths, and the script by which a page listens for changes.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::dev::Dev;
use crate::dev::insertion::{self, Insertion};
use crate::dev::policy;
use crate::page;
use crate::response_body::{ResponseBody, Used};
use crate::wrapped::Made;
use inbound::request::{Head, Request};

/// Paths below this one are the front's own.
const OWN: &str = "/.reprise/";
/// The script by which pages listen.
const SCRIPT: &str = include_str!("../dev/listen.js");
/// Says why a page is not reloaded.
const HEADER: HeaderName = HeaderName::from_static("reprise-dev");

/// The response to a request for one of the front's own paths.
pub fn own(dev: &Dev, request: &Request) -> Option<Response<Made>> {
    let name = request.head.target.path().strip_prefix(OWN)?;
    let is_read = request.head.method == Method::GET || request.head.method == Method::HEAD;
    let response = match name {
        _ if !is_read || request.refusal.is_some() => return None,
        "listen.js" => {
            let (status, kind) = (StatusCode::OK, "text/javascript; charset=utf-8");
            page::text(status, kind, "no-cache", SCRIPT.to_owned())
        }
        "changes" => {
            let mut response =
                Response::new(ResponseBody::events(dev.browsers.events(&request.head, &request.connection)));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        _ => return None,
    };
    Some(response.map(Made::plain))
}

/// A page is sent whole, with the script that belongs to this moment: a condition would let the browser keep one with an older script.
pub fn prepare(head: &mut Head) {
    if is_for_page(head) {
        head.headers.remove(header::IF_NONE_MATCH);
        head.headers.remove(header::IF_MODIFIED_SINCE);
        head.headers.remove(header::RANGE);
        // Into what PHP has compressed nothing can be inserted.
        head.headers.remove(header::ACCEPT_ENCODING);
    }
}

/// The page that says why the application cannot be loaded.
pub fn refused(why: &str) -> Response<Made> {
    let text = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>The application cannot be loaded</title>\n\
         <style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 4rem auto; padding: 0 1rem }}\n\
         pre {{ white-space: pre-wrap; background: #f4f4f5; padding: 1rem; border-radius: 6px }}</style>\n\
         <body>\n<h1>The application cannot be loaded</h1>\n<pre>{text}</pre>\n\
         <p>The next save is tried again, and this page reloads then.</p>\n</body>\n</html>\n"
    );
    page::text(StatusCode::SERVICE_UNAVAILABLE, "text/html; charset=utf-8", "no-store", body).map(Made::plain)
}

/// Makes a page listen for what changes after `change`, and has browsers keep nothing that says nothing of that.
pub fn dress(dev: &Dev, request: &Request, response: &mut Response<Made>, change: u64) {
    let headers = response.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if !is_for_page(&request.head) || request.head.method == Method::HEAD || !is_page(response) {
        return;
    }
    let nonce = match policy::nonce(response.headers(), &request.head.headers) {
        Ok(nonce) => nonce,
        Err(why) => {
            if let Ok(value) = HeaderValue::from_str(&format!("not reloaded: {why}")) {
                response.headers_mut().insert(HEADER, value);
            }
            return dev.say(request.head.target.path(), &why);
        }
    };
    let script = script(nonce.as_deref(), &dev.browsers.since(change));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.remove(header::ETAG);
    headers.remove(header::LAST_MODIFIED);
    headers.remove(header::ACCEPT_RANGES);
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length + script.len() as u64));
    }
    let made = std::mem::replace(response.body_mut(), Made::plain(ResponseBody::none()));
    *response.body_mut() = made.map(|body| match body.whole() {
        Some(whole) => {
            let usage = body.usage();
            ResponseBody::full(insertion::whole(whole, &script)).after(usage)
        }
        None => body.inserted(Insertion::new(script)),
    });
}

/// Whether a browser asks for a page to be shown, and not a script of a page for data.
fn is_for_page(head: &Head) -> bool {
    let is =
        |name: &str, test: &dyn Fn(&str) -> bool| head.headers.get(name).map(|value| value.to_str().is_ok_and(test));
    let accepts = is("accept", &|value| value.contains("text/html")).unwrap_or(false);
    let shows = is("sec-fetch-dest", &|value| ["document", "iframe", "frame"].contains(&value)).unwrap_or(true);
    accepts && shows && !head.headers.contains_key("x-requested-with") && !head.headers.contains_key("hx-request")
}

/// Whether a response is a page, in a charset that begins as ASCII does.
fn is_page(response: &Response<Made>) -> bool {
    let status = response.status();
    let has_body = !status.is_informational()
        && ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED, StatusCode::PARTIAL_CONTENT].contains(&status);
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let is_html = kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html");
    has_body && is_html && !kind.contains("utf-16") && !headers.contains_key(header::CONTENT_ENCODING)
}

fn script(nonce: Option<&str>, since: &str) -> Bytes {
    let nonce = nonce.map(|nonce| format!(" nonce=\"{nonce}\"")).unwrap_or_default();
    Bytes::from(format!("<script src=\"{OWN}listen.js\" data-after=\"{since}\"{nonce}></script>"))
}
