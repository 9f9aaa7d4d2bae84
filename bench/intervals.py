"""The statistics: order of the rounds, interval of the ratio, rule of a goal.

One round measures both sides, one right after the other, so that a slow minute of the machine hits both; the ratio of a
round is formed within it. The result is the median of the rounds' ratios with a percentile bootstrap interval that
resamples whole rounds: that of crates/bench/src/stats.rs, which reprise-bench is asked for. With six rounds the median keeps
92 to 95 % coverage also when single rounds are disturbed; the mean reaches 85 % only (bench/tests checks the former).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from failure import Failure

MINIMUM_ROUNDS = 6
TOLERANCE = 0.97
# Beside the programs that are measured, as it is shipped, or as ./test builds it.
DIRECTORIES = [Path(__file__).resolve().parent.parent / "target" / profile for profile in ("release", "tests")]
PROGRAMS = [Path(directory) / "reprise-bench" for directory in (os.environ.get("REPRISE_PROGRAMS"), *DIRECTORIES) if directory]


@dataclass(frozen=True)
class Interval:
    """A ratio, or another median, with the interval that holds the true one in 95 of 100 runs."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Goal:
    """`at least`: even the interval's lower end is near the goal. `reaches`: the interval is not wholly below it."""

    ratio: float
    rule: str = "at least"

    def holds(self, interval: Interval) -> bool:
        if self.rule == "reaches":
            return interval.high >= self.ratio
        return interval.low >= TOLERANCE * self.ratio

    def __str__(self) -> str:
        return f"{'≥' if self.rule == 'at least' else 'reaches'} {self.ratio:g}"


def abba(rounds: int) -> list[tuple[int, int]]:
    """Which side goes first in each round: A B, B A, A B …; a steady drift of the machine then cancels out."""
    return [(0, 1) if number % 2 == 0 else (1, 0) for number in range(rounds)]


def mirrored(sides: int, rounds: int) -> list[list[int]]:
    """The order of each round for any number of sides: every second round is the one before it backwards, so that a steady drift
    cancels out in each pair of rounds; from pair to pair each side comes later, so that neighbours and edges change."""
    orders = []
    for number in range(rounds):
        shift = number // 2 * max(1, 2 * sides // rounds) % sides
        order = [*range(shift, sides), *range(shift)]
        orders.append(order if number % 2 == 0 else order[::-1])
    return orders


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """first/second, paired by round."""
    if len(first) != len(second) or len(first) < 2:
        raise ValueError("both sides need the same number of rounds, two at least")
    if min(*first, *second) <= 0:
        raise ValueError("a throughput must be above zero")
    return [a / b for a, b in zip(first, second)]


def ratio_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Median of first/second, paired by round, with its 95 % bootstrap interval."""
    return median_interval(ratios(first, second))


def median_interval(values: Sequence[float]) -> Interval:
    """Median of what each round has, with its 95 % bootstrap interval."""
    return median_intervals([values])[0]


def median_intervals(samples: Sequence[Sequence[float]]) -> list[Interval]:
    return [Interval(one["value"], one["low"], one["high"]) for one in _asked(samples)["intervals"]]


def bootstrap() -> dict[str, int]:
    """How intervals are made: resamples and seed."""
    return {name: value for name, value in _asked([]).items() if name != "intervals"}


def program() -> Path:
    """reprise-bench, as it was built."""
    found = next((one for one in PROGRAMS if one.exists()), None)
    if found is None:
        raise Failure(f"{PROGRAMS[0]} is missing", hint="cargo build --release")
    return found


def _asked(samples: Sequence[Sequence[float]]) -> dict[str, Any]:
    text = json.dumps([list(values) for values in samples])
    done = subprocess.run([program(), "median-intervals"], input=text, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{program()} ended with status {done.returncode}", detail=done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdict(interval: Interval, goal: Goal | None) -> str:
    """One phrase for the table. No winner is named where the interval contains 1."""
    if goal is not None:
        return "holds" if goal.holds(interval) else "MISSED"
    if interval.low <= 1 <= interval.high:
        return "not distinguishable"
    return "faster" if interval.low > 1 else "slower"
