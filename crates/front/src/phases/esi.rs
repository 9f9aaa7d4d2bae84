//! Fills the holes of a page (ESI): each is a request of its own through all phases, the cache included, and all of a page run at once. It comes after
//! the cache, which stores pages with their holes.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use cache::esi::{self, Include, Part};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, Uri};
use http_body::Body;
use tokio::task::JoinSet;

use super::{compress, respond};
use crate::lanes::View;
use crate::response_body::ResponseBody;
use crate::shared::Shared;
use crate::wrapped::Made;
use inbound::host;
use inbound::request::{By, Head, Request, RequestBody};
use routing::refusal::Refusal;
use routing::route;

/// What is left of what a whole page may have: with the holes in its holes.
struct Budget {
    holes: AtomicUsize,
    bytes: AtomicUsize,
}

impl Budget {
    fn take(left: &AtomicUsize, count: usize) -> Result<(), Refusal> {
        let took = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count));
        took.map(drop).map_err(|_| Refusal::BadResponse)
    }
}

/// Holes in pages in holes, at most.
const MOST_DEPTH: u8 = 3;
/// Headers that a hole's request does not have: they concern the page.
const OF_PAGE: [HeaderName; 12] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::EXPECT,
    header::UPGRADE,
];
/// Headers that say something of the page as it was with its holes.
const OF_TEMPLATE: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::ETAG,
    header::LAST_MODIFIED,
    header::EXPIRES,
    header::ACCEPT_RANGES,
    header::AGE,
    esi::CONTROL,
];

/// Fills the holes of a response, if its application has `esi` and the response says that it has some.
pub(super) async fn fill(
    shared: &Arc<Shared>,
    view: &Arc<View>,
    request: &Request,
    response: Response<Made>,
) -> Result<Response<Made>, Refusal> {
    if !esi::is_said(response.headers()) {
        return Ok(response);
    }
    let Ok(sent) = host::named(&request.head) else { return Ok(response) };
    let sent = sent.to_owned();
    let application = route::application(&view.settings.applications, &host::name(&sent));
    let Some((_, application)) = application.filter(|(_, application)| application.esi) else { return Ok(response) };
    let bytes = AtomicUsize::new(application.cache_object as usize);
    let budget = Arc::new(Budget { holes: AtomicUsize::new(esi::MOST), bytes });
    let place = Place { shared, view, request, host: &sent, budget };
    // The future is large; a connection without such pages does not hold room for it.
    Box::pin(filled(&place, response, MOST_DEPTH)).await
}

/// Where holes are.
struct Place<'a> {
    shared: &'a Arc<Shared>,
    view: &'a Arc<View>,
    request: &'a Request,
    host: &'a str,
    budget: Arc<Budget>,
}

async fn filled(place: &Place<'_>, mut response: Response<Made>, depth: u8) -> Result<Response<Made>, Refusal> {
    compress::is_filled(&mut response);
    let (mut head, body) = response.into_parts();
    for name in &OF_TEMPLATE {
        head.headers.remove(name);
    }
    // What stands in the holes may be for one visitor, or change at any time.
    head.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if place.request.head.method == Method::HEAD {
        return Ok(Response::from_parts(head, body));
    }
    let page = whole(body, Some(&place.budget)).await?;
    let parts = esi::parts(&page).map_err(|_| Refusal::BadResponse)?;
    let mut fetched = fetch(place, &parts, depth).await?;
    let mut filled = BytesMut::with_capacity(page.len());
    for (number, part) in parts.into_iter().enumerate() {
        match part {
            Part::Text(range) => filled.extend_from_slice(&page[range]),
            Part::Include(_) => filled.extend_from_slice(&fetched[number].take().unwrap_or_default()),
        }
    }
    head.headers.insert(header::CONTENT_LENGTH, filled.len().into());
    Ok(Response::from_parts(head, Made::plain(ResponseBody::full(filled.freeze()))))
}

/// What is to stand in the holes, by the number of the part. All are fetched at once.
async fn fetch(place: &Place<'_>, parts: &[Part], depth: u8) -> Result<Vec<Option<Bytes>>, Refusal> {
    let mut tasks = JoinSet::new();
    for (number, part) in parts.iter().enumerate() {
        let Part::Include(include) = part else { continue };
        let left = depth.checked_sub(1).ok_or(Refusal::BadResponse)?;
        Budget::take(&place.budget.holes, 1)?;
        let budget = place.budget.clone();
        let (shared, view, host) = (place.shared.clone(), place.view.clone(), place.host.to_owned());
        let requests = requests(place, include);
        let may_fail = include.may_fail;
        tasks.spawn(async move {
            for request in requests {
                if let Ok(bytes) = one(&shared, &view, request, &host, (left, &budget)).await {
                    return (number, Some(bytes));
                }
            }
            (number, may_fail.then(Bytes::new))
        });
    }
    let mut fetched = vec![None; parts.len()];
    while let Some(done) = tasks.join_next().await {
        let (number, bytes) = done.map_err(|_| Refusal::BadResponse)?;
        fetched[number] = Some(bytes.ok_or(Refusal::BadResponse)?);
    }
    Ok(fetched)
}

/// The requests for a hole: by its first URL, then by the other one. A URL of another host is none.
fn requests(place: &Place<'_>, include: &Include) -> Vec<Request> {
    let urls = std::iter::once(&include.src).chain(&include.alt);
    urls.filter_map(|url| {
        let target: Uri = esi::target(url, place.host)?.parse().ok()?;
        let request = place.request;
        let mut headers: HeaderMap = request.head.headers.clone();
        for name in &OF_PAGE {
            headers.remove(name);
        }
        // An absolute target names the host; that of a hole does not.
        headers.insert(header::HOST, HeaderValue::from_str(place.host).ok()?);
        Some(Request {
            head: Head::new(Method::GET, target, request.head.protocol, headers, None),
            body: RequestBody::None,
            connection: request.connection.clone(),
            behind: request.behind.clone(),
            refusal: None,
            by: By::Fragment,
        })
    })
    .collect()
}

/// What stands in a hole. The future is boxed because a hole may have holes itself.
fn one<'a>(
    shared: &'a Arc<Shared>,
    view: &'a Arc<View>,
    mut request: Request,
    host: &'a str,
    (depth, budget): (u8, &'a Arc<Budget>),
) -> Pin<Box<dyn Future<Output = Result<Bytes, Refusal>> + Send + 'a>> {
    Box::pin(async move {
        let mut response = respond(shared, view, &mut request, Instant::now()).await?;
        let has_holes = esi::is_said(response.headers());
        if has_holes {
            let place = Place { shared, view, request: &request, host, budget: budget.clone() };
            response = filled(&place, response, depth).await?;
        }
        if !response.status().is_success() {
            return Err(Refusal::BadResponse);
        }
        // What was filled has been counted as it came.
        whole(response.into_body(), Some(budget).filter(|_| !has_holes)).await
    })
}

/// A whole body, within what is left for the page.
async fn whole(mut body: Made, budget: Option<&Arc<Budget>>) -> Result<Bytes, Refusal> {
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(part) = frame.map_err(|_| Refusal::BadResponse)?.into_data() else { continue };
        if let Some(budget) = budget {
            Budget::take(&budget.bytes, part.len())?;
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}
