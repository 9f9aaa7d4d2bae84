"""What a rewind may cost: limits, fits and verdicts. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from intervals import Goal, Interval

FEW_PAGES = 700  # beyond, image and memory no longer fit into the processor's cache
LOOP_GOALS: dict[str, Goal] = {"/hello": Goal(0.65), "/": Goal(0.9), "/post/5": Goal(0.9), "/api/posts": Goal(0.9)}
HELLO_GOAL = Goal(0.75)
CLONES_STARTED_MS = 4000.0
CLONE_KIB = 512.0
SLEEPERS_S = 1.5


@dataclass(frozen=True)
class Row:
    """One line of the result: a number and what it may be."""

    name: str
    value: str
    goal: str = ""
    holds: bool | None = None  # None: nothing to judge

    @property
    def verdict(self) -> str:
        return "" if self.holds is None else "holds" if self.holds else "MISSED"


def at_most(name: str, values: Sequence[float], limit: float, unit: str, digits: int = 1) -> Row:
    """The median of all rounds is judged, and shown with the smallest and the largest."""
    middle = statistics.median(values)
    spread = f" [{min(values):,.{digits}f}, {max(values):,.{digits}f}]" if len(values) > 1 else ""
    return Row(name, f"{middle:,.{digits}f}{spread} {unit}", f"≤ {limit:,.{digits}f} {unit}", middle <= limit)


def at_least(name: str, interval: Interval, goal: Goal) -> Row:
    return Row(name, str(interval), str(goal), goal.holds(interval))


def fast_limit_us(pages: float) -> float:
    """Of a rewind that scans nothing."""
    return 5 + 0.1 * min(pages, FEW_PAGES) + 0.3 * max(0.0, pages - FEW_PAGES)


def scan_limit_us(mib: float) -> float:
    """Of one that looks for written pages in so much private writable memory."""
    return 100 + 0.5 * mib


@dataclass(frozen=True)
class Line:
    intercept: float
    slope: float


def fit(points: Sequence[tuple[float, float]]) -> Line:
    """Least squares."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a line needs two points")
    slope, intercept = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return Line(intercept, slope)


def fast_fits(points: Sequence[tuple[float, float]]) -> list[Row]:
    """For information: it is the points that are judged."""
    rows = []
    few, many = ([(x, y) for x, y in points if choose(x)]
                 for choose in (lambda x: x <= FEW_PAGES, lambda x: x >= FEW_PAGES * 0.95))
    for name, chosen, goal in ((f"up to {FEW_PAGES} pages", few, "5 µs + 0.1 µs"), ("beyond", many, "0.3 µs")):
        if len({x for x, _ in chosen}) > 1:
            line = fit(chosen)
            constant = f"{line.intercept:.1f} µs + " if chosen is few else ""
            rows.append(Row(f"fast rewind, fitted {name}", f"{constant}{line.slope:.3f} µs a page", goal))
    return rows


def scan_fit(points: Sequence[tuple[float, float]]) -> Row:
    line = fit(points)
    return Row("scan, fitted", f"{line.intercept:.0f} µs + {line.slope:.2f} µs a MiB", "100 µs + 0.5 µs")
