//! A script in front of the last `</body>` of a page, or at its end, as the page streams by. What follows `</body>` is held back, because
//! another may come; everything before it goes on at once.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

/// What is looked for, whatever its case.
const END: &[u8] = b"</body";
/// Bytes behind it that are held back at most. A page with more gets the script here.
const MAX_HELD: usize = 64 * 1024;

type Next = Option<io::Result<Frame<Bytes>>>;

/// A page on its way.
pub struct Insertion {
    /// `None`: it has gone out.
    script: Option<Bytes>,
    /// It begins with [`END`], or may be its beginning.
    held: BytesMut,
    out: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    is_complete: bool,
}

/// A page that is there as a whole, with the script.
pub fn whole(page: &Bytes, script: &Bytes) -> Bytes {
    let at = last_end(page).unwrap_or(page.len());
    Bytes::from([&page[..at], script, &page[at..]].concat())
}

impl Insertion {
    /// Of that script.
    pub fn new(script: Bytes) -> Insertion {
        Insertion {
            script: Some(script),
            held: BytesMut::new(),
            out: VecDeque::new(),
            trailers: None,
            is_complete: false,
        }
    }

    /// Bytes that wait here.
    pub fn in_memory(&self) -> usize {
        self.held.len() + self.out.iter().map(Bytes::len).sum::<usize>()
    }

    /// Bytes that go out beside those that are still to come.
    pub fn to_come(&self) -> u64 {
        (self.in_memory() + self.script.as_ref().map_or(0, Bytes::len)) as u64
    }

    /// Whether nothing more goes out.
    pub fn is_end(&self) -> bool {
        self.is_complete && self.out.is_empty() && self.trailers.is_none()
    }

    /// The next part, of at most `part` bytes. `source`: the next part of the page.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        part: usize,
        mut source: impl FnMut(&mut Context<'_>) -> Poll<Next>,
    ) -> Poll<Next> {
        loop {
            if let Some(mut first) = self.out.pop_front() {
                let next = first.split_to(part.min(first.len()));
                if !first.is_empty() {
                    self.out.push_front(first);
                }
                return Poll::Ready(Some(Ok(Frame::data(next))));
            }
            if self.is_complete {
                return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            match ready!(source(context)) {
                None => self.complete(),
                // Without its end nobody takes the page for a whole one.
                Some(Err(error)) => {
                    self.is_complete = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.take(data),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        self.complete();
                    }
                },
            }
        }
    }

    fn take(&mut self, data: Bytes) {
        if self.script.is_none() {
            return self.send(data);
        }
        self.held.extend_from_slice(&data);
        if let Some(at) = last_end(&self.held) {
            let before = self.held.split_to(at).freeze();
            self.send(before);
            if self.held.len() > MAX_HELD {
                self.insert();
            }
            return;
        }
        let before = self.held.split_to(self.held.len() - begun(&self.held)).freeze();
        self.send(before);
    }

    fn complete(&mut self) {
        self.is_complete = true;
        // What was only the beginning of an end is text of the page.
        if last_end(&self.held).is_none() {
            let held = self.held.split().freeze();
            self.send(held);
        }
        self.insert();
    }

    /// The script goes out, and what was held back.
    fn insert(&mut self) {
        if let Some(script) = self.script.take() {
            self.send(script);
        }
        let held = self.held.split().freeze();
        self.send(held);
    }

    fn send(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.out.push_back(data);
        }
    }
}

fn last_end(page: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'<', page)
        .find(|at| page.get(*at..at + END.len()).is_some_and(|there| there.eq_ignore_ascii_case(END)))
}

/// How many of the last bytes may be the beginning of [`END`].
fn begun(page: &[u8]) -> usize {
    let is_begin = |count: &usize| page[page.len() - count..].eq_ignore_ascii_case(&END[..*count]);
    (1..END.len().min(page.len() + 1)).rev().find(is_begin).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page in parts of that many bytes, and how many were out before the last part came.
    fn streamed(page: &str, size: usize) -> (String, usize) {
        let mut insertion = Insertion::new(Bytes::from_static(b"[S]"));
        let mut parts: VecDeque<Bytes> = page.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let (mut out, mut before_end) = (Vec::new(), 0);
        loop {
            let next = insertion
                .poll_next(&mut context, 7, |_| Poll::Ready(parts.pop_front().map(|part| Ok(Frame::data(part)))));
            match next {
                Poll::Ready(Some(Ok(frame))) => out.extend_from_slice(&frame.into_data().unwrap()),
                Poll::Ready(None) => break,
                _ => panic!("nothing else comes"),
            }
            if !parts.is_empty() {
                before_end = out.len();
            }
        }
        assert!(insertion.is_end() && insertion.to_come() == 0);
        (String::from_utf8(out).unwrap(), before_end)
    }

    #[test]
    fn the_script_stands_before_the_last_end_of_a_body_however_the_page_is_cut() {
        for (page, expected) in [
            ("<body>x</body></html>\n", "<body>x[S]</body></html>\n"),
            ("<body>x</BODY >", "<body>x[S]</BODY >"),
            ("<script>'</body>'</script>x</body>", "<script>'</body>'</script>x[S]</body>"),
            ("no end <b", "no end <b[S]"),
            ("", "[S]"),
            ("</bod", "</bod[S]"),
            ("<</body>", "<[S]</body>"),
            ("</bo</body>", "</bo[S]</body>"),
        ] {
            for size in 1..10 {
                assert_eq!(streamed(page, size).0, expected, "{page} in parts of {size}");
            }
            let all = whole(&Bytes::copy_from_slice(page.as_bytes()), &Bytes::from_static(b"[S]"));
            assert_eq!(all, expected.as_bytes(), "{page}");
        }
    }

    #[test]
    fn what_comes_before_the_end_is_not_held_back() {
        let page = format!("{}</body>", "x".repeat(100));
        assert!(streamed(&page, 10).1 >= 90);
        let late = format!("</body>{}", "y".repeat(2 * MAX_HELD));
        let (out, before_end) = streamed(&late, 1000);
        assert!(out.starts_with("[S]</body>y") && before_end > MAX_HELD, "{before_end}");
    }
}
