//! Warm-up: the configured requests, made of a generation before any visitor's goes there. They come from this machine, are
//! in no access log, and what they answer is told to the supervisor.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http_body::Body;
use hyper::Request;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use tokio::sync::mpsc::UnboundedReceiver;
use wire::control::{Kind, Message};

use crate::connection::{Nobody, Peer};
use crate::control::Link;
use crate::forwarded::{self, Client};
use crate::lanes::View;
use crate::service::{Connection, respond};
use crate::settings::{Application, Warmup};
use crate::shared::Shared;

/// Bytes of an answer that are told, if it is a failure.
const TOLD: usize = 2048;

/// Warms up the generations that are wanted, one request at a time.
pub async fn run(shared: Arc<Shared>, link: Arc<dyn Link>, mut wanted: UnboundedReceiver<u32>) {
    while let Some(generation) = wanted.recv().await {
        // It may be refused meanwhile: then no settings name it.
        for index in 0.. {
            let Some((view, number)) = shared.lanes.view_of(generation) else { break };
            let application = &view.settings.applications[number];
            let Some(request) = application.warmup.get(index) else { break };
            let connection = Connection {
                shared: shared.clone(),
                peer: Arc::new(Peer::ourselves()),
                client: Arc::new(Nobody),
                warms: Some(number),
            };
            let began = Instant::now();
            let answered = match build(application, request) {
                Ok(parts) => {
                    match respond(&connection, &view, asker(&view, &parts).as_ref(), &parts, None, began).await {
                        Ok(response) => {
                            let status = response.status().as_u16();
                            (status, read(response.into_body()).await)
                        }
                        Err(refusal) => {
                            let (status, word) = refusal.describe();
                            (status.as_u16(), format!("Reprise: {word}").into_bytes())
                        }
                    }
                }
                Err(why) => (0, why.into_bytes()),
            };
            let message = Message {
                application: generation,
                slot: index as u32,
                status: i32::from(answered.0),
                limit: began.elapsed().as_micros().try_into().unwrap_or(u64::MAX),
                ..Message::new(Kind::WarmUp)
            };
            // Without a descriptor to spare its words are lost, not the answer.
            let file = rustix::fs::memfd_create("reprise-answer", rustix::fs::MemfdFlags::CLOEXEC);
            match file.and_then(|file| rustix::io::pwrite(&file, &answered.1, 0).map(|_| file)) {
                Ok(file) => link.send_with(&message, &[file.as_fd()]),
                Err(_) => link.send(&message),
            }
        }
    }
}

/// Whom a request says that it is for, as one from a proxy does: for warm-ups of what is asked for by https.
fn asker(view: &View, parts: &Parts) -> Option<Client> {
    forwarded::client(&parts.headers, &view.settings.proxies, view.settings.proxy_headers)
}

fn build(application: &Application, request: &Warmup) -> Result<Parts, String> {
    let mut made = Request::new(());
    *made.method_mut() = request.method.parse().map_err(|_| format!("{:?} is no method", request.method))?;
    *made.uri_mut() = request.path.parse().map_err(|_| format!("{:?} is no path", request.path))?;
    let host = application.hosts.iter().find(|host| !host.starts_with('*')).map_or("localhost", String::as_str);
    for (name, value) in
        std::iter::once(("host", host)).chain(request.headers.iter().map(|(a, b)| (a.as_str(), b.as_str())))
    {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no header's name"))?;
        let value = HeaderValue::from_str(value).map_err(|_| format!("{value:?} is no header's value"))?;
        made.headers_mut().insert(name, value);
    }
    made.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static("reprise-warmup"));
    Ok(made.into_parts().0)
}

/// Reads an answer to its end; gives its beginning.
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
