//! Bodies of responses: where their bytes come from.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wire::layout::Usage;

use crate::connection::{Connection, Left};
use crate::doors;
use crate::file_body::FileBody;
use crate::lane::Ticket;
use crate::settings::SpoolLimits;
use crate::spool::{Next, Spool, SpooledBody};
use crate::upstream::ReceivedBody;

/// The body of a response. It only yields bytes; everything else is done by the wrappers around it ([`crate::wrapped`]).
pub struct ResponseBody {
    source: Source,
    usage: Usage,
}

/// A body that knows what PHP has used for it.
pub trait Used {
    /// Zero, until the body is complete.
    fn usage(&self) -> Usage;
}

/// A body whose memory a transport has to know and to limit.
pub trait Paced {
    /// Bytes that are in memory and that nobody has taken yet.
    fn in_memory(&self) -> usize;
    /// From now on a file gives no more bytes at once.
    fn limit_parts(&mut self, bytes: u64);
}

impl Paced for ResponseBody {
    fn in_memory(&self) -> usize {
        match &self.source {
            Source::Full(bytes) | Source::Stream { rest: bytes, .. } => bytes.len(),
            // The spool counts what it holds, but for one part that each response may have beyond its limits.
            Source::Spooled { .. } => crate::lane::CHUNK,
            // hyper holds no more than one part.
            Source::Received { .. } => crate::lane::CHUNK,
            // What the cache of files keeps is its own, but a body may hold it for longer.
            Source::File { kept, .. } => kept.as_ref().map_or(0, Bytes::len),
            Source::None | Source::Discard { .. } => 0,
        }
    }

    fn limit_parts(&mut self, bytes: u64) {
        if let Source::File { body, kept, .. } = &mut self.source {
            body.limit_parts(bytes);
            // More than a part is read as it is sent.
            *kept = kept.take().filter(|kept| kept.len() as u64 <= bytes);
        }
    }
}

impl Used for ResponseBody {
    fn usage(&self) -> Usage {
        self.usage
    }
}

enum Source {
    None,
    Full(Bytes),
    /// `reader`: the connection of the client that reads the body. The body goes on only as long as that client is there.
    Stream {
        ticket: Ticket,
        rest: Bytes,
        reader: Arc<Connection>,
    },
    /// The same, but PHP does not wait for the client.
    Spooled {
        body: SpooledBody,
        reader: Arc<Connection>,
    },
    Discard {
        _drain: Draining,
    },
    /// `kept`: all bytes of `body`, if they are in memory.
    File {
        body: FileBody,
        kept: Option<Bytes>,
        reader: Arc<Connection>,
    },
    /// From an upstream, as it comes.
    Received {
        body: Box<ReceivedBody>,
        reader: Arc<Connection>,
    },
}

/// Reads and drops what PHP still writes for a response without a body, so that the worker can finish.
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

impl ResponseBody {
    const fn new(source: Source) -> ResponseBody {
        ResponseBody { source, usage: Usage { processor_us: 0, peak_kib: 0 } }
    }

    /// No body.
    pub const fn none() -> ResponseBody {
        ResponseBody::new(Source::None)
    }

    /// All of it at once.
    pub const fn full(bytes: Bytes) -> ResponseBody {
        ResponseBody::new(Source::Full(bytes))
    }

    /// The body as PHP produces it, `rest` first.
    pub const fn stream(ticket: Ticket, rest: Bytes, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::Stream { ticket, rest, reader })
    }

    /// The same, with what the client does not take yet held in the spool.
    pub fn spooled(
        ticket: Ticket,
        rest: Bytes,
        reader: Arc<Connection>,
        spool: &Arc<Spool>,
        limits: SpoolLimits,
    ) -> ResponseBody {
        ResponseBody::new(Source::Spooled { body: SpooledBody::new(ticket, rest, spool, limits), reader })
    }

    /// No body, though PHP may still write one.
    pub const fn discard(ticket: Ticket) -> ResponseBody {
        ResponseBody::new(Source::Discard { _drain: Draining(Some(ticket)) })
    }

    /// A part of a file; `kept`: its bytes, if they are in memory.
    pub const fn file(body: FileBody, kept: Option<Bytes>, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::File { body, kept, reader })
    }

    /// What an upstream sends.
    pub fn received(body: ReceivedBody, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::Received { body: Box::new(body), reader })
    }

    /// The length of the body, if it is known before the body is sent.
    pub fn known_length(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    /// Sets what the request has used.
    pub const fn after(mut self, usage: Usage) -> ResponseBody {
        self.usage = usage;
        self
    }

    /// The next bytes that PHP produces.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Source::Stream { ticket, reader, .. } = &self.source else { return Poll::Ready(None) };
        doors::collect();
        let mut bytes = Vec::new();
        match ticket.poll_receive(context, &mut bytes) {
            // A client that has ended its input may still read, so the body goes on.
            Poll::Pending => match reader.client.poll_left(context) {
                Poll::Ready(Left::Gone) => Poll::Ready(Some(Err(gone()))),
                _ => Poll::Pending,
            },
            // The body breaks off: the connection ends without the last chunk, so that the client notices.
            Poll::Ready(Err(why)) => Poll::Ready(Some(Err(io::Error::other(why.describe().1)))),
            Poll::Ready(Ok(received)) => {
                if received.done {
                    self.usage = received.usage;
                    self.source = Source::None;
                }
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Bytes::from(bytes))))
            }
        }
    }
}

impl ResponseBody {
    /// The next bytes from the spool.
    fn poll_spooled(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Source::Spooled { body, reader } = &mut self.source else { return Poll::Ready(None) };
        doors::collect();
        let (next, end) = match body.poll_next(context) {
            Poll::Pending => match reader.client.poll_left(context) {
                Poll::Ready(Left::Gone) => (Some(Err(gone())), None),
                _ => return Poll::Pending,
            },
            Poll::Ready(Next::Bytes(bytes)) => (Some(Ok(bytes)), body.end()),
            Poll::Ready(Next::End(usage)) => (None, Some(usage)),
            Poll::Ready(Next::Failed(error)) => (Some(Err(error)), None),
        };
        if let Some(usage) = end {
            self.usage = usage;
            self.source = Source::None;
        }
        Poll::Ready(next)
    }
}

/// The next part of what an upstream sends, as long as its client is there.
fn poll_received(
    body: &mut ReceivedBody,
    reader: &Connection,
    context: &mut Context<'_>,
) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    match body.poll_next(context) {
        Poll::Pending => match reader.client.poll_left(context) {
            Poll::Ready(Left::Gone) => Poll::Ready(Some(Err(gone()))),
            _ => Poll::Pending,
        },
        ready => ready,
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the client is gone")
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let next = match &mut body.source {
            Source::None | Source::Discard { .. } => None,
            Source::Full(bytes) if bytes.is_empty() => None,
            Source::Full(bytes) => Some(Ok(std::mem::take(bytes))),
            Source::Stream { rest, .. } if !rest.is_empty() => Some(Ok(std::mem::take(rest))),
            // Writes to a client that is gone succeed at once and are dropped, so without this check a whole file would be
            // read for nobody. PHP learns of it when the ticket is dropped, which happens with this body.
            Source::Stream { reader, .. }
            | Source::Spooled { reader, .. }
            | Source::File { reader, .. }
            | Source::Received { reader, .. }
                if reader.client.is_gone() =>
            {
                Some(Err(gone()))
            }
            Source::Stream { .. } => ready!(body.poll_stream(context)),
            Source::Spooled { .. } => ready!(body.poll_spooled(context)),
            Source::File { body, kept, .. } => match kept.take() {
                Some(bytes) => {
                    body.skip(bytes.len() as u64);
                    (!bytes.is_empty()).then_some(Ok(bytes))
                }
                None => ready!(body.poll_next(context)),
            },
            Source::Received { body, reader } => return poll_received(body, reader, context),
        };
        Poll::Ready(next.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::None | Source::Discard { .. } => true,
            Source::Full(bytes) => bytes.is_empty(),
            Source::File { body, .. } => body.left() == 0,
            Source::Received { body, .. } => body.is_end(),
            Source::Stream { .. } | Source::Spooled { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::None => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::File { body, .. } => SizeHint::with_exact(body.left()),
            Source::Received { body, .. } => body.size_hint(),
            Source::Discard { .. } | Source::Stream { .. } | Source::Spooled { .. } => SizeHint::default(),
        }
    }
}
