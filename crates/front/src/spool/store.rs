//! The file of the spool, in blocks of equal size. A block belongs to one response at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

/// Bytes of a block.
pub const BLOCK: u64 = 128 * 1024;
/// Blocks that the file keeps for later responses when nothing uses it.
const KEPT: u64 = 64;

/// The file.
pub struct Store {
    file: Arc<File>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Blocks below `end` that nobody has.
    free: Vec<u64>,
    /// The number of the block behind the last one that was ever used.
    end: u64,
    used: u64,
    /// Whether the file is being emptied: until then nobody gets a block.
    is_emptied: bool,
}

/// A block of the file, until it is dropped.
pub struct Block {
    store: Arc<Store>,
    number: u64,
}

impl Store {
    /// A store in an empty file.
    pub fn new(file: File) -> Arc<Store> {
        Arc::new(Store { file: Arc::new(file), blocks: Mutex::default() })
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the blocks that are used.
    pub fn used(&self) -> u64 {
        self.blocks().used * BLOCK
    }

    /// A block, unless all blocks together would have more bytes than `limit`.
    pub fn take(self: &Arc<Store>, limit: u64) -> Option<Block> {
        let mut blocks = self.blocks();
        if blocks.is_emptied || (blocks.used + 1) * BLOCK > limit {
            return None;
        }
        let number = blocks.free.pop().unwrap_or_else(|| {
            blocks.end += 1;
            blocks.end - 1
        });
        blocks.used += 1;
        Some(Block { store: self.clone(), number })
    }

    fn empty(&self) {
        // If this fails, the file keeps its size, and the blocks are used again.
        let _ = self.file.set_len(0);
        self.blocks().is_emptied = false;
    }
}

impl Block {
    /// Writes the block from its beginning. Waits for the disk.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.store.file.write_all_at(bytes, self.at())
    }

    /// The file that it is in.
    pub fn file(&self) -> Arc<File> {
        self.store.file.clone()
    }

    /// Where it begins.
    pub fn at(&self) -> u64 {
        self.number * BLOCK
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut blocks = self.store.blocks();
        blocks.used -= 1;
        blocks.free.push(self.number);
        if blocks.used > 0 || blocks.end <= KEPT {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        (blocks.free, blocks.end, blocks.is_emptied) = (Vec::new(), 0, true);
        drop(blocks);
        let store = self.store.clone();
        // Freeing the space of a large file takes the file system a while.
        runtime.spawn_blocking(move || store.empty());
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A file in memory.
    pub fn file() -> File {
        File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn no_two_responses_have_the_same_block() {
        let store = Store::new(file());
        let mut blocks: Vec<Block> = (0..5).map(|_| store.take(5 * BLOCK).unwrap()).collect();
        assert!(store.take(5 * BLOCK).is_none() && store.used() == 5 * BLOCK);
        let mut places: Vec<u64> = blocks.iter().map(Block::at).collect();
        places.dedup();
        assert_eq!(places.len(), 5);
        let freed = blocks.swap_remove(2).at();
        assert_eq!(store.take(5 * BLOCK).unwrap().at(), freed, "it was dropped");
        assert!(store.take(0).is_none());
    }

    #[test]
    fn a_large_file_is_emptied_when_nothing_uses_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let store = Store::new(file());
        runtime.block_on(async {
            let blocks: Vec<Block> = (0..=KEPT).map(|_| store.take(u64::MAX).unwrap()).collect();
            blocks[KEPT as usize].write(b"end").unwrap();
            drop(blocks);
            while store.take(u64::MAX).is_none() {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!((store.file.metadata().unwrap().len(), store.used()), (0, 0));
    }
}
