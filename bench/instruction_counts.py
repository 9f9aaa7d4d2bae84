"""Instructions by function, of what bench/scripts/single_step.c has counted. Pure but for reading the counted files."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import symbols
from symbols import Functions

MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s*(.*)")
SYSCALL_DEFINITION = re.compile(r"#define __NR_(\w+) (\d+)")
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
Function = tuple[str, str]  # object and name
LOOP: Function = ("–", "(the worker's loop)")  # what the worker was in when it was seized


@dataclass(frozen=True)
class Area:
    start: int
    end: int
    offset: int
    path: str


@dataclass
class Raw:
    """What one request has executed, by address."""

    instructions: Counter[int] = field(default_factory=Counter)
    calls: Counter[int] = field(default_factory=Counter)  # of the system, by number
    edges: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # caller, callee: calls, instructions below


@dataclass
class Counts:
    """The same by function."""

    functions: Counter[Function] = field(default_factory=Counter)
    system_calls: Counter[str] = field(default_factory=Counter)
    callers: dict[tuple[Function, Function], tuple[int, int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.functions.values())

    def objects(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (name, _), number in self.functions.items():
            found[name] += number
        return found


def parse(lines: Iterable[str]) -> Raw:
    raw = Raw()
    for line in lines:
        kind, *words = line.split()
        if kind == "i":
            raw.instructions[int(words[0], 16)] += int(words[1])
        elif kind == "s":
            raw.calls[int(words[0], 16)] += int(words[1])
        elif kind == "c":
            raw.edges[int(words[0], 16), int(words[1], 16)] = (int(words[2]), int(words[3]))
        else:
            raise ValueError(f"unknown line: {line!r}")
    return raw


def areas(maps: str) -> list[Area]:
    """Of /proc/PID/maps, in ascending order."""
    found = []
    for line in maps.splitlines():
        if match := MAPPING.match(line):
            found.append(Area(int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4].removesuffix(" (deleted)")))
    return sorted(found, key=lambda area: area.start)


def object_name(path: str) -> str:
    """As the tables have it: libphp8.2.so is libphp, libc.so.6 is libc, memory without a file is none of them."""
    if not path.startswith("/") or path.startswith(("/memfd:", "/dev/")):
        return path.strip("[]") if path.startswith("[v") else "no file"
    name = Path(path).name
    return re.sub(r"[0-9.]*\.so[0-9.]*$", "", name) or name


class Resolver:
    """Functions by address in one process."""

    def __init__(self, maps: str, read: Callable[[Path], symbols.Functions] = symbols.functions) -> None:
        self.areas = areas(maps)
        self.starts = [area.start for area in self.areas]
        self.read = read
        self.tables: dict[str, tuple[Functions, int]] = {}
        self.seen: dict[int, Function] = {}
        self.without_names: set[str] = set()  # objects of which only exported functions have names

    def function(self, address: int) -> Function:
        if address not in self.seen:
            self.seen[address] = self._function(address)
        return self.seen[address]

    def _function(self, address: int) -> Function:
        at = bisect.bisect_right(self.starts, address) - 1
        if not address:
            return LOOP
        if at < 0 or address >= self.areas[at].end:
            return "no file", "(unmapped)"
        area = self.areas[at]
        name = object_name(area.path)
        if name == "no file" or not area.path.startswith("/"):
            return name, area.path or "(anonymous)"
        table, base = self._table(area.path)
        start, function = table.at(address - base)
        if function:
            return name, function
        self.without_names.add(name)
        before = table.named_before(start)
        return name, f"? {start:#x}" + (f", after {before}" if before else "")

    def _table(self, path: str) -> tuple[Functions, int]:
        """Functions of a file, and what its addresses are relative to."""
        if path not in self.tables:
            first, table = next(area for area in self.areas if area.path == path), self.read(Path(path))
            self.tables[path] = table, first.start - first.offset - table.base
        return self.tables[path]


def system_call_names(headers: Sequence[str] = HEADERS) -> dict[int, str]:
    for header in headers:
        try:
            return {int(number): name for name, number in SYSCALL_DEFINITION.findall(Path(header).read_text())}
        except OSError:
            continue
    return {}


def resolve(raw: Raw, resolver: Resolver, calls: dict[int, str]) -> Counts:
    counts = Counts()
    for address, number in raw.instructions.items():
        counts.functions[resolver.function(address)] += number
    for call, number in raw.calls.items():
        counts.system_calls[calls.get(call, f"number {call}")] += number
    for (caller, callee), (times, below) in raw.edges.items():
        key = resolver.function(caller), resolver.function(callee)
        before = counts.callers.get(key, (0, 0))
        counts.callers[key] = before[0] + times, before[1] + below
    return counts


def median(counts: Sequence[Counts]) -> Counts:
    """That of the request in the middle, by all its instructions; of two, the lower."""
    return sorted(counts, key=lambda one: one.total)[(len(counts) - 1) // 2]


# Tables: one column for each side, and the difference of the last to the first ------------------------------------------


def _rows(values: Sequence[Counter[str]], order: Callable[[str], float]) -> list[list[str]]:
    names = sorted({name for one in values for name in one}, key=lambda name: (order(name), name))
    return [[name, *(f"{one[name]:,}" for one in values), f"{values[-1][name] - values[0][name]:+,}"] for name in names]


def object_rows(sides: Sequence[Counts]) -> list[list[str]]:
    """Most instructions first; the sum last."""
    values = [side.objects() for side in sides]
    rows = _rows(values, lambda name: -max(one[name] for one in values))
    totals = [side.total for side in sides]
    return [*rows, ["all", *(f"{one:,}" for one in totals), f"{totals[-1] - totals[0]:+,}"]]


def system_call_rows(sides: Sequence[Counts]) -> list[list[str]]:
    values = [side.system_calls for side in sides]
    rows = _rows(values, lambda name: -max(one[name] for one in values))
    totals = [sum(one.values()) for one in values]
    return [*rows, ["all", *map(str, totals), f"{totals[-1] - totals[0]:+}"]]


def function_rows(sides: Sequence[Counts], limit: int) -> list[list[str]]:
    """Those with the largest difference; where there is one side, those with the most instructions."""
    def weight(function: Function) -> float:
        numbers = [side.functions[function] for side in sides]
        return -abs(numbers[-1] - numbers[0]) if len(sides) > 1 else -numbers[0]

    names = sorted({function for side in sides for function in side.functions}, key=lambda one: (weight(one), one))
    return [[*function, *(f"{side.functions[function]:,}" for side in sides),
             f"{sides[-1].functions[function] - sides[0].functions[function]:+,}"] for function in names[:limit]]


def caller_rows(sides: Sequence[Counts], wanted: str, limit: int) -> list[list[str]]:
    """Who calls a function: times, and instructions with all that it calls itself."""
    callers = sorted({key[0] for side in sides for key in side.callers if key[1][1] == wanted})
    rows = []
    for caller in callers:
        numbers = [[side.callers[key] for key in side.callers if key[0] == caller and key[1][1] == wanted] for side in sides]
        sums = [(sum(times for times, _ in one), sum(below for _, below in one)) for one in numbers]
        rows.append((abs(sums[-1][1] - sums[0][1]) if len(sides) > 1 else sums[0][1], [
            *caller, *(f"{times:,} / {below:,}" for times, below in sums), f"{sums[-1][1] - sums[0][1]:+,}"]))
    return [row for _, row in sorted(rows, key=lambda one: (-one[0], one[1]))[:limit]]
