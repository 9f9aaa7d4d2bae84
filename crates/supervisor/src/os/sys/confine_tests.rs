//! Tries the rights that the front gives up: threads of these tests are confined by the function that confines the front.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::libc::{self, c_int, c_long};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::os::confine;
use crate::os::sys::forbidden;

/// Runs in a thread of its own, since a thread does not get back the rights that it has given up.
fn confined(missing: &'static [&'static str], attempt: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let said = confine::front().expect("the front would start");
        assert_eq!(said.len(), missing.len(), "{said:?}");
        assert!(said.iter().zip(missing).all(|(said, name)| said.starts_with(name)), "{said:?}");
        attempt();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Calls that return 0 in a new process.
#[cfg(target_arch = "x86_64")]
const NEW_PROCESS: &[c_long] = &[libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const NEW_PROCESS: &[c_long] = &[libc::SYS_clone];

fn at(text: &CStr) -> c_long {
    text.as_ptr() as c_long
}

/// The result of a system call.
fn call(number: c_long, with: &[c_long]) -> Result<c_long, Errno> {
    let mut all = [0; 6];
    all[..with.len()].copy_from_slice(with);
    // SAFETY: the tables below give pointers to constant strings, or none where the call is refused before it looks at them.
    let result = unsafe { libc::syscall(number, all[0], all[1], all[2], all[3], all[4], all[5]) };
    if result == 0 && NEW_PROCESS.contains(&number) {
        // SAFETY: only a child, which must not exist, comes here.
        unsafe { libc::_exit(0) };
    }
    Errno::result(result)
}

/// Tries each call in a confined thread; returns those that did not fail as they should.
fn refused(rows: Vec<(&'static str, c_long, Vec<c_long>)>, with: Errno) {
    confined(&[], move || {
        let told = |(name, number, with): &(_, c_long, Vec<c_long>)| (*name, call(*number, with));
        let wrong: Vec<_> = rows.iter().map(told).filter(|(_, said)| *said != Err(with)).collect();
        assert!(wrong.is_empty(), "not {with}: {wrong:?}");
    });
}

#[test]
fn no_program_and_no_process_can_be_started() {
    let (program, own) = (at(c"/bin/true"), c_long::from(libc::SIGCHLD));
    let shared = (libc::CLONE_VM | libc::CLONE_VFORK) as c_long;
    refused(
        vec![
            ("execve", libc::SYS_execve, vec![program, 0, 0]),
            ("execveat", libc::SYS_execveat, vec![libc::AT_FDCWD.into(), program, 0, 0, 0]),
            #[cfg(target_arch = "x86_64")]
            ("fork", libc::SYS_fork, vec![]),
            #[cfg(target_arch = "x86_64")]
            ("vfork", libc::SYS_vfork, vec![]),
            ("clone", libc::SYS_clone, vec![own]),
            ("clone as posix_spawn has it", libc::SYS_clone, vec![own | shared]),
            ("clone into a namespace", libc::SYS_clone, vec![own | libc::CLONE_NEWUSER as c_long]),
        ],
        Errno::EPERM,
    );
    refused(vec![("clone3", libc::SYS_clone3, vec![0, 0])], Errno::ENOSYS);
}

#[test]
fn no_file_can_be_made_written_or_changed() {
    let here = c_long::from(libc::AT_FDCWD);
    let (null, fresh) = (at(c"/dev/null"), at(c"/tmp/reprise-confined"));
    let open = |flags: c_int| vec![here, null, flags.into(), 0o600];
    refused(
        vec![
            ("open to write", libc::SYS_openat, open(libc::O_WRONLY)),
            ("open to read and write", libc::SYS_openat, open(libc::O_RDWR)),
            ("open to append", libc::SYS_openat, open(libc::O_WRONLY | libc::O_APPEND)),
            ("truncate while opening", libc::SYS_openat, open(libc::O_TRUNC)),
            ("create", libc::SYS_openat, vec![here, fresh, (libc::O_RDONLY | libc::O_CREAT).into(), 0o600]),
            (
                "nameless file",
                libc::SYS_openat,
                vec![here, at(c"/tmp"), (libc::O_TMPFILE | libc::O_RDWR).into(), 0o600],
            ),
            ("openat2", libc::SYS_openat2, vec![here, null, 0, 0]),
            ("truncate", libc::SYS_truncate, vec![null, 0]),
            ("mkdir", libc::SYS_mkdirat, vec![here, fresh, 0o700]),
            ("mknod", libc::SYS_mknodat, vec![here, fresh, 0o600, 0]),
            ("symlink", libc::SYS_symlinkat, vec![null, here, fresh]),
            ("link", libc::SYS_linkat, vec![here, null, here, fresh, 0]),
            ("rename", libc::SYS_renameat2, vec![here, fresh, here, fresh, 0]),
            ("unlink", libc::SYS_unlinkat, vec![here, fresh, 0]),
            ("chmod", libc::SYS_fchmodat, vec![here, fresh, 0o777]),
            ("chown", libc::SYS_fchownat, vec![here, fresh, 0, 0, 0]),
            ("utimes", libc::SYS_utimensat, vec![here, fresh, 0, 0]),
            ("setxattr", libc::SYS_setxattr, vec![fresh, fresh, fresh, 1, 0]),
            ("list a directory", libc::SYS_getdents64, vec![0, 0, 0]),
            ("chdir", libc::SYS_chdir, vec![at(c"/")]),
            ("umask", libc::SYS_umask, vec![0]),
        ],
        Errno::EPERM,
    );
}

#[test]
fn no_connection_can_be_begun() {
    let families = [
        ("unix", libc::AF_UNIX),
        ("ipv4", libc::AF_INET),
        ("ipv6", libc::AF_INET6),
        ("netlink", libc::AF_NETLINK),
        ("packet", libc::AF_PACKET),
        ("alg", libc::AF_ALG),
        ("vsock", libc::AF_VSOCK),
        ("bluetooth", libc::AF_BLUETOOTH),
    ];
    let stream = c_long::from(libc::SOCK_STREAM);
    let socket = |(name, family): (_, c_int)| (name, libc::SYS_socket, vec![family.into(), stream, 0]);
    let mut rows: Vec<_> = families.into_iter().map(socket).collect();
    rows.extend([
        ("socketpair", libc::SYS_socketpair, vec![libc::AF_UNIX.into(), stream, 0, 0]),
        ("bind", libc::SYS_bind, vec![0, 0, 0]),
        ("connect", libc::SYS_connect, vec![0, 0, 0]),
        ("listen", libc::SYS_listen, vec![0, 1]),
    ]);
    refused(rows, Errno::EPERM);
}

#[test]
fn no_other_process_and_no_kernel_interface_can_be_reached() {
    let parent = c_long::from(nix::unistd::getppid().as_raw());
    refused(
        vec![
            ("kill", libc::SYS_kill, vec![parent, 0]),
            ("tkill", libc::SYS_tkill, vec![parent, 0]),
            ("tgkill", libc::SYS_tgkill, vec![parent, parent, 0]),
            ("ptrace", libc::SYS_ptrace, vec![libc::PTRACE_TRACEME.into(), 0, 0, 0]),
            ("process_vm_readv", libc::SYS_process_vm_readv, vec![parent, 0, 0, 0, 0, 0]),
            ("process_vm_writev", libc::SYS_process_vm_writev, vec![parent, 0, 0, 0, 0, 0]),
            ("pidfd_open", libc::SYS_pidfd_open, vec![parent, 0]),
            ("pidfd_getfd", libc::SYS_pidfd_getfd, vec![0, 0, 0]),
            ("pidfd_send_signal", libc::SYS_pidfd_send_signal, vec![0, 0, 0, 0]),
            ("mount", libc::SYS_mount, vec![0, at(c"/"), 0, 0, 0]),
            ("umount", libc::SYS_umount2, vec![at(c"/reprise-none"), 0]),
            ("pivot_root", libc::SYS_pivot_root, vec![at(c"/"), at(c"/")]),
            ("chroot", libc::SYS_chroot, vec![at(c"/")]),
            ("unshare", libc::SYS_unshare, vec![libc::CLONE_NEWUSER.into()]),
            ("setns", libc::SYS_setns, vec![0, 0]),
            ("setuid", libc::SYS_setuid, vec![0]),
            ("setresuid", libc::SYS_setresuid, vec![0, 0, 0]),
            ("setgroups", libc::SYS_setgroups, vec![0, 0]),
            ("capset", libc::SYS_capset, vec![0, 0]),
            ("dumpable", libc::SYS_prctl, vec![libc::PR_SET_DUMPABLE.into(), 1]),
            ("seccomp", libc::SYS_seccomp, vec![0, 0, 0]),
            ("personality", libc::SYS_personality, vec![0xffff_ffff]),
            ("limits", libc::SYS_prlimit64, vec![0, libc::RLIMIT_CORE.into(), at(c"0123456789abcdef"), 0]),
            ("bpf", libc::SYS_bpf, vec![0, 0, 0]),
            ("perf_event_open", libc::SYS_perf_event_open, vec![0, 0, 0, 0, 0]),
            ("userfaultfd", libc::SYS_userfaultfd, vec![0]),
            ("io_uring_setup", libc::SYS_io_uring_setup, vec![1, 0]),
            ("keyctl", libc::SYS_keyctl, vec![0, 0, 0]),
            ("add_key", libc::SYS_add_key, vec![0, 0, 0, 0, 0]),
            ("init_module", libc::SYS_init_module, vec![0, 0, 0]),
            ("kexec_load", libc::SYS_kexec_load, vec![0, 0, 0, 0]),
            ("open_by_handle_at", libc::SYS_open_by_handle_at, vec![0, 0, 0]),
            ("inotify", libc::SYS_inotify_init1, vec![0]),
            ("fanotify", libc::SYS_fanotify_init, vec![0, 0]),
            ("shared memory", libc::SYS_shmget, vec![0, 4096, 0]),
            ("message queue", libc::SYS_msgget, vec![0, 0]),
            ("semaphores", libc::SYS_semget, vec![0, 1, 0]),
            ("reboot", libc::SYS_reboot, vec![0, 0, 0, 0]),
            ("settimeofday", libc::SYS_settimeofday, vec![0, 0]),
            ("sethostname", libc::SYS_sethostname, vec![at(c"a"), 1]),
            ("put into a terminal's input", libc::SYS_ioctl, vec![0, libc::TIOCSTI as c_long, at(c"a")]),
            ("signals by a descriptor", libc::SYS_fcntl, vec![0, libc::F_SETOWN.into(), parent]),
        ],
        Errno::EPERM,
    );
}

#[test]
fn no_memory_can_be_made_executable() {
    let before = forbidden::COUNT.load(Ordering::Relaxed);
    let page = rustix::param::page_size() as i64;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).into();
    let code = (libc::PROT_READ | libc::PROT_EXEC).into();
    refused(
        vec![
            ("mmap", libc::SYS_mmap, vec![0, page, code, anonymous, -1, 0]),
            ("mprotect", libc::SYS_mprotect, vec![0, page, code]),
            ("pkey_mprotect", libc::SYS_pkey_mprotect, vec![0, page, code, 0]),
        ],
        Errno::EPERM,
    );
    assert!(forbidden::COUNT.load(Ordering::Relaxed) >= before + 3, "the log says nothing of what was refused");
}

/// Only files are confined, as where the kernel has Landlock and no seccomp.
#[test]
fn landlock_alone_forbids_writing_making_and_executing() {
    let directory = std::env::temp_dir().join(format!("reprise-landlock-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("file");
    std::fs::write(&file, "text").expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    let (place, text) = (directory.clone(), file.clone());
    let thread = std::thread::spawn(move || {
        crate::os::sys::renounce_privileges().expect("no new privileges");
        let status = confine::forbid_files().expect("a ruleset");
        assert_ne!(status, landlock::RulesetStatus::NotEnforced, "this kernel has no Landlock");
        let kind = |result: std::io::Result<()>| result.map_err(|error| error.raw_os_error()).err().flatten();
        let closed = Some(libc::EACCES);
        assert_eq!(kind(std::fs::OpenOptions::new().append(true).open(&text).map(drop)), closed);
        assert_eq!(kind(std::fs::write(place.join("new"), "")), closed);
        assert_eq!(kind(std::fs::create_dir(place.join("new"))), closed);
        assert_eq!(kind(std::os::unix::fs::symlink("file", place.join("new"))), closed);
        assert_eq!(kind(std::fs::rename(&text, place.join("new"))), closed);
        assert_eq!(kind(std::fs::remove_file(&text)), closed);
        assert_eq!(kind(std::os::unix::net::UnixListener::bind(place.join("new")).map(drop)), closed);
        assert_eq!(kind(std::process::Command::new("/bin/true").status().map(drop)), closed);
        assert_eq!(kind(TcpStream::connect(address).map(drop)), closed);
        assert_eq!(kind(TcpListener::bind("127.0.0.1:0").map(drop)), closed);
        assert_eq!(std::fs::read_to_string(&text).expect("reading stays"), "text");
        assert_eq!(std::fs::read_dir(&place).expect("listing stays").count(), 1);
    });
    let ended = thread.join();
    std::fs::remove_dir_all(&directory).expect("removed");
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_serving_takes_stays_possible() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    client.write_all(b"request").expect("sent");
    confined(&[], move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        stream.set_nodelay(true).expect("an option");
        stream.set_nonblocking(false).expect("a mode");
        let mut request = [0; 7];
        stream.read_exact(&mut request).expect("read");
        let file = std::fs::File::open("/proc/self/exe").expect("a file");
        let again = std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("once more");
        assert!(again.metadata().expect("its size").len() > 0);
        let memory = rustix::fs::memfd_create("reprise-test", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&memory, 4096).expect("its size");
        rustix::io::pwrite(&memory, b"x", 0).expect("written");
        let length = std::thread::Builder::new().name("front-0".to_owned()).spawn(|| vec![1_u8; 64 << 20].len());
        assert_eq!(length.expect("a thread").join().expect("its end"), 64 << 20);
        std::thread::sleep(std::time::Duration::from_millis(1));
        stream.write_all(&request).expect("answered");
    });
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "request");
}

/// If a kernel, or the container it runs in, has neither, the front reports that and serves.
#[test]
fn a_kernel_without_them_is_told_of() {
    let thread = std::thread::spawn(|| {
        crate::os::sys::renounce_privileges().expect("no new privileges");
        let calls = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp, libc::SYS_prctl];
        let calls: BTreeMap<_, _> = calls.into_iter().map(|call| (call, Vec::new())).collect();
        let processor = std::env::consts::ARCH.try_into().expect("a processor");
        let filter =
            SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), processor);
        let filter: BpfProgram = filter.expect("a filter").try_into().expect("its program");
        seccompiler::apply_filter(&filter).expect("a filter");
        confine::forbid_all()
    });
    let said = thread.join().expect("its end");
    assert!(said.len() == 2 && said[0].starts_with("Landlock: ") && said[1].starts_with("seccomp: "), "{said:?}");
}
