//! How a thread of the front learns of what workers have done.
//!
//! Each thread has one "door": an eventfd by which workers wake it. Before a thread sleeps it announces that in the slabs,
//! and looks once more for news ([`before_park`]). While the thread is awake, workers need not wake it: it looks for news
//! whenever a request begins or a body is polled ([`collect`]).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::lane::Lane;
use crate::shared::Shared;
use crate::status;

thread_local! {
    static DOOR: Cell<usize> = const { Cell::new(0) };
    static SHARED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Gives this thread its door.
pub fn open(number: usize, shared: Arc<Shared>) {
    DOOR.set(number);
    SHARED.set(Some(shared));
}

/// The door of this thread.
pub fn door() -> usize {
    DOOR.get()
}

/// Looks for news of the workers of all lanes.
pub fn collect() {
    each_lane(look);
}

/// Looks for news of one lane, and makes the reports that its workers want.
pub fn look(shared: &Shared, lane: &Lane, door: usize) {
    lane.collect(door);
    lane.report(|application| status::report(shared.began, &shared.lanes.beside(lane), application));
}

/// Calls `each` with every lane.
pub fn each_lane(each: impl Fn(&Shared, &Lane, usize)) {
    SHARED.with_borrow(|shared| {
        if let Some(shared) = shared {
            shared.lanes.each(|lane| each(shared, lane, DOOR.get()));
        }
    });
}

/// Announces that this thread sleeps, and looks for news until there are none. News wake tasks, which keep the runtime from
/// sleeping. If a thread that is announced asleep is awake, that costs a needless wake-up; the opposite would lose a
/// wake-up.
pub fn before_park() {
    each_lane(|_, lane, door| lane.announce_all(door));
    each_lane(|shared, lane, door| {
        // A broken worker could have news for ever. The next tick finds what is missed here.
        for _ in 0..256 {
            if lane.may_sleep(door) {
                break;
            }
            look(shared, lane, door);
        }
    });
}

/// Announces that this thread is awake, and looks for news that came while it slept.
pub fn after_unpark() {
    each_lane(|shared, lane, door| {
        lane.awake(door);
        look(shared, lane, door);
    });
}
