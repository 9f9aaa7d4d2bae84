//! The same for C, which knows where the loader has put a library.

/// A part of a loaded library, as addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DirectCallsPart {
    /// Its first byte.
    pub begin: usize,
    /// The first byte after it.
    pub end: usize,
}

/// A loaded library whose slots the loader has filled.
#[repr(C)]
pub struct DirectCallsLibrary {
    /// What is added to the addresses in its file.
    pub base: usize,
    /// All of it.
    pub whole: DirectCallsPart,
    /// Its code.
    pub code: DirectCallsPart,
    /// The segment with its unwind tables.
    pub tables: DirectCallsPart,
    /// The first of them, `.eh_frame_hdr`.
    pub frames: usize,
    /// What is read-only since the loader has filled it: slots elsewhere are not looked at.
    pub fixed: DirectCallsPart,
    /// Its two tables of relocations (`Elf64_Rela`); may be empty.
    pub relocations: [DirectCallsPart; 2],
}

/// Makes the code writable, or read-only again, executable in both cases; returns 0, or what errno says.
pub type DirectCallsProtect = extern "C" fn(code: *const DirectCallsPart, is_writable: bool) -> i32;

/// Binds a library's calls of its own functions directly.
///
/// Returns how many pages of the code were changed; 0 where the library has no tables that are understood, and on other processors; or what `protect`
/// has returned, negative, and then no instruction was changed. If the code cannot be made read-only again, the process is ended.
///
/// # Safety
/// The parts are mapped and readable, and neither they nor the slots change meanwhile; no other thread runs the library's code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn direct_calls_bind(library: &DirectCallsLibrary, protect: DirectCallsProtect) -> i64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        x86_64::bind(library, protect)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (library, protect);
        0
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{DirectCallsLibrary, DirectCallsPart, DirectCallsProtect};
    use crate::frames::{Bytes, functions};
    use crate::sites::{Site, sites};
    use crate::slots::Slots;

    /// Relocations of a slot: by its symbol for data, for a call, and by a function of the library that chooses one for the processor.
    const SLOTS: [u64; 3] = [6, 7, 37];

    #[repr(C)]
    struct Relocation {
        offset: u64,
        kind: u64,
        addend: i64,
    }

    pub unsafe fn bind(library: &DirectCallsLibrary, protect: DirectCallsProtect) -> i64 {
        if library.code.begin == 0 || library.tables.begin == 0 {
            return 0;
        }
        // SAFETY: the caller's promise; the code is not written to while this is used.
        let found = unsafe { find(library) };
        if found.is_empty() {
            return 0;
        }
        let refused = protect(&library.code, true);
        if refused != 0 {
            // Where the code is several mappings, the first of them may be writable now.
            let _ = protect(&library.code, false);
            return -i64::from(refused);
        }
        // SAFETY: it is mapped, now writable, and nothing else refers to it: the bytes that were searched are not used any more.
        let code = unsafe { core::slice::from_raw_parts_mut(library.code.begin as *mut u8, size(&library.code)) };
        for site in &found {
            site.bind(code);
        }
        if protect(&library.code, false) != 0 {
            std::process::abort();
        }
        i64::try_from(pages(library.code.begin, &found)).unwrap_or(i64::MAX)
    }

    /// How many pages of the processor's 4096 bytes have a byte that was written.
    fn pages(begin: usize, sites: &[Site]) -> usize {
        let mut pages: Vec<usize> =
            sites.iter().flat_map(|site| site.written()).map(|offset| (begin + offset) / 4096).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len()
    }

    fn size(part: &DirectCallsPart) -> usize {
        part.end.saturating_sub(part.begin)
    }

    unsafe fn bytes<'a>(part: &DirectCallsPart) -> Bytes<'a> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { core::slice::from_raw_parts(part.begin as *const u8, size(part)) };
        Bytes { address: part.begin as u64, bytes }
    }

    unsafe fn find(library: &DirectCallsLibrary) -> Vec<Site> {
        let relocations = library.relocations.iter().filter(|part| part.begin != 0).flat_map(|part| {
            let count = size(part) / size_of::<Relocation>();
            // SAFETY: the caller's promise.
            unsafe { core::slice::from_raw_parts(part.begin as *const Relocation, count) }
        });
        let fixed = library.fixed.begin as u64..(library.fixed.end as u64).saturating_sub(7);
        let slots = relocations.filter(|one| SLOTS.contains(&(one.kind & 0xffff_ffff))).filter_map(|one| {
            let address = (library.base as u64).wrapping_add(one.offset);
            let is_slot = address % 8 == 0 && fixed.contains(&address);
            // SAFETY: it is a whole word of the library, which is mapped.
            is_slot.then(|| (address, unsafe { (address as *const u64).read() }))
        });
        let slots = Slots::new(slots, &(library.whole.begin as u64..library.whole.end as u64));
        // SAFETY: the caller's promise.
        let (code, tables) = unsafe { (bytes(&library.code), bytes(&library.tables)) };
        sites(code, &functions(tables, library.frames as u64), &slots)
    }
}
