//! Fetches a response for all requests that wait for it. The task belongs to no client: who leaves takes nothing from the others.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cache::status::Why;
use cache::{reuse, storing, update};
use http::header;
use http::{Response, StatusCode};
use http_body::Body;
use tokio::sync::oneshot;

use super::keep::purge;
use super::order::{Confirmed, Order, Ran, came};
use super::respond;
use crate::response::WrongLength;
use crate::response_body::ResponseBody;
use crate::wrapped::Made;
use cache_store::stored::copied;
use cache_store::stored::entry::Entry;
use cache_store::stored::flight::{Begun, Flight, Head};
use cache_store::stored::responses::Responses;
use routing::refusal::Refusal;

/// Bytes that wait for the slowest client of a response that is too large to be stored.
const WINDOW: usize = 1024 * 1024;

/// Who gets a response that may not be shared.
type Own = oneshot::Sender<Result<Response<Made>, Refusal>>;

/// Fetches it. `own`: the request that began it, which gets what may not be shared. The future is boxed because a request may begin it, and it
/// is a request itself.
pub(super) fn run(order: Order, own: Option<Own>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(fetch(order, own))
}

async fn fetch(mut order: Order, own: Option<Own>) {
    let landing = Landing { responses: order.responses.clone(), flight: order.flight.clone() };
    let (shared, view) = (order.shared.clone(), order.view.clone());
    let mut began = Instant::now();
    let mut result = respond(&shared, &view, &mut order.request, began).await;
    // A 304 that speaks of another response than the stored one is of no use to anybody: the whole response is asked for, once.
    if let (Ok(response), Some(stale)) = (&result, order.stale.clone()) {
        if response.status() == StatusCode::NOT_MODIFIED && !update::is_of(&stale.headers, response.headers()) {
            landing.responses.forget(&stale);
            order.forget_conditions();
            began = Instant::now();
            result = respond(&shared, &view, &mut order.request, began).await;
        }
    }
    let (flight, responses) = (&landing.flight, &landing.responses);
    let mut response = match result {
        Ok(response) => response,
        Err(refusal) => {
            order.was_not_renewed(!refusal.describe().0.is_server_error());
            return landing.end(Head::Failed(refusal));
        }
    };
    purge(responses, response.headers());
    // Rules may lead nobody's request elsewhere than the visitor's, and a file may be new.
    let ran = response.extensions_mut().remove::<Ran>();
    let is_as_led = ran.is_some_and(|(led, outcome)| led == order.place.led && outcome == order.place.outcome);
    let came = came(began);
    let (mut head, body) = response.into_parts();
    if !is_as_led && order.is_nobody_s {
        order.was_not_renewed(true);
        return landing.end(Head::Unshared);
    }
    if let Some(stale) = order.stale.clone().filter(|_| head.status == StatusCode::NOT_MODIFIED && is_as_led) {
        match order.confirmed(&stale, &head, came) {
            Confirmed::Renewed(entry) => {
                let entry = Arc::new(*entry);
                responses.store(entry.clone());
                return landing.end(Head::Stored(entry));
            }
            // He who has asked gets what was stored, with what the response says of it.
            Confirmed::Once(said) => {
                responses.forget(&stale);
                responses.pass(&flight.place, &order.request.head.headers, Why::NoStore);
                if let Some(own) = own {
                    let _ = own.send(Ok(once(&stale, said)));
                }
                return landing.end(Head::Unshared);
            }
            Confirmed::Other => {}
        }
    }
    if order.has_condition && head.status == StatusCode::NOT_MODIFIED && is_as_led {
        let rules = order.application().cache_rules.into();
        // What it says of caching it says of the whole response (RFC 9110 §15.4.5).
        if storing::decide(rules, &order.asked(), StatusCode::OK, &head.headers, came).is_ok() {
            responses.known.share(&flight.place.url);
            if let Some(own) = own {
                let _ = own.send(Ok(Response::from_parts(head, body)));
            }
            return landing.end(Head::Unmodified);
        }
    }
    if matches!(head.status.as_u16(), 500 | 502 | 503 | 504) {
        order.was_not_renewed(false);
        let usable = |stale: &Arc<Entry>| reuse::may_after_error(&stale.terms, &order.asked(), stale.since());
        if let Some(stale) = order.stale.clone().filter(usable) {
            return landing.end(Head::Stored(stale));
        }
    }
    let most = order.application().cache_object;
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let decided =
        storing::decide(order.application().cache_rules.into(), &order.asked(), head.status, &head.headers, came);
    let terms = match decided {
        Ok(_) if length.is_some_and(|length| length > most) => Err(Why::Size),
        Ok(_) if head.extensions.get::<crate::upstream::Switch>().is_some() => Err(Why::Status),
        Ok(_) if head.extensions.get::<WrongLength>().is_some() => Err(Why::Length),
        Ok(_) if !is_as_led => Err(Why::Status),
        decided => decided,
    };
    let terms = match terms {
        Ok(terms) => terms,
        Err(why) => {
            if head.status.as_u16() < 500 {
                // What is stored is not right any more, and its URL has nothing that may take its place.
                if let Some(stale) = &order.stale {
                    responses.forget(stale);
                }
                responses.pass(&flight.place, &order.request.head.headers, why);
            }
            head.extensions.insert(why);
            if let Some(own) = own {
                // If its client has left, nobody wants the response.
                let _ = own.send(Ok(Response::from_parts(head, body)));
            }
            return landing.end(Head::Unshared);
        }
    };
    let entry = order.entry(&head, terms);
    let mut headers = entry.headers.clone();
    // How old it was when it came.
    headers.extend(head.headers.remove(header::AGE).map(|age| (header::AGE, age)));
    let begun = Begun {
        status: entry.status,
        reason: entry.reason.clone(),
        headers,
        is_public: entry.terms.is_public,
        nominated: entry.terms.nominated.clone(),
        cookies: entry.terms.cookies.clone(),
        asked: entry.asked.clone(),
    };
    responses.learn(&flight.place.url, &entry.terms.nominated);
    responses.known.share(&flight.place.url);
    flight.know(Head::Shared(Arc::new(begun)));
    drop(own);
    let patience = Duration::from_millis(order.view.settings.limits.send_timeout_ms);
    let whole = read(body, &landing, most as usize, patience).await;
    let is_complete = whole.is_ok();
    if let Ok(Some(whole)) = whole {
        copied::store(responses, entry, whole);
    }
    responses.landed(flight);
    flight.end(is_complete);
}

/// The stored body with the headers of now, for one client.
fn once(stale: &Entry, said: header::HeaderMap) -> Response<Made> {
    let mut response = Response::new(Made::plain(ResponseBody::full(stale.body.clone())));
    *response.status_mut() = stale.status;
    *response.headers_mut() = said;
    if let Some(reason) = &stale.reason {
        response.extensions_mut().insert(reason.clone());
    }
    response.extensions_mut().insert(Why::NoStore);
    response
}

impl Order {
    /// The stored response stays as it is. `is_led_elsewhere`: only a visitor's own request can renew it.
    fn was_not_renewed(&self, is_led_elsewhere: bool) {
        if let Some(stale) = &self.stale {
            stale.was_not_renewed();
            if is_led_elsewhere && self.is_nobody_s {
                stale.needs_visitor.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Passes the body on to all that wait for it. All of it, unless it has more than `most` bytes.
async fn read(mut body: Made, landing: &Landing, most: usize, patience: Duration) -> Result<Option<Bytes>, ()> {
    let (mut size, mut is_kept) = (0, true);
    loop {
        match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => return Ok(is_kept.then(|| landing.flight.whole())),
            Some(Err(_)) => return Err(()),
            Some(Ok(frame)) => {
                let Ok(part) = frame.into_data() else { continue };
                size += part.len();
                if is_kept && (size > most || landing.responses.is_crowded()) {
                    is_kept = false;
                    landing.responses.landed(&landing.flight);
                }
                landing.flight.add(part);
            }
        }
        if !is_kept {
            if landing.flight.is_abandoned() {
                return Err(());
            }
            wait_for_room(&landing.flight, patience).await;
        }
    }
}

/// Waits until the slowest client has read on. Who reads nothing for that long is cut off.
async fn wait_for_room(flight: &Flight, patience: Duration) {
    loop {
        let room = poll_fn(|context| flight.poll_room(context, WINDOW));
        match tokio::time::timeout(patience, room).await {
            Ok(()) => return,
            Err(_) => flight.cut_off_slowest(),
        }
    }
}

/// Lets go of a flight whatever happens to the task that fetches it.
struct Landing {
    responses: Arc<Responses>,
    flight: Arc<Flight>,
}

impl Landing {
    /// Nothing more comes. Nobody joins the flight after those who wait have learned of its end: they may look again.
    fn end(&self, head: Head) {
        self.responses.landed(&self.flight);
        self.flight.know(head);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.responses.landed(&self.flight);
        // If the task was dropped before its end, those who wait must not wait for ever.
        self.flight.give_up();
    }
}
