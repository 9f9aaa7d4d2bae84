//! What one response has in the spool: parts in the order in which PHP has written them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use ipc::layout::Usage;

use super::Spool;
use super::store::{BLOCK, Block};
use routing::refusal::Refusal;
use routing::settings::SpoolLimits;

/// Bytes that are read at once, at most.
pub const PART: usize = mailbox::lane::CHUNK;

/// The parts of one response.
pub struct Queue {
    state: Mutex<State>,
    pub spool: Arc<Spool>,
    limits: SpoolLimits,
}

/// A part of a response.
pub enum Part {
    /// In memory.
    Memory(Bytes),
    /// In memory, while it is written to the file. Only the last part can be one. So many bytes before these were sent
    /// meanwhile.
    Writing(Bytes, u64),
    /// In the file: from where in the block, and its length.
    Disk(Block, u64, u64),
}

/// What the task has to do next.
pub enum Step {
    /// Read from PHP to the tail.
    Read,
    /// Write the tail to this block.
    Write(Block),
    /// Wait for the client.
    Wait,
    /// End: nobody wants the response.
    End,
}

pub struct State {
    parts: VecDeque<Part>,
    /// What follows the parts.
    tail: Vec<u8>,
    /// Bytes in memory, as they are counted for the spool.
    memory: u64,
    /// Bytes of its blocks in the file.
    disk: u64,
    /// A block that the tail will be written to.
    reserved: Option<Block>,
    /// How the response has ended.
    over: Option<Result<Usage, Refusal>>,
    is_abandoned: bool,
    /// Whether it has been counted as a response that PHP was faster with than the client.
    is_counted: bool,
    is_full: bool,
    has_failed: bool,
    /// Who sends the response waits for bytes.
    pub reader: Option<Waker>,
    /// The task waits for the client.
    pub writer: Option<Waker>,
}

impl Queue {
    /// Begins with what PHP has written already.
    pub fn new(spool: Arc<Spool>, limits: SpoolLimits, begin: Bytes) -> Queue {
        let state = State {
            parts: VecDeque::new(),
            tail: Vec::new(),
            memory: 0,
            disk: 0,
            reserved: None,
            over: None,
            is_abandoned: false,
            is_counted: false,
            is_full: false,
            has_failed: false,
            reader: None,
            writer: None,
        };
        let queue = Queue { state: Mutex::new(state), spool, limits };
        if !begin.is_empty() {
            let mut state = queue.lock();
            queue.charge(&mut state, begin.len() as i64);
            state.parts.push_back(Part::Memory(begin));
        }
        queue
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that have come to memory, or left it.
    fn charge(&self, state: &mut State, bytes: i64) {
        state.memory = state.memory.saturating_add_signed(bytes);
        self.spool.memory.fetch_add(bytes, Ordering::Relaxed);
    }

    fn has_room(&self, state: &State, more: usize) -> bool {
        let (more, all) = (more as u64, self.spool.memory.load(Ordering::Relaxed).max(0) as u64);
        state.memory + more <= self.limits.memory && all + more <= self.limits.memory_total
    }

    /// Takes a block for the tail, if it has none yet.
    fn reserve(&self, state: &mut State) -> bool {
        if state.reserved.is_none() && !state.has_failed && state.disk + BLOCK <= self.limits.disk {
            state.reserved = self.spool.store.as_ref().and_then(|store| store.take(self.limits.disk_total));
        }
        state.reserved.is_some()
    }

    /// What is to be done next.
    pub fn step(&self, state: &mut State) -> Step {
        if state.is_abandoned {
            return Step::End;
        }
        if state.is_tail_full() && self.has_room(state, 0) {
            let tail = std::mem::take(&mut state.tail);
            state.parts.push_back(Part::Memory(tail.into()));
        }
        if state.is_empty() {
            return Step::Read;
        }
        if !state.is_counted {
            state.is_counted = true;
            self.spool.responses.fetch_add(1, Ordering::Relaxed);
        }
        if !state.is_tail_full() && (self.has_room(state, PART) || self.reserve(state)) {
            return Step::Read;
        }
        if state.is_tail_full() && self.reserve(state) {
            if let Some(block) = state.reserved.take() {
                return Step::Write(block);
            }
        }
        if !state.is_full {
            state.is_full = true;
            self.spool.full.fetch_add(1, Ordering::Relaxed);
        }
        Step::Wait
    }

    /// Lets `read` append to the tail.
    pub fn fill<R>(&self, state: &mut State, read: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = state.tail.len();
        let result = read(&mut state.tail);
        let count = state.tail.len() - before;
        self.charge(state, count as i64);
        if count > 0 {
            state.wake_reader();
        }
        result
    }

    /// The response is over.
    pub fn end(&self, how: Result<Usage, Refusal>) {
        let mut state = self.lock();
        state.over = Some(how);
        state.wake_reader();
    }

    /// Makes the tail a part that is to be written.
    pub fn begin_write(&self) -> Bytes {
        let mut state = self.lock();
        let bytes = Bytes::from(std::mem::take(&mut state.tail));
        state.parts.push_back(Part::Writing(bytes.clone(), 0));
        bytes
    }

    /// Whether the part that is to be written has not been sent meanwhile.
    pub fn is_to_be_written(&self) -> bool {
        matches!(self.lock().parts.back(), Some(Part::Writing(..)))
    }

    /// The part that was being written is in the block, or (without a block) remains in memory. If it has been sent
    /// meanwhile, the block is free again.
    pub fn end_write(&self, block: Option<Block>) {
        let mut state = self.lock();
        state.has_failed |= block.is_none();
        if !matches!(state.parts.back(), Some(Part::Writing(..))) {
            return;
        }
        let Some(Part::Writing(bytes, sent)) = state.parts.pop_back() else { return };
        let part = match block {
            Some(block) => {
                self.charge(&mut state, -(bytes.len() as i64));
                state.disk += BLOCK;
                Part::Disk(block, sent, bytes.len() as u64)
            }
            None => Part::Memory(bytes),
        };
        state.parts.push_back(part);
    }

    /// The next part to be sent. Of bytes in memory it has no more than `most`.
    pub fn next(&self, most: usize) -> Option<Part> {
        let mut state = self.lock();
        let mut part = match state.parts.pop_front() {
            None if state.tail.is_empty() => return None,
            None => Part::Memory(std::mem::take(&mut state.tail).into()),
            Some(part) => part,
        };
        if let Part::Memory(bytes) | Part::Writing(bytes, _) = &mut part {
            if bytes.len() > most {
                let rest = bytes.split_off(most);
                let rest = match part {
                    Part::Writing(_, sent) => Part::Writing(rest, sent + most as u64),
                    _ => Part::Memory(rest),
                };
                state.parts.push_front(rest);
            }
        }
        match &part {
            Part::Memory(bytes) | Part::Writing(bytes, _) => self.charge(&mut state, -(bytes.len() as i64)),
            Part::Disk(..) => state.disk -= BLOCK,
        }
        state.writer.take().into_iter().for_each(Waker::wake);
        Some(part)
    }

    /// Nobody wants the response any more.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        state.writer.take().into_iter().for_each(Waker::wake);
        let all = state.memory as i64;
        self.charge(&mut state, -all);
        (state.parts, state.tail, state.reserved) = (VecDeque::new(), Vec::new(), None);
    }

    pub fn is_abandoned(&self) -> bool {
        self.lock().is_abandoned
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tail.is_empty()
    }

    /// Whether the tail has no room for another part.
    fn is_tail_full(&self) -> bool {
        self.tail.len() > BLOCK as usize - PART
    }

    fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// How the response has ended, if all of it has been sent.
    pub fn end(&self) -> Option<Result<Usage, Refusal>> {
        self.over.filter(|_| self.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::file;
    use super::*;

    const LIMITS: SpoolLimits =
        SpoolLimits { memory: 3 * PART as u64, memory_total: 4 * PART as u64, disk: 4 * BLOCK, disk_total: 1 << 30 };

    /// PHP writes as much as is taken from it, in pieces of this size, each of which has another byte in it.
    fn fill(queue: &Queue, piece: usize) -> Vec<u8> {
        let (mut all, mut number) = (Vec::new(), 0u8);
        loop {
            let mut state = queue.lock();
            match queue.step(&mut state) {
                Step::Read => {
                    number = number.wrapping_add(1);
                    queue.fill(&mut state, |tail| tail.resize(tail.len() + piece, number));
                    all.resize(all.len() + piece, number);
                }
                Step::Write(block) => {
                    drop(state);
                    block.write(&queue.begin_write()).unwrap();
                    queue.end_write(Some(block));
                }
                Step::Wait => return all,
                Step::End => panic!("nobody has left"),
            }
        }
    }

    fn drain(queue: &Queue) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let mut all = Vec::new();
        while let Some(part) = queue.next(usize::MAX) {
            match part {
                Part::Memory(bytes) | Part::Writing(bytes, _) => all.extend_from_slice(&bytes),
                Part::Disk(block, sent, length) => {
                    let mut bytes = vec![0; length as usize];
                    block.file().read_exact_at(&mut bytes, block.at() + sent).unwrap();
                    all.extend(bytes);
                }
            }
        }
        all
    }

    #[test]
    fn bytes_keep_their_order_and_limits_hold() {
        for piece in [1 + PART / 9, PART] {
            let spool = Spool::new(Some(file()));
            let queue = Queue::new(spool.clone(), LIMITS, Bytes::from_static(b"begin"));
            let mut expected = b"begin".to_vec();
            expected.extend(fill(&queue, piece));
            let numbers = spool.numbers();
            let most = (LIMITS.memory + LIMITS.disk) as usize + 2 * PART;
            assert!(expected.len() > 4 * PART && expected.len() <= most, "{} of {most}", expected.len());
            assert!(numbers.memory <= LIMITS.memory + 2 * PART as u64 && numbers.disk > 0, "{numbers:?}");
            assert_eq!((numbers.responses, numbers.full), (1, 1));
            assert!(drain(&queue) == expected);
            // There is room again, and the same response is counted once.
            let again = fill(&queue, piece);
            assert!(again.len() > 4 * PART && drain(&queue) == again);
            assert_eq!(spool.numbers(), Numbers { responses: 1, full: 1, ..Numbers::default() });
        }
    }

    #[test]
    fn all_responses_together_have_limits() {
        let spool = Spool::new(Some(file()));
        let limits = SpoolLimits { disk_total: 2 * BLOCK, ..LIMITS };
        let queues: Vec<Queue> = (0..9).map(|_| Queue::new(spool.clone(), limits, Bytes::new())).collect();
        let written: Vec<_> = queues.iter().map(|queue| fill(queue, PART)).collect();
        let numbers = spool.numbers();
        // Each response may have one part under way.
        assert!(numbers.memory <= limits.memory_total + 9 * PART as u64, "{numbers:?}");
        assert!(numbers.disk <= limits.disk_total, "{numbers:?}");
        assert_eq!(numbers.full, 9);
        for (queue, written) in queues.iter().zip(written) {
            assert!(drain(queue) == written);
        }
    }

    #[test]
    fn what_cannot_be_written_stays_in_memory_and_ends_use_of_the_file() {
        let spool = Spool::new(Some(file()));
        let queue = Queue::new(spool.clone(), SpoolLimits { memory: 0, ..LIMITS }, Bytes::new());
        let mut written = Vec::new();
        loop {
            let mut state = queue.lock();
            match queue.step(&mut state) {
                Step::Read => {
                    queue.fill(&mut state, |tail| tail.resize(tail.len() + PART, b'x'));
                    written.resize(written.len() + PART, b'x');
                }
                Step::Write(_) => {
                    drop(state);
                    queue.begin_write();
                    queue.end_write(None);
                }
                Step::Wait => break,
                Step::End => panic!("nobody has left"),
            }
        }
        assert_eq!((written.len(), spool.numbers().disk), (2 * PART, 0));
        assert!(drain(&queue) == written);
    }

    #[test]
    fn a_client_that_leaves_frees_everything_at_once() {
        let spool = Spool::new(Some(file()));
        let queue = Queue::new(spool.clone(), LIMITS, Bytes::new());
        fill(&queue, PART);
        queue.abandon();
        assert_eq!((spool.numbers().memory, spool.numbers().disk), (0, 0));
        assert!(matches!(queue.step(&mut queue.lock()), Step::End));
    }

    use super::super::Numbers;
}
