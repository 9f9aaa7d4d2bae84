"""The sentences that answer bench/cache-clients' questions, made of its ratios. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cache_matrix import CLIENTS, VALUES, Cell
from cache_measure import BASE, CLIENT_CPU, RATE, Ratio, Row, is_extension

SEVERAL = 3.0  # what "several times" is taken for


def shape(cell: Cell) -> str:
    transport = "" if cell.transport == "memory" else f", {cell.transport}"
    return f"{cell.operation} {cell.value}{transport}" + (f", {cell.processes} processes" if cell.processes > 1 else "")


def span(ratios: Sequence[Ratio], named: bool = False) -> str:
    """The middle, the smallest and the largest with where they are found; `named` if they are of several clients."""
    def where(one: Ratio) -> str:
        return f"{one} ({CLIENTS[one.better.client].label + ', ' if named else ''}{shape(one.better)})"

    low, high = (choose(ratios, key=lambda one: one.interval.ratio) for choose in (min, max))
    if low is high:
        return where(low)
    middle = statistics.median(one.interval.ratio for one in ratios)
    return f"{middle:.2f} in the middle, from {where(low)} to {where(high)}"


def verdict(ratios: Sequence[Ratio]) -> str:
    """Yes, no or sometimes, on C extensions and Predis."""
    rate, cpu = ([one for one in ratios if one.measure == measure and is_extension(one.better)] for measure in (RATE, CLIENT_CPU))
    if not rate:
        return "C extensions and Predis were not measured side by side in this run."
    many, none = sum(one.interval.low >= SEVERAL for one in rate), sum(one.interval.high < SEVERAL for one in rate)
    word = ("Yes" if many == len(rate) else "No" if none == len(rate) else "In places" if many else "Nowhere found")
    return (f"Do C extensions still beat Predis several times over? {word}: of {len(rate)} comparisons of operations per second, "
            f"{tally(rate)}; of their own processor time per operation, {tally(cpu)}.")


def tally(ratios: Sequence[Ratio]) -> str:
    """How many are how much better, by the end of the interval that is nearer to 1; and what is excluded, by the other."""
    least = [sum(one.interval.low >= factor for one in ratios) for factor in (SEVERAL, 2)]
    excluded = [sum(one.interval.high < factor for one in ratios) for factor in (SEVERAL, 2)]
    better, worse = sum(one.interval.low > 1 for one in ratios), sum(one.interval.high < 1 for one in ratios)
    return (f"{least[0]} by a factor of {SEVERAL:g} or more, which {excluded[0]} exclude; {least[1]} of 2 or more, which {excluded[1]} "
            f"exclude; {better} better at all, {worse} worse, {len(ratios) - better - worse} not distinguishable")


def against_predis(ratios: Sequence[Ratio]) -> list[str]:
    """One sentence per client."""
    found = []
    # The one that speaks to the same server first.
    for name, client in sorted(CLIENTS.items(), key=lambda item: item[1].server != CLIENTS[BASE].server):
        rate, cpu = ([one for one in ratios if one.better.client == name and one.measure == measure] for measure in (RATE, CLIENT_CPU))
        if rate:
            found.append(f"{client.label} against Predis, {len(rate)} comparisons: operations per second {span(rate)}; "
                         f"saving of the client's processor time {span(cpu)}.")
    return found


def sizes(rows: Sequence[Row]) -> str:
    """What igbinary leaves of PHP's serialization, by value."""
    found = []
    for value in VALUES:
        at = {row.cell.serializer: row.median("bytes") for row in rows
              if not row.failed and row.cell.value == value and row.cell.operation != "miss"}
        igbinary = at.get("igbinary", at.get("by-hand"))
        if igbinary and at.get("php"):
            found.append(f"{value} {igbinary:,.0f} instead of {at['php']:,.0f} bytes ({1 - igbinary / at['php']:.0%} less)")
    return f"What igbinary saves in size: {'; '.join(found)}." if found else ""


def _of(ratios: Sequence[Ratio], better: str, base: str, measure: str, kind: str) -> list[Ratio]:
    return [one for one in ratios if (one.better.serializer, one.base.serializer, one.measure) == (better, base, measure)
            and (one.better.operation == "set") == (kind == "writing")]


def counts(ratios: Sequence[Ratio]) -> str:
    words = [one.verdict for one in ratios]
    return ", ".join(f"{words.count(word)} {word}" for word in ("faster", "slower", "less CPU", "more CPU", "not distinguishable") if word in words)


def of_igbinary(ratios: Sequence[Ratio]) -> list[str]:
    found = []
    for better, base, what in (("igbinary", "php", "igbinary by the client against PHP's serializer"),
                               ("by-hand", "php", "igbinary by hand against PHP's serializer"),
                               ("by-hand", "igbinary", "igbinary by hand against igbinary by the client")):
        for kind in ("reading", "writing"):
            rate, cpu = (_of(ratios, better, base, measure, kind) for measure in (RATE, CLIENT_CPU))
            if rate:
                found.append(f"{what}, {kind}: operations per second {span(rate, True)}: {counts(rate)}; "
                             f"saving of the client's processor time {span(cpu, True)}: {counts(cpu)}.")
    return [text[0].upper() + text[1:] for text in found]


def summary(rows: Sequence[Row], clients: Sequence[Ratio], serializers: Sequence[Ratio]) -> list[str]:
    failed = [row for row in rows if row.failed]
    head = [f"{len(failed)} of {len(rows)} combinations FAILED; the others are no whole result."] if failed else []
    return [text for text in (*head, verdict(clients), *against_predis(clients), sizes(rows), *of_igbinary(serializers)) if text]
