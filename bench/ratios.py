"""README's chart: the ratios of docs/measurements/benchmarks.md, so that one command makes both."""

from __future__ import annotations

import re

import plot
from failure import Failure

HEADING = "## Ratios of requests per second to nginx with PHP-FPM"
TITLE = "Requests per second of Reprise, divided by those of nginx with PHP-FPM"
ONE = "1 = nginx with PHP-FPM"
# The report's names, and those of the chart.
SHOWN = {"reprise-classic": "classic mode", "reprise-snapshot": "snapshot", "reprise-worker": "worker script"}
# What a page is, for those who have not read the report.
ABOUT = {"hello": "one line of text", "json": "40 records, 7 KB", "blog": "108 KB of random text", "eav": "report from MariaDB",
         "symfony": "front page, SQLite", "laravel": "front page, SQLite", "wordpress": "front page, MariaDB"}
CELL = re.compile(r"([\d.]+) \[([\d.]+), ([\d.]+)\]")


def table(report: str) -> list[list[str]]:
    """The cells of the table below the heading; its head comes first."""
    _, found, rest = report.partition(HEADING)
    rows = [line.strip("| ").split(" | ") for line in rest.split("\n## ")[0].splitlines() if line.startswith("|")]
    if not found or len(rows) < 3:
        raise Failure(f"the report has no table under {HEADING!r}")
    return [rows[0], *rows[2:]]


def _fact(report: str, name: str) -> str:
    found = re.search(rf"^- {name}: (.*)$", report, re.MULTILINE)
    if not found:
        raise Failure(f"the report does not say its {name!r}")
    return found.group(1)


def chart(report: str) -> str:
    """The chart of Reprise's three modes on every page of the report."""
    head, *rows = table(report)
    groups = []
    for row in rows:
        cells = dict(zip(head, row))
        found = {name: CELL.fullmatch(cells.get(label, "")) for label, name in SHOWN.items()}
        spans = {name: plot.Span(*map(float, cell.groups())) for name, cell in found.items() if cell}
        groups.append((row[0], ABOUT.get(row[0], ""), spans))
    notes = [f"Dot and number: median of {_fact(report, 'rounds')} rounds. Bar: its 95 % confidence interval. Commit {_fact(report, 'commit')[:7]}.",
             f"Servers and load generator shared {_fact(report, 'cpus')} CPUs ({_fact(report, 'cpu')})."]
    return plot.ratios(TITLE, ONE, notes, list(SHOWN.values()), groups)
