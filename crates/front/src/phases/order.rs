//! A response to be fetched for many: the request by which it is asked for, and what the answer means for what is stored.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cache::condition::Validators;
use cache::key::Key;
use cache::storing::{self, Asked, Came, OWN_FIELDS, Terms};
use cache::targeted::Said;
use cache::{Rules, update};
use http::header::{self, HeaderMap, HeaderValue};
use http::response::Parts;
use http::{Method, Version};

use super::admit::Admitted;
use crate::lanes::View;
use crate::shared::Shared;
use cache_store::stored::asking::{self, Asking, Place};
use cache_store::stored::entry::Entry;
use cache_store::stored::flight::Flight;
use cache_store::stored::heeded;
use cache_store::stored::responses::Responses;
use inbound::connection::{self, Connection, Left, Nobody};
use inbound::forwarded::Client;
use inbound::request::{By, Head as RequestHead, Request, RequestBody};
use routing::settings::Application;

/// The address of a request that nobody has sent (RFC 7600: a dummy that no host has).
pub const NOBODY: &str = "192.0.0.8";

/// What the rules have said for a request, and what has responded.
pub(super) type Ran = (Key, Key);

/// A response to be fetched.
pub(super) struct Order {
    pub(super) shared: Arc<Shared>,
    pub(super) view: Arc<View>,
    pub(super) number: usize,
    pub(super) request: Request,
    has_cookie: bool,
    pub(super) place: Arc<Place>,
    pub(super) responses: Arc<Responses>,
    pub(super) flight: Arc<Flight>,
    /// The stored response that it is to replace.
    pub(super) stale: Option<Arc<Entry>>,
    /// A request of nobody's.
    pub(super) is_nobody_s: bool,
    /// It says which response its visitor has.
    pub(super) has_condition: bool,
}

/// What a 304 means.
pub(super) enum Confirmed {
    /// The stored response is right, and renewed.
    Renewed(Box<Entry>),
    /// It is right for the client that has asked, but must not be stored any more.
    Once(HeaderMap),
    /// It speaks of another response.
    Other,
}

impl Order {
    /// By the request of a visitor. `keeps_conditions`: with what it says of the response that its visitor has.
    pub(super) fn of_visitor(
        admitted: &Admitted<'_>,
        asking: &Asking,
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Option<Arc<Entry>>,
        keeps_conditions: bool,
    ) -> Order {
        let request = admitted.request;
        let head = asking::of_many(&request.head, admitted.application, keeps_conditions);
        let is_new = stale.is_none();
        let has_condition = asking::has_condition(&head.headers);
        let mut order = Order::new(admitted, head, request.behind.clone(), responses, flight, stale);
        order.has_condition = has_condition;
        order.has_cookie = asking.has_cookie;
        if is_new {
            // It may be for this visitor alone, and then nobody wants it if he leaves.
            let (peer, first) = (request.connection.peer.clone(), request.connection.clone());
            let flight = order.flight.clone();
            order.request.connection = Arc::new(Connection { peer, client: Box::new(First { flight, first }) });
        }
        order
    }

    /// By nobody's request: with the headers that had chosen the stored response, and no others, and without a client's certificate.
    pub(super) fn of_nobody(
        admitted: &Admitted<'_>,
        asking: &Asking,
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Arc<Entry>,
    ) -> Order {
        let request = admitted.request;
        let mut head = asking::of_many(&request.head, admitted.application, false);
        head.protocol = Version::HTTP_11;
        head.headers = stale.asked.clone();
        let peer = &request.connection.peer;
        for name in heeded::in_key(&admitted.application.derive).filter(|_| peer.is_proxy).chain(&[header::HOST]) {
            for value in request.head.headers.get_all(name) {
                head.headers.append(name, value.clone());
            }
        }
        let behind = match &request.behind {
            Some(client) => Client { address: NOBODY.to_owned(), port: "0".to_owned(), ..client.clone() },
            None => Client {
                address: NOBODY.to_owned(),
                port: "0".to_owned(),
                is_https: Some(request.is_https()),
                server_port: peer.server_port.parse().ok(),
            },
        };
        debug_assert!(asking.is_whole);
        let peer = Arc::new(peer.without_tls());
        let mut order = Order::new(admitted, head, Some(behind), responses, flight, Some(stale));
        order.request.connection = Arc::new(Connection { peer, client: Box::new(Nobody) });
        order.is_nobody_s = true;
        order
    }

    fn new(
        admitted: &Admitted<'_>,
        mut head: RequestHead,
        behind: Option<Client>,
        responses: Arc<Responses>,
        flight: Arc<Flight>,
        stale: Option<Arc<Entry>>,
    ) -> Order {
        if let Some(entry) = &stale {
            add_conditions(&mut head.headers, &entry.headers);
        }
        if Rules::from(admitted.application.cache_rules) == Rules::Rfc9111 {
            let (name, value) = cache::targeted::CAPABILITY;
            head.headers.insert(name, HeaderValue::from_static(value));
        }
        let peer = admitted.request.connection.peer.clone();
        let connection = Arc::new(Connection { peer, client: Box::new(Nobody) });
        Order {
            shared: admitted.shared.clone(),
            view: admitted.view.clone(),
            number: admitted.number,
            request: Request { head, body: RequestBody::None, connection, behind, refusal: None, by: By::Fetch },
            has_cookie: false,
            place: flight.place.clone(),
            responses,
            flight,
            stale,
            is_nobody_s: false,
            has_condition: false,
        }
    }

    pub(super) fn application(&self) -> &Application {
        &self.view.settings.applications[self.number]
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            method: &Method::GET,
            headers: &self.request.head.headers,
            has_cookie: self.has_cookie,
            has_body: false,
        }
    }

    /// The stored response, with this head.
    pub(super) fn entry(&self, head: &Parts, terms: Terms) -> Entry {
        let names = self.responses.purges.names(&self.place, &terms.tags);
        let asked = &self.request.head.headers;
        let mut entry = Entry::new(self.place.clone(), self.flight.since, names, head, terms, asked);
        entry.generation = self.application().generation;
        entry
    }

    /// The next request asks for the whole response.
    pub(super) fn forget_conditions(&mut self) {
        self.stale = None;
        self.request.head.headers.remove(header::IF_NONE_MATCH);
        self.request.head.headers.remove(header::IF_MODIFIED_SINCE);
    }

    /// What a 304 means. `stale`: the response that was to be confirmed.
    pub(super) fn confirmed(&self, stale: &Entry, head: &Parts, came: Came) -> Confirmed {
        if !update::is_of(&stale.headers, &head.headers) {
            return Confirmed::Other;
        }
        let rules = self.application().cache_rules.into();
        let mut said = update::renewed(rules, &stale.headers, &head.headers);
        if !head.headers.contains_key(header::DATE) {
            // It is as old as this response.
            said.remove(header::DATE);
        }
        // What is for this cache alone is not stored, and counts again. A cookie makes it one visitor's.
        let cookie = [header::SET_COOKIE];
        for name in OWN_FIELDS.iter().chain(&cookie) {
            for value in head.headers.get_all(name) {
                said.append(name, value.clone());
            }
        }
        let is_silent = !head.headers.contains_key(header::CACHE_CONTROL)
            && !head.headers.contains_key(header::SET_COOKIE)
            && !head.headers.contains_key(header::EXPIRES)
            && !Said::under(rules, &head.headers).is_targeted;
        if update::withdraws(&head.headers).is_some() {
            return Confirmed::Once(said);
        }
        let terms = match storing::decide(rules, &self.asked(), stale.status, &said, came) {
            Ok(terms) if terms.nominated == stale.terms.nominated => terms,
            // The field for this cache alone was not stored, so a 304 that says nothing of caching means what it had said.
            Err(_) if is_silent => Terms { age: 0, ..stale.terms.clone() },
            _ => return Confirmed::Once(said),
        };
        let (mut parts, ()) = http::Response::new(()).into_parts();
        parts.status = stale.status;
        parts.headers = said;
        let mut entry = self.entry(&parts, terms);
        entry.reason = stale.reason.clone();
        entry.asked = stale.asked.clone();
        entry.body = stale.body.clone();
        entry.number = stale.number;
        Confirmed::Renewed(Box::new(entry))
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

fn add_conditions(headers: &mut HeaderMap, stored: &HeaderMap) {
    let validators = Validators::of(stored);
    if let Some(Ok(value)) = validators.etag.map(HeaderValue::try_from) {
        headers.insert(header::IF_NONE_MATCH, value);
    } else if let Some(value) = stored.get(header::LAST_MODIFIED).filter(|_| validators.modified.is_some()) {
        headers.insert(header::IF_MODIFIED_SINCE, value.clone());
    }
}

/// When a response came whose request began then.
pub(super) fn came(began: Instant) -> Came {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Came { at: now.as_secs(), waited: began.elapsed().as_secs() }
}
