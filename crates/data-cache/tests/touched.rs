//! Pages that are made present before they are used, in a process whose faults are counted.

mod support;

use data_cache::entries::{Condition, Refused};
use support::{fetch, segment, store};

extern "C" fn populate(_: usize, _: usize, _: bool) {}

/// An entry may lie at the very end of the segment: to store its key anew looks at no page behind that.
#[test]
fn a_key_at_the_end_is_stored_anew() {
    let size = 1 << 20;
    let mut process = segment(size);
    process.begin(Some(populate));
    // A reader keeps what leaves, so all regions are used, the last one too.
    assert!(store(&mut process, b"held", 1, 1, &[], 0, Condition::Any).unwrap());
    assert_eq!(fetch(&mut process, b"held", 1), Some(1));
    let mut last = 0;
    let refused = (0..1_000_000).find_map(|number| {
        let key = format!("key {number}");
        for seed in [number, number + 1] {
            if let Err(why) = store(&mut process, key.as_bytes(), seed, 1, &[], 0, Condition::Any) {
                return Some(why);
            }
            let found = process.find(key.as_bytes(), 1).expect("what was stored");
            last = last.max(found.offset + u64::from(found.entry.size));
        }
        assert_eq!(fetch(&mut process, key.as_bytes(), 1), Some(number + 1));
        None
    });
    assert_eq!(refused, Some(Refused::Full));
    assert!(last + 400 > size, "{last}: one lay at the end");
}
