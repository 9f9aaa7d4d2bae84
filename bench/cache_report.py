"""What bench/cache-clients prints and writes: tables, CSV, JSON, and a page as a document of sections."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import cache_answer
import intervals
import report
from cache_matrix import CLIENTS, PROCESSES, Cell
from cache_measure import CLIENT_CPU, RATE, Ratio, Row
from document import Page, section

ROW_COLUMNS = ("client", "serializer", "value", "operation", "transport", "processes", "status", "per_s", "per_s_low", "per_s_high",
               "p50_us", "p99_us", "client_user_us", "client_system_us", "client_us", "server_us", "value_bytes", "operations",
               "failures", "wrong", "reason")
NUMBERS = ("per_s", "per_s_low", "per_s_high", "p50_us", "p99_us", "client_user_us", "client_system_us", "client_us", "server_us",
           "value_bytes")
HEAD = ["client", "serializer", "value", "operation", "transport", "processes", "operations/s [95 %]", "p50 µs", "p99 µs",
        "client CPU µs", "server CPU µs", "failures", "wrong values"]
RATIO_HEAD = ["client", "compared with", "serializer", "value", "operation", "transport", "processes", "operations/s, ratio [95 %]",
              "verdict", "client CPU, saving [95 %]", "verdict"]


def row_dict(row: Row) -> dict[str, Any]:
    """One row for CSV and JSON alike; no number of a failed one."""
    cell = row.cell
    found: dict[str, Any] = {**vars(cell), "status": "FAILED" if row.failed else "ok", **dict.fromkeys(NUMBERS), "operations": None,
                             "failures": row.failures, "wrong": row.wrong, "reason": row.reason}
    if not row.failed:
        rate = intervals.median_interval(row.values("per_s"))
        numbers = {"per_s": rate.ratio, "per_s_low": rate.low, "per_s_high": rate.high, "value_bytes": row.median("bytes"),
                   **{name: row.median(name) for name in ("p50_us", "p99_us", "client_user_us", "client_system_us", "client_us", "server_us")}}
        found |= {name: round(value, 3) for name, value in numbers.items()}
        found["operations"] = sum(turn.operations for turn in row.turns)
    return {name: found[name] for name in ROW_COLUMNS}


def csv_text(rows: Sequence[Row]) -> str:
    output = io.StringIO()
    writer = csv.DictWriter(output, ROW_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row_dict(row) for row in rows)
    return output.getvalue()


def ratio_dict(one: Ratio) -> dict[str, Any]:
    return {"better": vars(one.better), "base": vars(one.base), "measure": one.measure, "ratio": round(one.interval.ratio, 4),
            "low": round(one.interval.low, 4), "high": round(one.interval.high, 4), "verdict": one.verdict}


def _cell_texts(cell: Cell) -> list[str]:
    return [CLIENTS[cell.client].label, cell.serializer, cell.value, cell.operation, cell.transport, str(cell.processes)]


def main_rows(rows: Sequence[Row]) -> list[list[str]]:
    found = []
    for row in rows:
        told = row_dict(row)
        if row.failed:
            numbers = ["FAILED", *["–"] * 4]
        else:
            digits = 0 if told["per_s"] >= 100 else 1
            numbers = [f"{told['per_s']:,.{digits}f} [{told['per_s_low']:,.{digits}f}, {told['per_s_high']:,.{digits}f}]",
                       *(f"{told[name]:,.2f}" for name in ("p50_us", "p99_us", "client_us", "server_us"))]
        found.append([*_cell_texts(row.cell), *numbers, str(row.failures), str(row.wrong)])
    return found


def ratio_rows(ratios: Sequence[Ratio], by_serializer: bool) -> list[list[str]]:
    """The rate and the CPU time of a pair in one line."""
    found = []
    for rate, cpu in zip((one for one in ratios if one.measure == RATE), (one for one in ratios if one.measure == CLIENT_CPU)):
        assert (rate.better, rate.base) == (cpu.better, cpu.base)
        client, *others = _cell_texts(rate.better)
        base = rate.base.serializer if by_serializer else CLIENTS[rate.base.client].label
        found.append([client, base, *others, str(rate), rate.verdict, str(cpu), cpu.verdict])
    return found


def texts(rows: Sequence[Row], clients: Sequence[Ratio], serializers: Sequence[Ratio]) -> str:
    """The tables for a terminal."""
    parts = [report.table(HEAD, main_rows(rows), left=6)]
    for ratios, by_serializer in ((clients, False), (serializers, True)):
        if ratios:
            parts.append(report.table(RATIO_HEAD, ratio_rows(ratios, by_serializer), left=7))
    parts.append("\n".join(cache_answer.summary(rows, clients, serializers)))
    return "\n\n".join(parts)


# The page ---------------------------------------------------------------------------------------------------------------


def _bars(rows: Sequence[Row], wanted: Sequence[tuple[str, str]], serializers: Sequence[str]) -> Page | None:
    """Client CPU per operation for (operation, value), a series per client or serializer."""
    groups = []
    for operation, value in wanted:
        bars = []
        for row in rows:
            cell = row.cell
            if (not row.failed and cell.shape == (value, operation, "unix", 1) and cell.serializer in serializers):
                series = CLIENTS[cell.client].label + (f", {cell.serializer}" if len(serializers) > 1 else "")
                spread = intervals.median_interval(row.values("client_us"))
                bars.append({"series": series, "value": round(spread.ratio, 3), "low": round(spread.low, 3), "high": round(spread.high, 3)})
        if bars:
            groups.append({"label": f"{operation}, {value}", "bars": bars})
    return {"kind": "bars", "unit": "µs", "groups": groups} if groups else None


def _stacked(rows: Sequence[Row]) -> Page | None:
    found = []
    for row in rows:
        cell = row.cell
        if not row.failed and cell.shape == ("medium", "get", "unix", 1) and cell.serializer == "php":
            parts = (("client user", "client_user_us"), ("client system", "client_system_us"), ("server", "server_us"))
            found.append({"label": CLIENTS[cell.client].label,
                          "parts": [{"series": series, "value": round(row.median(name), 3)} for series, name in parts]})
    return {"kind": "stacked", "unit": "µs", "rows": found} if found else None


def _lines(rows: Sequence[Row]) -> Page | None:
    series: dict[str, list[list[float]]] = {}
    for row in rows:
        cell = row.cell
        value, operation, transport, _ = cell.shape
        if not row.failed and (value, operation, transport, cell.serializer) == ("medium", "get", "unix", "php"):
            series.setdefault(CLIENTS[cell.client].label, []).append([cell.processes, round(row.median("per_s"), 1)])
    lines = [{"label": label, "points": sorted(points)} for label, points in series.items() if len(points) > 1]
    return ({"kind": "lines", "x": {"label": "processes", "log": False}, "y": {"label": "operations per second", "log": False},
             "series": lines} if lines else None)


def page(rows: Sequence[Row], clients: Sequence[Ratio], serializers: Sequence[Ratio], machine: dict[str, str],
         method: Sequence[str], limits: Sequence[str], notes: Sequence[str] = ()) -> Page:
    failed = [f"{row.cell}: {row.failures} failures, {row.wrong} wrong values; the first: {row.reason}" for row in rows if row.failed]
    shown = [("get", "small"), ("get", "medium"), ("set", "medium"), ("multi-10", "medium"), ("multi-250", "medium"), ("miss", "small")]
    igbinary = [("get", "small"), ("set", "small"), ("get", "medium"), ("set", "medium"), ("get", "huge"), ("set", "huge")]
    sections = [
        *([section("Failed", failed)] if failed else []),
        section("Against Predis", ["The ratio is above 1 where the client is better than Predis: operations per second of the client to "
                "those of Predis, and processor time of Predis per operation to that of the client."],
                RATIO_HEAD, ratio_rows(clients, False), _bars(rows, shown, ("php",))),
        section("igbinary", ["The ratio is above 1 where the serializer in the third column is better than the one in the second."],
                RATIO_HEAD, ratio_rows(serializers, True), _bars(rows, igbinary, ("php", "igbinary", "by-hand"))),
        section("Where the processor time of a get goes", ["A medium value, one process, unix socket, PHP's serializer; per operation."],
                chart=_stacked(rows)),
        section("Processes", [f"Medium values are read by 1 to {PROCESSES[-1]} processes at once, over a unix socket."], chart=_lines(rows)),
        section("All rows", ["CPU times are per operation, all medians over rounds. A multi-get is one operation."], HEAD, main_rows(rows)),
        section("How it was measured", method),
        section("What the numbers do not say", limits),
    ]
    kept = [one for one in sections if "table" in one or "chart" in one or one["title"].startswith(("Failed", "How", "What"))]
    return {"title": "Cache clients of PHP", "summary": [*cache_answer.summary(rows, clients, serializers), *notes], "sections": kept,
            "machine": machine}
