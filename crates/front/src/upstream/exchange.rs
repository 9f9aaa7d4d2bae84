//! A request to an upstream, up to the head of its response.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::{HeaderMap, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::upgrade::Upgraded;
use tokio::time::{Instant as TokioInstant, sleep_until};

use super::kept::{self, Kept};
use super::received::ReceivedBody;
use super::sending::{Progress, SendingBody, SendingLimits};
use super::{Counted, Place, REQUESTS, RETRIES, Upstreams, chain, fields};
use crate::lanes::Lanes;
use inbound::answered_by::AnsweredBy;
use inbound::connection::{Client, Left};
use inbound::request::{Request, RequestBody};
use routing::refusal::Refusal;
use routing::rules::rule::Upstream;

/// A request to pass on.
pub struct Order<'a> {
    /// What all threads know of upstreams.
    pub upstreams: &'a Upstreams,
    /// By which the supervisor is asked for connections.
    pub lanes: &'a Lanes,
    /// The request.
    pub request: &'a Request,
    /// The upstream.
    pub upstream: &'a Upstream,
    /// The generation whose rules name it.
    pub generation: u32,
    /// Path and query.
    pub target: Vec<u8>,
    /// The host, as the client named it.
    pub host: &'a str,
    /// Limits of the request's body.
    pub limits: SendingLimits,
}

/// What follows a response with 101: the connection to the upstream, for the transport to take.
#[derive(Clone)]
pub struct Switch(Arc<Mutex<Option<Switched>>>);

/// A connection that speaks WebSocket from now on.
pub struct Switched {
    /// The connection.
    pub upstream: Upgraded,
    /// How long it may be silent.
    pub idle: Duration,
    /// What it holds until it ends.
    pub held: (Place, Counted),
}

impl Switch {
    /// The connection, once.
    pub fn take(&self) -> Option<Switched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Makes limits of a body.
pub const fn limits(size: u64, patience: Duration) -> SendingLimits {
    SendingLimits { size, patience }
}

/// Why there is no response.
enum Failed {
    /// Nothing was sent: the request is whole.
    Unsent(Box<http::Request<SendingBody>>, hyper::Error),
    Broken(hyper::Error),
    Refused(Refusal),
}

/// Passes a request on, and returns the response with its body as it comes. After 101 there is none.
pub async fn pass(order: &Order<'_>, body: RequestBody) -> Result<Response<Option<ReceivedBody>>, Refusal> {
    let Order { request, upstream, .. } = *order;
    let has_body = matches!(body, RequestBody::Stream(_));
    let is_upgrade = !has_body && fields::asks_for_websocket(&request.head);
    let place = order.upstreams.enter(upstream)?;
    let body = SendingBody::new(body, order.limits)?;
    let progress = body.progress();
    // A length that is named stays, that of an empty body too.
    let is_named = request.head.headers.contains_key(http::header::CONTENT_LENGTH);
    let length = if has_body { body.length() } else { is_named.then_some(0) };
    let headers = fields::of_request(request, order.host, length, is_upgrade);
    REQUESTS.fetch_add(1, Ordering::Relaxed);
    let mut kept = match kept::take(&upstream.name).filter(|_| !is_upgrade) {
        Some(kept) => kept,
        None => order.connect(&place).await?,
    };
    // A connection that has waited may be closed by the other side at any moment. What is idempotent may be made twice.
    let is_repeatable = kept.is_reused && body.is_none() && request.head.method.is_idempotent();
    let again = is_repeatable.then(|| headers.clone());
    let first = order.message(headers, body)?;
    let second = match (order.send(&mut kept, first, &progress).await, again) {
        (Err(Failed::Unsent(message, _)), _) if kept.is_reused => Err(*message),
        (Err(Failed::Broken(_)), Some(headers)) if !kept.socket.has_received() => {
            Err(order.message(headers, SendingBody::new(RequestBody::None, order.limits)?)?)
        }
        (result, _) => Ok(result),
    };
    let result = match second {
        Ok(result) => result,
        Err(message) => {
            RETRIES.fetch_add(1, Ordering::Relaxed);
            kept = order.connect(&place).await?;
            order.send(&mut kept, message, &progress).await
        }
    };
    let mut response = result.map_err(|failed| order.explain(failed, &kept, &progress, &place))?;
    if let Err(fields::Wrong(why)) = fields::of_response(&mut response, is_upgrade) {
        place.report(&upstream.name, &format!("its response has {why}"));
        return Err(Refusal::BadUpstream);
    }
    let idle = Duration::from_millis(upstream.idle_ms);
    let answered_by = AnsweredBy(upstream.name.as_str().into());
    let mut made = if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(|error| {
            place.report(&upstream.name, &chain(&error));
            Refusal::BadUpstream
        })?;
        let switched = Switched { upstream: upgraded, idle, held: (place, Counted::new()) };
        let mut made = response.map(|_| None);
        made.extensions_mut().insert(Switch(Arc::new(Mutex::new(Some(switched)))));
        made
    } else {
        let name = upstream.name.clone();
        response.map(|body| Some(ReceivedBody::new(body, kept, place, name, idle)))
    };
    made.extensions_mut().insert(answered_by);
    Ok(made)
}

impl Order<'_> {
    /// A request for hyper.
    fn message(&self, headers: HeaderMap, body: SendingBody) -> Result<http::Request<SendingBody>, Refusal> {
        let mut message = http::Request::new(body);
        *message.method_mut() = self.request.head.method.clone();
        *message.uri_mut() = Uri::try_from(&self.target[..]).map_err(|_| Refusal::RuleFailed)?;
        *message.headers_mut() = headers;
        Ok(message)
    }

    /// A new connection: to the first address that accepts one.
    async fn connect(&self, place: &Place) -> Result<Kept, Refusal> {
        let Upstream { name, addresses, first_address, connect_ms, .. } = self.upstream;
        let openings = &self.upstreams.openings;
        let attempts = async {
            let mut failures = Vec::new();
            for (number, address) in addresses.iter().enumerate() {
                let is_unix = address.starts_with("unix:");
                match openings.open(self.lanes, self.generation, first_address + number as u32, is_unix).await {
                    Ok(socket) => return Ok(socket),
                    Err(error) => failures.push(format!("{address}: {error}")),
                }
            }
            Err(failures.join(", "))
        };
        let limit = Duration::from_millis(*connect_ms);
        let socket = match tokio::time::timeout(limit, attempts).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(why)) => {
                place.report(name, &format!("cannot be connected to: {why}"));
                return Err(Refusal::UpstreamDown);
            }
            Err(_) => {
                place.report(name, &"cannot be connected to within connect_timeout");
                return Err(Refusal::UpstreamTimeout);
            }
        };
        kept::begin(socket).await.map_err(|error| {
            place.report(name, &chain(&error));
            Refusal::UpstreamDown
        })
    }

    /// Sends a request, and waits for the head of its response as long as the client does.
    async fn send(
        &self,
        kept: &mut Kept,
        message: http::Request<SendingBody>,
        progress: &Progress,
    ) -> Result<Response<Incoming>, Failed> {
        kept.socket.begin();
        let client: &dyn Client = &*self.request.connection.client;
        let sending = kept.sender.try_send_request(message);
        let patience = Duration::from_millis(self.upstream.response_ms);
        let late = sleep_until(TokioInstant::from_std(Instant::now() + patience));
        tokio::pin!(sending, late);
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = sending.as_mut().poll(context) {
                return Poll::Ready(result.map_err(|error: TrySendError<_>| failed(error)));
            }
            if let Poll::Ready(Left::Gone) = client.poll_left(context) {
                return Poll::Ready(Err(Failed::Refused(Refusal::ClientGone)));
            }
            // The time begins when the upstream has taken the last part of the request.
            while late.as_mut().poll(context).is_ready() {
                let due = progress.last() + patience;
                if due <= Instant::now() {
                    return Poll::Ready(Err(Failed::Refused(Refusal::UpstreamTimeout)));
                }
                late.as_mut().reset(TokioInstant::from_std(due));
            }
            Poll::Pending
        })
        .await;
        kept.socket.has_head();
        result
    }

    /// Says why there is no response, and to whom.
    fn explain(&self, failed: Failed, kept: &Kept, progress: &Progress, place: &Place) -> Refusal {
        let error = match failed {
            Failed::Refused(Refusal::UpstreamTimeout) => {
                place.report(&self.upstream.name, &"no response within response_timeout");
                return Refusal::UpstreamTimeout;
            }
            Failed::Refused(refusal) => return refusal,
            Failed::Unsent(_, error) | Failed::Broken(error) => error,
        };
        // The client's body may have ended it.
        if let Some(refusal) = progress.refusal() {
            return refusal;
        }
        let why = match kept.socket.has_received() {
            true => "its response is malformed",
            false => "it closed the connection without a response",
        };
        place.report(&self.upstream.name, &format!("{why}: {}", chain(&error)));
        Refusal::BadUpstream
    }
}

fn failed(mut error: TrySendError<http::Request<SendingBody>>) -> Failed {
    match error.take_message() {
        Some(message) => Failed::Unsent(Box::new(message), error.into_error()),
        None => Failed::Broken(error.into_error()),
    }
}
