//! The bytes of a file, for the body of a response.
//!
//! Bytes that are in the page cache are read at once. For others the kernel would wait for a disk or a network, and this
//! thread's other requests with it. So a thread of the runtime's pool reads those. The pool has [`READERS`] threads for each
//! thread of the front. A body waits for one part at a time, so no more parts wait than there are connections.

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSliceMut, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes that are read at once, unless a transport wants fewer.
pub const CHUNK: u64 = 128 * 1024;
/// Threads that wait for files, for each thread of the front.
pub const READERS: usize = 4;

/// A part of a file that is still to be sent.
pub struct FileBody {
    file: Arc<File>,
    path: Arc<Path>,
    at: u64,
    left: u64,
    /// Bytes that are read at once.
    part: u64,
    /// A thread of the pool reads the next bytes.
    reading: Option<Reading>,
}

/// A read that waits for a thread of the pool, or has one.
struct Reading {
    task: JoinHandle<io::Result<Vec<u8>>>,
    /// The file, until the read begins. The pool drops no task that waits, so the task itself must not hold the file open.
    file: Arc<Mutex<Option<Arc<File>>>>,
}

impl FileBody {
    /// `left` bytes from `at`.
    pub const fn new(file: Arc<File>, path: Arc<Path>, at: u64, left: u64) -> FileBody {
        FileBody { file, path, at, left, part: CHUNK, reading: None }
    }

    /// Bytes that are still to be sent.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Passes over bytes that somebody else has sent.
    pub const fn skip(&mut self, bytes: u64) {
        self.at += bytes;
        self.left = self.left.saturating_sub(bytes);
    }

    /// From now on no more bytes are read at once.
    pub const fn limit_parts(&mut self, bytes: u64) {
        self.part = if bytes < CHUNK { bytes } else { CHUNK };
    }

    /// The next bytes.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let read = match self.cached() {
            Some(bytes) => Ok(bytes),
            None => ready!(self.poll_read(context)),
        };
        let next = read.and_then(|bytes| match bytes.len() as u64 {
            0 => Err(io::Error::other("it became shorter while it was sent")),
            count => {
                self.at += count;
                self.left -= count;
                Ok(Bytes::from(bytes))
            }
        });
        if let Err(error) = &next {
            // The client sees the connection end. Standard error is a pipe to the supervisor, which may be full or closed: then
            // this message is lost.
            let text = format!("a file cannot be sent to its end: {}: {error}\n", self.path.display());
            let _ = io::stderr().write_all(text.as_bytes());
        }
        Poll::Ready(Some(next))
    }

    fn wanted(&self) -> usize {
        self.left.min(self.part) as usize
    }

    /// The next bytes, if they can be read without waiting. Not every file system can tell. If reading fails, a thread of the
    /// pool finds out why.
    fn cached(&self) -> Option<Vec<u8>> {
        if self.reading.is_some() {
            return None;
        }
        let mut bytes = vec![0; self.wanted()];
        let count = preadv2(&*self.file, &mut [IoSliceMut::new(&mut bytes)], self.at, ReadWriteFlags::NOWAIT).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }

    /// The next bytes, by a thread of the pool.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        let (file, at, size) = (&self.file, self.at, self.wanted());
        let reading = self.reading.get_or_insert_with(|| {
            let file = Arc::new(Mutex::new(Some(file.clone())));
            let place = file.clone();
            let task = spawn_blocking(move || {
                // Nobody wants the bytes any more if there is no file.
                let Some(file) = taken(&place) else { return Ok(Vec::new()) };
                let mut bytes = vec![0; size];
                let count = file.read_at(&mut bytes, at)?;
                bytes.truncate(count);
                Ok(bytes)
            });
            Reading { task, file }
        });
        let read = ready!(Pin::new(&mut reading.task).poll(context));
        self.reading = None;
        Poll::Ready(read.unwrap_or_else(|error| Err(io::Error::other(error))))
    }
}

fn taken(place: &Mutex<Option<Arc<File>>>) -> Option<Arc<File>> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Drop for Reading {
    /// A read that has not begun does not hold the file open any longer.
    fn drop(&mut self) {
        self.task.abort();
        taken(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::channel;

    use super::*;

    fn all_of(mut body: FileBody) -> (io::Result<Vec<u8>>, usize) {
        let (mut all, mut waits) = (Vec::new(), 0);
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let read = runtime.block_on(async {
            while let Some(part) = poll_fn(|context| {
                let next = body.poll_next(context);
                waits += usize::from(next.is_pending());
                next
            })
            .await
            {
                all.extend_from_slice(&part?);
            }
            Ok(())
        });
        (read.map(|()| all), waits)
    }

    fn body(path: &str, at: u64, left: u64) -> FileBody {
        FileBody::new(Arc::new(File::open(path).unwrap()), Path::new(path).into(), at, left)
    }

    #[test]
    fn a_file_is_read_in_parts() {
        let mut file = tempfile();
        let text: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
        file.write_all(&text).unwrap();
        let file = Arc::new(file);
        for (at, left) in [(0, 300_000), (7, 0), (130_000, 140_000)] {
            let (read, _) = all_of(FileBody::new(file.clone(), Path::new("x").into(), at, left));
            assert_eq!(read.unwrap(), text[at as usize..(at + left) as usize]);
        }
        let (read, _) = all_of(FileBody::new(file, Path::new("x").into(), 299_999, 2));
        assert!(read.unwrap_err().to_string().contains("shorter"));
    }

    fn tempfile() -> File {
        File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    /// /proc cannot tell whether a read would wait.
    #[test]
    fn what_may_wait_is_read_by_another_thread() {
        let text = std::fs::read("/proc/version").unwrap();
        let (read, waits) = all_of(body("/proc/version", 0, text.len() as u64));
        assert_eq!(read.unwrap(), text);
        assert!(waits > 0, "it was read at once");
    }

    /// The only thread of the pool is busy until the end of the test.
    #[test]
    fn a_body_that_is_dropped_leaves_no_open_file_behind() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (release, wait) = channel::<()>();
        runtime.spawn_blocking(move || wait.recv());
        let file = Arc::new(File::open("/proc/version").unwrap());
        runtime.block_on(async {
            for _ in 0..9 {
                let mut body = FileBody::new(file.clone(), Path::new("x").into(), 0, 1);
                assert!(poll_fn(|context| Poll::Ready(body.poll_next(context).is_pending())).await);
                assert_eq!(Arc::strong_count(&file), 3, "the read waits with the file");
            }
        });
        assert_eq!(Arc::strong_count(&file), 1, "no read waits any more");
        drop(release);
    }

    #[test]
    fn why_a_file_cannot_be_read_is_said() {
        let (read, _) = all_of(body("/proc/self/mem", 0, 1));
        assert_eq!(read.unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    }
}
