//! Bodies of requests, as they go to PHP.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::lane::RequestBodySender;
use inbound::request::{BodyStream, RequestBody};
use routing::refusal::Refusal;

/// The beginning of a request's body, read before a worker is asked for: a small body that comes slowly holds no worker,
/// and one that breaks off never reaches PHP.
pub struct Prefix {
    /// Bytes of the body: at least [`PREFIX`], unless the whole body is shorter.
    pub bytes: Vec<u8>,
    /// The rest of the body, if it is larger.
    pub rest: Option<Box<dyn BodyStream>>,
}

impl Prefix {
    /// That of a request without a body.
    pub const fn none() -> Prefix {
        Prefix { bytes: Vec::new(), rest: None }
    }
}

/// Bytes of a body that are read before its request is posted.
pub const PREFIX: usize = 16 * 1024;

const _: () = assert!(PREFIX <= ipc::layout::BODY_RING);

/// Reads the prefix. `limit` 0: any length.
pub async fn read_prefix(body: RequestBody, limit: u64, patience: Duration) -> Result<Prefix, Refusal> {
    let mut bytes = Vec::new();
    let RequestBody::Stream(mut body) = body else { return Ok(Prefix { bytes, rest: None }) };
    while let Some(part) = next_part(&mut *body, patience).await? {
        bytes.extend_from_slice(&part);
        if limit > 0 && bytes.len() as u64 > limit {
            return Err(Refusal::BodyTooLarge);
        }
        if bytes.len() >= PREFIX && !body.is_complete() {
            return Ok(Prefix { bytes, rest: Some(body) });
        }
    }
    Ok(Prefix { bytes, rest: None })
}

async fn next_part(body: &mut dyn BodyStream, patience: Duration) -> Result<Option<Bytes>, Refusal> {
    match within(patience, poll_fn(|context| body.poll_part(context))).await {
        None => Err(Refusal::BodyTimeout),
        Some(None) => Ok(None),
        // The client may have left: then nobody reads the refusal.
        Some(Some(part)) => part.map(Some).map_err(|_| Refusal::BadFraming),
    }
}

/// The part of a body that PHP gets while it runs.
pub struct Remainder {
    /// Bytes that have been read and do not fit into the ring.
    pub surplus: Vec<u8>,
    /// What is still to be read.
    pub rest: Option<Box<dyn BodyStream>>,
    /// Bytes of the body read so far.
    pub read: u64,
    /// Bytes that the body may have; 0: any number.
    pub limit: u64,
}

/// Bytes per second that a body has to bring on average once it holds a worker. The time between two of its parts has a
/// limit of its own.
pub const MIN_RATE: u64 = 500;

/// Passes the remainder of a body on to PHP, until the body ends or PHP takes no more. Runs beside the response.
pub async fn pump(remainder: Remainder, sender: RequestBodySender, patience: Duration) {
    let Remainder { surplus, mut rest, mut read, limit } = remainder;
    let mut bytes = Bytes::from(surplus);
    let (began, had) = (Instant::now(), read);
    loop {
        while !bytes.is_empty() {
            match poll_fn(|context| sender.poll_send(context, &bytes)).await {
                Ok(count) => drop(bytes.split_to(count)),
                Err(_) => return,
            }
        }
        let Some(body) = &mut rest else { return sender.end() };
        bytes = match next_part(&mut **body, patience).await {
            Ok(Some(part)) => part,
            Ok(None) => return sender.end(),
            Err(why) => return sender.fail(why),
        };
        read += bytes.len() as u64;
        if limit > 0 && read > limit {
            return sender.fail(Refusal::BodyTooLarge);
        }
        if began.elapsed() > patience + Duration::from_secs((read - had) / MIN_RATE) {
            return sender.fail(Refusal::BodyTimeout);
        }
    }
}

/// The future's output, or `None` if it took longer. Makes no timer if the output is ready at once.
async fn within<T>(patience: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    match first {
        Poll::Ready(output) => Some(output),
        Poll::Pending => tokio::time::timeout(patience, future).await.ok(),
    }
}
