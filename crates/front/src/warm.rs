//! Warm-up: the configured requests that a generation serves before it gets a client's request. They count as requests from
//! this machine and are not in the access log. The supervisor is told how each of them went.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, Version};
use http_body::Body;
use ipc::control::FromFront;

use crate::phases::respond;
use crate::shared::Shared;
use crate::wrapped::Made;
use inbound::connection::{Connection, Nobody, Peer};
use inbound::control::Link;
use inbound::request::{By, Head, Request, RequestBody};
use routing::refusal::Refusal;
use routing::settings::{Application, Warmup};

/// Bytes of a failed response that the supervisor is told.
const TOLD: usize = 2048;

/// Makes the warm-up requests of a generation, one at a time.
pub async fn warm_up(shared: &Arc<Shared>, link: &Arc<dyn Link>, generation: u32) {
    // The generation may have been refused meanwhile: then no settings name it.
    for index in 0.. {
        let Some((view, number)) = shared.lanes.view_of(generation) else { break };
        let application = &view.settings.applications[number];
        let Some(request) = application.warmup.get(index) else { break };
        let began = Instant::now();
        let (status, beginning) = match build(application, request) {
            Ok(head) => {
                let mut asked = request_of(head, number, view.settings.https_port_of(application));
                told(respond(shared, &view, &mut asked, began).await).await
            }
            Err(why) => (0, why.into_bytes()),
        };
        let message = FromFront::WarmUp {
            generation,
            index: index as u32,
            status: u32::from(status),
            took_us: began.elapsed().as_micros().try_into().unwrap_or(u64::MAX),
        };
        // If there is no descriptor left, the text of the response is lost, but not its status.
        let file = rustix::fs::memfd_create("reprise-response", rustix::fs::MemfdFlags::CLOEXEC);
        match file.and_then(|file| rustix::io::pwrite(&file, &beginning, 0).map(|_| file)) {
            Ok(file) => link.send_with(&message, &[file.as_fd()]),
            Err(_) => link.send(&message),
        }
    }
}

/// Enters the phases at the same place as requests of clients. Forwarding headers are believed, so that a warm-up can ask
/// for what is served over HTTPS.
pub fn request_of(head: Head, application: usize, https: Option<u16>) -> Request {
    let connection = Connection { peer: Arc::new(Peer::ourselves(https)), client: Box::new(Nobody) };
    Request {
        head,
        body: RequestBody::None,
        connection: Arc::new(connection),
        behind: None,
        refusal: None,
        by: By::WarmUp(application),
    }
}

fn build(application: &Application, request: &Warmup) -> Result<Head, String> {
    let method = request.method.parse().map_err(|_| format!("{:?} is no method", request.method))?;
    let target = request.path.parse().map_err(|_| format!("{:?} is no path", request.path))?;
    let mut headers = HeaderMap::new();
    let host = application.hosts.iter().find(|host| !host.starts_with('*')).map_or("localhost", String::as_str);
    for (name, value) in
        std::iter::once(("host", host)).chain(request.headers.iter().map(|(a, b)| (a.as_str(), b.as_str())))
    {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no header's name"))?;
        let value = HeaderValue::from_str(value).map_err(|_| format!("{value:?} is no header's value"))?;
        headers.insert(name, value);
    }
    headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static("reprise-warmup"));
    Ok(Head::new(method, target, Version::HTTP_11, headers, None))
}

/// What the supervisor is told of a response: its status, and the beginning of its body or the word of the refusal.
async fn told(result: Result<Response<Made>, Refusal>) -> (u16, Vec<u8>) {
    match result {
        Ok(response) => (response.status().as_u16(), read(response.into_body()).await),
        Err(refusal) => {
            let (status, word) = refusal.describe();
            (status.as_u16(), format!("Reprise: {word}").into_bytes())
        }
    }
}

/// Reads a response to its end and returns its beginning.
async fn read(mut body: impl Body<Data = bytes::Bytes> + Unpin) -> Vec<u8> {
    let mut beginning = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.into_data() {
            let room = TOLD - beginning.len();
            beginning.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    beginning
}
