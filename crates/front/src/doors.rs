//! How a thread of the front learns of what workers have done.
//!
//! Each thread has one "door": an eventfd by which workers wake it. Before a thread sleeps it announces that in the slabs,
//! and looks once more for news ([`before_park`]). While the thread is awake, workers need not wake it: it looks for news
//! whenever a request begins or a body is polled ([`collect`]).
//!
//! A thread follows the lanes in which it holds an exchange ([`post`]), and looks at no other: there is no news for it. So
//! lanes without requests cost nothing, however many there are.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::shared::Shared;
use cache_store::stored::Cached;
use mailbox::lane::{Lane, Order, Ticket};
use mailbox::status;

thread_local! {
    static DOOR: Cell<usize> = const { Cell::new(0) };
    static SHARED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    static FOLLOWED: RefCell<Vec<Arc<Lane>>> = const { RefCell::new(Vec::new()) };
}

/// Gives this thread its door.
pub fn open(number: usize, shared: Arc<Shared>) {
    DOOR.set(number);
    SHARED.set(Some(shared));
}

/// Posts a request of this thread. `None`: the lane is full.
pub fn post(lane: &Arc<Lane>, head: &[u8], order: Order<'_>) -> Option<Ticket> {
    let ticket = lane.post(DOOR.get(), head, order)?;
    if lane.follow(DOOR.get()) {
        FOLLOWED.with_borrow_mut(|lanes| lanes.push(lane.clone()));
    }
    Some(ticket)
}

/// Looks for news of the workers of this thread's requests.
pub fn collect() {
    each_followed(look);
}

/// Looks for news of one lane, purges what its workers want purged, and makes the reports that they want.
pub fn look(shared: &Shared, lane: &Lane, door: usize) {
    lane.collect(door);
    lane.purges(|application, purge| {
        if let Some(Cached { responses, .. }) = shared.stored.named(application) {
            // The worker tells other nodes by itself, and waits for that.
            responses.purge_here(purge);
        }
    });
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

/// Calls `each` with every lane in which this thread holds an exchange.
fn each_followed(each: impl Fn(&Shared, &Lane, usize)) {
    SHARED.with_borrow(|shared| {
        if let Some(shared) = shared {
            FOLLOWED.with_borrow(|lanes| lanes.iter().for_each(|lane| each(shared, lane, DOOR.get())));
        }
    });
}

/// Announces that this thread sleeps, and looks for news until there are none. News wake tasks, which keep the runtime from
/// sleeping. If a thread that is announced asleep is awake, that costs a needless wake-up; the opposite would lose a
/// wake-up.
pub fn before_park() {
    each_followed(|_, lane, door| lane.announce_all(door));
    FOLLOWED.with_borrow_mut(|lanes| lanes.retain(|lane| lane.is_followed(DOOR.get())));
    each_followed(|shared, lane, door| {
        // Of more exchanges than are looked at in one turn some have woken tasks, and the thread comes here again after them,
        // or a broken worker has invented them. The next tick finds what is missed then.
        for _ in 0..4 {
            if lane.may_sleep(door) {
                break;
            }
            look(shared, lane, door);
        }
    });
}

/// Announces that this thread is awake, and looks for news that came while it slept.
pub fn after_unpark() {
    each_followed(|shared, lane, door| {
        lane.awake(door);
        look(shared, lane, door);
    });
}
