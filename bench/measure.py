"""One scenario: started sides checked and loaded in turns."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bodies
import intervals
import sites
import processes
from failure import Failure
from intervals import Interval
from load import Load, Outcome
from processes import CpuReading
from scenarios import Scenario

READY_DEADLINE_S = 60.0
QUIET_DEADLINE_S = 30.0
QUIET_S = 0.3  # longer than nginx keeps a connection on which PHP-FPM waits
LOG_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Plan:
    """How the rounds are run; the same for every scenario."""

    load: Load
    rounds: int
    seconds: int
    warmup: int
    say: Callable[[str], None]


@dataclass(frozen=True)
class Slot:
    """One side's turn in one round."""

    outcome: Outcome
    cpu_us_per_request: dict[str, float]
    processes_ended: int  # while measured; what they used at the end is not in the CPU time
    foreign: float  # share of the machine's CPUs used by neither the servers nor the client
    steal: float

    def as_dict(self) -> dict[str, Any]:
        return {**self.outcome.as_dict(), "cpu_us_per_request": self.cpu_us_per_request,
                "processes_ended": self.processes_ended, "foreign": self.foreign, "steal": self.steal}


@dataclass
class Side:
    """One of the servers under comparison, and what was measured of it."""

    label: str
    running: sites.Running
    slots: list[Slot] = field(default_factory=list)
    pss_kib: dict[str, int | None] = field(default_factory=dict)
    cookies: str = ""  # of its visitor

    def address(self, scenario: Scenario) -> tuple[str, int, str]:
        """Where it has the scenario's page."""
        return self.label, self.running.port, self.running.path or scenario.path

    def rates(self) -> list[float]:
        return [slot.outcome.requests_per_s for slot in self.slots]

    def rate(self) -> float:
        return statistics.median(self.rates())

    def cpu(self) -> dict[str, float]:
        """Median µs per request by group."""
        groups = self.slots[0].cpu_us_per_request
        return {name: statistics.median(slot.cpu_us_per_request.get(name, 0.0) for slot in self.slots) for name in groups}

    def p99_us(self) -> float:
        return statistics.median(slot.outcome.p99_us for slot in self.slots)

    def failed(self, what: str, hint: str = "") -> Failure:
        return self.running.processes[-1].failed(what, hint, self.running.logs)


@dataclass
class Result:
    scenario: Scenario
    sides: tuple[Side, Side]
    interval: Interval
    check: bodies.Check
    goal: intervals.Goal | None  # if the project has one about these two peers
    jit: bool = False  # of PHP

    @property
    def name(self) -> str:
        return self.scenario.name + (", JIT" if self.jit else "")

    @property
    def verdict(self) -> str:
        return intervals.verdict(self.interval, self.goal)

    @property
    def missed(self) -> bool:
        return self.goal is not None and not self.goal.holds(self.interval)

    def foreign(self) -> float:
        return statistics.median(slot.foreign + slot.steal for side in self.sides for slot in side.slots)

    def as_dict(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name, "path": self.scenario.path, "jit": self.jit,
            "ratio": {"median": self.interval.ratio, "low": self.interval.low, "high": self.interval.high},
            "goal": str(self.goal) if self.goal else None, "verdict": self.verdict,
            "body": {"sha256": self.check.sha256, "bytes": self.check.size, "normalised": list(self.scenario.normalise),
                     "drawn": bool(self.scenario.drawn_bytes), "unlike_headers": list(self.check.unlike_headers)},
            "order": [[self.sides[i].label for i in order] for order in intervals.abba(len(self.sides[0].slots))],
            "sides": [{
                "label": side.label, "requests_per_s": side.rate(), "cpu_us_per_request": side.cpu(),
                "pss_kib": side.pss_kib, "commands": side.running.commands(),
                "configuration": side.running.configuration, "rounds": [slot.as_dict() for slot in side.slots],
            } for side in self.sides],
        }


def await_ready(side: Side, path: str, deadline_s: float = READY_DEADLINE_S) -> None:
    """Until the page is answered with 200. A server that is up but answers an error is not waited for."""
    main = side.running.processes[0]

    def ready() -> bool:
        try:
            answer = bodies.fetch(side.running.port, path)
        except (OSError, bodies.http.client.HTTPException):
            return False
        if answer.status in (502, 503, 504):
            return False
        if answer.status != 200:
            raise main.failed(f"answers {path} with status {answer.status}: {bodies.excerpt(answer.body, 300)}",
                              logs=side.running.logs)
        return True

    processes.wait_until(ready, deadline_s, main, f"answering {path}", side.running.logs)


def await_quiet(side: Side, deadline_s: float = QUIET_DEADLINE_S) -> None:
    """Until the requests the client left behind are worked off, so that they do not run in another turn. A server that is
    quiet for a moment might only wait, with more of them in its queue."""
    begun = quiet_since = then = time.monotonic()
    before = CpuReading.take(side.running.groups())
    while then - quiet_since < QUIET_S:
        if then - begun > deadline_s:
            raise side.failed(f"still busy {deadline_s:g} s after the load ended")
        time.sleep(0.05)
        after, now = CpuReading.take(side.running.groups()), time.monotonic()
        if sum(after.since(before)[0].values()) >= 0.05 * (now - then) * 1e9:
            quiet_since = now
        before, then = after, now


def require_logged(side: Side, requests: int) -> None:
    """The access log is part of the work: it must have a line for each request. Emptied for the next turn."""
    log, deadline = side.running.access_log, time.monotonic() + LOG_DEADLINE_S
    if log is None:
        return
    while (lines := count_lines(log)) < requests:
        if time.monotonic() > deadline:
            raise side.failed(f"its access log {log.name} has {lines} lines after {requests} requests")
        time.sleep(0.05)
    os.truncate(log, 0)


def count_lines(log: Path) -> int:
    try:
        with log.open("rb") as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except FileNotFoundError:
        return 0


def turn(side: Side, scenario: Scenario, plan: Plan, seconds: int, shared: Callable[[], processes.Groups]) -> Slot:
    """Load one side. CPU time is read as the client ends: what is still in the queue belongs to no counted request."""
    def groups() -> processes.Groups:
        return {**side.running.groups(), **shared()}

    busy, steal = processes.machine_busy_s()
    before = CpuReading.take(groups())
    outcome = plan.load.run(side.label, *side.address(scenario)[1:], seconds, side.cookies)
    spent, ended = CpuReading.take(groups()).since(before)
    busy_now, steal_now = processes.machine_busy_s()
    await_quiet(side)
    require_logged(side, outcome.requests)
    capacity = outcome.elapsed_s * (os.cpu_count() or 1)
    foreign = busy_now - busy - sum(spent.values()) / 1e9 - outcome.client_cpu_s
    return Slot(outcome, {name: ns / 1000 / outcome.requests for name, ns in spent.items()}, ended,
                max(0.0, foreign / capacity), (steal_now - steal) / capacity)


def require_cookies(side: Side, scenario: Scenario) -> str:
    """Those that a first answer sets."""
    cookies = bodies.fetch(*side.address(scenario)[1:]).cookies
    if not cookies:
        raise side.failed(f"sets no cookie on {scenario.path}, by which a visitor would be known again")
    return cookies


@contextlib.contextmanager
def failing(side: Side) -> Iterator[None]:
    """A failure in here is of this server."""
    try:
        yield
    except Failure as failure:
        failure.label = side.label
        raise


def rounds(scenario: Scenario, sides: Sequence[Side], plan: Plan, orders: Sequence[Sequence[int]],
           between: Callable[[], None], shared: Callable[[], processes.Groups]) -> bodies.Check:
    """All rounds of a scenario on started sides, each in its order."""
    addresses = [side.address(scenario) for side in sides]
    for side in sides:
        with failing(side):
            await_ready(side, side.address(scenario)[2])
            if scenario.is_visited:
                side.cookies = require_cookies(side, scenario)
    check = bodies.require_alike(scenario, addresses, "before the load")
    for side in sides:
        side.running.verify()
    for side in sides:
        between()
        with failing(side):
            turn(side, scenario, plan, plan.warmup, shared)
            side.running.verify()
    for number, order in enumerate(orders, 1):
        bodies.require_alike(scenario, addresses, f"before round {number}")
        for index in order:
            between()
            with failing(sides[index]):
                sides[index].slots.append(turn(sides[index], scenario, plan, plan.seconds, shared))
                sides[index].running.verify()
        plan.say(f"  round {number}/{len(orders)}: {told(sides)}")
    bodies.require_alike(scenario, addresses, "after the load")
    for side in sides:
        side.running.verify()
        for name, pids in {**side.running.groups(), **shared()}.items():
            sizes = [processes.pss_kib(pid) for pid in pids]
            side.pss_kib[name] = None if None in sizes else sum(size for size in sizes if size is not None)
    return check


def told(sides: Sequence[Side]) -> str:
    """The last round in a line."""
    rates = [side.slots[-1].outcome.requests_per_s for side in sides]
    if len(rates) == 2:
        return f"{rates[0]:,.0f} and {rates[1]:,.0f} requests/s, ratio {rates[0] / rates[1]:.3f}"
    return "requests/s: " + ", ".join(f"{side.label} {rate:,.0f}" for side, rate in zip(sides, rates))


def run(scenario: Scenario, sides: tuple[Side, Side], plan: Plan, goal: intervals.Goal | None, jit: bool,
        between: Callable[[], None], shared: Callable[[], processes.Groups]) -> Result:
    """A scenario on two started sides."""
    check = rounds(scenario, sides, plan, intervals.abba(plan.rounds), between, shared)
    return Result(scenario, sides, intervals.ratio_interval(sides[0].rates(), sides[1].rates()), check, goal, jit)
