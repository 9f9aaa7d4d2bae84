//! Compresses a body as it comes. What has come is not held back: when nothing more is there, what the encoder holds is flushed, so whatever PHP has
//! flushed reaches its client at once. Work is done in steps, after a few of which other requests have their turn.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;

use super::Coding;
use super::encoder::{Effort, Encoder};

/// Bytes that are compressed in one step.
pub const STEP: usize = 16 * 1024;
/// Steps before other requests have their turn.
pub const STEPS: usize = 2;
/// Bytes of output that go out together, unless there is less for now.
const PART: usize = 16 * 1024;
/// Bodies that are compressed as they come, at once. Their encoders have up to 1.8 MiB each; more bodies are sent as they are.
const MOST: usize = 128;

static SQUEEZED: AtomicUsize = AtomicUsize::new(0);

/// One of [`MOST`] places.
struct Slot;

impl Slot {
    fn take() -> Option<Slot> {
        let slot = Slot;
        if SQUEEZED.fetch_add(1, Ordering::Relaxed) < MOST { Some(slot) } else { None }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        SQUEEZED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The next part of a body.
type Next = Option<io::Result<Frame<Bytes>>>;

/// A body on its way through an encoder.
pub struct Squeeze {
    /// `None`: all has been compressed, or the body has broken off.
    encoder: Option<(Encoder, Slot)>,
    /// What has come and is not compressed yet.
    rest: Bytes,
    /// What is to be sent.
    ready: Bytes,
    trailers: Option<HeaderMap>,
    /// Why the body breaks off, behind what is still to be sent.
    broken: Option<io::Error>,
}

impl Squeeze {
    /// `None`: too many bodies are being compressed, or there is no memory.
    pub fn begin(coding: Coding) -> Option<Squeeze> {
        let slot = Slot::take()?;
        // A body may turn out to be shorter, and then must not end as if it were whole.
        let encoder = Encoder::new(coding, None, Effort::Once).ok()?;
        Some(Squeeze {
            encoder: Some((encoder, slot)),
            rest: Bytes::new(),
            ready: Bytes::new(),
            trailers: None,
            broken: None,
        })
    }

    /// Bytes that wait here.
    pub fn in_memory(&self) -> usize {
        self.rest.len() + self.ready.len() + self.encoder.as_ref().map_or(0, |(encoder, _)| encoder.ready())
    }

    /// Whether nothing more comes.
    pub fn is_end(&self) -> bool {
        self.encoder.is_none() && self.ready.is_empty() && self.trailers.is_none()
    }

    /// The next compressed part, of at most `part` bytes. `source`: the next part of the body.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        part: usize,
        mut source: impl FnMut(&mut Context<'_>) -> Poll<Next>,
    ) -> Poll<Next> {
        let mut steps = 0;
        loop {
            if !self.ready.is_empty() {
                let next = self.ready.split_to(part.min(self.ready.len()));
                return Poll::Ready(Some(Ok(Frame::data(next))));
            }
            let Some((encoder, _)) = &mut self.encoder else {
                return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            };
            let result = if !self.rest.is_empty() {
                if steps == STEPS {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                steps += 1;
                let next = self.rest.split_to(STEP.min(self.rest.len()));
                encoder.write(&next).map(|()| {
                    if encoder.ready() >= PART {
                        self.ready = encoder.take();
                    }
                })
            } else if let Some(error) = self.broken.take() {
                Err(error)
            } else {
                match source(context) {
                    Poll::Pending if encoder.is_flushed() && encoder.ready() == 0 => return Poll::Pending,
                    Poll::Pending => encoder.flush().map(|()| self.ready = encoder.take()),
                    Poll::Ready(None) => self.finish(),
                    Poll::Ready(Some(Err(error))) => {
                        self.broken = Some(error);
                        encoder.flush().map(|()| self.ready = encoder.take())
                    }
                    Poll::Ready(Some(Ok(frame))) => self.take(frame),
                }
            };
            if let Err(error) = result {
                // Without its end no client takes the stream for a whole one.
                self.encoder = None;
                self.rest = Bytes::new();
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn take(&mut self, frame: Frame<Bytes>) -> io::Result<()> {
        match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                Ok(())
            }
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                self.finish()
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some((encoder, _)) = self.encoder.take() {
            self.ready = encoder.finish()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::encoder::tests::{decoded, text};

    fn data(bytes: &[u8]) -> Poll<Next> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(bytes)))))
    }

    /// What comes out of these parts, up to the first time that nothing does; and the error at its end.
    fn squeezed(squeeze: &mut Squeeze, parts: &mut Vec<Poll<Next>>, most: usize) -> (Vec<u8>, Poll<Option<io::Error>>) {
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let had = parts.len();
            match squeeze.poll_next(
                &mut context,
                most,
                |_| if parts.is_empty() { Poll::Pending } else { parts.remove(0) },
            ) {
                Poll::Pending if parts.len() < had || !squeeze.rest.is_empty() => {}
                Poll::Pending => return (all, Poll::Pending),
                Poll::Ready(None) => return (all, Poll::Ready(None)),
                Poll::Ready(Some(Err(error))) => return (all, Poll::Ready(Some(error))),
                Poll::Ready(Some(Ok(frame))) => {
                    let bytes = frame.into_data().unwrap();
                    assert!(bytes.len() <= most);
                    all.extend_from_slice(&bytes);
                }
            }
        }
    }

    #[test]
    fn all_that_has_come_is_out_when_nothing_more_is_there() {
        for coding in Coding::ALL {
            let mut squeeze = Squeeze::begin(coding).unwrap();
            let (mut sent, mut came) = (Vec::new(), Vec::new());
            for size in [10, 200_000, 1, 70_000] {
                let text = text(size);
                came.extend_from_slice(&text);
                let (out, end) = squeezed(&mut squeeze, &mut vec![data(&text)], 1000);
                assert!(end.is_pending() && !squeeze.is_end());
                sent.extend_from_slice(&out);
                assert!(decoded(coding, &sent).0 == came, "{coding:?} {size}");
            }
            let (out, end) = squeezed(&mut squeeze, &mut vec![Poll::Ready(None)], usize::MAX);
            assert!(matches!(end, Poll::Ready(None)) && squeeze.is_end());
            sent.extend_from_slice(&out);
            let (all, result) = decoded(coding, &sent);
            assert!(result.is_ok() && all == came);
        }
    }

    #[test]
    fn a_body_that_breaks_off_has_no_end() {
        for coding in Coding::ALL {
            let text = text(50_000);
            let mut parts = vec![data(&text), Poll::Ready(Some(Err(io::Error::other("broken"))))];
            let mut squeeze = Squeeze::begin(coding).unwrap();
            let (sent, end) = squeezed(&mut squeeze, &mut parts, usize::MAX);
            assert!(matches!(end, Poll::Ready(Some(_))), "{coding:?}");
            let (all, result) = decoded(coding, &sent);
            assert!(result.is_err() && all == text, "{coding:?}: {} bytes", all.len());
        }
    }

    #[test]
    fn trailers_follow_the_end_of_the_stream() {
        let mut squeeze = Squeeze::begin(Coding::Gzip).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", http::HeaderValue::from_static("1"));
        let mut parts = vec![Poll::Ready(Some(Ok(Frame::trailers(trailers.clone())))), data(&text(100))];
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || squeeze.poll_next(&mut context, usize::MAX, |_| parts.pop().unwrap_or(Poll::Pending));
        let Poll::Ready(Some(Ok(first))) = next() else { panic!("no body") };
        assert_eq!(decoded(Coding::Gzip, &first.into_data().unwrap()).0, text(100));
        let Poll::Ready(Some(Ok(last))) = next() else { panic!("no trailers") };
        assert_eq!(last.into_trailers().ok(), Some(trailers));
        assert!(matches!(next(), Poll::Ready(None)));
        assert!(squeeze.is_end());
    }

    #[test]
    fn others_have_their_turn() {
        let mut squeeze = Squeeze::begin(Coding::Gzip).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut parts = vec![Poll::Ready(None), data(&vec![b'x'; 10_000_000])];
        let mut turns = 0;
        while squeeze.poll_next(&mut context, usize::MAX, |_| parts.pop().unwrap_or(Poll::Pending)).is_pending() {
            turns += 1;
        }
        assert!(turns > 100 / STEPS, "{turns}");
    }
}
