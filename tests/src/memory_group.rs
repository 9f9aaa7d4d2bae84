//! A container's limit of memory, without the container.

use std::fs;
use std::path::{Path, PathBuf};

use crate::wait_until;

/// A memory cgroup of its own, gone with its processes. By either version of the kernel's interface.
pub struct MemoryGroup {
    place: PathBuf,
    is_v1: bool,
}

impl MemoryGroup {
    /// With so many MiB.
    pub fn with_limit(mebibytes: usize) -> MemoryGroup {
        let name = format!("reprise-test-{}-{mebibytes}", std::process::id());
        let bytes = (mebibytes << 20).to_string();
        let is_v1 = Path::new("/sys/fs/cgroup/memory").is_dir();
        let (parent, file) = match is_v1 {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max"),
        };
        let place = Path::new(parent).join(name);
        let made = fs::create_dir(&place).and_then(|()| fs::write(place.join(file), bytes));
        made.unwrap_or_else(|error| {
            panic!("{}: {error}. Run the tests as root, with cgroups writable", place.display())
        });
        MemoryGroup { place, is_v1 }
    }

    /// The command that executes a program in it.
    pub fn command(&self, program: &Path) -> [PathBuf; 4] {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.place.display());
        [PathBuf::from("sh"), "-c".into(), enter.into(), program.to_owned()]
    }

    fn read(&self, name: &str) -> String {
        let path = self.place.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// How many processes the kernel has ended because the memory was used up.
    pub fn kills(&self) -> u64 {
        let text = self.read(if self.is_v1 { "memory.oom_control" } else { "memory.events" });
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).expect("oom_kill")
    }

    /// The most that was in use, in MiB, what the kernel can give back included.
    pub fn peak(&self) -> u64 {
        let text = self.read(if self.is_v1 { "memory.max_usage_in_bytes" } else { "memory.peak" });
        text.trim().parse::<u64>().expect("a number") >> 20
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until("the group is empty", 20, || fs::remove_dir(&self.place).is_ok() || !self.place.exists());
    }
}
