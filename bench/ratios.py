"""README's table of ratios: that of docs/measurements/benchmarks.md, so that one command makes both."""

from __future__ import annotations

from failure import Failure

HEADING = "## Ratios of requests per second to nginx with PHP-FPM"
BEGIN = "<!-- ratios: bench/all --docs writes them -->"
END = "<!-- ratios end -->"


def ratios(benchmarks: str) -> str:
    """The table below the heading, as it is in the report."""
    _, found, rest = benchmarks.partition(HEADING)
    rows = [line for line in rest.split("\n## ")[0].splitlines() if line.startswith("|")]
    if not found or len(rows) < 3:
        raise Failure(f"the report has no table under {HEADING!r}")
    return "\n".join(rows)


def with_ratios(readme: str, benchmarks: str) -> str:
    """The README with this report's table between its two marks."""
    before, begun, rest = readme.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise Failure(f"README.md has no place for the ratios: the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{ratios(benchmarks)}\n\n{END}{after}"
