//! How a thread of the front learns what workers have done.
//!
//! Each thread has one "door": an eventfd by which workers wake it. Before a thread sleeps it
//! says so in the slabs and looks once more for news ([`before_park`]); while it is awake workers need not wake it, and
//! it looks whenever a request begins or a body is polled ([`collect`]).

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

/// Looks for news of the workers.
pub fn collect() {
    each_lane(look);
}

/// Looks for news of one lane, and makes the reports that its workers want.
pub fn look(shared: &Shared, lane: &Lane, door: usize) {
    lane.collect(door);
    lane.report(|application| status::report(shared.began, &shared.lanes.beside(lane), application));
}

/// Does the same with each lane.
pub fn each_lane(each: impl Fn(&Shared, &Lane, usize)) {
    SHARED.with_borrow(|shared| {
        if let Some(shared) = shared {
            shared.lanes.each(|lane| each(shared, lane, DOOR.get()));
        }
    });
}

/// Says that this thread sleeps and looks for news until there are none. What is found wakes tasks, which keep the runtime
/// from sleeping; being thought asleep while awake costs a needless wake-up, the other way round would be deaf.
pub fn before_park() {
    each_lane(|_, lane, door| lane.announce_all(door));
    each_lane(|shared, lane, door| {
        // A worker gone wild could have news for ever; what is missed then is found by the next tick.
        for _ in 0..256 {
            if lane.may_sleep(door) {
                break;
            }
            look(shared, lane, door);
        }
    });
}

/// Says that this thread is awake, and looks for what came while it slept.
pub fn after_unpark() {
    each_lane(|shared, lane, door| {
        lane.awake(door);
        look(shared, lane, door);
    });
}
