//! Fetches a response for all requests that wait for it. The task belongs to no client: who leaves takes nothing from the others.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use cache::condition::Validators;
use cache::key::Key;
use cache::status::Why;
use cache::storing::{self, Asked, Came, Terms};
use cache::{reuse, update};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use http_body::Body;
use tokio::sync::oneshot;

use super::admit::Admitted;
use super::respond;
use crate::connection::{self, Connection, Left, Nobody};
use crate::forwarded::Client;
use crate::lanes::View;
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::request::{By, Head as RequestHead, Request, RequestBody};
use crate::response_body::ResponseBody;
use crate::settings::Application;
use crate::shared::Shared;
use crate::stored::asking::{self, Asking};
use crate::stored::copied;
use crate::stored::entry::Entry;
use crate::stored::flight::{Begun, Flight, Head};
use crate::stored::responses::{Responses, chosen_by};
use crate::wrapped::Made;

/// Bytes that wait for the slowest client of a response that is too large to be stored.
const WINDOW: usize = 1024 * 1024;
/// The address of a request that nobody has sent (RFC 7600: a dummy that no host has).
const NOBODY: &str = "192.0.0.8";
/// What proxies say of the URL, which is part of the key.
const OF_PROXIES: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
];

/// A response to be fetched.
pub(super) struct Order {
    shared: Arc<Shared>,
    view: Arc<View>,
    number: usize,
    request: Request,
    has_cookie: bool,
    outcome: Key,
    responses: Arc<Responses>,
    flight: Arc<Flight>,
    /// The stored response that it is to replace.
    stale: Option<Arc<Entry>>,
}

/// Who gets a response that may not be shared.
type Own = oneshot::Sender<Result<Response<Made>, Refusal>>;

impl Order {
    /// By the request of a visitor.
    pub(super) fn of_visitor(
        admitted: &Admitted<'_>,
        asking: &Asking,
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Option<Arc<Entry>>,
    ) -> Order {
        let request = admitted.request;
        let (head, behind) = (asking::of_many(&request.head), request.behind.clone());
        let is_new = stale.is_none();
        let mut order = Order::new(admitted, asking, (head, behind), responses, flight.clone(), stale);
        if is_new {
            // It may be for this visitor alone, and then nobody wants it if he leaves.
            let (peer, first) = (request.connection.peer.clone(), request.connection.clone());
            order.request.connection = Arc::new(Connection { peer, client: Box::new(First { flight, first }) });
        }
        order
    }

    /// By nobody's request: with the headers that had chosen the stored response, and no others.
    pub(super) fn of_nobody(
        admitted: &Admitted<'_>,
        asking: &Asking,
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Arc<Entry>,
    ) -> Order {
        let request = admitted.request;
        let mut head = request.head.clone();
        head.method = Method::GET;
        head.protocol = Version::HTTP_11;
        head.headers = stale.asked.clone();
        let names = if request.connection.peer.is_proxy { &OF_PROXIES[..] } else { &[] };
        for name in names.iter().chain(&[header::HOST]) {
            if let Some(value) = request.head.headers.get(name) {
                head.headers.insert(name, value.clone());
            }
        }
        let behind = Client {
            address: NOBODY.to_owned(),
            port: "0".to_owned(),
            is_https: Some(request.is_https()),
            server_port: request.behind.as_ref().and_then(|client| client.server_port),
        };
        let mut order = Order::new(admitted, asking, (head, Some(behind)), responses, flight, Some(stale));
        order.has_cookie = false;
        order
    }

    fn new(
        admitted: &Admitted<'_>,
        asking: &Asking,
        (mut head, behind): (RequestHead, Option<Client>),
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Option<Arc<Entry>>,
    ) -> Order {
        if let Some(entry) = &stale {
            add_conditions(&mut head.headers, &entry.headers);
        }
        let peer = admitted.request.connection.peer.clone();
        let connection = Arc::new(Connection { peer, client: Box::new(Nobody) });
        Order {
            shared: admitted.shared.clone(),
            view: admitted.view.clone(),
            number: admitted.number,
            request: Request { head, body: RequestBody::None, connection, behind, refusal: None, by: By::Fetch },
            has_cookie: asking.has_cookie,
            outcome: asking.outcome.clone(),
            responses,
            flight,
            stale,
        }
    }

    fn application(&self) -> &Application {
        &self.view.settings.applications[self.number]
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            method: &Method::GET,
            headers: &self.request.head.headers,
            has_cookie: self.has_cookie,
            has_body: false,
        }
    }

    fn entry(&self, head: &http::response::Parts, terms: Terms) -> Entry {
        Entry {
            status: head.status,
            reason: head.extensions.get::<Reason>().cloned(),
            headers: stored_headers(&head.headers),
            body: Bytes::new(),
            asked: chosen_by(&terms.nominated, &self.request.head.headers),
            terms,
            came: Instant::now(),
            generation: self.application().generation,
            outcome: self.outcome.clone(),
        }
    }

    /// The stored response, if the origin says that it is still right.
    fn confirmed(&self, head: &http::response::Parts) -> Option<&Entry> {
        let stale = self.stale.as_ref().filter(|_| head.status == StatusCode::NOT_MODIFIED)?;
        update::is_of(&stale.headers, &head.headers).then_some(stale)
    }

    /// A stored response that is still right, with what the origin says anew.
    fn renewed(&self, stale: &Entry, head: &http::response::Parts, came: Came) -> Entry {
        let mut said = update::renewed(&stale.headers, &head.headers);
        if !head.headers.contains_key(header::DATE) {
            // It is as old as this response.
            said.remove(header::DATE);
        }
        // What is for this cache alone is not stored, and counts again.
        for name in &cache::targeted::TARGETS {
            said.remove(name);
            append(&mut said, name, &head.headers);
        }
        let rules = self.application().cache_rules.into();
        let terms = storing::decide(rules, &self.asked(), stale.status, &said, came)
            .unwrap_or_else(|_| Terms { age: 0, ..stale.terms.clone() });
        Entry {
            headers: stored_headers(&said),
            terms,
            came: Instant::now(),
            body: stale.body.clone(),
            asked: stale.asked.clone(),
            outcome: stale.outcome.clone(),
            status: stale.status,
            reason: stale.reason.clone(),
            generation: self.application().generation,
        }
    }

    /// The response for the one client whose request it answers: the stored body, with all that the origin says anew.
    fn own(stale: &Entry, head: &http::response::Parts) -> Response<Made> {
        let mut response = Response::new(Made::plain(ResponseBody::full(stale.body.clone())));
        *response.status_mut() = stale.status;
        let headers = response.headers_mut();
        *headers = update::renewed(&stale.headers, &head.headers);
        append(headers, &header::SET_COOKIE, &head.headers);
        if stale.status != StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(stale.body.len()));
        }
        if let Some(reason) = &stale.reason {
            response.extensions_mut().insert(reason.clone());
        }
        response
    }
}

/// The client that has begun a flight, for as long as the flight is his alone.
struct First {
    flight: Arc<Flight>,
    first: Arc<Connection>,
}

impl connection::Client for First {
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<Left> {
        if self.flight.goes_on() { Poll::Pending } else { self.first.client.poll_left(context) }
    }

    fn is_gone(&self) -> bool {
        !self.flight.goes_on() && self.first.client.is_gone()
    }
}

/// Fetches it. `own`: the request that began it, which gets what may not be shared. The future is boxed because a request may begin it, and it
/// is a request itself.
pub(super) fn run(order: Order, own: Option<Own>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(fetch(order, own))
}

async fn fetch(mut order: Order, own: Option<Own>) {
    let landing = Landing { responses: order.responses.clone(), flight: order.flight.clone() };
    let (flight, responses) = (&landing.flight, &landing.responses);
    let began = Instant::now();
    let (shared, view) = (order.shared.clone(), order.view.clone());
    let result = respond(&shared, &view, &mut order.request, began).await;
    let usable =
        || order.stale.clone().filter(|stale| reuse::may_after_error(&stale.terms, &order.asked(), stale.since()));
    let response = match result {
        Ok(response) => response,
        Err(refusal) => return flight.know(Head::Failed(refusal)),
    };
    let came = came(began);
    let (head, body) = response.into_parts();
    if let Some(stale) = order.confirmed(&head) {
        if let Some(why) = update::withdraws(&head.headers) {
            // From now on each visitor has a response of their own.
            responses.change(&flight.url);
            responses.pass(&flight.url);
            return leave_to(own, Order::own(stale, &head), why, flight);
        }
        let entry = order.renewed(stale, &head, came);
        let (kept, body) = (order.entry_like(&entry), entry.body.clone());
        copied::store(responses, &flight.url, flight.since, kept, body);
        return flight.know(Head::Stored(Arc::new(entry)));
    }
    if matches!(head.status.as_u16(), 500 | 502 | 503 | 504) {
        if let Some(stale) = usable() {
            return flight.know(Head::Stored(stale));
        }
    }
    let most = order.application().cache_object;
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let decided =
        storing::decide(order.application().cache_rules.into(), &order.asked(), head.status, &head.headers, came);
    let terms = match decided {
        Ok(_) if length.is_some_and(|length| length > most) => Err(Why::Size),
        Ok(_) if head.extensions.get::<crate::upstream::Switch>().is_some() => Err(Why::Status),
        decided => decided,
    };
    let terms = match terms {
        Ok(terms) => terms,
        Err(why) => {
            if head.status.as_u16() < 500 {
                responses.pass(&flight.url);
            }
            return leave_to(own, Response::from_parts(head, body), why, flight);
        }
    };
    let entry = order.entry(&head, terms);
    let begun = Begun {
        status: entry.status,
        reason: entry.reason.clone(),
        headers: entry.headers.clone(),
        is_public: entry.terms.is_public,
        nominated: entry.terms.nominated.clone(),
        asked: entry.asked.clone(),
    };
    flight.know(Head::Shared(Arc::new(begun)));
    drop(own);
    let patience = Duration::from_millis(order.view.settings.limits.send_timeout_ms);
    let whole = read(body, &landing, most as usize, patience).await;
    let is_complete = whole.is_ok();
    if let Ok(Some(whole)) = whole {
        copied::store(responses, &flight.url, flight.since, entry, whole);
    }
    flight.end(is_complete);
}

/// A response that may not be shared goes to who began its flight.
fn leave_to(own: Option<Own>, mut response: Response<Made>, why: Why, flight: &Flight) {
    response.extensions_mut().insert(why);
    if let Some(own) = own {
        // If its client has left, nobody wants the response.
        let _ = own.send(Ok(response));
    }
    flight.know(Head::Unshared);
}

impl Order {
    fn entry_like(&self, entry: &Entry) -> Entry {
        Entry {
            status: entry.status,
            reason: entry.reason.clone(),
            headers: entry.headers.clone(),
            body: Bytes::new(),
            terms: entry.terms.clone(),
            came: entry.came,
            generation: entry.generation,
            outcome: entry.outcome.clone(),
            asked: entry.asked.clone(),
        }
    }
}

/// Passes the body on to all that wait for it. All of it, unless it has more than `most` bytes.
async fn read(mut body: Made, landing: &Landing, most: usize, patience: Duration) -> Result<Option<Bytes>, ()> {
    let (mut whole, mut size) = (BytesMut::new(), 0);
    loop {
        match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => return Ok((size <= most).then(|| whole.freeze())),
            Some(Err(_)) => return Err(()),
            Some(Ok(frame)) => {
                let Ok(part) = frame.into_data() else { continue };
                size += part.len();
                if size <= most {
                    whole.extend_from_slice(&part);
                } else if !whole.is_empty() {
                    whole = BytesMut::new();
                    landing.responses.landed(&landing.flight);
                }
                landing.flight.add(part);
            }
        }
        if size > most {
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

fn add_conditions(headers: &mut HeaderMap, stored: &HeaderMap) {
    let validators = Validators::of(stored);
    if let Some(Ok(value)) = validators.etag.map(HeaderValue::try_from) {
        headers.insert(header::IF_NONE_MATCH, value);
    } else if let Some(value) = stored.get(header::LAST_MODIFIED).filter(|_| validators.modified.is_some()) {
        headers.insert(header::IF_MODIFIED_SINCE, value.clone());
    }
}

/// Appends all values that `from` has of a header.
fn append(to: &mut HeaderMap, name: &HeaderName, from: &HeaderMap) {
    for value in from.get_all(name) {
        to.append(name.clone(), value.clone());
    }
}

/// What is stored of the headers of a response.
pub(super) fn stored_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    storing::strip(&mut headers);
    if !headers.contains_key(header::DATE) {
        if let Ok(value) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now())) {
            headers.insert(header::DATE, value);
        }
    }
    headers
}

/// When a response came whose request began then.
pub(super) fn came(began: Instant) -> Came {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Came { at: now.as_secs(), waited: began.elapsed().as_secs() }
}

/// Lets go of a flight whatever happens to the task that fetches it.
struct Landing {
    responses: Arc<Responses>,
    flight: Arc<Flight>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.responses.landed(&self.flight);
        // If the task was dropped before its end, those who wait must not wait for ever.
        self.flight.give_up();
    }
}
