//! Why a rewind is not possible, who forbids it, how that was found out, and what mends it.
//!
//! | userfaultfd gives | and | so |
//! |---|---|---|
//! | an error | with a flag that does not exist it gives EINVAL | the kernel got to its flags; a security module refuses behind them |
//! | an error | the same with that flag; a seccomp filter is in force | the filter |
//! | ENOSYS | there is no vm.unprivileged_userfaultfd, or no filter | a kernel without userfaultfd, or something that stands in for one |
//! | EPERM | no filter; vm.unprivileged_userfaultfd is 0 | a kernel that refuses faults of user space too, by that setting |
//!
//! An unmodified kernel lets everybody watch faults of user space, whatever the setting is, and reprise-php asks for no others.

use std::collections::BTreeMap;

/// Reported instead of userfaultfd's error if trying it ends the process (csrc/snapshot/needs.h).
const KILLED: i32 = -1;
/// In place of what was found, for a build with AddressSanitizer.
const SANITIZER: &str = "sanitizer";

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

/// The first kernel that can rewind. Write protection came later to arm64.
const NEEDED: (u32, u32) = if cfg!(target_arch = "aarch64") { (6, 10) } else { (6, 7) };

/// What reprise-php has found.
#[derive(Debug, PartialEq)]
pub enum Needs {
    /// Each need with its error number, 0 if it is met.
    Tried(BTreeMap<String, i32>),
    Sanitizer,
}

impl Needs {
    pub fn parse(text: &str) -> Needs {
        let pair =
            |word: &str| word.split_once('=').and_then(|(name, error)| Some((name.to_owned(), error.parse().ok()?)));
        match text {
            SANITIZER => Needs::Sanitizer,
            _ => Needs::Tried(text.split_whitespace().filter_map(pair).collect()),
        }
    }
}

/// What is known of this system.
pub struct Facts {
    pub needs: Needs,
    /// Of the kernel, as uname gives it.
    pub release: String,
    /// A seccomp filter is in force.
    pub is_filtered: bool,
    /// vm.unprivileged_userfaultfd. A kernel without userfaultfd has none.
    pub sysctl: Option<String>,
    /// The security modules of the kernel, where that can be read.
    pub modules: Option<String>,
    /// What they call this process.
    pub label: Option<String>,
}

/// What keeps this system from rewinding.
#[derive(Debug)]
pub struct Obstacle {
    pub why: String,
    pub hint: String,
}

fn obstacle(why: impl Into<String>, hint: impl Into<String>) -> Obstacle {
    Obstacle { why: why.into(), hint: hint.into() }
}

impl Facts {
    /// All that is in the way, as one; `None` if nothing is.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let tried = match &self.needs {
            Needs::Sanitizer => {
                let why = "reprise-php is built with AddressSanitizer, whose memory cannot be rewound";
                return Some(obstacle(why, "build it without REPRISE_SANITIZE"));
            }
            Needs::Tried(tried) => tried,
        };
        let error = |need: &str| tried.get(need).copied().filter(|error| *error != 0);
        if error("userfaultfd") == Some(KILLED) {
            return Some(self.killed());
        }
        let beyond = error("beyond").unwrap_or(0);
        let call = error("userfaultfd").filter(|error| !(self.is_old() && [EINVAL, ENOSYS].contains(error)));
        let behind = [
            error("api").map(|error| self.no_protection(error)),
            error("pagemap").map(|error| self.no_pagemap(error)),
            error("scan").map(|error| self.no_scan(error)),
        ];
        // The version alone says nothing: distributions bring features to older kernels.
        let lacks = ["api", "scan"].into_iter().any(|need| error(need).is_some());
        let is_unknown = error("userfaultfd").is_some() && call.is_none();
        let old = (self.is_old() && (lacks || is_unknown)).then(|| self.old());
        let is_explained = old.is_some();
        let found = old
            .into_iter()
            .chain(call.map(|error| self.denied(error, beyond)))
            .chain(behind.into_iter().flatten().filter(|_| !is_explained))
            .chain(error("thread").map(no_thread));
        found.reduce(|all, next| {
            let hint = if all.hint == next.hint { all.hint } else { format!("{}; then {}", all.hint, next.hint) };
            obstacle(format!("{}; besides, {}", all.why, next.why), hint)
        })
    }

    /// Why written pages are not found by soft-dirty bits; `None` if they are. The steps are those of csrc/snapshot/softdirty.h.
    pub fn obstacle_of_soft_dirty(&self) -> Option<String> {
        let Needs::Tried(tried) = &self.needs else { return Some("this build cannot be rewound".to_owned()) };
        let error = |need: &str| tried.get(need).copied().filter(|error| *error != 0);
        if let Some(error) = error("thread") {
            return Some(no_thread(error).why);
        }
        if let Some(error) = error("pagemap") {
            return Some(self.no_pagemap(error).why);
        }
        if let Some(error) = error("clear") {
            return Some(format!("/proc/self/clear_refs cannot be opened: {}", name(error)));
        }
        let lies = |what: &str| format!("the kernel's soft-dirty bits cannot be relied on: {what}");
        Some(match tried.get("soft").copied().unwrap_or(0) {
            0 => return None,
            1 => "there is no memory to try soft-dirty bits with".to_owned(),
            2 => "a write to /proc/self/clear_refs is refused".to_owned(),
            3 => lies("they are not cleared"),
            4 => "the kernel has no soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)".to_owned(),
            5 => lies("the first write to a page is not counted as a fault"),
            6 => lies("a second write to a page is counted as a fault"),
            7 => lies("what the kernel itself writes does not show"),
            8 => lies("what a child process writes to its parent's pages does not show"),
            _ => lies("a write after mprotect does not show"),
        })
    }

    fn is_old(&self) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map_while(|text| text.parse::<u32>().ok());
        numbers.next().zip(numbers.next()).is_some_and(|version| version < NEEDED)
    }

    fn old(&self) -> Obstacle {
        let (major, minor) = NEEDED;
        let package = if cfg!(target_arch = "aarch64") { "linux-image-arm64" } else { "linux-image-amd64" };
        obstacle(
            format!(
                "Linux {} is too old, {major}.{minor} or newer is needed (PAGEMAP_SCAN, asynchronous write protection)",
                self.release
            ),
            format!(
                "start a newer kernel: Debian 13 has one, on Debian 12 `apt-get install -t bookworm-backports {package}` installs one"
            ),
        )
    }

    fn killed(&self) -> Obstacle {
        let by = match self.is_filtered {
            true => "a seccomp filter ends processes that call userfaultfd; /proc/self/status says Seccomp: 2",
            false => "a process that called userfaultfd was killed, and /proc/self/status names no seccomp filter",
        };
        obstacle(by, ALLOW)
    }

    /// userfaultfd gives an error; `beyond` is its error with a flag that does not exist.
    fn denied(&self, error: i32, beyond: i32) -> Obstacle {
        let gives = format!("the call gives {}", name(error));
        let is_built = self.sysctl.is_some();
        if beyond == EINVAL && error != EINVAL {
            return self.by_module(&gives);
        }
        if error == ENOSYS && !is_built {
            let why = format!("Linux {} was built without userfaultfd: {gives}, and there is no", self.release);
            return obstacle(format!("{why} /proc/sys/vm/unprivileged_userfaultfd"), CONFIGURED);
        }
        if error == ENOSYS && !self.is_filtered {
            let why = format!("this kernel, or what stands in for it (qemu, gVisor), has no userfaultfd: {gives}");
            return obstacle(format!("{why}, and no seccomp filter is in force"), CONFIGURED);
        }
        if self.is_filtered {
            return obstacle(
                format!(
                    "a seccomp filter denies userfaultfd: {gives} whatever its flags are, and /proc/self/status says Seccomp: 2"
                ),
                ALLOW,
            );
        }
        if error == EPERM && self.sysctl.as_deref() == Some("0") {
            return obstacle(
                format!(
                    "the setting vm.unprivileged_userfaultfd = 0 forbids userfaultfd: {gives}, and no seccomp filter is in force"
                ),
                "sysctl -w vm.unprivileged_userfaultfd=1, and the same line in /etc/sysctl.d",
            );
        }
        self.by_module(&gives)
    }

    fn by_module(&self, gives: &str) -> Obstacle {
        let mut why = format!(
            "a security module (LSM) denies userfaultfd: {gives}, and the kernel refuses only behind its flags"
        );
        if let Some(modules) = self.modules.as_deref().filter(|modules| !modules.is_empty()) {
            why.push_str(&format!("; modules: {modules}"));
        }
        if let Some(label) = self.label.as_deref().filter(|label| !label.is_empty()) {
            why.push_str(&format!("; this process is {label}"));
        }
        obstacle(
            why,
            "allow reprise-php anonymous inodes of the kind [userfaultfd]; with SELinux: `ausearch -m avc -ts recent | audit2allow -M reprise && semodule -i reprise.pp`",
        )
    }

    fn no_protection(&self, error: i32) -> Obstacle {
        self.no_ioctl("UFFDIO_API", error, EINVAL, "asynchronous write protection (CONFIG_PTE_MARKER_UFFD_WP)")
    }

    fn no_scan(&self, error: i32) -> Obstacle {
        self.no_ioctl("PAGEMAP_SCAN", error, 0, "PAGEMAP_SCAN (CONFIG_PROC_PAGE_MONITOR)")
    }

    /// A kernel that is new enough refuses an ioctl. `missing` is the error of such a kernel without the feature, if it can be without.
    fn no_ioctl(&self, call: &str, error: i32, missing: i32, feature: &str) -> Obstacle {
        let gives = format!("ioctl {call} gives {}", name(error));
        match self.is_filtered && error != missing {
            true => obstacle(
                format!(
                    "a seccomp filter denies {call}: {gives}, Linux {} has it, and /proc/self/status says Seccomp: 2",
                    self.release
                ),
                ALLOW,
            ),
            false => obstacle(format!("Linux {} was built without {feature}: {gives}", self.release), CONFIGURED),
        }
    }

    fn no_pagemap(&self, error: i32) -> Obstacle {
        let gives = format!("/proc/self/pagemap cannot be opened: {}", name(error));
        match error {
            ENOENT => obstacle(format!("{gives} (CONFIG_PROC_PAGE_MONITOR, or no /proc)"), CONFIGURED),
            _ => obstacle(gives, "mount /proc without restrictions for the applications' users"),
        }
    }
}

/// What mends a seccomp filter.
const ALLOW: &str = "allow it: in a container by a seccomp profile with userfaultfd, or as root by `--device /dev/userfaultfd`; in a unit of systemd by `SystemCallFilter=userfaultfd`";
/// What mends a kernel that lacks something.
const CONFIGURED: &str = "start a kernel with CONFIG_USERFAULTFD, CONFIG_PROC_PAGE_MONITOR and CONFIG_CHECKPOINT_RESTORE; those of Debian have them";

fn no_thread(error: i32) -> Obstacle {
    let why = format!("the kernel does not say where thread ids are: prctl PR_GET_TID_ADDRESS gives {}", name(error));
    obstacle(why, CONFIGURED)
}

/// The kernel's name of an error.
fn name(error: i32) -> String {
    let known = [
        (EPERM, "EPERM"),
        (ENOENT, "ENOENT"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (19, "ENODEV"),
        (EINVAL, "EINVAL"),
        (24, "EMFILE"),
        (25, "ENOTTY"),
        (ENOSYS, "ENOSYS"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == error)
        .map_or_else(|| format!("error {error}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(needs: &str) -> Facts {
        Facts {
            needs: Needs::parse(needs),
            release: "6.18.2-amd64".to_owned(),
            is_filtered: false,
            sysctl: Some("0".to_owned()),
            modules: Some("lockdown,yama,selinux".to_owned()),
            label: None,
        }
    }

    #[track_caller]
    fn says(facts: &Facts, words: &[&str]) {
        let found = facts.obstacle().expect("an obstacle");
        let text = format!("{}\nhint: {}", found.why, found.hint);
        words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
    }

    const ALL_MET: &str = "thread=0 userfaultfd=0 beyond=0 api=0 pagemap=0 scan=0";

    #[test]
    fn where_all_needs_are_met_there_is_no_obstacle() {
        assert!(facts(ALL_MET).obstacle().is_none());
        // The version alone forbids nothing: distributions bring features to older kernels.
        assert!(Facts { release: "5.14.0-503.el9".to_owned(), ..facts(ALL_MET) }.obstacle().is_none());
    }

    #[test]
    fn an_old_kernel_is_named_with_the_version_that_is_needed() {
        let old = |needs| Facts { release: "6.1.0-28-amd64".to_owned(), ..facts(needs) };
        let needed = if cfg!(target_arch = "aarch64") { "6.10 or newer" } else { "6.7 or newer" };
        for needs in [
            "thread=0 userfaultfd=0 beyond=0 api=22 pagemap=0 scan=25",
            "thread=0 userfaultfd=22 beyond=22 api=0 pagemap=0 scan=25",
            "thread=0 userfaultfd=38 beyond=38 api=0 pagemap=0 scan=25",
        ] {
            says(&old(needs), &["Linux 6.1.0-28-amd64 is too old", needed, "bookworm-backports"]);
            assert!(!old(needs).obstacle().is_some_and(|found| found.why.contains("besides")));
        }
        let both = Facts { is_filtered: true, ..old("thread=0 userfaultfd=1 beyond=1 api=0 pagemap=0 scan=25") };
        says(&both, &["is too old", "besides, a seccomp filter", "; then allow it"]);
        let backported =
            Facts { release: "5.14.0-503.el9".to_owned(), is_filtered: true, ..facts("userfaultfd=1 beyond=1 scan=0") };
        assert!(backported.obstacle().is_some_and(|found| !found.why.contains("old")));
        assert!(
            Facts { release: "10.0".to_owned(), ..facts("api=22") }
                .obstacle()
                .is_some_and(|found| !found.why.contains("old"))
        );
    }

    #[test]
    fn who_forbids_the_call_is_found_by_its_errors() {
        let eperm = "thread=0 userfaultfd=1 beyond=1 api=0 pagemap=0 scan=0";
        let filtered = |needs| Facts { is_filtered: true, ..facts(needs) };
        says(
            &filtered(eperm),
            &["a seccomp filter denies", "EPERM", "Seccomp: 2", "SystemCallFilter=userfaultfd", "--device"],
        );
        says(&filtered("userfaultfd=38 beyond=38"), &["a seccomp filter denies", "ENOSYS"]);
        says(&facts(eperm), &["vm.unprivileged_userfaultfd = 0 forbids", "sysctl -w vm.unprivileged_userfaultfd=1"]);
        let open = Facts { sysctl: Some("1".to_owned()), ..facts(eperm) };
        says(&open, &["security module"]);
        // The kernel has looked at the flags: neither a filter nor the setting has refused.
        let module =
            Facts { label: Some("system_u:system_r:init_t:s0".to_owned()), ..filtered("userfaultfd=13 beyond=22") };
        says(&module, &["security module (LSM)", "EACCES", "lockdown,yama,selinux", "init_t", "audit2allow"]);
    }

    #[test]
    fn a_kernel_without_the_feature_is_told_from_a_filter() {
        let without = Facts { sysctl: None, is_filtered: true, ..facts("userfaultfd=38 beyond=38") };
        says(&without, &["built without userfaultfd", "CONFIG_USERFAULTFD"]);
        says(&facts("userfaultfd=38 beyond=38 scan=25"), &["what stands in for it", "besides", "PAGEMAP_SCAN"]);
        says(&facts("userfaultfd=0 api=22"), &["asynchronous write protection", "EINVAL"]);
        says(&facts("userfaultfd=0 scan=25"), &["CONFIG_PROC_PAGE_MONITOR", "ENOTTY"]);
        says(
            &Facts { is_filtered: true, ..facts("scan=1") },
            &["a seccomp filter denies PAGEMAP_SCAN", "EPERM", "6.18.2"],
        );
        says(&facts("pagemap=2"), &["/proc/self/pagemap", "ENOENT"]);
        says(&facts("pagemap=13"), &["/proc/self/pagemap", "EACCES", "mount /proc"]);
        says(&facts("thread=22"), &["PR_GET_TID_ADDRESS", "EINVAL"]);
    }

    #[test]
    fn soft_dirty_bits_that_do_not_work_are_named() {
        let says = |needs: &str, word: &str| {
            let why = facts(needs).obstacle_of_soft_dirty().expect("an obstacle");
            assert!(why.contains(word), "no {word:?} in {why}");
        };
        assert!(facts("thread=0 userfaultfd=-1 pagemap=0 clear=0 soft=0").obstacle_of_soft_dirty().is_none());
        assert!(facts("thread=0 userfaultfd=1 pagemap=0 scan=25 clear=0 soft=0").obstacle_of_soft_dirty().is_none());
        says("thread=0 pagemap=0 clear=0 soft=4", "CONFIG_MEM_SOFT_DIRTY");
        says("thread=0 pagemap=0 clear=0 soft=7", "the kernel itself writes");
        says("thread=0 pagemap=0 clear=0 soft=9", "after mprotect");
        says("thread=0 pagemap=0 clear=13 soft=0", "clear_refs cannot be opened: EACCES");
        says("thread=0 pagemap=2 clear=2 soft=0", "/proc/self/pagemap cannot be opened: ENOENT");
        says("sanitizer", "this build");
    }

    #[test]
    fn a_process_that_was_killed_has_met_a_filter() {
        says(
            &Facts { is_filtered: true, ..facts("thread=0 userfaultfd=-1 beyond=0 api=0 pagemap=0 scan=0") },
            &["ends processes", "Seccomp: 2", "SystemCallFilter"],
        );
        says(&facts("sanitizer"), &["AddressSanitizer"]);
    }
}
