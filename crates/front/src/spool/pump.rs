//! The task that reads a response as PHP writes it, and the body that sends what the task has read.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ipc::layout::Usage;
use tokio::task::{spawn_blocking, yield_now};

use super::Spool;
use super::queue::{Part, Queue, Step};
use super::store::Block;
use crate::file_body::{self, FileBody};
use mailbox::lane::{CHUNK, Ticket};
use routing::refusal::Refusal;
use routing::settings::SpoolLimits;

/// The body of a response that a task reads.
pub struct SpooledBody {
    queue: Arc<Queue>,
    /// A part in the file that is being sent, with its block.
    reading: Option<(FileBody, Block)>,
    /// Bytes that the next part may have.
    part: usize,
}

/// What follows in a body.
pub enum Next {
    /// These bytes.
    Bytes(Bytes),
    /// Nothing: this is what the request has used.
    End(Usage),
    /// It breaks off.
    Failed(io::Error),
}

impl SpooledBody {
    /// Starts the task. `begin` is what has been read of the body already.
    pub fn new(ticket: Ticket, begin: Bytes, spool: &Arc<Spool>, limits: SpoolLimits) -> SpooledBody {
        let queue = Arc::new(Queue::new(spool.clone(), limits, begin));
        tokio::spawn(pump(ticket, queue.clone()));
        SpooledBody { queue, reading: None, part: usize::MAX }
    }

    /// From now on no part is larger, but one that a thread of the pool reads already.
    pub fn limit_parts(&mut self, bytes: usize) {
        self.part = bytes;
        if let Some((body, _)) = &mut self.reading {
            body.limit_parts(bytes as u64);
        }
    }

    /// The next bytes.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            if let Some((body, _)) = &mut self.reading {
                match ready!(body.poll_next(context)) {
                    Some(Ok(bytes)) => return Poll::Ready(Next::Bytes(bytes)),
                    Some(Err(error)) => return Poll::Ready(Next::Failed(error)),
                    None => self.reading = None,
                }
            }
            match self.queue.next(self.part) {
                Some(Part::Memory(bytes) | Part::Writing(bytes, _)) => return Poll::Ready(Next::Bytes(bytes)),
                Some(Part::Disk(block, sent, length)) => {
                    let path = std::path::Path::new("(spool)").into();
                    let mut body = FileBody::new(block.file(), path, block.at() + sent, length);
                    body.limit_parts((self.part as u64).min(file_body::CHUNK));
                    self.reading = Some((body, block));
                }
                None => {
                    let mut state = self.queue.lock();
                    return match state.end() {
                        Some(Ok(usage)) => Poll::Ready(Next::End(usage)),
                        // The connection ends without the last chunk, so that the client notices.
                        Some(Err(why)) => Poll::Ready(Next::Failed(io::Error::other(why.describe().1))),
                        None => {
                            state.reader = Some(context.waker().clone());
                            Poll::Pending
                        }
                    };
                }
            }
        }
    }

    /// What the request has used, if all of the response has been given.
    pub fn end(&self) -> Option<Usage> {
        let is_reading = self.reading.as_ref().is_some_and(|(body, _)| body.left() > 0);
        self.queue.lock().end().filter(|_| !is_reading)?.ok()
    }
}

impl Drop for SpooledBody {
    /// The task gives up its ticket, by which PHP learns that nobody reads its response.
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

/// Reads a response to its end, or until nobody wants it.
async fn pump(ticket: Ticket, queue: Arc<Queue>) {
    loop {
        match poll_fn(|context| poll_read(&queue, &ticket, context)).await {
            Read::Some => yield_now().await,
            Read::Over(how) => return queue.end(how),
            Read::Write(block) => {
                if write(&queue, block).await.is_none() {
                    return;
                }
            }
            Read::Abandoned => return,
        }
    }
}

enum Read {
    Some,
    /// The tail is to be written to this block.
    Write(Block),
    Over(Result<Usage, Refusal>),
    Abandoned,
}

fn poll_read(queue: &Queue, ticket: &Ticket, context: &mut Context<'_>) -> Poll<Read> {
    let mut state = queue.lock();
    match queue.step(&mut state) {
        Step::End => Poll::Ready(Read::Abandoned),
        Step::Write(block) => Poll::Ready(Read::Write(block)),
        Step::Read => {
            if let Poll::Ready(received) = queue.fill(&mut state, |tail| ticket.poll_receive(context, tail, CHUNK)) {
                return Poll::Ready(match received {
                    Ok(received) if received.done => Read::Over(Ok(received.usage)),
                    Ok(_) => Read::Some,
                    Err(why) => Read::Over(Err(why)),
                });
            }
            // The task also has to learn that the client has left.
            state.writer = Some(context.waker().clone());
            Poll::Pending
        }
        Step::Wait => {
            state.writer = Some(context.waker().clone());
            Poll::Pending
        }
    }
}

/// Writes the tail to a block. `None`: nobody wants the response any more.
async fn write(queue: &Queue, block: Block) -> Option<()> {
    let bytes = queue.begin_write();
    let permit = unless_abandoned(queue, queue.spool.writes.clone().acquire_owned()).await?.ok()?;
    if !queue.is_to_be_written() {
        return Some(());
    }
    let task = spawn_blocking(move || {
        let _permit = permit;
        block.write(&bytes).map(|()| block)
    });
    let written = unless_abandoned(queue, task).await?.unwrap_or_else(|error| Err(io::Error::other(error)));
    let block = written.inspect_err(|error| queue.spool.failed(error)).ok();
    queue.end_write(block);
    Some(())
}

/// Waits for a future; `None`: nobody wants the response any more.
async fn unless_abandoned<T>(queue: &Queue, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        if queue.is_abandoned() {
            return Poll::Ready(None);
        }
        queue.lock().writer = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}
