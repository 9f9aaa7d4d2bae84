//! Bodies: of answers, as hyper sends them; of requests, as they go to PHP.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use wire::layout::Usage;

use crate::access::Entry;
use crate::clients::Place;
use crate::connection::{Client, Left};
use crate::lane::{BodySlip, Lane, Ticket};
use crate::refusal::Refusal;

/// Bytes read from a file at once.
const FILE_CHUNK: u64 = 128 * 1024;

/// The body of an answer. Writes its line of the access log when it is over.
pub struct AnswerBody {
    source: Source,
    sent: u64,
    usage: Usage,
    entry: Option<Box<Entry>>,
    _place: Option<Place>,
    timed: Option<(Instant, Arc<Lane>)>,
    reader: Option<Arc<dyn Client>>,
}

enum Source {
    None,
    Full(Bytes),
    Stream { ticket: Ticket, rest: Bytes },
    Discard { _drain: Draining },
    File { file: File, at: u64, left: u64 },
}

/// Reads the rest of an answer that has no body, so that its worker can finish.
struct Draining(Option<Ticket>);

impl Drop for Draining {
    fn drop(&mut self) {
        let Some(ticket) = self.0.take() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tokio::spawn(async move {
            let mut bytes = Vec::new();
            while let Ok(received) = poll_fn(|context| ticket.poll_receive(context, &mut bytes)).await {
                if received.done {
                    break;
                }
                bytes.clear();
            }
        });
    }
}

impl AnswerBody {
    fn new(source: Source) -> AnswerBody {
        AnswerBody { source, sent: 0, usage: Usage::default(), entry: None, _place: None, timed: None, reader: None }
    }

    /// No body.
    pub fn none() -> AnswerBody {
        AnswerBody::new(Source::None)
    }

    /// All of it at once.
    pub fn full(bytes: Bytes) -> AnswerBody {
        AnswerBody::new(Source::Full(bytes))
    }

    /// As PHP produces it, `rest` first.
    pub fn stream(ticket: Ticket, rest: Bytes) -> AnswerBody {
        AnswerBody::new(Source::Stream { ticket, rest })
    }

    /// No body, though PHP still produces one.
    pub fn discard(ticket: Ticket) -> AnswerBody {
        AnswerBody::new(Source::Discard { _drain: Draining(Some(ticket)) })
    }

    /// `left` bytes of a file from `at`.
    pub fn file(file: File, at: u64, left: u64) -> AnswerBody {
        AnswerBody::new(Source::File { file, at, left })
    }

    /// Its length, if it is known before it is sent.
    pub fn known_length(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    /// The same, with what its request has used.
    pub fn after(mut self, usage: Usage) -> AnswerBody {
        self.usage = usage;
        self
    }

    /// Its client's place, until it is over.
    pub fn hold(&mut self, place: Place) {
        self._place = Some(place);
    }

    /// Its duration counts for that lane when it is over.
    pub fn time(&mut self, began: Instant, lane: Arc<Lane>) {
        self.timed = Some((began, lane));
    }

    /// Goes on only as long as that client reads it.
    pub fn read_by(&mut self, client: Arc<dyn Client>) {
        self.reader = Some(client);
    }

    /// To be logged when it is over.
    pub fn log(&mut self, entry: Box<Entry>) {
        self.entry = Some(entry);
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the client is gone")
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some((began, lane)) = self.timed.take() {
            lane.durations.note(began.elapsed());
        }
        if let Some(entry) = self.entry.take() {
            crate::access::write(&entry, self.sent, self.usage);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let frame = match &mut body.source {
            Source::None | Source::Discard { .. } => None,
            Source::Full(bytes) if bytes.is_empty() => None,
            Source::Full(bytes) => Some(Ok(std::mem::take(bytes))),
            Source::Stream { rest, .. } if !rest.is_empty() => Some(Ok(std::mem::take(rest))),
            // What is written to a client that is gone goes nowhere, at once: without an end here a whole file would. PHP is
            // told when the ticket is dropped, and that is with this body.
            Source::Stream { .. } | Source::File { .. } if body.reader.as_ref().is_some_and(|one| one.is_gone()) => {
                Some(Err(gone()))
            }
            Source::Stream { ticket, .. } => {
                crate::doors::collect();
                let mut bytes = Vec::new();
                match ticket.poll_receive(context, &mut bytes) {
                    // An end of input is no reason to stop: the client may still read.
                    Poll::Pending => match body.reader.as_ref().map(|one| one.poll_left(context)) {
                        Some(Poll::Ready(Left::Gone)) => Some(Err(gone())),
                        _ => return Poll::Pending,
                    },
                    // The client has been promised more than there is: the connection ends without the last chunk.
                    Poll::Ready(Err(why)) => Some(Err(io::Error::other(why.describe().1))),
                    Poll::Ready(Ok(received)) => {
                        if received.done {
                            body.usage = received.usage;
                            body.source = Source::None;
                        }
                        (!bytes.is_empty()).then(|| Ok(Bytes::from(bytes)))
                    }
                }
            }
            Source::File { left: 0, .. } => None,
            Source::File { file, at, left } => {
                let mut bytes = vec![0; (*left).min(FILE_CHUNK) as usize];
                Some(match file.read_at(&mut bytes, *at) {
                    Ok(0) => Err(io::Error::other("the file became shorter while it was sent")),
                    Ok(count) => {
                        bytes.truncate(count);
                        *at += count as u64;
                        *left -= count as u64;
                        Ok(Bytes::from(bytes))
                    }
                    Err(error) => Err(error),
                })
            }
        };
        if let Some(Ok(bytes)) = &frame {
            body.sent += bytes.len() as u64;
        }
        Poll::Ready(frame.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::None | Source::Discard { .. } => true,
            Source::Full(bytes) => bytes.is_empty(),
            Source::File { left, .. } => *left == 0,
            Source::Stream { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::None => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::File { left, .. } => SizeHint::with_exact(*left),
            Source::Discard { .. } | Source::Stream { .. } => SizeHint::default(),
        }
    }
}

/// The beginning of a request's body, read before a worker is asked for: a small body that comes slowly holds no worker,
/// and one that breaks off never reaches PHP.
pub struct Prefix {
    /// Its bytes, at least [`PREFIX`] unless that is all.
    pub bytes: Vec<u8>,
    /// What follows, if the body is larger.
    pub rest: Option<Incoming>,
}

/// Bytes of a body that are read before its request is posted.
pub const PREFIX: usize = 16 * 1024;

const _: () = assert!(PREFIX <= wire::layout::BODY_RING);

/// Reads the prefix. `limit` 0: any length.
pub async fn read_prefix(mut body: Incoming, limit: u64, patience: Duration) -> Result<Prefix, Refusal> {
    let mut bytes = Vec::new();
    while let Some(part) = next_part(&mut body, patience).await? {
        bytes.extend_from_slice(&part);
        if limit > 0 && bytes.len() as u64 > limit {
            return Err(Refusal::BodyTooLarge);
        }
        if bytes.len() >= PREFIX && !body.is_end_stream() {
            return Ok(Prefix { bytes, rest: Some(body) });
        }
    }
    Ok(Prefix { bytes, rest: None })
}

async fn next_part(body: &mut Incoming, patience: Duration) -> Result<Option<Bytes>, Refusal> {
    loop {
        let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match within(patience, next).await {
            None => return Err(Refusal::BodyTimeout),
            Some(None) => return Ok(None),
            // The client has broken its framing, or left; in that case nobody reads the refusal.
            Some(Some(Err(_))) => return Err(Refusal::BadFraming),
            // Trailers are not passed on.
            Some(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            },
        }
    }
}

/// The part of a body that PHP gets while it runs.
pub struct Remainder {
    /// Read already, but too much for the ring.
    pub surplus: Vec<u8>,
    /// To be read.
    pub rest: Option<Incoming>,
    /// Bytes of the body read so far.
    pub read: u64,
    /// Bytes it may have; 0: any number.
    pub limit: u64,
}

/// Bytes a second that a body must bring on average once it holds a worker, beside the time between two of its parts.
const MIN_RATE: u64 = 500;

/// Passes the remainder of a body on to PHP until one of them has enough. Runs beside the answer.
pub async fn pump(remainder: Remainder, slip: BodySlip, patience: Duration) {
    let Remainder { surplus, mut rest, mut read, limit } = remainder;
    let mut bytes = Bytes::from(surplus);
    let (began, had) = (Instant::now(), read);
    loop {
        while !bytes.is_empty() {
            match poll_fn(|context| slip.poll_send(context, &bytes)).await {
                Ok(count) => drop(bytes.split_to(count)),
                Err(_) => return,
            }
        }
        let Some(body) = &mut rest else { return slip.end() };
        bytes = match next_part(body, patience).await {
            Ok(Some(part)) => part,
            Ok(None) => return slip.end(),
            Err(why) => return slip.fail(why),
        };
        read += bytes.len() as u64;
        if limit > 0 && read > limit {
            return slip.fail(Refusal::BodyTooLarge);
        }
        if began.elapsed() > patience + Duration::from_secs((read - had) / MIN_RATE) {
            return slip.fail(Refusal::BodyTimeout);
        }
    }
}

/// The future's output, or `None` if it took longer. Asks for no timer if the output is there already.
async fn within<T>(patience: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    match first {
        Poll::Ready(output) => Some(output),
        Poll::Pending => tokio::time::timeout(patience, future).await.ok(),
    }
}
