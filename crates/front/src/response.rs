//! PHP's response: its head is read and checked, its body is passed on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use ipc::layout::Usage;
use ipc::response::{self, Record};
use tokio::time::{Sleep, sleep};

use crate::response_body::ResponseBody;
use crate::sent_file;
use crate::spool::Spool;
use inbound::connection::{Client, Connection, Left};
use inbound::request::Head;
use mailbox::lane::{CHUNK, Received, Ticket};
use routing::reason::Reason;
use routing::refusal::Refusal;
use routing::settings::{Application, SpoolLimits};

/// Headers that belong to the connection, not to the response.
const HOP_BY_HOP: [HeaderName; 5] = [
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("keep-alive"),
];

/// By this header a script says whether its response may be held (as with nginx).
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Where responses that their clients do not take at once are held.
pub struct Holding<'a> {
    pub spool: &'a Arc<Spool>,
    pub limits: SpoolLimits,
    /// The application, which may have the front send files in the place of its responses.
    pub application: &'a Application,
}

/// How long a request that need not run may wait for a worker after its client has ended its input. Such a client still
/// gets its response if a worker is free.
const GRACE: Duration = Duration::from_millis(50);

/// Watches the client of a request that PHP has or is going to have.
struct Watch<'a> {
    client: &'a dyn Client,
    /// Whether the request need not run if nobody waits for the response.
    is_for_reading: bool,
    /// Whether the request may still be in the queue.
    is_withdrawable: bool,
    grace: Option<Pin<Box<Sleep>>>,
}

impl Watch<'_> {
    /// Ready if nobody will receive the response.
    fn poll_gone(&mut self, context: &mut Context<'_>, ticket: &Ticket) -> Poll<()> {
        match ready!(self.client.poll_left(context)) {
            Left::Gone => Poll::Ready(()),
            Left::Ended if self.is_withdrawable => {
                ready!(self.grace.get_or_insert_with(|| Box::pin(sleep(GRACE))).as_mut().poll(context));
                self.is_withdrawable = false;
                if ticket.withdraw() { Poll::Ready(()) } else { Poll::Pending }
            }
            Left::Ended => Poll::Pending,
        }
    }
}

/// Tells PHP that the client is gone, and waits until PHP has ended the request. Requests of one connection run one after
/// the other, and later ones may still wait.
async fn run_to_end(ticket: &Ticket) {
    ticket.abort();
    let mut bytes = Vec::new();
    // If this fails, the request has ended as well.
    while let Ok(Received { done: false, .. }) =
        poll_fn(|context| ticket.poll_receive(context, &mut bytes, CHUNK)).await
    {
        bytes.clear();
    }
}

/// Waits for the head of the response, with the part of the body that comes with it. Also returns what the worker has noted
/// so far. `is_timed`: the response gets a header with its duration. If the client leaves first, the ticket is dropped: a
/// request that need not run is withdrawn while it waits, and PHP is told if it runs.
pub async fn receive(
    ticket: Ticket,
    request: &Head,
    is_timed: bool,
    connection: &Arc<Connection>,
    holding: &Holding<'_>,
) -> Result<(Response<ResponseBody>, u32), Refusal> {
    let is_for_reading = request.is_withdrawable();
    let mut watch = Watch { client: &*connection.client, is_for_reading, is_withdrawable: is_for_reading, grace: None };
    let mut bytes = Vec::new();
    let mut last = Received { done: false, is_finished: false, notes: 0, usage: Usage::default() };
    loop {
        match response::complete(&bytes).map_err(|_| Refusal::BadResponse)? {
            Some(size) => {
                let mut response = head(&bytes[..size])?;
                if !response.status().is_informational() {
                    let timing = if is_timed { ticket.timing() } else { None };
                    if let Some((waited, ran)) = timing {
                        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
                        let text = format!("queue;dur={:.3}, php;dur={:.3}", ms(waited), ms(ran));
                        let value = HeaderValue::try_from(text).map_err(|_| Refusal::BadResponse)?;
                        response.headers_mut().append(HeaderName::from_static("server-timing"), value);
                    }
                    let rest = Bytes::from(bytes).slice(size..);
                    return Ok((with_body(response, ticket, rest, &last, request, connection, holding), last.notes));
                }
                bytes.drain(..size);
            }
            None if last.done => return Err(Refusal::BadResponse),
            None => {
                let next = poll_fn(|context| match ticket.poll_receive(context, &mut bytes, CHUNK) {
                    Poll::Ready(received) => Poll::Ready(received),
                    Poll::Pending => watch.poll_gone(context, &ticket).map(|()| Err(Refusal::ClientGone)),
                });
                match next.await {
                    Ok(received) => last = received,
                    Err(Refusal::ClientGone) if !watch.is_for_reading => {
                        run_to_end(&ticket).await;
                        return Err(Refusal::ClientGone);
                    }
                    Err(why) => return Err(why),
                }
            }
        }
    }
}

fn head(mut bytes: &[u8]) -> Result<Response<()>, Refusal> {
    let mut response = Response::new(());
    // What a script calls a header of its connection (RFC 9110 §7.6.1).
    let mut own: Vec<HeaderName> = Vec::new();
    while let Some((record, size)) = response::read(bytes).map_err(|_| Refusal::BadResponse)? {
        bytes = &bytes[size..];
        match record {
            Record::Status(code, reason) => {
                *response.status_mut() = StatusCode::from_u16(code).map_err(|_| Refusal::BadResponse)?;
                let standard = response.status().canonical_reason();
                // Without a phrase of PHP's the transport chooses one. A phrase may be empty.
                if standard.is_none() || (!reason.is_empty() && Some(reason) != standard.map(str::as_bytes)) {
                    if let Some(reason) = Reason::new(reason) {
                        response.extensions_mut().insert(reason);
                    }
                }
            }
            Record::Header(name, value) => {
                // A header that no client could read is dropped, as other servers do.
                if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                    if name == header::CONNECTION {
                        let names = value.to_str().unwrap_or_default().split(',');
                        own.extend(names.filter_map(|name| name.trim().parse::<HeaderName>().ok()));
                    } else if !HOP_BY_HOP.contains(&name) {
                        response.headers_mut().append(name, value);
                    }
                }
            }
            Record::End => break,
        }
    }
    for name in own {
        response.headers_mut().remove(name);
    }
    Ok(response)
}

fn with_body(
    response: Response<()>,
    ticket: Ticket,
    mut rest: Bytes,
    last: &Received,
    request: &Head,
    connection: &Arc<Connection>,
    holding: &Holding<'_>,
) -> Response<ResponseBody> {
    let may_hold = holding.may_hold(&response);
    let (mut head, ()) = response.into_parts();
    let bodiless = request.method == Method::HEAD
        || head.status == StatusCode::NO_CONTENT
        || head.status == StatusCode::NOT_MODIFIED
        || sent_file::is_named(&head.headers, holding.application);
    let length = announced(&head.headers);
    if length.is_none() && head.headers.remove(header::CONTENT_LENGTH).is_some() {
        head.extensions.insert(WrongLength);
    }
    let mut is_whole = last.done;
    if let Some(length) = length.filter(|_| !bodiless) {
        match length.checked_sub(rest.len() as u64) {
            // What is beyond the announced length no client takes for a part of this response.
            None => {
                rest.truncate(length as usize);
                is_whole = true;
            }
            Some(0) if is_whole => {}
            Some(missing) => {
                ticket.expect(missing);
                if is_whole {
                    // It breaks off behind what has come.
                    is_whole = false;
                    head.extensions.insert(WrongLength);
                }
            }
        }
    }
    let body = match (bodiless, is_whole) {
        // PHP goes on without the ticket, unless it flushes.
        (true, _) => ResponseBody::none().after(last.usage),
        (false, true) => ResponseBody::full(rest).after(last.usage),
        // What PHP has still to write may be more than the client takes.
        (false, false) if !last.is_finished && may_hold => {
            ResponseBody::spooled(ticket, rest, connection.clone(), holding.spool, holding.limits)
        }
        (false, false) => ResponseBody::stream(ticket, rest, connection.clone()),
    };
    if head.status == StatusCode::NO_CONTENT {
        head.headers.remove(header::CONTENT_LENGTH);
    }
    if head.status == StatusCode::NOT_MODIFIED {
        // PHP adds a Content-Type to every response; a 304 has no content to describe (RFC 9110 §15.4.5).
        head.headers.remove(header::CONTENT_TYPE);
    }
    Response::from_parts(head, body)
}

/// The length that a response announces. `None`: none, or one that no client could read.
fn announced(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl Holding<'_> {
    /// Not what is sent as it happens: a script that is ahead of its client would not learn how far the client is.
    fn may_hold(&self, response: &Response<()>) -> bool {
        let header = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let is_events = header(header::CONTENT_TYPE).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
        });
        !self.limits.is_off() && !is_events && !header(BUFFERING).is_some_and(|word| word.eq_ignore_ascii_case("no"))
    }
}

/// In a response: its Content-Length could not be read, or more was announced than has come. Something may be missing, so it
/// is for who asked alone.
#[derive(Clone, Copy)]
pub struct WrongLength;
