"""Starting, awaiting and ending processes, and what /proc says about them.

Every process started here leads a session of its own and is remembered until it has ended, so that whatever goes wrong,
`stop_all` ends exactly what this program started, by process id.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from failure import Failure

STOP_DEADLINE_S = 10.0
Groups = dict[str, list[int]]


@dataclass(eq=False)
class Started:
    """One process and whatever it forks."""

    name: str
    argv: list[str]
    log: Path
    popen: subprocess.Popen[bytes] = field(repr=False)
    stop_signal: int = signal.SIGTERM

    @property
    def pid(self) -> int:
        return self.popen.pid

    def failed(self, what: str, hint: str = "", logs: Iterable[Path] = ()) -> Failure:
        tails = [f"{log.name}:\n{tail(log)}" for log in (self.log, *logs) if tail(log)]
        return Failure(f"{self.name}: {what}", hint, "\n".join([f"$ {' '.join(self.argv)}", *tails]))

    def stop(self) -> None:
        """Ask, wait, then kill; descendants that outlive their parent are killed too."""
        family = {pid: start_time(pid) for pid in tree(self.pid)}
        if self.popen.poll() is None:
            self.popen.send_signal(self.stop_signal)
            try:
                self.popen.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        _await_end(family, 1.0)
        for pid, since in family.items():
            if alive(pid, since):
                os.kill(pid, signal.SIGKILL)
        try:
            os.killpg(self.pid, signal.SIGKILL)  # orphans the walk did not see; no group, no harm
        except (ProcessLookupError, PermissionError):
            pass
        _await_end(family, 5.0)
        if self in _started:
            _started.remove(self)


_started: list[Started] = []


def start(name: str, argv: Sequence[str], log: Path, stop_signal: int = signal.SIGTERM, cpus: str = "",
          env: dict[str, str] | None = None) -> Started:
    command = [*(["taskset", "-c", cpus] if cpus else []), *argv]
    with log.open("ab") as output:
        try:
            popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env,
                                     start_new_session=True)
        except OSError as error:
            raise Failure(f"cannot start {name}: {error}") from error
    started = Started(name, command, log, popen, stop_signal)
    _started.append(started)
    return started


def count() -> int:
    return len(_started)


def stop_all(but: int = 0) -> None:
    """All, or those that were started after the first ones."""
    while len(_started) > but:
        _started[-1].stop()


def wait_until(ready: Callable[[], bool], deadline_s: float, process: Started, what: str,
               logs: Sequence[Path] = ()) -> None:
    """Poll until ready; the process's death or the deadline ends the run with its logs."""
    deadline = time.monotonic() + deadline_s
    while not ready():
        if process.popen.poll() is not None:
            raise process.failed(f"ended with status {process.popen.returncode} before {what}", logs=logs)
        if time.monotonic() > deadline:
            raise process.failed(f"{what}: not within {deadline_s:g} s", logs=logs)
        time.sleep(0.02)


def tail(log: Path, lines: int = 15) -> str:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 16_384))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def free_port(wanted: int = 0) -> int:
    """A port nobody listens on; `wanted` itself if given."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
            probe.listen()
        except (OSError, OverflowError) as error:
            reason = "is in use" if isinstance(error, OSError) and error.errno == 98 else f"cannot be used: {error}"
            raise Failure(f"port {wanted} {reason}", "leave --port away to let the system choose") from error
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == 0


# /proc ------------------------------------------------------------------------------------------------------------------


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on; the second, the name, may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def start_time(pid: int) -> int:
    try:
        return int(_stat(pid)[19])
    except OSError:
        return -1


def _await_end(family: dict[int, int], deadline_s: float) -> None:
    deadline = time.monotonic() + deadline_s
    while any(alive(pid, since) for pid, since in family.items()) and time.monotonic() < deadline:
        time.sleep(0.01)


def alive(pid: int, since: int) -> bool:
    """Whether `pid` is still the process that started at `since`, and not a zombie."""
    try:
        fields = _stat(pid)
    except OSError:
        return False
    return int(fields[19]) == since and fields[0] != "Z"


def tree(root: int) -> list[int]:
    """`root` and its descendants, found by parent ids."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                children.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
            except OSError:
                continue
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, []))
    return found


def parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return 0


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def cpu_ns(pid: int) -> int:
    """CPU time of all threads in nanoseconds (/proc/PID/stat counts in 10 ms)."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
    except OSError:
        pass
    return total


@dataclass
class CpuReading:
    """CPU time per process of each group at one moment."""

    groups: dict[str, dict[int, int]]

    @classmethod
    def take(cls, groups: Groups) -> CpuReading:
        return cls({name: {pid: cpu_ns(pid) for pid in pids} for name, pids in groups.items()})

    def since(self, before: CpuReading) -> tuple[dict[str, int], int]:
        """Nanoseconds per group since `before`, and how many processes ended in between (their last part is lost)."""
        spent, ended = {}, 0
        for name, now in self.groups.items():
            then = before.groups.get(name, {})
            ended += len(then.keys() - now.keys())
            spent[name] = sum(max(0, ns - then.get(pid, 0)) for pid, ns in now.items())
        return spent, ended


def pss_kib(pid: int) -> int | None:
    """Proportional set size: shared pages are divided among those who share them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def page_tables_kib(pid: int) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmPTE:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def machine_busy_s() -> tuple[float, float]:
    """Seconds all CPUs have been busy since boot, and those the hypervisor took away."""
    fields = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick
