//! The memory that a clone does not share, from `/proc/PID/smaps`.

/// Memory of one process, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its own dirty pages in private mappings. The image is left out: all clones share that memory file, and its pages
    /// count as private if only one clone has looked at them.
    pub private_kib: u64,
    /// Size of its private writable mappings, which a scan has to look at.
    pub writable_kib: u64,
    /// Page tables.
    pub page_tables_kib: u64,
}

impl Memory {
    /// Reads the memory of a living process.
    pub fn of(pid: i32) -> Result<Memory, String> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
        };
        Ok(Memory { page_tables_kib: field(&read("status")?, "VmPTE:"), ..Memory::parse(&read("smaps")?) })
    }

    fn parse(smaps: &str) -> Memory {
        let mut sum = Memory::default();
        let (mut is_private, mut is_writable) = (false, false);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            let Some(first) = words.next() else { continue };
            if !first.ends_with(':') {
                let access = words.next().unwrap_or("").as_bytes();
                is_private = access.get(3) == Some(&b'p') && !line.contains("reprise-image");
                is_writable = is_private && access.get(1) == Some(&b'w');
                continue;
            }
            let kib = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match first {
                "Private_Dirty:" if is_private => sum.private_kib += kib,
                "Size:" if is_writable => sum.writable_kib += kib,
                _ => {}
            }
        }
        sum
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_and_the_image_are_not_private() {
        let smaps = "\
55d0-55d1 r--p 00000000 00:1f 77   /usr/bin/reprise-php
Size:                  4 kB
Private_Dirty:         0 kB
55d1-55d3 rw-p 00000000 00:00 0    [heap]
Size:                  8 kB
Rss:                   8 kB
Private_Dirty:         4 kB
7f00-7f02 r--p 00000000 00:01 9    /memfd:reprise-image (deleted)
Size:               4096 kB
Private_Dirty:       512 kB
7f03-7f04 rw-s 00000000 00:01 8    /memfd:reprise-slab (deleted)
Size:                400 kB
Private_Dirty:        40 kB
7f05-7f06 rw-p 00000000 00:00 0
Size:                 16 kB
Private_Dirty:        12 kB
VmFlags: rd wr mr mw me ac sd uw
";
        assert_eq!(Memory::parse(smaps), Memory { private_kib: 16, writable_kib: 24, page_tables_kib: 0 });
        assert_eq!(field("VmRSS:\t 12 kB\nVmPTE:\t     208 kB\n", "VmPTE:"), 208);
    }
}
