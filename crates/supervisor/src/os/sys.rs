//! Fork, exec and signals. Only the supervisor forks, and it has one thread.

#[cfg(test)]
mod confine_tests;
pub mod forbidden;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use ipc::exit::Exit;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{ForkResult, Pid};

use crate::os::capabilities;
use crate::os::user::Identity;

/// A program to start.
pub struct Program<'a> {
    /// The executable, opened: its path may be closed to the user it runs as.
    pub executable: BorrowedFd<'a>,
    /// argv, the name first.
    pub arguments: Vec<String>,
    /// The whole environment, `NAME=value`.
    pub environment: Vec<String>,
    /// Descriptors for the child, numbered from 3 in this order.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// Its standard error. `None`: that and its standard output are this process' own.
    pub messages: Option<BorrowedFd<'a>>,
    /// Its standard output, if `messages` is something. `None`: it leads nowhere then.
    pub output: Option<BorrowedFd<'a>>,
    /// The user that it runs as; `None`: the current one.
    pub user: Option<&'a Identity>,
    /// Its limits.
    pub limits: ProcessLimits,
}

/// Limits of a program and all its children; `None`: as this process.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ProcessLimits {
    /// Open files.
    pub files: Option<u64>,
    /// Processes and threads of the user, whoever started them.
    pub processes: Option<u64>,
    /// Bytes of a core file.
    pub core: Option<u64>,
    /// Nice value.
    pub priority: Option<i32>,
    /// Neither it nor a set-user-ID program that it executes has a capability.
    pub no_capabilities: bool,
}

impl ProcessLimits {
    /// Sets the limits of this process, which is about to become a program.
    fn set(self) -> nix::Result<()> {
        use nix::sys::resource::{Resource, setrlimit};
        if self.no_capabilities {
            capabilities::empty_bounding_set()?;
        }
        if let Some(files) = self.files {
            setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
        }
        if let Some(processes) = self.processes {
            setrlimit(Resource::RLIMIT_NPROC, processes, processes)?;
        }
        if let Some(core) = self.core {
            setrlimit(Resource::RLIMIT_CORE, core, core)?;
        }
        if let Some(priority) = self.priority {
            // SAFETY: a plain system call about this process.
            nix::errno::Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) })?;
        }
        Ok(())
    }

    /// Which of the limits this user may not set, and why.
    pub fn forbidden(self) -> Option<String> {
        use nix::sys::resource::{Resource, getrlimit};
        if self.no_capabilities && !capabilities::may_limit() {
            return Some("capabilities: \"none\" needs root with CAP_SETPCAP".to_owned());
        }
        if crate::os::user::is_root() {
            return None;
        }
        let above = |wanted: Option<u64>, kind| {
            let (_, hard) = getrlimit(kind).ok()?;
            wanted.filter(|wanted| *wanted > hard).map(|wanted| format!("{wanted} is above the hard limit of {hard}"))
        };
        above(self.files, Resource::RLIMIT_NOFILE)
            .map(|why| format!("rlimit_files: {why}"))
            .or_else(|| above(self.processes, Resource::RLIMIT_NPROC).map(|why| format!("rlimit_processes: {why}")))
            .or_else(|| above(self.core, Resource::RLIMIT_CORE).map(|why| format!("rlimit_core: {why}")))
            .or_else(|| self.priority.filter(|&nice| nice < 0).map(|nice| format!("priority: {nice} needs root")))
    }
}

/// First descriptor number a program finds its own at.
pub const FIRST_DESCRIPTOR: RawFd = 3;

/// Starts a program in a session of its own, as its user, with nothing else inherited. Returns its process id.
pub fn start(program: &Program<'_>) -> io::Result<i32> {
    let strings = |texts: &[String]| -> io::Result<Vec<CString>> {
        texts.iter().map(|text| CString::new(text.as_str()).map_err(io::Error::other)).collect()
    };
    let arguments = strings(&program.arguments)?;
    let environment = strings(&program.environment)?;
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    // Copies above every number that dup2 below will overwrite.
    let floor = FIRST_DESCRIPTOR + program.descriptors.len() as RawFd + 1;
    let lift = |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, floor);
    let executable = lift(program.executable)?;
    let messages = program.messages.map(lift).transpose()?;
    let output = program.output.map(lift).transpose()?;
    let passed: Vec<OwnedFd> =
        program.descriptors.iter().map(|&descriptor| lift(descriptor)).collect::<Result<_, _>>()?;

    // SAFETY: this process has one thread, so the child may do what it likes; it calls only async-signal-safe
    // functions all the same, and leaves by exec or _exit.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child.as_raw()),
        ForkResult::Child => {
            let written = messages.as_ref().map(|messages| (output.as_ref(), messages));
            let failed = become_program(&nothing, &passed, written, program)
                .and_then(|()| execute(&executable, &arguments, &environment));
            let code = if failed == Err(nix::errno::Errno::EACCES) { Exit::Permission } else { Exit::Internal };
            let why = failed.err().map_or_else(String::new, |error| crate::os::fork_limits::explain_own(&error.into()));
            let text = format!("reprise: {} did not start: {why}\n", program.arguments[0]);
            let _ = nix::unistd::write(io::stderr(), text.as_bytes());
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(code as i32) }
        }
    }
}

/// Random bytes for keys.
pub fn random<const SIZE: usize>() -> nix::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    // SAFETY: the pointer and the size are those of an array of this function. Up to 256 bytes come at once or not at all.
    let count = nix::errno::Errno::result(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), SIZE, 0) })?;
    if count == SIZE as isize { Ok(bytes) } else { Err(nix::errno::Errno::EIO) }
}

/// Forks a child that does some work and ends. All descriptors of this process are closed there but one, which the work gets. Processes
/// that the child starts are in its process group. Returns its process id.
pub fn start_work(descriptor: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<i32> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    let parent = nix::unistd::getpid();
    // SAFETY: this process has one thread, so the child may do what it likes. It leaves by _exit.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => {
            // Child and parent both set the group: whichever runs first.
            let _ = nix::unistd::setpgid(child, child);
            Ok(child.as_raw())
        }
        ForkResult::Child => {
            let is_prepared = prepare_work(&nothing, descriptor.as_raw_fd(), parent);
            // The descriptors above are closed: their owners must not close them again.
            std::mem::forget(descriptor);
            let work = || is_prepared.map(|()| inherited(FIRST_DESCRIPTOR).map(work));
            let is_done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                .is_ok_and(|done| matches!(done, Ok(Ok(()))));
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(i32::from(!is_done)) }
        }
    }
}

fn prepare_work(nothing: &std::fs::File, descriptor: RawFd, parent: Pid) -> nix::Result<()> {
    nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    // SAFETY: plain system calls about descriptors and flags of this child, which uses none of those that are closed.
    unsafe {
        nix::errno::Errno::result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        // Standard error may be a pipe without a reader.
        for standard in 0..FIRST_DESCRIPTOR {
            nix::errno::Errno::result(libc::dup2(nothing.as_raw_fd(), standard))?;
        }
        if descriptor != FIRST_DESCRIPTOR {
            nix::errno::Errno::result(libc::dup2(descriptor, FIRST_DESCRIPTOR))?;
        }
        nix::errno::Errno::result(libc::close_range(FIRST_DESCRIPTOR as libc::c_uint + 1, libc::c_uint::MAX, 0))?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH) }
}

/// Kills a child of [`start_work`] and what it has started.
pub fn kill_work(pid: i32) {
    if pid > 1 {
        let _ = nix::sys::signal::kill(Pid::from_raw(-pid), Signal::SIGKILL);
        kill(pid, Signal::SIGKILL);
    }
}

/// Waits for the end of a child that was killed, and reaps it.
pub fn await_end(pid: i32) {
    while pid > 1 && nix::sys::wait::waitpid(Pid::from_raw(pid), None) == Err(nix::errno::Errno::EINTR) {}
}

/// Has this process start no other, if it is not root's.
pub fn start_no_more() -> io::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
    Ok(())
}

/// Does something with the rights of that user, if this process runs as root. For processes with one thread.
pub fn as_user<T>(user: Option<&Identity>, act: impl FnOnce() -> T) -> io::Result<T> {
    use nix::unistd::{Gid, Uid, getgroups, setegid, seteuid, setgroups};
    let Some(user) = user.filter(|_| crate::os::user::is_root()) else { return Ok(act()) };
    let (group, groups) = (nix::unistd::getegid(), getgroups()?);
    let wanted: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let become_user = || {
        setgroups(&wanted)?;
        setegid(Gid::from_raw(user.gid))?;
        seteuid(Uid::from_raw(user.uid))
    };
    let become_self = || {
        seteuid(Uid::from_raw(0))?;
        setegid(group)?;
        setgroups(&groups)
    };
    let become_again = || {
        if become_self().is_err() {
            // This process is neither user entirely: whatever it did next could be wrong.
            std::process::abort();
        }
    };
    if let Err(error) = become_user() {
        become_again();
        return Err(error.into());
    }
    let done = act();
    become_again();
    Ok(done)
}

/// Executes a program by its descriptor, which closes then. If the kernel has another program run it (binfmt_misc), that one
/// could not open the descriptor any more; it can open a path.
fn execute(program: &OwnedFd, arguments: &[CString], environment: &[CString]) -> nix::Result<()> {
    match nix::unistd::fexecve(program, arguments, environment) {
        Err(nix::errno::Errno::ENOENT) => {
            let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
                .map_err(|_| nix::errno::Errno::EINVAL)?;
            nix::unistd::execve(&path, arguments, environment).map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

/// Makes this process that user's, for ever. Only async-signal-safe calls.
pub fn become_user(user: &Identity) -> nix::Result<()> {
    // SAFETY: plain system calls; the list lives until they return. Groups first, while it is still allowed.
    unsafe {
        nix::errno::Errno::result(libc::setgroups(user.groups.len(), user.groups.as_ptr()))?;
        nix::errno::Errno::result(libc::setresgid(user.gid, user.gid, user.gid))?;
        nix::errno::Errno::result(libc::setresuid(user.uid, user.uid, user.uid))?;
    }
    Ok(())
}

fn become_program(
    nothing: &std::fs::File,
    passed: &[OwnedFd],
    written: Option<(Option<&OwnedFd>, &OwnedFd)>,
    program: &Program<'_>,
) -> nix::Result<()> {
    let duplicate = |from: RawFd, to: RawFd| {
        // SAFETY: both numbers are descriptors of this child, which has no other owner for `to`.
        nix::errno::Errno::result(unsafe { libc::dup2(from, to) }).map(|_| ())
    };
    nix::unistd::setsid()?;
    duplicate(nothing.as_raw_fd(), 0)?;
    if let Some((output, messages)) = written {
        duplicate(output.map_or(nothing.as_raw_fd(), AsRawFd::as_raw_fd), 1)?;
        duplicate(messages.as_raw_fd(), 2)?;
    }
    for (number, descriptor) in passed.iter().enumerate() {
        duplicate(descriptor.as_raw_fd(), FIRST_DESCRIPTOR + number as RawFd)?;
    }
    // Descriptors that this process was started with by mistake are not passed on.
    let rest = FIRST_DESCRIPTOR as libc::c_uint + passed.len() as libc::c_uint;
    // SAFETY: marks descriptors of this child, which it keeps until exec.
    nix::errno::Errno::result(unsafe {
        libc::close_range(rest, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int)
    })?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    // SAFETY: the default action runs no code of ours.
    unsafe { nix::sys::signal::signal(Signal::SIGXFSZ, nix::sys::signal::SigHandler::SigDfl) }?;
    program.limits.set()?;
    if let Some(user) = program.user {
        become_user(user)?;
    }
    if program.limits.no_capabilities {
        // Inheritable capabilities of this process would come back with a file's own.
        capabilities::renounce().map_err(|error| nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    }
    leave_session_keyring();
    Ok(())
}

/// Makes a session keyring of its own: applications of several users would find each other's keys in the one that this server
/// was started with. A kernel without keys, or a container that forbids them, has none to share.
fn leave_session_keyring() {
    const JOIN: libc::c_long = 1;
    // SAFETY: without a name the call makes an anonymous keyring and reads no memory.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN, std::ptr::null::<libc::c_char>()) };
}

/// Makes orphaned workers this process's children, so that it can reap them.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// Has the kernel kill this process when the thread that started it ends, however that ends.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
    Ok(())
}

/// Keeps other processes of the same user out of this one's memory (and core files from holding it).
pub fn protect_memory() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    Ok(())
}

/// Gives up the chance of gaining privileges by exec.
pub fn renounce_privileges() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    Ok(())
}

/// Names this process for `ps` and `top`.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: copies at most 16 bytes of a C string. A wrong name does no harm.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// A file that would outgrow RLIMIT_FSIZE is an error that says so, not the end of this process. Memory files count too.
pub fn fail_instead_of_size_signal() -> io::Result<()> {
    use nix::sys::signal::{SigHandler, signal};
    // SAFETY: ignoring runs no code of ours.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
    Ok(())
}

/// Raises the limit of open files to the hard limit and returns it.
pub fn raise_file_limit() -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Signals as readable data. Blocks those signals for the whole process.
pub struct Signals(nix::sys::signalfd::SignalFd);

impl Signals {
    /// Watches CHLD, TERM, INT, QUIT, HUP and USR1; ignores PIPE.
    pub fn watch() -> io::Result<Signals> {
        use nix::sys::signalfd::{SfdFlags, SignalFd};
        let mut set = SigSet::empty();
        let watched =
            [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGUSR1];
        watched.into_iter().for_each(|signal| set.add(signal));
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None)?;
        // If SIGCHLD was ignored by the program that has started this one, the kernel would reap children itself.
        // SAFETY: the default action runs no code of ours.
        unsafe { nix::sys::signal::signal(Signal::SIGCHLD, nix::sys::signal::SigHandler::SigDfl) }?;
        fail_instead_of_size_signal()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The next signal that arrived, if any.
    pub fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok()??;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

impl std::os::fd::AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What [`reap`] found.
pub enum Reaped {
    /// That child ended with this raw wait status.
    Dead(i32, i32),
    /// Children are alive, or there are none.
    Nobody,
    /// `reap(pid)` only: no child of that number.
    NoChild,
}

/// Reaps one dead child: any (`None`), or that one.
pub fn reap(pid: Option<i32>) -> Reaped {
    let mut status = 0;
    // SAFETY: waitpid writes one integer.
    let result = unsafe { libc::waitpid(pid.unwrap_or(-1), &raw mut status, WaitPidFlag::WNOHANG.bits()) };
    match result {
        1.. => Reaped::Dead(result, status),
        0 => Reaped::Nobody,
        _ if pid.is_some() => Reaped::NoChild,
        _ => Reaped::Nobody,
    }
}

/// Kills a process. It is no error if the process is gone already.
pub fn kill(pid: i32, signal: Signal) {
    if pid > 1 {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}

/// Tells a worker that its request has exceeded its soft limit.
pub fn tell_overtime(pid: i32) {
    if pid > 1 {
        // SAFETY: kill takes no pointers. There is no name for signals of this range in the libraries.
        unsafe { nix::libc::kill(pid, ipc::shared::OVERTIME_SIGNAL) };
    }
}

/// Does something to a process if it is a child of that forker, or of this process. Any other process of that pid is left alone.
pub fn if_child_of(forker: Option<i32>, pid: i32, act: impl FnOnce(i32)) {
    let parent = parent_of(pid);
    if parent.is_some() && (parent == forker || parent == Some(std::process::id() as i32)) {
        act(pid);
    }
}

/// The parent of a process; `None` if there is no such process.
pub fn parent_of(pid: i32) -> Option<i32> {
    behind_name(pid)?.split_whitespace().nth(1)?.parse().ok()
}

/// What /proc/PID/stat says behind the name: the state, the parent, and so on. A process can choose any name, with parentheses or
/// bytes that are no text, and must not hide its parent by that.
fn behind_name(pid: i32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    String::from_utf8(stat[end + 1..].to_vec()).ok()
}

/// The processor time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time.
    pub processor: Duration,
    /// Resident memory that belongs to no file and is not shared.
    pub private_kib: u64,
    /// All resident memory.
    pub resident_kib: u64,
}

/// The kernel's unit of processor times in /proc, on all its architectures that matter here: a hundredth of a second.
const USER_TICK: Duration = Duration::from_millis(10);

/// The processor time and memory of a process; `None` if there is no such process.
pub fn usage(pid: i32) -> Option<Usage> {
    let stat = behind_name(pid)?;
    let mut fields = stat.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let processor = USER_TICK * (ticks()? + ticks()?);
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = statm.split_whitespace().skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let page = rustix::param::page_size() as u64 / 1024;
    let (resident, shared) = (fields.next()?, fields.next()?);
    Some(Usage { processor, private_kib: resident.saturating_sub(shared) * page, resident_kib: resident * page })
}

/// Takes ownership of a descriptor this process was started with.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the number was given to this process for itself alone; a wrong one is found by fcntl below.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    match rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC) {
        Ok(()) => Ok(descriptor),
        Err(error) => {
            std::mem::forget(descriptor);
            Err(error.into())
        }
    }
}

/// Takes ownership of a descriptor that `ipc` has just made.
pub fn own(descriptor: RawFd) -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: the caller got the number from a call that made it, and gives it to nobody else.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
