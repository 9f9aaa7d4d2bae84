//! One connection, from its first byte to its last: the front waits for the first head. If that is the preface of HTTP/2,
//! [`super::http2`] goes on. Otherwise hyper reads requests and writes responses, and requests that were complete when the
//! client left run to their end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response, StatusCode, Version, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::breaking::Breaking;
use super::framing::Framed;
use super::http2;
use super::lingering::{ClientBody, end};
use super::stream::Stream;
use super::tunnel;
use crate::monitoring;
use crate::page;
use crate::phases::serve;
use crate::response_body::ResponseBody;
use crate::shared::{Life, Shared, told_to_stop};
use crate::upstream::Switch;
use crate::wrapped::{Delivered, Logged, Made};
use inbound::connection::{Connection, Peer};
use inbound::request::{By, Head, Request, RequestBody};
use routing::reason::Reason;
use routing::refusal::Refusal;

/// Bytes that hyper may buffer of one connection in each direction.
const MAX_BUFFER: usize = 64 * 1024;
/// How long a stop waits for the first byte of a connection.
pub const FIRST_REQUEST: Duration = Duration::from_millis(500);

/// Waits for the first head of a connection. The connection gets hyper's buffers only then, so a client that sends nothing,
/// or sends slowly, costs no more memory than what it has sent. `false`: the client sends no request.
async fn first_head<S>(stream: &Stream<S>, patience: Duration, mut stopped: watch::Receiver<Life>) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = poll_fn(|context| stream.poll_head(context));
    let late = tokio::time::sleep(patience);
    tokio::pin!(head, late);
    tokio::select! {
        biased;
        is_there = &mut head => return is_there,
        () = &mut late => return stream.refuse(Refusal::HeadTimeout),
        () = told_to_stop(&mut stopped) => {}
    }
    // A first request may be on its way. If the connection were closed now, the request would be lost: clients repeat only
    // later ones.
    let silent = tokio::time::sleep(FIRST_REQUEST);
    tokio::pin!(silent);
    tokio::select! {
        biased;
        is_there = &mut head => return is_there,
        () = &mut late => return stream.refuse(Refusal::HeadTimeout),
        () = &mut silent => {}
    }
    if !stream.has_begun() {
        return false;
    }
    tokio::select! {
        biased;
        is_there = head => is_there,
        () = late => stream.refuse(Refusal::HeadTimeout),
    }
}

/// Whether a request says that it is the last on its connection.
fn is_last(request: &hyper::Request<Incoming>) -> bool {
    let headers = request.headers();
    says(headers, "close") || request.version() == Version::HTTP_10 && !says(headers, "keep-alive")
}

/// Whether the header Connection has this word.
fn says(headers: &HeaderMap, word: &str) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Makes a request for the phases of one that hyper has parsed.
fn taken_over<S>(
    request: hyper::Request<Incoming>,
    framed: Framed,
    connection: Arc<Connection>,
    stream: &Stream<S>,
) -> Request
where
    S: AsyncRead + Unpin + Send + 'static,
{
    let (parts, body) = request.into_parts();
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    let body = match body.is_end_stream() {
        true => RequestBody::None,
        false => {
            let waits = parts.headers.get(header::EXPECT).is_some_and(expects);
            RequestBody::Stream(Box::new(ClientBody::new(body, stream.clone(), waits)))
        }
    };
    let head = Head::new(parts.method, parts.uri, parts.version, parts.headers, framed.original);
    Request { head, body, connection, behind: None, refusal: framed.refusal, by: By::Client }
}

/// Responds to a request on a listener for monitoring.
fn administer(shared: &Shared, is_stopping: bool, request: &Request) -> Response<Delivered> {
    let response = match request.refusal {
        Some(why) => page::refusal(why),
        None => monitoring::of_listener(shared, is_stopping, &request.head),
    };
    response.map(|body| Logged::new(Made::plain(body), None))
}

/// Makes hyper write the reason phrase that PHP has chosen.
fn spell_reason(response: &mut Response<Delivered>) {
    let Some(reason) = response.extensions_mut().remove::<Reason>() else { return };
    if let Ok(phrase) = ReasonPhrase::try_from(reason.words().clone()) {
        response.extensions_mut().insert(phrase);
    }
}

/// Serves a connection of which it is known that it speaks HTTP/2, until it ends: TLS has negotiated "h2".
pub async fn converse_http2<S>(socket: S, peer: Peer, shared: Arc<Shared>, stopped: watch::Receiver<Life>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // The future is large; a connection of HTTP/1 does not hold room for it.
    Box::pin(http2::serve_connection(socket, Bytes::new(), peer, shared, stopped)).await;
}

/// Serves a connection until it ends. Its first bytes decide whether it is one of HTTP/2.
pub async fn converse<S>(stream: S, peer: Peer, shared: Arc<Shared>, mut stopped: watch::Receiver<Life>, is_admin: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = shared.lanes.view().settings.limits.clone();
    let stream = Stream::new(stream, Duration::from_millis(limits.send_timeout_ms));
    if !first_head(&stream, Duration::from_millis(limits.header_timeout_ms), stopped.clone()).await {
        return;
    }
    // By TLS a client has to negotiate HTTP/2 (RFC 9113 §3.2).
    if stream.begins_http2() && peer.tls.is_none() && !is_admin && shared.lanes.view().settings.http2 {
        if let Some((socket, begun)) = stream.into_parts() {
            Box::pin(http2::serve_connection(socket, begun, peer, shared, stopped)).await;
        }
        return;
    }
    let connection = Arc::new(Connection { peer: Arc::new(peer), client: Box::new(stream.clone()) });
    // A WebSocket that a response has begun, with the body of that response.
    let switching = Arc::new(Mutex::new(None));
    loop {
        let (connection, shared) = (connection.clone(), shared.clone());
        let (stopping, framer) = (stopped.clone(), stream.clone());
        let switch_to = switching.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let framed = framer.take_framed().unwrap_or_else(|| {
                // hyper has read a request that the framing has not. The client that achieved this gets no further.
                framer.give_up();
                Framed { refusal: Some(Refusal::BadFraming), original: None }
            });
            let is_leaving = shared.is_leaving.load(Ordering::Relaxed);
            let (shared, is_stopping) = (shared.clone(), is_leaving || *stopping.borrow() != Life::Open);
            let (framer, mut is_last) = (framer.clone(), is_last(&request));
            let switch_to = switch_to.clone();
            let request = taken_over(request, framed, connection.clone(), &framer);
            async move {
                let mut response = match is_admin {
                    true => administer(&shared, is_stopping, &request),
                    false => serve(&shared, request).await,
                };
                if framer.leaves_body() || (is_leaving && response.status() != StatusCode::SWITCHING_PROTOCOLS) {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                is_last |= says(response.headers(), "close");
                if is_last {
                    framer.set_last();
                }
                if let Some(switched) = response.extensions_mut().remove::<Switch>().and_then(|switch| switch.take()) {
                    framer.leave_http();
                    let nothing = Logged::new(Made::plain(ResponseBody::none()), None);
                    let body = std::mem::replace(response.body_mut(), nothing);
                    *switch_to.lock().unwrap_or_else(PoisonError::into_inner) = Some((switched, body));
                }
                spell_reason(&mut response);
                Ok::<_, Infallible>(response.map(|body| Breaking::new(body, framer)))
            }
        });
        let conversation = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(limits.header_timeout_ms))
            .max_buf_size(MAX_BUFFER)
            // The end of input does not end the requests before it.
            .half_close(true)
            .serve_connection(TokioIo::new(stream.clone()), service);
        tokio::pin!(conversation);
        // How the connection ended is not logged: each request has its line in the access log.
        tokio::select! {
            biased;
            _ = conversation.as_mut() => {}
            () = told_to_stop(&mut stopped) => {
                conversation.as_mut().graceful_shutdown();
                let _ = conversation.await;
            }
        }
        let switched = switching.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((switched, body)) = switched {
            if stream.pass_all() {
                Box::pin(tunnel::run(stream, switched, body, stopped)).await;
            }
            return;
        }
        // Requests that had come before the client left run, even if an earlier response could not be sent. The kernel
        // reports a failed write at once, so this does not take long.
        let more = tokio::time::timeout(FIRST_REQUEST, poll_fn(|context| stream.poll_more(context)));
        if !more.await.unwrap_or(false) {
            break;
        }
    }
    end(stream, &shared, stopped).await;
}
