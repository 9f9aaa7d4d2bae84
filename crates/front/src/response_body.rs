//! Bodies of responses: where their bytes come from.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use ipc::layout::Usage;

use crate::dev::browsers::Events;
use crate::dev::insertion::Insertion;
use crate::doors;
use crate::file_body::FileBody;
use crate::spool::{Next, Spool, SpooledBody};
use crate::upstream::ReceivedBody;
use cache_store::stored::copied::Copy;
use cache_store::stored::flight::Follower;
use compression::squeeze::Squeeze;
use inbound::connection::{Connection, Left};
use mailbox::lane::{CHUNK, Ticket};
use routing::settings::SpoolLimits;

/// The body of a response. It only yields bytes; everything else is done by the wrappers around it ([`crate::wrapped`]).
pub struct ResponseBody {
    source: Source,
    /// Bytes that the next part may have.
    part: usize,
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
    /// A file of which more bytes than that are in memory is read as it is sent instead.
    fn keep_at_most(&mut self, bytes: usize);
    /// From now on no part has more bytes than that, but one that a thread of the pool reads already. What is left of a part
    /// stays where it comes from, and is counted there.
    fn limit_parts(&mut self, bytes: usize);
}

impl Paced for ResponseBody {
    fn in_memory(&self) -> usize {
        match &self.source {
            Source::Full(bytes) | Source::Stream { rest: bytes, .. } => bytes.len(),
            // The spool counts what it holds, but for one part that each response may have beyond its limits.
            Source::Spooled { .. } => CHUNK,
            // hyper holds no more than one part.
            Source::Received { rest, .. } => rest.len() + CHUNK,
            // What the cache of files keeps is its own, but a body may hold it for longer.
            Source::File { kept, .. } => kept.as_ref().map_or(0, Bytes::len),
            // The cache holds it, whoever reads.
            Source::Followed { rest, .. } => rest.len(),
            Source::Copied { body, .. } => body.in_memory(),
            Source::Squeezed { body, squeeze } => body.in_memory() + squeeze.in_memory(),
            Source::Inserted { body, insertion } => body.in_memory() + insertion.in_memory(),
            Source::None | Source::Events(_) => 0,
        }
    }

    fn keep_at_most(&mut self, bytes: usize) {
        if let Source::File { kept, .. } = &mut self.source {
            *kept = kept.take().filter(|kept| kept.len() <= bytes);
        }
    }

    fn limit_parts(&mut self, bytes: usize) {
        self.part = bytes;
        match &mut self.source {
            Source::File { body, .. } => body.limit_parts(bytes as u64),
            Source::Spooled { body, .. } => body.limit_parts(bytes),
            Source::Copied { body, .. } | Source::Squeezed { body, .. } | Source::Inserted { body, .. } => {
                body.limit_parts(bytes);
            }
            _ => {}
        }
    }
}

impl Used for ResponseBody {
    fn usage(&self) -> Usage {
        if let Source::Copied { body, .. } | Source::Squeezed { body, .. } | Source::Inserted { body, .. } =
            &self.source
        {
            return body.usage();
        }
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
    /// `kept`: all bytes of `body`, if they are in memory.
    File {
        body: FileBody,
        kept: Option<Bytes>,
        reader: Arc<Connection>,
    },
    /// A response that others get too, as it comes, `rest` first.
    Followed {
        follower: Follower,
        rest: Bytes,
        reader: Arc<Connection>,
    },
    /// Another body, of which a copy is made.
    Copied {
        body: Box<ResponseBody>,
        copy: Box<Copy>,
    },
    /// Another body, compressed as it comes.
    Squeezed {
        body: Box<ResponseBody>,
        squeeze: Box<Squeeze>,
    },
    /// Another body, with a script.
    Inserted {
        body: Box<ResponseBody>,
        insertion: Box<Insertion>,
    },
    /// What a page under development is told.
    Events(Box<Events>),
    /// From an upstream, as it comes, `rest` first.
    Received {
        body: Box<ReceivedBody>,
        rest: Bytes,
        reader: Arc<Connection>,
    },
}

impl ResponseBody {
    const fn new(source: Source) -> ResponseBody {
        ResponseBody { source, part: usize::MAX, usage: Usage { processor_us: 0, peak_kib: 0 } }
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

    /// A part of a file; `kept`: its bytes, if they are in memory.
    pub const fn file(body: FileBody, kept: Option<Bytes>, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::File { body, kept, reader })
    }

    /// What an upstream sends.
    pub fn received(body: ReceivedBody, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::Received { body: Box::new(body), rest: Bytes::new(), reader })
    }

    /// A response on its way that others get too.
    pub const fn followed(follower: Follower, reader: Arc<Connection>) -> ResponseBody {
        ResponseBody::new(Source::Followed { follower, rest: Bytes::new(), reader })
    }

    /// This body, of which a copy is made.
    pub fn copied(self, copy: Copy) -> ResponseBody {
        ResponseBody::new(Source::Copied { body: Box::new(self), copy: Box::new(copy) })
    }

    /// This body, compressed.
    pub fn squeezed(self, squeeze: Squeeze) -> ResponseBody {
        ResponseBody::new(Source::Squeezed { body: Box::new(self), squeeze: Box::new(squeeze) })
    }

    /// This body, with a script.
    pub fn inserted(self, insertion: Insertion) -> ResponseBody {
        ResponseBody::new(Source::Inserted { body: Box::new(self), insertion: Box::new(insertion) })
    }

    /// What a page under development is told, as it happens.
    pub fn events(events: Events) -> ResponseBody {
        ResponseBody::new(Source::Events(Box::new(events)))
    }

    /// All of it, if it is in memory and nobody makes a copy.
    pub const fn whole(&self) -> Option<&Bytes> {
        match &self.source {
            Source::Full(bytes) => Some(bytes),
            _ => None,
        }
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
        match ticket.poll_receive(context, &mut bytes, self.part) {
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

/// The next part of what an upstream sends, as long as its client is there. What is beyond `part` becomes the rest.
fn poll_received(
    body: &mut ReceivedBody,
    rest: &mut Bytes,
    part: usize,
    reader: &Connection,
    context: &mut Context<'_>,
) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    let next = match body.poll_next(context) {
        Poll::Pending => match reader.client.poll_left(context) {
            Poll::Ready(Left::Gone) => Some(Err(gone())),
            _ => return Poll::Pending,
        },
        Poll::Ready(next) => next,
    };
    Poll::Ready(next.map(|result| {
        result.map(|frame| {
            frame.map_data(|mut bytes| {
                let first = bytes.split_to(part.min(bytes.len()));
                *rest = bytes;
                first
            })
        })
    }))
}

/// The next part of a response that others get too. What is beyond `part` becomes the rest.
fn poll_followed(
    follower: &mut Follower,
    rest: &mut Bytes,
    part: usize,
    reader: &Connection,
    context: &mut Context<'_>,
) -> Poll<Option<io::Result<Bytes>>> {
    doors::collect();
    match follower.poll_part(context) {
        Poll::Pending => match reader.client.poll_left(context) {
            Poll::Ready(Left::Gone) => Poll::Ready(Some(Err(gone()))),
            _ => Poll::Pending,
        },
        Poll::Ready(next) => Poll::Ready(next.map(|result| {
            result.map(|mut bytes| {
                let begin = first(&mut bytes, part);
                *rest = bytes;
                begin
            })
        })),
    }
}

/// The next part of a body, which is copied too.
fn poll_copied(
    body: &mut ResponseBody,
    copy: &mut Copy,
    context: &mut Context<'_>,
) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    let next = ready!(Pin::new(&mut *body).poll_frame(context));
    match &next {
        Some(Ok(frame)) => {
            if let Some(part) = frame.data_ref() {
                copy.add(part);
            }
            if body.is_end_stream() {
                copy.complete();
            }
        }
        Some(Err(_)) => {}
        None => copy.complete(),
    }
    Poll::Ready(next)
}

/// Takes the first `part` bytes, or all.
fn first(bytes: &mut Bytes, part: usize) -> Bytes {
    bytes.split_to(part.min(bytes.len()))
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the client is gone")
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let part = body.part;
        let next = match &mut body.source {
            Source::None => None,
            Source::Full(bytes) if bytes.is_empty() => None,
            Source::Full(bytes) => Some(Ok(first(bytes, part))),
            Source::Stream { rest, .. } | Source::Received { rest, .. } | Source::Followed { rest, .. }
                if !rest.is_empty() =>
            {
                Some(Ok(first(rest, part)))
            }
            // Writes to a client that is gone succeed at once and are dropped, so without this check a whole file would be
            // read for nobody. PHP learns of it when the ticket is dropped, which happens with this body.
            Source::Stream { reader, .. }
            | Source::Spooled { reader, .. }
            | Source::File { reader, .. }
            | Source::Followed { reader, .. }
            | Source::Received { reader, .. }
                if reader.client.is_gone() =>
            {
                Some(Err(gone()))
            }
            Source::Stream { .. } => ready!(body.poll_stream(context)),
            Source::Spooled { .. } => ready!(body.poll_spooled(context)),
            Source::File { body, kept: Some(kept), .. } => {
                let bytes = first(kept, part);
                body.skip(bytes.len() as u64);
                (!bytes.is_empty()).then_some(Ok(bytes))
            }
            Source::File { body, kept: None, .. } => ready!(body.poll_next(context)),
            Source::Followed { follower, rest, reader } => ready!(poll_followed(follower, rest, part, reader, context)),
            Source::Copied { body, copy } => return poll_copied(body, copy, context),
            Source::Squeezed { body, squeeze } => {
                return squeeze.poll_next(context, part, |context| Pin::new(&mut **body).poll_frame(context));
            }
            Source::Inserted { body, insertion } => {
                return insertion.poll_next(context, part, |context| Pin::new(&mut **body).poll_frame(context));
            }
            Source::Events(events) => ready!(events.poll_next(context)),
            Source::Received { body, rest, reader } => return poll_received(body, rest, part, reader, context),
        };
        Poll::Ready(next.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::None => true,
            Source::Full(bytes) => bytes.is_empty(),
            Source::File { body, .. } => body.left() == 0,
            Source::Received { body, rest, .. } => rest.is_empty() && body.is_end(),
            Source::Copied { body, .. } => body.is_end_stream(),
            Source::Squeezed { squeeze, .. } => squeeze.is_end(),
            Source::Inserted { insertion, .. } => insertion.is_end(),
            Source::Stream { .. } | Source::Spooled { .. } | Source::Followed { .. } | Source::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::None => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::File { body, .. } => SizeHint::with_exact(body.left()),
            Source::Received { body, rest, .. } if rest.is_empty() => body.size_hint(),
            Source::Copied { body, .. } => body.size_hint(),
            Source::Inserted { body, insertion } => body
                .size_hint()
                .exact()
                .map_or_else(SizeHint::default, |size| SizeHint::with_exact(size + insertion.to_come())),
            Source::Received { .. } | Source::Followed { .. } | Source::Squeezed { .. } | Source::Events(_) => {
                SizeHint::default()
            }
            Source::Stream { .. } | Source::Spooled { .. } => SizeHint::default(),
        }
    }
}
