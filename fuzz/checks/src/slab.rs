//! A worker that writes anything into the words the front reads: positions, states, the queue's head. The front may
//! refuse, but never panic, hang or copy what is not there.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use ipc::front::{self, Posting, Progress};
use ipc::layout::{Geometry, RESPONSE_RING};
use ipc::slab::{self, Slab};

thread_local! {
    static SLAB: RefCell<Slab> = {
        let geometry = Geometry::new(64, 4, 1);
        let descriptor = slab::create(geometry).expect("a slab");
        RefCell::new(Slab::map(descriptor, geometry).expect("a mapping"))
    };
}

/// Checks what holds for these bytes.
pub fn check(bytes: &[u8]) {
    SLAB.with_borrow(|slab| {
        let mut posting = Posting::new(slab, 5, 1, b"head", b"", true);
        let mut tail = slab.queue().head.load(Ordering::SeqCst);
        slab.queue().tail.store(tail, Ordering::SeqCst);
        let _ = posting.enqueue(slab, &mut tail);
        let words = &slab.control(5).worker.0;
        for step in bytes.chunks_exact(10) {
            let value = u64::from_le_bytes(step[2..].try_into().expect("eight bytes"));
            let value = if step[1] & 1 == 0 { value } else { value % (2 * RESPONSE_RING as u64) };
            match step[0] % 12 {
                0 => words.response_tail.store(value, Ordering::SeqCst),
                1 => words.body_head.store(value, Ordering::SeqCst),
                2 => slab.control(5).owner.0.store(value, Ordering::SeqCst),
                3 => slab.control(5).owner.0.store(value & 0xff_ffff | 1 << 32, Ordering::SeqCst),
                4 => slab.queue().head.store(value, Ordering::SeqCst),
                5 => {
                    let words = slab.marks(0).words;
                    words[value as usize % words.len()].store(value, Ordering::SeqCst);
                }
                6 => slab.sleepers()[value as usize % 16].store(value, Ordering::SeqCst),
                7 => {
                    slab.marks(0).summary.store(value, Ordering::SeqCst);
                    let mut count = 0;
                    front::collect(slab, 0, 256, |exchange| {
                        count += 1;
                        assert!(exchange < slab.geometry().exchanges && count <= 256);
                    });
                }
                8 => {
                    let _ = posting.send_body(slab, &bytes[..bytes.len().min(1000)]);
                    let _ = posting.wait_for_room(slab);
                }
                9 => {
                    if let Ok(count) = posting.receivable(slab) {
                        assert!(count <= RESPONSE_RING);
                        posting.receive(slab, &mut vec![0; count]);
                    }
                }
                10 => {
                    let _ = posting.is_lost(slab);
                    front::wake_one(slab);
                    assert!(slab.queue().waiting() <= slab.queue().cells.len());
                }
                _ => match posting.progress(slab) {
                    Ok(Progress::Claimed(slot) | Progress::Running(slot)) => {
                        assert!(u32::from(slot) < slab.geometry().slots)
                    }
                    _ => front::forget_slot(slab, value as usize),
                },
            }
        }
        posting.release(slab, bytes.len() % 2 == 0);
        slab.queue().head.store(tail, Ordering::SeqCst);
    });
}
