//! One connection, from its first byte to its last: its first head is waited for, hyper reads requests and writes answers, and
//! what a client has sent before it left runs to its end.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::body::AnswerBody;
use crate::connection::Peer;
use crate::monitoring;
use crate::page;
use crate::refusal::Refusal;
use crate::service::{Connection, serve};
use crate::shared::{Shared, told_to_stop};
use crate::transport::{self, Framed, Stream};

/// Bytes hyper may buffer of one connection, either way.
const MAX_BUFFER: usize = 64 * 1024;
/// How long a stop waits for the first byte of a connection.
const FIRST_REQUEST: Duration = Duration::from_millis(500);

/// Answers a request on an admin listener.
fn administer(
    shared: &Shared,
    is_stopping: bool,
    request: &Request<Incoming>,
    framed: &Framed,
) -> Response<AnswerBody> {
    if let Some(why) = framed.refusal {
        return page::refusal(why);
    }
    let connections = shared.connections.load(Ordering::Relaxed);
    monitoring::of_listener(&shared.lanes.view(), connections, is_stopping, request.method(), request.uri().path())
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
        self.0.room.notify_one();
    }
}

/// Waits for the first head of a connection. Only then it gets hyper's buffers: a client that sends nothing, or sends it slowly,
/// costs what it has sent. `false`: it sends no request.
async fn first_head<S>(stream: &Stream<S>, patience: Duration, mut stopped: watch::Receiver<bool>) -> bool
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
    // Closed now, it would lose a request that is on its way; only later ones may be sent again by their client.
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

/// Whether a request says that no other follows it on its connection.
fn is_last(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    says(headers, "close") || request.version() == Version::HTTP_10 && !says(headers, "keep-alive")
}

/// Whether the header Connection has that word.
fn says(headers: &HeaderMap, word: &str) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Serves a connection until it ends.
pub async fn converse<S>(stream: S, peer: Peer, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>, is_admin: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let counted = Counted(shared.clone());
    let limits = shared.lanes.view().settings.limits.clone();
    let stream = Stream::new(stream, Duration::from_millis(limits.send_timeout_ms));
    if !first_head(&stream, Duration::from_millis(limits.header_timeout_ms), stopped.clone()).await {
        return drop(counted);
    }
    let connection = Connection { shared, peer: Arc::new(peer), client: Arc::new(stream.clone()), warms: None };
    loop {
        let (connection, stopping, framer) = (connection.clone(), stopped.clone(), stream.clone());
        let service = service_fn(move |request| {
            let framed = framer.take_framed().unwrap_or_else(|| {
                // hyper has read a request where none was sent: whoever made it do so gets no further.
                framer.give_up();
                Framed { refusal: Some(Refusal::BadFraming), line: None }
            });
            let (connection, is_stopping) = (connection.clone(), *stopping.borrow());
            let (framer, mut is_last) = (framer.clone(), is_last(&request));
            async move {
                let answered = match is_admin {
                    true => Ok(administer(&connection.shared, is_stopping, &request, &framed)),
                    false => serve(connection, request, framed).await,
                };
                is_last |= answered.as_ref().is_ok_and(|answer| says(answer.headers(), "close"));
                if is_last {
                    framer.set_last();
                }
                answered
            }
        });
        let conversation = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(limits.header_timeout_ms))
            .max_buf_size(MAX_BUFFER)
            // The end of input is no end of what came before it.
            .half_close(true)
            .serve_connection(TokioIo::new(stream.clone()), service);
        tokio::pin!(conversation);
        // How it ended is the client's affair: each request has its line in the access log.
        tokio::select! {
            biased;
            _ = conversation.as_mut() => {}
            () = told_to_stop(&mut stopped) => {
                conversation.as_mut().graceful_shutdown();
                let _ = conversation.await;
            }
        }
        // What had come before the client left runs, though an earlier answer could not be sent.
        // The kernel tells of a failed write at once; nobody waits for long.
        let more = tokio::time::timeout(FIRST_REQUEST, poll_fn(|context| stream.poll_more(context)));
        if !more.await.unwrap_or(false) {
            break;
        }
    }
    transport::end(stream).await;
    drop(counted);
}
