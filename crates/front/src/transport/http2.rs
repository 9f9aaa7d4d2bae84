//! One connection of HTTP/2, from its preface to its last stream.
//!
//! h2 reads and writes frames. A task for each stream hands its request to the phases and sends the response
//! ([`responder`]). Floods end the connection; the limits are in [`inbound::http2_limits`].
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`frames`] | frames that carry nothing are counted; no I/O |
//! | [`input`] | the end of the client's input, which h2 learns when nothing can be lost by it |
//! | [`intake`] | from a head that h2 has decoded to a request, and its body |
//! | [`memory`] | what streams hold for clients that do not read |
//! | [`responder`] | one stream: its request is run, its response is sent |
//! | [`socket`] | the socket as h2 sees it |

pub mod frames;
mod input;
mod intake;
mod memory;
mod responder;
mod socket;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::shared::{Life, Shared, told_to_stop};
use inbound::connection::Peer;
use inbound::http2_limits::{self as limits, Limit};
use input::Input;
use intake::{HeadLimits, StreamState};
use memory::Account;
use responder::{Piece, Stream};
use routing::settings::Settings;
use socket::Socket;

/// How long a connection that is to end waits for a request that may be on its way, and for its last frame to be written.
const LAST_REQUEST: Duration = Duration::from_millis(500);
/// How often a connection with waiting responses looks whether it is in the way of others.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes of a body that a client may send before any of it is taken, for a stream and for the whole connection.
const WINDOW: u32 = 64 * 1024;
/// Bytes of responses that h2 may hold for one stream. They are within its window.
const SEND_BUFFER: usize = 64 * 1024;
/// A head is decoded up to this many times the limit of the settings, so that a head over the limit is refused with a page, a
/// line in the access log and a count. Of a larger one h2 only says 431.
const DECODED: u64 = 2;
/// Streams that h2 resets for errors of the client before it closes the connection; and streams that may be reset before they
/// were accepted.
const LOCAL_RESETS: usize = 256;
const EARLY_RESETS: usize = 50;

type Server<S> = server::Connection<Socket<S>, Piece>;

/// What a connection's streams have in common.
struct Common {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    account: Arc<Account>,
    input: Arc<Input>,
    head_limits: HeadLimits,
    /// How long the client may give no window.
    patience: Duration,
}

/// What has happened on a connection.
enum Event {
    Request(Box<http::Request<RecvStream>>, SendResponse<Piece>),
    /// A limit ends the connection.
    End(Limit),
    /// There was no stream for as long as allowed.
    Idle,
    /// No further frame will come.
    Over,
}

/// Serves a connection whose first bytes, as far as they were read, are `begun`.
pub async fn serve_connection<S>(
    socket: S,
    begun: Bytes,
    peer: Peer,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<Life>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _open = limits::Open::begin();
    let view = shared.lanes.view();
    let settings = &view.settings;
    let account = Account::new(settings.http2_memory as usize, settings.http2_streams as usize);
    let patience = Duration::from_millis(settings.limits.send_timeout_ms);
    let idle_time = Duration::from_millis(settings.limits.header_timeout_ms);
    let head_limits = HeadLimits { fields: settings.http2_fields as usize, size: settings.http2_head as usize };
    let builder = builder(settings);
    drop(view);
    let input = Arc::new(Input::default());
    let socket = Socket::new(socket, begun, account.clone(), input.clone(), patience);
    // How the connection ends is not logged: each request has its line in the access log.
    let handshake = timeout(idle_time, builder.handshake(socket));
    let too_late = async {
        told_to_stop(&mut stopped).await;
        sleep(LAST_REQUEST).await;
    };
    let connection = tokio::select! {
        biased;
        made = handshake => made,
        () = too_late => return,
    };
    let Ok(Ok(connection)) = connection else { return };
    input.is_served_from_now();
    let common = Common { shared, peer: Arc::new(peer), account, input, head_limits, patience };
    serve_streams(connection, &common, idle_time, stopped).await;
}

fn builder(settings: &Settings) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(settings.http2_streams.try_into().unwrap_or(u32::MAX))
        .max_header_list_size((DECODED * settings.http2_head).try_into().unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(LOCAL_RESETS))
        .max_pending_accept_reset_streams(EARLY_RESETS);
    builder
}

async fn serve_streams<S>(
    mut connection: Server<S>,
    common: &Common,
    idle_time: Duration,
    mut stopped: watch::Receiver<Life>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut clock = Clock::new(idle_time);
    loop {
        let is_last = clock.is_last;
        let next = poll_fn(|context| poll_event(&mut connection, common, &mut clock, context));
        let event = tokio::select! {
            biased;
            event = next => event,
            () = told_to_stop(&mut stopped), if !is_last => {
                connection.graceful_shutdown();
                clock.is_last = true;
                clock.start();
                continue;
            }
        };
        match event {
            // All that h2 has decoded begin at once: until then nothing counts what they hold.
            Event::Request(request, respond) => begin(*request, respond, common),
            Event::Over => return,
            Event::Idle if !clock.is_last => {
                // A request may be on its way. The client learns which of its requests were taken.
                connection.graceful_shutdown();
                clock.is_last = true;
                clock.start();
            }
            Event::Idle => connection.abrupt_shutdown(Reason::NO_ERROR),
            Event::End(why) => {
                limits::acted(why);
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                let _ = timeout(LAST_REQUEST, poll_fn(|context| connection.poll_closed(context))).await;
                return;
            }
        }
    }
}

fn poll_event<S>(
    connection: &mut Server<S>,
    common: &Common,
    clock: &mut Clock,
    context: &mut Context<'_>,
) -> Poll<Event>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match connection.poll_accept(context) {
        Poll::Ready(Some(Ok((request, respond)))) => return Poll::Ready(Event::Request(Box::new(request), respond)),
        Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Event::Over),
        Poll::Pending => common.input.all_taken(context),
    }
    if let Poll::Ready(why) = common.account.poll_end(context) {
        return Poll::Ready(Event::End(why));
    }
    clock.poll(&common.account, context)
}

/// Begins a stream, unless its connection holds too much.
fn begin(request: http::Request<RecvStream>, mut respond: SendResponse<Piece>, common: &Common) {
    let Some(held) = common.account.enter(intake::weight(request.headers(), request.uri())) else {
        limits::acted(Limit::Memory);
        // The client may repeat the request: nothing of it has run (RFC 9113 §8.7).
        return respond.send_reset(Reason::REFUSED_STREAM);
    };
    let state = Arc::new(StreamState::default());
    let request = intake::taken_over(request, common.head_limits, &common.peer, &state, &common.input);
    let (shared, account, patience) = (common.shared.clone(), common.account.clone(), common.patience);
    tokio::spawn(responder::run(Stream { shared, account, held, state, patience }, request, respond));
}

/// When a connection without streams ends, and when one with waiting responses is looked at. It is read when it rings, so that
/// a request costs nothing.
struct Clock {
    idle_time: Duration,
    /// The connection takes no further request but those that are on their way.
    is_last: bool,
    /// Whether responses waited when it was last set.
    is_looking: bool,
    sleep: Pin<Box<Sleep>>,
}

impl Clock {
    fn new(idle_time: Duration) -> Clock {
        Clock { idle_time, is_last: false, is_looking: false, sleep: Box::pin(sleep(idle_time)) }
    }

    fn start(&mut self) {
        self.sleep.as_mut().reset(Instant::now() + LAST_REQUEST);
    }

    fn poll(&mut self, account: &Account, context: &mut Context<'_>) -> Poll<Event> {
        if account.is_stalled() && !self.is_looking {
            self.is_looking = true;
            self.sleep.as_mut().reset(Instant::now() + LOOK);
        }
        while self.sleep.as_mut().poll(context).is_ready() {
            if account.is_in_the_way() {
                return Poll::Ready(Event::End(Limit::InTheWay));
            }
            let limit = if self.is_last { LAST_REQUEST } else { self.idle_time };
            let next = match account.idle_since() {
                Some(since) if since.elapsed() >= limit => {
                    // If this is asked again, the connection still has not ended.
                    self.sleep.as_mut().reset(Instant::now() + LAST_REQUEST);
                    return Poll::Ready(Event::Idle);
                }
                Some(since) => limit.saturating_sub(since.elapsed()),
                None if account.is_stalled() => LOOK,
                None => limit,
            };
            self.is_looking = account.is_stalled();
            self.sleep.as_mut().reset(Instant::now() + next);
        }
        Poll::Pending
    }
}
