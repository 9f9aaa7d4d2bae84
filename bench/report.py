"""What is printed and written: tables on stdout, everything else in the JSON file."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from applications import REPOSITORY
from failure import tool
from measure import Result
from scenarios import CPU_GOALS

FOREIGN_LIMIT = 0.05


def table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Columns padded to their widest cell; the first `left` are aligned left, the others right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: list[str]) -> str:
        return "  ".join(f"{cell:<{w}}" if i < left else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths))).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The same table for a document."""
    rule = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rule, *rows))


def throughput(results: list[Result]) -> str:
    first, second = (side.label for side in results[0].sides)
    rows = []
    for result in results:
        one, two = result.sides
        rows.append([result.name, f"{one.rate():,.0f}", f"{two.rate():,.0f}", str(result.interval),
                     str(result.goal) if result.goal else "–", result.verdict,
                     f"{one.p99_us() / 1000:.1f}", f"{two.p99_us() / 1000:.1f}"])
    return table(["scenario", f"{first} req/s", f"{second} req/s", "ratio [95 %]", "goal", "verdict",
                  f"{first} p99 ms", f"{second} p99 ms"], rows)


def resources(results: list[Result]) -> str:
    rows = []
    for result in results:
        for side in result.sides:
            for group, used in side.cpu().items():
                size = side.pss_kib.get(group)
                rows.append([result.name, side.label, group, f"{used:,.1f}",
                             "–" if size is None else f"{size / 1024:.1f}"])
            rows.append([result.name, side.label, "all", f"{sum(side.cpu().values()):,.1f}", ""])
    return table(["scenario", "server", "processes", "CPU µs/request", "PSS MiB"], rows, left=3)


def warnings(results: list[Result]) -> list[str]:
    found = []
    for result in results:
        name = result.name
        if result.foreign() > FOREIGN_LIMIT:
            found.append(f"{name}: other processes used {result.foreign():.0%} of the machine; do not quote these numbers")
        for side in result.sides:
            ended = sum(slot.processes_ended for slot in side.slots)
            if ended:
                found.append(f"{name}: {ended} processes of {side.label} ended under load; their CPU time is a lower bound")
        if result.check.unlike_headers:
            found.append(f"{name}: headers: {', '.join(result.check.unlike_headers)}")
    return found


def cpu_goals(results: list[Result]) -> tuple[str, bool]:
    """The verdict on Reprise's CPU time per hello request, and whether it is good."""
    for result in results:
        if result.scenario.name == "hello":
            for side in result.sides:
                used = side.cpu()
                if CPU_GOALS.keys() <= used.keys():
                    rows = [[name, f"{used[name]:.1f}", f"≤ {limit:g}", "holds" if used[name] <= limit else "MISSED"]
                            for name, limit in CPU_GOALS.items()]
                    return (table(["hello", "CPU µs/request", "goal", "verdict"], rows),
                            all(used[name] <= limit for name, limit in CPU_GOALS.items()))
    return "", False


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=30).stdout.strip()
    except OSError:
        return ""


def _first(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def cpu_model() -> str:
    return next((line.partition(":")[2].strip() for line in _first("/proc/cpuinfo").splitlines()
                 if line.startswith("model name")), "unknown")


def environment() -> dict[str, Any]:
    # wrk prints its version with its usage and a status of 1.
    wrk = _output(tool("wrk", "wrk"), "-v").splitlines()
    return {
        "kernel": platform.release(), "cpu": cpu_model(), "cpus": os.cpu_count(),
        "governor": _first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_hugepage": _first("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load": os.getloadavg(), "wrk": wrk[0].partition(" Copyright")[0] if wrk else "unknown",
        "commit": _output("git", "rev-parse", "--verify", "-q", "HEAD") or "none", "uncommitted": bool(_output("git", "status", "--porcelain")),
    }
