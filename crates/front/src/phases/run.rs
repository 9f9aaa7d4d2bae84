//! The phase "run": PHP runs scripts; the front makes every other response itself.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::key::Key;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use ipc::key::{Key as LaneKey, split_port};
use ipc::layout::{BODY_RING, HEAD_SIZE, NOTE_HOST, NOTE_SNAPSHOT, NOTE_WORKER_MODE};

use super::admit::Admitted;
use super::beside::{Beside, First, Standing};
use super::compress::Dynamic;
use super::keep::{Candidate, Keeping};
use super::look_up::{self, Looked};
use super::order::NOBODY;
use crate::doors;
use crate::files;
use crate::monitoring;
use crate::precompressed;
use crate::response::{self, Holding};
use crate::response_body::ResponseBody;
use crate::sent_file;
use crate::wrapped::Made;
use cache_store::stored::asking::Asks;
use inbound::head::{self, Facts, MODE};
use inbound::request::{By, Request, RequestBody};
use inbound::verified::Mode;
use mailbox::lane::{Lane, Order, Ticket};
use mailbox::request_body::{self, Prefix, Remainder};
use routing::fingerprint;
use routing::in_force::{self, InForce};
use routing::refusal::Refusal;
use routing::route::{self, Route, Script};
use routing::settings::RequestLimits;
use routing::target::is_at;

/// How long a script may take to say that a page has not changed.
const VALIDATION: Duration = Duration::from_secs(1);

thread_local! {
    /// Where heads are put together before they are copied to the slab.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; HEAD_SIZE]);
}

/// Makes the response. `asks`: what the request asks the cache for.
pub async fn run(
    admitted: &Admitted<'_>,
    route: Route,
    asks: Asks,
    body: RequestBody,
) -> Result<Response<Made>, Refusal> {
    let (request, lanes) = (admitted.request, admitted.view.of_application(admitted.number));
    let made = match route {
        Route::Script(script) => return look_up_script(admitted, &script, asks, body).await,
        Route::File(found) => {
            let mut response = match admitted.application.precompressed {
                true => precompressed::respond(&found, request)?,
                false => files::respond(&found, request)?,
            };
            // A shared cache must not keep what a password guards.
            if admitted.user.is_none() && fingerprint::is_in(admitted.application, admitted.path) {
                files::keep_for_ever(&mut response);
            }
            response
        }
        Route::Ping => monitoring::ping(lanes, request)?,
        Route::Status => monitoring::status(admitted.shared.began, lanes, admitted.application, request)?,
        Route::Directory(path) => add_slash(&path, admitted),
        Route::Nobody => return Err(Refusal::NotFound),
        Route::Closed => return Err(Refusal::Forbidden),
        Route::Denied => return Err(Refusal::Denied),
        Route::Source => return Err(Refusal::Source),
        Route::Link(refused) => {
            refused.log(&admitted.application.name);
            return Err(Refusal::Link);
        }
    };
    Ok(made.map(Made::plain))
}

fn add_slash(path: &[u8], admitted: &Admitted<'_>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::none());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let mut location = String::new();
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            location.push(char::from(byte));
        } else {
            location.push_str(&format!("%{byte:02X}"));
        }
    }
    location.push('/');
    let rewritten = admitted.query.as_deref().and_then(|query| std::str::from_utf8(query).ok());
    if let Some(query) = rewritten.or_else(|| admitted.request.head.target.query()) {
        location.push('?');
        location.push_str(query);
    }
    if let Ok(value) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    response
}

/// A script that PHP is to run for a request.
struct Job<'a> {
    admitted: &'a Admitted<'a>,
    script: &'a Script,
    /// The request runs in classic mode whatever lane its script has: its path is configured so, or the client asked for
    /// it.
    is_classic: bool,
    limits: RequestLimits,
}

/// When a request may have a worker.
#[derive(Clone, Copy)]
struct Turn<'a> {
    /// Since when it has waited for one.
    since: Instant,
    /// Of a request that may get another one's response before.
    standing: Option<&'a Standing>,
}

/// Asks the cache for the response of a script, and runs the script if it has none.
async fn look_up_script(
    admitted: &Admitted<'_>,
    script: &Arc<Script>,
    asks: Asks,
    body: RequestBody,
) -> Result<Response<Made>, Refusal> {
    let outcome = || {
        let mut outcome = Key::new();
        outcome.add(&script.name).add(&script.path_info);
        match &script.mount {
            Some((directory, _)) => outcome.add(directory.as_os_str().as_bytes()),
            None => outcome.absent(),
        };
        match &admitted.query {
            Some(query) => outcome.add(query),
            None => outcome.absent(),
        };
        outcome
    };
    let mut asks = asks;
    loop {
        match look_up::look_up(admitted, asks, outcome).await {
            Looked::Answered(result) => return result,
            Looked::Run(keeping) => {
                let turn = Turn { since: admitted.began + keeping.waited(), standing: None };
                let result = match validate(admitted).await {
                    Some(unchanged) => Ok(unchanged),
                    None => run_script(admitted, script, body, turn).await,
                };
                return keeping.of_result(admitted, result, outcome);
            }
            // The future is large; a request that has nobody beside it does not hold room for it.
            Looked::Beside(beside) => match Box::pin(run_beside(admitted, script, beside)).await {
                (candidate, First::Own(result)) => {
                    return Keeping::Copy(candidate).of_result(admitted, *result, outcome);
                }
                (candidate, First::Other(head, follower)) => return candidate.take(admitted, head, follower),
                (candidate, First::Neither) => asks = Asks::For(candidate.asking),
            },
        }
    }
}

/// Runs a script unless the response that another request has asked for is there before a worker has it.
async fn run_beside(admitted: &Admitted<'_>, script: &Arc<Script>, beside: Beside) -> (Box<Candidate>, First) {
    let waited = beside.candidate.asking.waited;
    let standing = Standing::new(waited);
    let turn = Turn { since: admitted.began + waited, standing: Some(&standing) };
    let own = async {
        match validate(admitted).await {
            Some(unchanged) => Ok(unchanged),
            None => run_script(admitted, script, RequestBody::None, turn).await,
        }
    };
    let (mut candidate, first) = beside.race(admitted, &standing, own).await;
    candidate.asking.waited = standing.waited();
    (candidate, first)
}

/// Asks the script that knows whether a page has changed since its client, or the cache, got it: 304 if it has not. Whatever else becomes of that
/// script, the page's own script runs.
async fn validate(admitted: &Admitted<'_>) -> Option<Response<Made>> {
    let &Admitted { application, request, path, .. } = admitted;
    let Request { head, .. } = request;
    let has_condition =
        || head.headers.contains_key(header::IF_NONE_MATCH) || head.headers.contains_key(header::IF_MODIFIED_SINCE);
    if application.validators.is_empty() || ![Method::GET, Method::HEAD].contains(&head.method) || !has_condition() {
        return None;
    }
    let below = application.validators.iter().filter(|(prefix, _)| is_at(path, prefix));
    let (_, name) = below.max_by_key(|(prefix, _)| prefix.len())?;
    let Route::Script(script) = route::route(application, name.as_bytes(), admitted.began) else { return None };
    // The future is large; a request without such a script does not hold room for it.
    let turn = Turn { since: admitted.began, standing: None };
    let asked = Box::pin(run_script(admitted, &script, RequestBody::None, turn));
    let response = tokio::time::timeout(VALIDATION, asked).await.ok()?.ok()?;
    (response.status() == StatusCode::NOT_MODIFIED).then_some(response)
}

/// Posts the request to the script's lane and waits for PHP.
async fn run_script(
    admitted: &Admitted<'_>,
    script: &Arc<Script>,
    body: RequestBody,
    turn: Turn<'_>,
) -> Result<Response<Made>, Refusal> {
    let &Admitted { request, application, .. } = admitted;
    let InForce { limits, account } = InForce::of(application, admitted.path, admitted.limits.as_deref());
    // A warm-up is not a client, even if a client has its address; nobody is none either.
    let is_nobody_s = request.by == By::Fetch && admitted.address() == NOBODY;
    let limit = if request.is_warm_up() || is_nobody_s { 0 } else { limits.client_requests };
    let mut permit = admitted.shared.clients.enter([&application.name, account, admitted.address()], limit)?;
    // `reprise verify` asks for classic mode, to compare it with the script's own mode.
    let mode = admitted.shared.token.mode(request);
    let stays = || admitted.view.stays_classic(admitted.number, admitted.path);
    let is_classic = is_below(admitted.path, &application.classic_paths) || stays() || mode == Some(Mode::Classic);
    let job = Job { admitted, script, is_classic, limits };
    let lane = job.lane()?;
    let expected = job.expected_body(lane, &body)?;
    let prefix = request_body::read_prefix(body, expected.limit, expected.patience).await?;
    // While the body came, the script may have got a lane, or its lane may have gone down.
    let lane = if expected.has_body { job.lane()? } else { lane };
    let ticket = match turn.standing {
        None => job.post(lane, prefix, &expected, (turn.since, false))?,
        Some(standing) => {
            let post = |yields, waited| job.post(lane, Prefix::none(), &expected, (admitted.began + waited, yields));
            standing.post(admitted, lane, post).await?
        }
    };
    let holding = Holding { spool: &admitted.shared.spool, limits: admitted.view.settings.limits.spool, application };
    let (mut response, notes) =
        response::receive(ticket, &request.head, application.server_timing, &request.connection, &holding).await?;
    if sent_file::is_named(response.headers(), application) {
        // What PHP itself writes is dropped. The client's permit is for PHP alone.
        response = sent_file::respond(response.headers(), application, request)?;
        drop(permit.take());
    } else {
        Dynamic::mark(admitted, &mut response);
    }
    if mode.is_some() {
        let mode = HeaderValue::from_static(if lane.is_classic() { "classic" } else { "own" });
        response.headers_mut().insert(MODE, mode);
    }
    if notes & (NOTE_SNAPSHOT | NOTE_WORKER_MODE) != 0 && lane.is_classic() && !is_classic {
        job.count_entry(notes);
    }
    Ok(response.map(|body| Made::of_php(body, permit, admitted.began, lane.clone())))
}

/// What is known of a request's body before all of it has come.
struct ExpectedBody {
    has_body: bool,
    /// Length in bytes, if the client named one.
    length: Option<u64>,
    /// Bytes that the body may have; 0: any number.
    limit: u64,
    /// The time that may pass between two parts.
    patience: Duration,
}

impl<'a> Job<'a> {
    /// The lane that runs the script now.
    fn lane(&self) -> Result<&'a Arc<Lane>, Refusal> {
        let Admitted { view, number, .. } = *self.admitted;
        // A boot of before the last save is not asked: classic mode looks at the files.
        let is_fresh = self
            .admitted
            .shared
            .dev
            .as_ref()
            .is_none_or(|dev| dev.fence.is_fresh(self.admitted.application.generation));
        let lane = match self.script.text().filter(|_| !self.is_classic && is_fresh) {
            Some(script) => view.find(number, script, self.admitted.origin()),
            None => view.classic(number),
        };
        lane.ok_or(Refusal::QueueFull)
    }

    /// The script's own lane, if it learns what the request takes in classic mode.
    fn compared(&self, runs_in: &Lane) -> Option<&Arc<Lane>> {
        let Admitted { view, number, .. } = *self.admitted;
        let script = self.script.text().filter(|_| runs_in.is_classic() && !self.is_classic)?;
        view.compared(number, script, self.admitted.origin())
    }

    /// What is known of the body before it is read. Refuses a body whose Content-Length is above the limit.
    fn expected_body(&self, lane: &Lane, body: &RequestBody) -> Result<ExpectedBody, Refusal> {
        let &Admitted { request, application, view, .. } = self.admitted;
        let (has_body, length) = match body {
            RequestBody::Stream(body) => (true, body.length()),
            RequestBody::None => (false, request.head.headers.contains_key(header::CONTENT_LENGTH).then_some(0)),
        };
        let limit = match in_force::max_body(application, self.admitted.limits.as_deref()) {
            Some(limit) => limit,
            None if has_body => {
                let (directory, name) = self.script.place(application);
                lane.bodies.limit(directory, name, length)
            }
            None => 0,
        };
        if limit > 0 && length.is_some_and(|length| length > limit) {
            return Err(Refusal::BodyTooLarge);
        }
        let patience = Duration::from_millis(view.settings.limits.body_timeout_ms);
        Ok(ExpectedBody { has_body, length, limit, patience })
    }

    /// Posts the request with the part of its body that has come; the rest follows as it comes. `since`: when its time in the queue has begun;
    /// `yields`: see [`Order::yields`].
    fn post(
        &self,
        lane: &Arc<Lane>,
        prefix: Prefix,
        body: &ExpectedBody,
        (since, yields): (Instant, bool),
    ) -> Result<Ticket, Refusal> {
        let &Admitted { request, application, view, .. } = self.admitted;
        let Prefix { mut bytes, rest } = prefix;
        let read = bytes.len() as u64;
        // The length of a whole body is known, even if the client did not name it.
        let content_length = body.length.or_else(|| (body.has_body && rest.is_none()).then_some(read));
        let facts = Facts {
            request,
            written: view.settings.proxy_headers,
            application,
            script: self.script,
            host: &self.admitted.name,
            content_length,
            has_body: body.has_body,
            query: self.admitted.query.as_deref(),
            user: self.admitted.user.as_deref(),
        };
        // A transport may have delivered more at once than the ring holds.
        let surplus = bytes.split_off(bytes.len().min(BODY_RING));
        let has_more = rest.is_some() || !surplus.is_empty();
        let ticket = SCRATCH.with_borrow_mut(|buffer| {
            let size = head::write(&facts, buffer).map_err(|_| Refusal::HeadTooLarge)?;
            let withdrawable = request.head.is_withdrawable();
            let (limits, connection, compared) = (self.limits, &request.connection, self.compared(lane).cloned());
            let order = Order { since, prefix: &bytes, has_more, limits, withdrawable, connection, yields, compared };
            doors::post(lane, &buffer[..size], order).ok_or(Refusal::QueueFull)
        })?;
        if has_more {
            let remainder = Remainder { surplus, rest, read, limit: body.limit };
            tokio::spawn(request_body::pump(remainder, ticket.body_sender(), body.patience));
        }
        Ok(ticket)
    }

    /// Notes that a script in classic mode asked for a lane of its own, if it may have one.
    fn count_entry(&self, notes: u32) {
        let admitted = self.admitted;
        let origin = (notes & NOTE_HOST != 0).then_some(admitted.origin());
        let may_be = origin.is_none_or(|origin| may_have_lane(admitted, origin.host));
        if let Some(script) = self.script.text().filter(|_| may_be) {
            let (key, is_worker_mode) = (LaneKey { script, origin }, notes & NOTE_WORKER_MODE != 0);
            admitted.shared.lanes.count_entry(admitted.application.generation, key, is_worker_mode);
        }
    }
}

/// Whether requests to this host may have a lane of their own. The configuration has to name the host, spelled like that,
/// and the port has to be the listener's. So no client can make lanes by inventing hosts.
fn may_have_lane(admitted: &Admitted<'_>, host: &str) -> bool {
    let (name, port) = split_port(host);
    let request = admitted.request;
    let is_own = |port| request.is_warm_up() || port == request.connection.peer.server_port;
    // A unix socket has no port, and neither has `Host: name:`.
    let is_fine = |port| !["", "80", "443"].contains(&port) && is_own(port);
    port.is_none_or(is_fine) && admitted.application.hosts.iter().any(|known| known == name)
}

/// Whether a path is one of these paths or below one.
fn is_below(path: &[u8], prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| is_at(path, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_others_are_found() {
        let prefixes = ["/cart".to_owned(), "/shop/".to_owned()];
        for path in ["/cart", "/cart/", "/cart/1", "/shop", "/shop/a/b"] {
            assert!(is_below(path.as_bytes(), &prefixes), "{path}");
        }
        for path in ["/", "/carts", "/a/cart", "/Cart"] {
            assert!(!is_below(path.as_bytes(), &prefixes), "{path}");
        }
        assert!(is_below(b"/x", &["/".to_owned()]));
    }
}
