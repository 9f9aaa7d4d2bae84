"""confine.py UNIT COMMAND...   Runs a command as root under what a unit of systemd takes away, without systemd.

Done: CapabilityBoundingSet, NoNewPrivileges, SystemCallFilter with its error, SystemCallArchitectures, RestrictAddressFamilies,
ProtectSystem=full, ProtectKernelTunables, ProtectControlGroups, ProtectProc, PrivateDevices, UMask, LimitNOFILE. Left out: what
hides the directories of the tests (PrivateTmp, ProtectHome), and filters of single arguments but for address families.
"""

import ctypes
import errno
import os
import resource
import socket
import struct
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x20000
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
AUDIT_ARCH_X86_64 = 0xC000003E
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
    "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
    "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
).split()


def call(name, *arguments):
    if getattr(libc, name)(*[ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]) != 0:
        raise OSError(ctypes.get_errno(), f"{name} {arguments}")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def read_unit(path):
    settings = {}
    with open(path, encoding="utf-8") as unit:
        for line in unit:
            name, is_setting, value = line.strip().partition("=")
            if is_setting and not line.startswith("#"):
                settings[name] = value.split()
    return settings


def hide_files(settings):
    call("unshare", CLONE_NEWNS)
    mount("--make-rprivate", "/")
    if settings["ProtectProc"] == ["invisible"]:
        mount("-t", "proc", "-o", "hidepid=invisible", "proc", "/proc")
    read_only = ["/proc/sys", "/sys"] if settings["ProtectKernelTunables"] == ["yes"] else []
    if settings["ProtectSystem"] == ["full"]:
        read_only += ["/usr", "/boot", "/etc"]
    for path in filter(os.path.isdir, read_only):
        mount("--rbind", path, path)
        mount("-o", "remount,bind,ro", path)
    if settings["PrivateDevices"] == ["yes"]:
        place = "/mnt"
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
        for name in ["null", "zero", "full", "random", "urandom", "tty"]:
            open(f"{place}/{name}", "w", encoding="utf-8").close()
            mount("--bind", f"/dev/{name}", f"{place}/{name}")
        for name in filter(lambda name: os.path.isdir(f"/dev/{name}"), ["shm", "pts", "mqueue"]):
            os.mkdir(f"{place}/{name}")
            mount("--bind", f"/dev/{name}", f"{place}/{name}")
        for name in ["fd", "stdin", "stdout", "stderr"]:
            os.symlink(os.readlink(f"/dev/{name}"), f"{place}/{name}")
        mount("--move", place, "/dev")


def expand(names):
    """The system calls of a filter, groups resolved by systemd itself."""
    calls, groups = set(), list(names)
    while groups:
        one = groups.pop()
        if not one.startswith("@"):
            calls.add(one)
            continue
        lines = subprocess.run(["systemd-analyze", "syscall-filter", one], check=True, capture_output=True, text=True).stdout
        groups += [line.strip() for line in lines.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return calls


def system_call_numbers():
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", encoding="utf-8") as header:
        words = [line.split() for line in header if line.startswith("#define __NR_")]
    return {name.removeprefix("__NR_"): int(number) for _, name, number in words}


def install_filter(settings):
    load, jump_equal, ret = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, lambda error: 0x00050000 | error
    otherwise = refuse(getattr(errno, settings["SystemCallErrorNumber"][0]))
    numbers = system_call_numbers()
    program = [(load, 0, 0, 4), (jump_equal, 1, 0, AUDIT_ARCH_X86_64), (ret, 0, 0, otherwise), (load, 0, 0, 0)]
    families = [getattr(socket, name) for name in settings["RestrictAddressFamilies"]]
    checks = [(load, 0, 0, 16)]
    for family in families:
        checks += [(jump_equal, 0, 1, family), (ret, 0, 0, allow)]
    checks.append((ret, 0, 0, refuse(errno.EAFNOSUPPORT)))
    program += [(jump_equal, 0, len(checks), numbers["socket"]), *checks]
    for number in sorted(numbers[name] for name in expand(settings["SystemCallFilter"]) if name in numbers):
        program += [(jump_equal, 0, 1, number), (ret, 0, 0, allow)]
    program.append((ret, 0, 0, otherwise))
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    call("prctl", PR_SET_SECCOMP, 2, filter_, 0, 0)


def main():
    settings = read_unit(sys.argv[1])
    hide_files(settings)
    os.umask(int(settings["UMask"][0], 8))
    limit = min(int(settings["LimitNOFILE"][0]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limit))
    with open("/proc/sys/kernel/cap_last_cap", encoding="utf-8") as last:
        last = int(last.read())
    for number in range(last + 1):
        name = CAPABILITIES[number] if number < len(CAPABILITIES) else ""
        if f"CAP_{name}" not in settings["CapabilityBoundingSet"]:
            call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    if settings.get("NoNewPrivileges") == ["yes"]:
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    install_filter(settings)
    os.execvp(sys.argv[2], sys.argv[2:])


main()
