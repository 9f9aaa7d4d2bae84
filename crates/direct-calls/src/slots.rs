//! The slots of the global offset table, and what the loader has put there.

use core::ops::Range;

/// Slots that lead to their own library.
pub struct Slots {
    first: u64,
    /// By their distance from the first in words; 0 is none.
    values: Vec<u64>,
}

impl Slots {
    /// `slots` are addresses with their values; those whose value is outside of `library`, or whose address is not aligned, are left out.
    #[must_use]
    pub fn new(slots: impl Iterator<Item = (u64, u64)>, library: &Range<u64>) -> Self {
        let own: Vec<(u64, u64)> = slots
            .filter(|(address, value)| address % 8 == 0 && library.contains(address) && library.contains(value))
            .collect();
        let first = own.iter().map(|(address, _)| *address).min().unwrap_or(0);
        let last = own.iter().map(|(address, _)| *address).max().unwrap_or(0);
        let index = |address: u64| usize::try_from((address - first) / 8).unwrap_or(usize::MAX);
        let mut values = vec![0; index(last) + 1];
        for (address, value) in own {
            values[index(address)] = value;
        }
        Self { first, values }
    }

    /// Where the slot leads; `None` if there is none at this address, or if it leads elsewhere.
    #[must_use]
    pub fn value(&self, address: u64) -> Option<u64> {
        let distance = address.checked_sub(self.first).filter(|distance| distance % 8 == 0)?;
        let value = *self.values.get(usize::try_from(distance / 8).ok()?)?;
        (value != 0).then_some(value)
    }
}
