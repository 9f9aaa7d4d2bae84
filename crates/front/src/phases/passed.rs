//! The phase "run" of a request that another server responds to.

use std::time::Duration;

use cache::key::Key;
use http::Response;

use super::admit::Admitted;
use super::compress::Dynamic;
use super::look_up::{self, Looked};
use crate::response_body::ResponseBody;
use crate::upstream::{self, Order};
use crate::wrapped::Made;
use cache_store::stored::asking::Asks;
use inbound::request::RequestBody;
use routing::in_force;
use routing::refusal::Refusal;
use routing::rules::rule::Upstream;
use routing::rules::table::Verdict;

/// Asks the cache for the response of an upstream, and passes the request on if it has none. `target`: path and query, if the rule says them;
/// `asks`: what the request asks the cache for.
pub(super) async fn pass(
    admitted: &Admitted<'_>,
    verdict: &Verdict<'_>,
    upstream: &Upstream,
    target: Option<&[u8]>,
    asks: Asks,
    body: RequestBody,
) -> Result<Response<Made>, Refusal> {
    let outcome = || {
        let mut outcome = Key::new();
        outcome.add(upstream.name.as_bytes());
        for part in [target, verdict.path.as_deref(), admitted.query.as_deref()] {
            match part {
                Some(part) => outcome.add(part),
                None => outcome.absent(),
            };
        }
        outcome
    };
    match look_up::look_up(admitted, asks, outcome).await {
        Looked::Answered(result) => result,
        // An upstream has no workers that are counted here: a request is passed on as without the cache.
        Looked::Beside(beside) => {
            let result = pass_on(admitted, verdict, upstream, target, body).await;
            beside.alone().of_result(admitted, result, outcome)
        }
        Looked::Run(keeping) => {
            keeping.of_result(admitted, pass_on(admitted, verdict, upstream, target, body).await, outcome)
        }
    }
}

/// Passes the request on.
async fn pass_on(
    admitted: &Admitted<'_>,
    verdict: &Verdict<'_>,
    upstream: &Upstream,
    target: Option<&[u8]>,
    body: RequestBody,
) -> Result<Response<Made>, Refusal> {
    let &Admitted { shared, view, request, application, .. } = admitted;
    let sent = &request.head.target;
    let target = target.map_or_else(
        || {
            let mut target = routing::target::for_upstream(sent.path(), admitted.path, verdict.path.as_deref());
            let query = admitted.query.as_deref().or(sent.query().map(str::as_bytes));
            if let Some(query) = query {
                target.push(b'?');
                target.extend_from_slice(query);
            }
            target
        },
        <[u8]>::to_vec,
    );
    let most = in_force::max_body(application, admitted.limits.as_deref()).unwrap_or(0);
    let patience = Duration::from_millis(view.settings.limits.body_timeout_ms);
    let order = Order {
        upstreams: &shared.upstreams,
        lanes: &shared.lanes,
        request,
        upstream,
        generation: application.generation,
        target,
        host: admitted.host,
        limits: upstream::exchange::limits(most, patience),
    };
    let mut response = upstream::pass(&order, body).await?;
    Dynamic::mark(admitted, &mut response);
    let reader = || request.connection.clone();
    Ok(response
        .map(|body| Made::plain(body.map_or_else(ResponseBody::none, |body| ResponseBody::received(body, reader())))))
}
