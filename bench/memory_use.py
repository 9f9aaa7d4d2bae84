"""What servers use of the machine's memory: proportional sets and page tables of all their processes."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import burst
import processes
from failure import Failure
from sites import Running

CLONES_RATIO = 0.3  # at most
PAGE, ENTRY = 4096, struct.Struct("<Q")
KERNEL_S = 1 << 47  # addresses from here on are the kernel's: vsyscall


@dataclass(frozen=True)
class Use:
    """Of one group of processes, or of all of a server."""

    processes: int
    pss_kib: int
    page_tables_kib: int

    @property
    def kib(self) -> int:
        return self.pss_kib + self.page_tables_kib

    def as_dict(self) -> dict[str, int]:
        return {"processes": self.processes, "pss_kib": self.pss_kib, "page_tables_kib": self.page_tables_kib}


def total(uses: dict[str, Use]) -> Use:
    return Use(*(sum(getattr(one, name) for one in uses.values()) for name in ("processes", "pss_kib", "page_tables_kib")))


def read(groups: processes.Groups) -> dict[str, Use]:
    """A process that ends meanwhile is left out."""
    found = {}
    for name, pids in groups.items():
        sizes = [(processes.pss_kib(pid), processes.page_tables_kib(pid)) for pid in pids]
        known = [(pss, tables) for pss, tables in sizes if pss is not None and tables is not None]
        found[name] = Use(len(known), sum(pss for pss, _ in known), sum(tables for _, tables in known))
    return found


def private_pages(pids: list[int]) -> tuple[float, float] | None:
    """Pages of anonymous memory that a process shares with no other: those that it may write as they are, and those that a
    write-protection of userfaultfd guards. Each is the mean of the processes. None if no process can be read."""
    found = [one for one in map(_private_pages, pids) if one]
    if not found:
        return None
    return sum(free for free, _ in found) / len(found), sum(guarded for _, guarded in found) / len(found)


def _private_pages(pid: int) -> tuple[int, int] | None:
    """Bits of /proc/PID/pagemap: present, of a file, mapped by this process alone, protected by userfaultfd."""
    counts = [0, 0]
    try:
        with open(f"/proc/{pid}/pagemap", "rb", 0) as pages:
            for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
                start, end = (int(part, 16) for part in line.split(maxsplit=1)[0].split("-"))
                if start >= KERNEL_S:
                    continue
                pages.seek(start // PAGE * ENTRY.size)
                for (entry,) in ENTRY.iter_unpack(pages.read((end - start) // PAGE * ENTRY.size)):
                    if entry >> 63 & 1 and not entry >> 61 & 1 and entry >> 56 & 1:
                        counts[entry >> 57 & 1] += 1
    except OSError:
        return None
    return counts[0], counts[1]


def left(before: dict[int, int], now: dict[int, int]) -> list[int]:
    """Processes that have served nothing since `before`; what has been started since counts from 0."""
    return sorted(pid for pid, count in now.items() if count <= before.get(pid, 0))


def drive(running: Running, path: str, workers: int, is_alive: Callable[[int], bool], deadline_s: float) -> int:
    """Ask for the page, by as many requests at once as there are workers, until each has served it. How many requests."""
    assert running.served is not None
    deadline, sent = time.monotonic() + deadline_s, 0
    before = running.served()
    while True:
        burst.exchange(running.port, path, workers, deadline_s)
        sent += workers
        now = running.served()
        alive = {pid: count for pid, count in now.items() if is_alive(pid)}
        idle = left(before, alive)
        if len(alive) >= workers and not idle:
            return sent
        if time.monotonic() > deadline:
            raise Failure(f"{running.label}: after {sent} requests for {path} {len(idle)} of {len(alive)} processes have not served it")


def rows(label: str, uses: dict[str, Use]) -> list[list[str]]:
    """Lines of a table: each group, then all."""
    return [[label, name, str(use.processes), f"{use.pss_kib / 1024:,.1f}", f"{use.page_tables_kib / 1024:,.1f}", f"{use.kib / 1024:,.1f}"]
            for name, use in {**uses, "all": total(uses)}.items()]


def available_kib() -> int:
    with open("/proc/meminfo", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable:"))


def as_dict(uses: dict[str, Use]) -> dict[str, Any]:
    return {**{name: use.as_dict() for name, use in uses.items()}, "all": total(uses).as_dict()}
