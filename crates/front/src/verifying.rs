//! Requests by which the supervisor has a generation compared with classic mode before visitors come (the option `verify_on_reload`). They come by
//! a socket of their own, which no client can reach. Each names its mode, and is otherwise made as a warm-up is ([`crate::warm`]): by this
//! generation, which may not serve visitors yet, from this machine, kept for nobody, and not in the access log.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Instant;

use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::phases::{or_refusal, respond};
use crate::shared::Shared;
use crate::transport::body_of;
use crate::warm;
use crate::wrapped::{Delivered, Logged, Made};
use inbound::request::Head;
use routing::refusal::Refusal;

/// Serves the requests of a connection until its other end is closed.
pub async fn serve(shared: Arc<Shared>, generation: u32, socket: OwnedFd) -> io::Result<()> {
    let stream = StdStream::from(socket);
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, generation, request).await) }
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}

async fn answer(shared: &Arc<Shared>, generation: u32, request: hyper::Request<Incoming>) -> Response<Delivered> {
    let made = make(shared, generation, request).await;
    or_refusal(made).map(|body| Logged::new(body, None))
}

async fn make(
    shared: &Arc<Shared>,
    generation: u32,
    request: hyper::Request<Incoming>,
) -> Result<Response<Made>, Refusal> {
    let began = Instant::now();
    // The generation may have been refused meanwhile.
    let (view, number) = shared.lanes.view_of(generation).ok_or(Refusal::QueueFull)?;
    let (head, body) = request.into_parts();
    let head = Head::new(head.method, head.uri, head.version, head.headers, None);
    let application = &view.settings.applications[number];
    let mut request = warm::request_of(head, number, view.settings.https_port_of(application));
    request.body = body_of(body);
    respond(shared, &view, &mut request, began).await
}
