//! Real applications, from Debian's packages: whatever one does with them, Reprise answers as nginx with PHP-FPM does.
//!
//! Both servers get the same requests, with the same Host, each with a copy of the application of its own. What else may
//! differ is a closed list (`tests::closed_list`); `--nocapture` prints it with the number of its uses, and an entry
//! without a use fails the test.

mod laravel;
mod mediawiki;
mod phar;
mod released;
mod slim;
mod symfony;
mod unpacked;
mod update;
mod wordpress;
mod wordpress_admin;

use tests::Response;
use tests::client::multipart;
use tests::compare::Visitor;

/// A picture of one pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\
    \x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01D\x00;";

/// Sends a multipart form.
fn upload(visitor: &mut Visitor, path: &str, fields: &[(&str, &str)], files: &[(&str, &str, &str, &[u8])]) -> Response {
    let (kind, body) = multipart(fields, files);
    visitor.request("POST", path, &[("Content-Type", &kind)], &body)
}

/// A GET with one more header.
fn get_with(visitor: &mut Visitor, path: &str, name: &str, value: &str) -> Response {
    visitor.request("GET", path, &[(name, value)], b"")
}

/// An answer whose size was not known when it began.
fn is_streamed(answer: &Response) -> bool {
    answer.header("transfer-encoding") == Some("chunked") && answer.header("content-length").is_none()
}

/// The answer leads there.
#[track_caller]
fn leads_to(answer: &Response, place: &str) {
    assert_eq!(answer.header("location"), Some(place), "{} {}", answer.status, answer.text());
}
