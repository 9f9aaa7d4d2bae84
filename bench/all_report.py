"""What bench/all prints and writes: a table, CSV, JSON, and a page as a document of sections."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import all_matrix
import bodies
import intervals
import report
from document import Page, section
from intervals import Interval
from measure import Side

DATABASE = "mariadbd"
Clean = Callable[[str], str]  # paths of the machine and of the run become names
COLUMNS = ("scenario", "peer", "jit", "requests_per_s", "requests_per_s_low", "requests_per_s_high", "ratio", "ratio_low", "ratio_high",
           "verdict", "cpu_ms_per_1000", "database_cpu_ms_per_1000", "pss_mib", "p50_ms", "p99_ms", "body_bytes")
HEAD = ["scenario", "peer", "requests/s [95 %]", "ratio to nginx + PHP-FPM [95 %]", "verdict", "CPU ms per 1,000 requests",
        "of the database", "PSS MiB", "p50 ms", "p99 ms"]


@dataclass
class Measured:
    """One page, with all who served it; the first is what the others are compared with."""

    page: all_matrix.Page
    sides: list[Side]
    left_out: dict[str, str]  # label -> why
    check: bodies.Check
    jit: bool
    failed: list[str] = field(default_factory=list)  # labels of servers that were to be measured

    def ratio(self, side: Side) -> Interval | None:
        return None if side is self.sides[0] else intervals.ratio_interval(side.rates(), self.sides[0].rates())

    @functools.cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Of each server, by label; formed once, as bootstraps take their time."""
        return {side.label: _row(self, side) for side in self.sides}

    def foreign(self) -> float:
        slots = [slot.foreign + slot.steal for side in self.sides for slot in side.slots]
        return sorted(slots)[len(slots) // 2]


def rows(results: Sequence[Measured]) -> list[dict[str, Any]]:
    """One for each server and page, for CSV and JSON alike."""
    return [row for result in results for row in result.rows.values()]


def _median(side: Side, name: str) -> float:
    values = sorted(getattr(slot.outcome, name) for slot in side.slots)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def _row(result: Measured, side: Side) -> dict[str, Any]:
    rate, ratio, cpu = intervals.median_interval(side.rates()), result.ratio(side), side.cpu()
    own = [size for name, size in side.pss_kib.items() if name != DATABASE]
    return {
        "scenario": result.page.name, "peer": side.label, "jit": result.jit,
        "requests_per_s": round(rate.ratio, 2), "requests_per_s_low": round(rate.low, 2), "requests_per_s_high": round(rate.high, 2),
        "ratio": round(ratio.ratio, 4) if ratio else None, "ratio_low": round(ratio.low, 4) if ratio else None,
        "ratio_high": round(ratio.high, 4) if ratio else None, "verdict": intervals.verdict(ratio, None) if ratio else None,
        "cpu_ms_per_1000": round(sum(used for name, used in cpu.items() if name != DATABASE), 2),
        "database_cpu_ms_per_1000": round(cpu[DATABASE], 2) if DATABASE in cpu else None,
        "pss_mib": None if None in own else round(sum(size or 0 for size in own) / 1024, 1),
        "p50_ms": round(_median(side, "p50_us") / 1000, 2), "p99_ms": round(_median(side, "p99_us") / 1000, 2),
        "body_bytes": result.check.size,
    }


def csv_text(found: Sequence[dict[str, Any]]) -> str:
    output = io.StringIO()
    writer = csv.DictWriter(output, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return output.getvalue()


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "–"
    return f"{value:,.{digits if digits is not None else 0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ratio(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]" if row["ratio"] is not None else "–"


def cells(row: dict[str, Any]) -> list[str]:
    return [row["scenario"], row["peer"],
            f"{_number(row['requests_per_s'])} [{_number(row['requests_per_s_low'])}, {_number(row['requests_per_s_high'])}]",
            _ratio(row), row["verdict"] or "–", _number(row["cpu_ms_per_1000"]), _number(row["database_cpu_ms_per_1000"]),
            _number(row["pss_mib"], 1), _number(row["p50_ms"]), _number(row["p99_ms"])]


def text(results: Sequence[Measured]) -> str:
    """The table for a terminal."""
    return report.table(HEAD, [cells(row) for row in rows(results)], left=2)


def notes(results: Sequence[Measured], rounds: int) -> list[str]:
    """What takes away from the numbers of this run."""
    found = []
    if rounds < intervals.MINIMUM_ROUNDS:
        found.append(f"With {rounds} rounds the intervals say little: at least {intervals.MINIMUM_ROUNDS} are needed for 95 %.")
    busy = {result.page.name: result.foreign() for result in results if result.foreign() > report.FOREIGN_LIMIT}
    if busy:
        told = ", ".join(f"{name} {share:.0%}" for name, share in busy.items())
        found.append("Other processes used the machine while this was measured: requests per second are lower and intervals wider than on a "
                     f"quiet one, and are not to be quoted ({told}).")
    for result in results:
        for side in result.sides:
            if ended := sum(slot.processes_ended for slot in side.slots):
                found.append(f"{result.page.name}: {ended} processes of {side.label} ended under load; its CPU time is a lower bound.")
    return found


def summary(results: Sequence[Measured]) -> list[str]:
    """Of each server, how often it was faster, slower, or neither."""
    found = []
    told = rows(results)
    for label in dict.fromkeys(row["peer"] for row in told if row["ratio"] is not None):
        own = [row for row in told if row["peer"] == label]
        kinds = {verdict: [f"{row['scenario']} ({row['ratio']:.2f})" for row in own if row["verdict"] == verdict]
                 for verdict in ("faster", "slower", "not distinguishable")}
        told_of = "; ".join(f"{verdict} on {', '.join(some)}" for verdict, some in kinds.items() if some)
        found.append(f"{label} beside nginx and PHP-FPM: {told_of}.")
    return found


# The page ---------------------------------------------------------------------------------------------------------------


def _ratios(results: Sequence[Measured]) -> Page:
    told = rows(results)
    labels = list(dict.fromkeys(row["peer"] for row in told if row["ratio"] is not None))
    by_place = {(row["scenario"], row["peer"]): _ratio(row) for row in told}
    body = [[result.page.name, *(by_place.get((result.page.name, label), "–") for label in labels)] for result in results]
    return section("Ratios of requests per second to nginx with PHP-FPM", [
        "Above 1 is faster; where the interval holds 1 the two are not distinguishable. A dash: the server has no such page."],
        ["page", *labels], body)


def _chart(result: Measured) -> Page:
    bars = [{"series": label, "value": row["requests_per_s"], "low": row["requests_per_s_low"], "high": row["requests_per_s_high"]}
            for label, row in result.rows.items()]
    return {"kind": "bars", "unit": "requests/s", "groups": [{"label": result.page.name, "bars": bars}]}


def _page(result: Measured) -> Page:
    lines = [f"{result.page.what[0].upper()}{result.page.what[1:]}. Path {result.page.scenario.path}; "
             + (f"the body is drawn for each answer: its length, {result.check.size:,} bytes, is compared."
                if result.page.scenario.drawn_bytes
                else f"{result.check.size:,} bytes, the same of all{_but(result)}.")]
    lines += [f"Not measured: {label}, {why}." for label, why in result.left_out.items()]
    return section(result.page.name, lines, HEAD[1:], [cells(row)[1:] for row in result.rows.values()], _chart(result))


def _but(result: Measured) -> str:
    normalised = result.page.scenario.normalise
    return f" but for {', '.join(normalised)}, which each answer has of its own" if normalised else ""


def _servers(results: Sequence[Measured], clean: Clean) -> Page:
    """What was started, as it was started first."""
    commands: dict[str, tuple[str, list[str]]] = {}
    for result in results:
        for side in result.sides:
            commands.setdefault(side.label, (result.page.name, side.running.commands()))
    body = [[label, all_matrix.what(label), clean("; ".join(lines))] for label, (_, lines) in commands.items()]
    return section("Servers", ["Started for each page, all at once, each on a port and in a directory (DIR) of its own. Their configurations "
                               "are in what --json writes."], ["peer", "what it is", "command"], body)


def page(results: Sequence[Measured], machine: dict[str, str], method: Sequence[str], limits: Sequence[str], told: Sequence[str],
         clean: Clean) -> Page:
    title = "Servers side by side" + (", with PHP's JIT" if results[0].jit else "")
    return {"title": title, "machine": machine, "summary": [
        f"{len({side.label for result in results for side in result.sides})} servers on {len(results)} pages, each compared with nginx and PHP-FPM.",
        *summary(results), *told], "sections": [
        _ratios(results), *map(_page, results), _servers(results, clean), section("How it was measured", method),
        section("What the numbers do not say", limits)]}


def json_result(result: Measured, clean: Clean) -> dict[str, Any]:
    return {"scenario": result.page.name, "path": result.page.scenario.path, "jit": result.jit, "left_out": result.left_out,
            "body": {"sha256": result.check.sha256, "bytes": result.check.size, "unlike_headers": list(result.check.unlike_headers)},
            "sides": [{"label": side.label, "cpu_us_per_request": side.cpu(), "pss_kib": side.pss_kib,
                       "commands": [clean(one) for one in side.running.commands()],
                       "configuration": {name: clean(told) for name, told in side.running.configuration.items()},
                       "rounds": [slot.as_dict() for slot in side.slots]} for side in result.sides]}
