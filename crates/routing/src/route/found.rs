//! A file that may be sent: open, with what its response says of it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::HeaderValue;
use rustix::fs::Stat;

/// A file that may be sent. [`super::file_cache`] keeps it for requests that follow.
#[derive(Debug)]
pub struct Found {
    /// Opened for reading.
    pub file: Arc<File>,
    /// The file's name, for the content type and for messages.
    pub path: Arc<Path>,
    /// Bytes that it had when it was looked at.
    pub size: u64,
    /// When it was written, to the second.
    pub modified: SystemTime,
    /// All of its bytes, if they are few and have been read.
    pub body: Option<Bytes>,
    /// Its ETag.
    pub etag: HeaderValue,
    /// The same time as a header.
    pub last_modified: HeaderValue,
    /// Its content type.
    pub content_type: HeaderValue,
}

impl Found {
    /// An open file, and what the system says of it.
    pub fn new(file: File, path: Arc<Path>, stat: &Stat, body: Option<Bytes>) -> Found {
        let size = stat.st_size.max(0) as u64;
        let modified = UNIX_EPOCH + Duration::from_secs(stat.st_mtime.max(0) as u64);
        // All three are visible ASCII.
        let header = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        Found {
            etag: header(format!("\"{:x}-{:x}-{size:x}\"", stat.st_mtime, stat.st_mtime_nsec)),
            last_modified: header(httpdate::fmt_http_date(modified)),
            content_type: content_type(&path),
            file: Arc::new(file),
            path,
            size,
            modified,
            body,
        }
    }
}

fn content_type(path: &Path) -> HeaderValue {
    let guess = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
    // Text is UTF-8 unless the document itself says otherwise. XML and JSON need no charset.
    if guess.starts_with("text/") || guess == "application/javascript" {
        HeaderValue::try_from(format!("{guess}; charset=utf-8")).unwrap_or(HeaderValue::from_static("text/plain"))
    } else {
        HeaderValue::from_static(guess)
    }
}
