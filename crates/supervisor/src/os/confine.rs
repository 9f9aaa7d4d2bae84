//! The rights that the front gives up before it reads a client's first byte. The front parses hostile bytes for every application:
//! an attacker who takes it over by them shall find nothing to use.
//!
//! | by | gives up |
//! |---|---|
//! | [`crate::os::capabilities`] | every capability, and the chance of a program with some |
//! | Landlock | writing, making, moving and executing files; connecting and listening; signals to others |
//! | seccomp | every system call but those that serving takes: no exec, no fork, no new socket, no executable memory |
//!
//! The front may still read files, because a reload may bring other document roots. Threads and later processes inherit all limits,
//! and nothing gives the rights back.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope,
};
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::os::capabilities;

use crate::os::sys;

/// The newest version of the kernel's interface that was tried. Limits that an older kernel lacks are left out.
const LANDLOCK: ABI = ABI::V6;

/// Confines this thread and all that it will start. Returns what this kernel cannot do, in words.
pub fn front() -> io::Result<Vec<String>> {
    sys::renounce_privileges()?;
    capabilities::renounce()?;
    Ok(forbid_all())
}

/// Confines the process that orders certificates: it writes below its directory alone, and starts no program. Returns what this kernel
/// cannot do, in words.
pub fn acme(directory: &Path) -> io::Result<Vec<String>> {
    sys::renounce_privileges()?;
    capabilities::renounce()?;
    Ok(write_below(&[directory]))
}

/// Confines a process that reads bytes of strangers, of a phar or of pages: it opens nothing but what it makes below that directory, reaches no
/// network and starts no program. Returns what this kernel cannot do, in words.
pub fn nothing_below(directory: Option<&Path>) -> io::Result<Vec<String>> {
    sys::renounce_privileges()?;
    capabilities::renounce()?;
    let limit = || -> Result<RulesetStatus, landlock::RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules = rules.handle_access(AccessFs::from_all(LANDLOCK))?.handle_access(AccessNet::from_all(LANDLOCK))?;
        let own = landlock::path_beneath_rules(directory, AccessFs::from_all(LANDLOCK));
        Ok(rules.scope(Scope::from_all(LANDLOCK))?.create()?.add_rules(own)?.restrict_self()?.ruleset)
    };
    Ok(missing(limit()))
}

fn missing(limited: Result<RulesetStatus, landlock::RulesetError>) -> Vec<String> {
    match limited {
        Ok(RulesetStatus::NotEnforced) => vec!["Landlock: this kernel does not have it".to_owned()],
        Ok(RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced) => Vec::new(),
        Err(why) => vec![format!("Landlock: {why}")],
    }
}

/// Confines a process that unpacks a release: it writes below these directories alone, and starts no program. Returns what this kernel
/// cannot do, in words.
pub fn release(directories: &[&Path]) -> io::Result<Vec<String>> {
    sys::renounce_privileges()?;
    capabilities::renounce()?;
    Ok(write_below(directories))
}

fn write_below(directories: &[&Path]) -> Vec<String> {
    let limit = || -> Result<RulesetStatus, landlock::RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules = rules.handle_access(AccessFs::from_write(LANDLOCK) | AccessFs::Execute)?.create()?;
        let own = landlock::path_beneath_rules(directories, AccessFs::from_write(LANDLOCK));
        Ok(rules.add_rules(own)?.restrict_self()?.ruleset)
    };
    missing(limit())
}

/// Confines the process that talks to a store: it writes no file and starts no program. Returns what this kernel cannot do, in words.
pub fn store() -> io::Result<Vec<String>> {
    sys::renounce_privileges()?;
    capabilities::renounce()?;
    let limit = || -> Result<RulesetStatus, landlock::RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules = rules.handle_access(AccessFs::from_write(LANDLOCK) | AccessFs::Execute)?.create()?;
        Ok(rules.restrict_self()?.ruleset)
    };
    Ok(missing(limit()))
}

/// What this kernel cannot do.
pub(crate) fn forbid_all() -> Vec<String> {
    let mut missing = Vec::new();
    match forbid_files() {
        Ok(RulesetStatus::NotEnforced) => missing.push("Landlock: this kernel does not have it".to_owned()),
        Ok(RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced) => {}
        Err(why) => missing.push(format!("Landlock: {why}")),
    }
    if let Err(why) = forbid_calls() {
        missing.push(format!("seccomp: {why}"));
    }
    missing
}

/// No rule allows anything of what is handled here.
pub(crate) fn forbid_files() -> Result<RulesetStatus, landlock::RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(LANDLOCK) | AccessFs::Execute)?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?;
    Ok(rules.create()?.restrict_self()?.ruleset)
}

fn forbid_calls() -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let processor = std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| said(&error))?;
    let program = |calls, otherwise, then| -> Result<BpfProgram, String> {
        let filter = SeccompFilter::new(calls, otherwise, then, processor).map_err(|error| said(&error))?;
        filter.try_into().map_err(|error: seccompiler::BackendError| said(&error))
    };
    let allowed = allowed().map_err(|error| said(&error))?;
    // Its arguments lie in memory, where no filter can look. Without clone3 libc starts threads by clone.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let first = program(unknown, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    // The handler of the signal writes a line to the log: a call that fails silently takes long to find.
    let second = program(allowed, SeccompAction::Trap, SeccompAction::Allow)?;
    sys::forbidden::report().map_err(|error| said(&error))?;
    seccompiler::apply_filter(&first).map_err(|error| said(&error))?;
    seccompiler::apply_filter(&second).map_err(|error| said(&error))
}

/// The system calls that serving needs, with those that libc and the runtimes need for it: memory, threads, time, open descriptors and
/// reading files.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_lseek,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_sendfile,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // Calls that later processors do not have any more.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Of these, nothing but what the front uses. `PR_SET_VMA` names memory, which libc may do.
const COMMANDS: &[(libc::c_long, u8, &[libc::c_int])] = &[
    (
        libc::SYS_fcntl,
        1,
        &[
            libc::F_DUPFD_CLOEXEC,
            libc::F_GETFD,
            libc::F_SETFD,
            libc::F_GETFL,
            libc::F_SETFL,
            libc::F_ADD_SEALS,
            libc::F_GET_SEALS,
        ],
    ),
    (libc::SYS_ioctl, 1, &[libc::FIONBIO as libc::c_int, libc::FIOCLEX as libc::c_int, libc::TCGETS as libc::c_int]),
    (libc::SYS_prctl, 0, &[libc::PR_SET_NAME, libc::PR_SET_VMA]),
];

fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let rule = |number, comparison, value| {
        SeccompRule::new(vec![SeccompCondition::new(number, SeccompCmpArgLen::Qword, comparison, value)?])
    };
    // The kernel looks at 32 bits of what is an int.
    let word = |number, comparison, value: libc::c_int| {
        let (length, value) = (SeccompCmpArgLen::Dword, u64::from(value as u32));
        SeccompRule::new(vec![SeccompCondition::new(number, length, comparison, value)?])
    };
    let without = |mask: libc::c_int| SeccompCmpOp::MaskedEq(u64::from(mask as u32));
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = ALWAYS.iter().map(|&call| (call, Vec::new())).collect();
    for &(call, number, commands) in COMMANDS {
        let rules = commands.iter().map(|&command| word(number, SeccompCmpOp::Eq, command));
        calls.insert(call, rules.collect::<Result<_, _>>()?);
    }
    // Without Landlock too: no file is made or opened for writing.
    let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    calls.insert(libc::SYS_openat, vec![word(2, without(writing), 0)?]);
    #[cfg(target_arch = "x86_64")]
    calls.insert(libc::SYS_open, vec![word(1, without(writing), 0)?]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        calls.insert(call, vec![word(2, without(libc::PROT_EXEC), 0)?]);
    }
    // Threads, and no process.
    let thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    calls.insert(libc::SYS_clone, vec![rule(0, thread, libc::CLONE_THREAD as u64)?]);
    // Signals to itself, for abort(); limits are read, not set.
    calls.insert(libc::SYS_tgkill, vec![word(0, SeccompCmpOp::Eq, std::process::id() as libc::c_int)?]);
    calls.insert(libc::SYS_prlimit64, vec![rule(2, SeccompCmpOp::Eq, 0)?]);
    Ok(calls)
}
