//! Memory for results of pure functions. They have regions of their own, a quarter of all at most. Nothing that the application stores leaves for them: a new region is
//! opened only where free ones are left beside the spare ones. And they leave before all others ([`crate::regions`]).

use core::sync::atomic::Ordering;

use crate::layout::State;
use crate::points::point;
use crate::process::Locked;
use crate::view::View;

impl View {
    /// Whether an entry is a result of a pure function.
    pub(crate) fn is_memo(&self, offset: u64) -> bool {
        self.is_of_memo(self.region_of(offset))
    }

    pub(crate) fn is_of_memo(&self, region: u32) -> bool {
        self.region(region).is_memo.load(Ordering::Relaxed) == 1
    }

    /// Regions with results of pure functions, and such as may not be used again yet.
    pub(crate) fn memo_regions(&self) -> impl Iterator<Item = u32> {
        let is_used = |region: &u32| !matches!(self.state(*region), State::Free | State::Part);
        (0..self.geometry.regions).filter(move |region| is_used(region) && self.is_of_memo(*region))
    }
}

impl Locked<'_> {
    /// Room for a result of a pure function. None: something else would have to leave for it, or it is larger than a region.
    pub(crate) fn allocate_memo(&mut self, size: u64, now: u64) -> Option<u64> {
        let view = self.view();
        let offset = self.give_memo(size, now)?;
        view.reader(self.process.place() - 1).pending.store(view.region_of(offset) + 1, Ordering::Release);
        Some(offset)
    }

    fn give_memo(&mut self, size: u64, now: u64) -> Option<u64> {
        let view = self.view();
        if size > view.geometry.chunk {
            return None;
        }
        let open = view.header().open_memo.load(Ordering::Relaxed);
        if open > 0 {
            let cursor = u64::from(view.region(open - 1).cursor.load(Ordering::Relaxed));
            if cursor + size <= view.geometry.chunk {
                return Some(self.take(open - 1, cursor, size));
            }
        }
        if view.memo_regions().count() as u32 >= view.geometry.memo_share() {
            let may = |&region: &u32| view.state(region) == State::Full && !self.is_pending(region);
            let oldest = view.memo_regions().filter(may);
            let oldest = oldest.min_by_key(|&region| view.region(region).opened.load(Ordering::Relaxed))?;
            self.evict(oldest, 0, now);
        }
        self.reclaim(now);
        // The spare ones are for what the application stores.
        if view.memo_regions().count() as u32 >= view.geometry.memo_share()
            || view.free_regions().count() as u32 <= view.geometry.spare()
        {
            return None;
        }
        let fresh = self.find_free(now)?;
        if open > 0 {
            view.set_state(open - 1, State::Full);
        }
        point();
        self.open(fresh, State::Open);
        view.region(fresh).is_memo.store(1, Ordering::Relaxed);
        point();
        view.header().open_memo.store(fresh + 1, Ordering::Relaxed);
        Some(self.take(fresh, 0, size))
    }
}
