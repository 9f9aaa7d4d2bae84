//! PHP's response: its head is read and checked, its body is passed on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use tokio::time::{Sleep, sleep};
use wire::layout::Usage;
use wire::response::{self, Record};

use crate::connection::{Client, Connection, Left};
use crate::lane::{CHUNK, Received, Ticket};
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::request::Head;
use crate::response_body::ResponseBody;
use crate::sent_file;
use crate::settings::{Application, SpoolLimits};
use crate::spool::Spool;

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
    rest: Bytes,
    last: &Received,
    request: &Head,
    connection: &Arc<Connection>,
    holding: &Holding<'_>,
) -> Response<ResponseBody> {
    let done = last.done;
    let bodiless = request.method == Method::HEAD
        || response.status() == StatusCode::NO_CONTENT
        || response.status() == StatusCode::NOT_MODIFIED
        || sent_file::is_named(response.headers(), holding.application);
    let body = match (bodiless, done) {
        (true, true) => ResponseBody::none().after(last.usage),
        // PHP goes on; its output is dropped, as for every response without a body.
        (true, false) => ResponseBody::discard(ticket),
        (false, true) => ResponseBody::full(rest).after(last.usage),
        // What PHP has still to write may be more than the client takes.
        (false, false) if !last.is_finished && holding.may_hold(&response) => {
            ResponseBody::spooled(ticket, rest, connection.clone(), holding.spool, holding.limits)
        }
        (false, false) => ResponseBody::stream(ticket, rest, connection.clone()),
    };
    let (mut head, ()) = response.into_parts();
    if head.status == StatusCode::NO_CONTENT {
        head.headers.remove(header::CONTENT_LENGTH);
    }
    if head.status == StatusCode::NOT_MODIFIED {
        // PHP adds a Content-Type to every response; a 304 has no content to describe (RFC 9110 §15.4.5).
        head.headers.remove(header::CONTENT_TYPE);
    }
    if (!done || !bodiless) && drop_wrong_length(&mut head.headers, &body) {
        head.extensions.insert(WrongLength);
    }
    Response::from_parts(head, body)
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

/// In a response: PHP had said another length. Something may be missing, so it is for who asked alone.
#[derive(Clone, Copy)]
pub struct WrongLength;

/// If the body contradicted PHP's Content-Length, the next response on the connection would be misread. Whether it did.
fn drop_wrong_length(headers: &mut http::HeaderMap, body: &ResponseBody) -> bool {
    let Some(said) = headers.get(header::CONTENT_LENGTH) else { return false };
    let said = said.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let is_single = headers.get_all(header::CONTENT_LENGTH).iter().count() == 1;
    let is_wrong = said.is_none() || !is_single || body.known_length().is_some_and(|length| Some(length) != said);
    if is_wrong {
        headers.remove(header::CONTENT_LENGTH);
    }
    is_wrong
}
