"""The rounds of bench/cache-clients, and the ratios between rows of one shape."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cache_php
import intervals
import processes
from cache_matrix import CLIENTS, Cell, groups, in_turn
from cache_servers import Address, Server
from intervals import Interval

BASE = "predis"
# What is formed of each pair of rows, and which direction is better.
RATE, CLIENT_CPU = "operations per second", "client CPU per operation"


@dataclass(frozen=True)
class Turn:
    """One row's turn in one round."""

    operations: int
    per_s: float
    p50_us: float
    p99_us: float
    client_user_us: float  # per operation, as the two below
    client_system_us: float
    server_us: float
    overhead_ns: float  # what the loop itself takes, per operation
    bytes: int  # of one value as it is stored

    @property
    def client_us(self) -> float:
        return self.client_user_us + self.client_system_us


@dataclass
class Row:
    """One cell and what was measured of it; with a failure it has no numbers."""

    cell: Cell
    turns: list[Turn] = field(default_factory=list)
    failures: int = 0  # exceptions, timeouts, refused writes
    wrong: int = 0  # answers that are not what was stored
    reason: str = ""  # of the first

    @property
    def failed(self) -> bool:
        return bool(self.failures or self.wrong or self.reason or not self.turns)

    def values(self, name: str) -> list[float]:
        return [float(getattr(turn, name)) for turn in self.turns]

    def median(self, name: str) -> float:
        return statistics.median(self.values(name))


@dataclass
class Use:
    """How much of the machine was used by others during all turns."""

    capacity_s: float = 0.0
    foreign_s: float = 0.0
    steal_s: float = 0.0

    def share(self) -> float:
        return (max(0.0, self.foreign_s) + self.steal_s) / self.capacity_s if self.capacity_s else 0.0


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: float
    timeout: int
    verify: str
    say: Callable[[str], None]


def failed_turn(row: Row, said: dict[str, Any]) -> bool:
    """Note what went wrong; whether anything did."""
    row.failures += int(said["failures"])
    row.wrong += int(said["wrong"])
    if said["failures"] or said["wrong"] or not said.get("operations"):
        row.reason = row.reason or str(said.get("first") or "no operation ended within its time")
    return bool(row.reason)


def turn(row: Row, php: cache_php.Php, server: Server | None, address: Address, workdir: Path, plan: Plan, use: Use) -> None:
    """Start the clients, let them begin together, and read CPU times around what they do until the deadline."""
    (workdir / "php.log").unlink(missing_ok=True)
    control = cache_php.begin(php, row.cell, address, workdir, plan.seconds, plan.timeout, plan.verify)
    patience = 60 + 3 * plan.timeout + plan.seconds
    server_ns = 0
    try:
        said = control.hear(patience)
        if said["state"] == "ready":
            began, (busy, steal) = time.monotonic(), processes.machine_busy_s()
            before = processes.cpu_ns(server.process.pid) if server else 0
            control.say("go")
            control.hear(patience)
            server_ns = processes.cpu_ns(server.process.pid) - before if server else 0
            elapsed, (busy_now, steal_now) = time.monotonic() - began, processes.machine_busy_s()
            control.say("check")
            said = control.hear(patience)
            use.capacity_s += elapsed * (os.cpu_count() or 1)
            use.steal_s += steal_now - steal
            use.foreign_s += busy_now - busy - server_ns / 1e9 - (said.get("user_us", 0) + said.get("system_us", 0)) / 1e6
        if control.request is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                control.process.popen.wait(5)
    except cache_php.Broken as failure:
        said = {"failures": 1, "wrong": 0, "first": f"{failure.args[0]}: {failure.detail}".strip()}
    finally:
        control.close()
        control.process.stop()
    failed = failed_turn(row, said)
    if server:
        server.require_alive(suspicious=failed)
    if failed:
        return
    done = said["operations"]
    row.turns.append(Turn(done, said["per_s"], said["p50_us"], said["p99_us"], said["user_us"] / done, said["system_us"] / done,
                          server_ns / 1000 / done, said["overhead_ns"], said["bytes"]))


def run(cells: Sequence[Cell], php: cache_php.Php, servers: dict[str, Server], workdir: Path, plan: Plan) -> tuple[list[Row], Use]:
    """All rounds: rows that are compared follow one another. A row that has failed is not tried again."""
    rows, use = {cell: Row(cell) for cell in cells}, Use()
    began, together = time.monotonic(), groups(cells)
    for number in range(plan.rounds):
        for members in together:
            for cell in in_turn(members, number):
                row, server = rows[cell], servers.get(cell.server)
                if not row.reason:
                    turn(row, php, server, server.address if server else Address(), workdir, plan, use)
                    if row.reason:
                        plan.say(f"  failed: {cell}: {row.reason}")
        plan.say(f"  round {number + 1}/{plan.rounds} of {len(rows)} combinations, {time.monotonic() - began:.0f} s")
    for row in rows.values():
        if row.failed:
            row.turns.clear()
    return list(rows.values()), use


# Ratios -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """Of two rows that differ in one thing. Above 1, `better` is better."""

    better: Cell
    base: Cell
    measure: str  # RATE or CLIENT_CPU
    interval: Interval

    @property
    def verdict(self) -> str:
        if self.interval.low <= 1 <= self.interval.high:
            return "not distinguishable"
        more, less = ("faster", "slower") if self.measure == RATE else ("less CPU", "more CPU")
        return more if self.interval.low > 1 else less

    def __str__(self) -> str:
        return f"{self.interval.ratio:.2f} [{self.interval.low:.2f}, {self.interval.high:.2f}]"


def ratio(better: Row, base: Row, measure: str) -> Ratio:
    """Operations per second: better to base. CPU time: base to better, so that more than 1 is good in both."""
    if measure == RATE:
        one, two = better.values("per_s"), base.values("per_s")
    else:
        one, two = base.values("client_us"), better.values("client_us")
    # A turn so short that the kernel counted nothing still has a time above 0.
    pair = [[max(value, 1e-6) for value in values] for values in (one, two)]
    return Ratio(better.cell, base.cell, measure, intervals.ratio_interval(pair[0], pair[1]))


def _pairs(rows: Sequence[Row], matches: Callable[[Cell, Cell], bool]) -> list[tuple[Row, Row]]:
    good = [row for row in rows if not row.failed]
    return [(row, base) for row in good for base in good if row.cell.shape == base.cell.shape and matches(row.cell, base.cell)]


def client_ratios(rows: Sequence[Row]) -> list[Ratio]:
    """Every other client to Predis, with the same serializer."""
    pairs = _pairs(rows, lambda one, base: base.client == BASE != one.client and one.serializer == base.serializer)
    return [ratio(row, base, measure) for row, base in pairs for measure in (RATE, CLIENT_CPU)]


def serializer_ratios(rows: Sequence[Row]) -> list[Ratio]:
    """igbinary to PHP's serializer, and by hand to by the client, within each client."""
    wanted = {("igbinary", "php"), ("by-hand", "php"), ("by-hand", "igbinary")}
    pairs = _pairs(rows, lambda one, base: one.client == base.client and (one.serializer, base.serializer) in wanted)
    return [ratio(row, base, measure) for row, base in pairs for measure in (RATE, CLIENT_CPU)]


def is_extension(cell: Cell) -> bool:
    """A C extension that speaks to a server."""
    return bool(CLIENTS[cell.client].extension and CLIENTS[cell.client].server)
