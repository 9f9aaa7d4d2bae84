"""Three kinds of plots as SVG text, light or dark as the reader's page is. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 72, 40
# Told apart by colour-blind readers too, on either background.
COLOURS = (("#2a78d6", "#3987e5"), ("#1baf7a", "#199e70"), ("#eda100", "#c98500"), ("#4a3aa7", "#9085e9"))


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    """One bar of several parts, with what is said behind it."""

    name: str
    parts: Sequence[float]
    label: str


@dataclass(frozen=True)
class Span:
    """A median with its interval."""

    middle: float
    low: float
    high: float


def steps(top: float, count: int = 5) -> list[float]:
    """Round numbers from 0 until `top` is reached, some `count` of them."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= raw * 0.999)
    return [step * i for i in range(math.ceil(top / step * 0.999) + 1)]


def _style() -> str:
    light = "".join(f" .f{i} {{ fill: {one} }} .s{i} {{ stroke: {one} }}" for i, (one, _) in enumerate(COLOURS))
    dark = "".join(f" .f{i} {{ fill: {two} }} .s{i} {{ stroke: {two} }}" for i, (_, two) in enumerate(COLOURS))
    return ("<style>text { font: 13px system-ui, sans-serif; fill: #52514e } .title { font-size: 16px; fill: #0b0b0b }"
            " .back { fill: #fcfcfb } .name { fill: #0b0b0b } .note { font-size: 11px } .grid { stroke: #e4e3df }"
            " .one { stroke: #8a8984; stroke-width: 2 } .line { fill: none; stroke-width: 2; stroke-linejoin: round }"
            f"{light} @media (prefers-color-scheme: dark) {{ text {{ fill: #c3c2b7 }} .title {{ fill: #ffffff }}"
            f" .back {{ fill: #1a1a19 }} .name {{ fill: #ffffff }} .grid {{ stroke: #383835 }}{dark} }}</style>")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'.replace("'", '"')


def _legend(names: Sequence[str], y: float) -> list[str]:
    found, x = [], float(LEFT)
    for number, name in enumerate(names):
        found += [f'<rect class="f{number}" x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" rx="2"/>', _text(x + 18, y, name)]
        x += 18 + 7.2 * len(name) + 24
    return found


def _page(title: str, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
    back = f'<rect class="back" width="{WIDTH}" height="{height:g}"/>'
    return "\n".join([head, _style(), back, _text(LEFT, 28, title, kind="title"), *body, "</svg>"]) + "\n"


def lines(title: str, across: str, up: str, series: Sequence[Series]) -> str:
    """One line per series over a common axis; the vertical one begins at 0."""
    if len(series) > len(COLOURS) or not any(one.points for one in series):
        raise ValueError("one to four series, with points")
    rows = steps(max(y for one in series for _, y in one.points))
    columns = steps(max(x for one in series for x, _ in one.points), 6)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    last = max(x for one in series for x, _ in one.points) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * x / last, TOP + high * (1 - y / rows[-1])

    body = _legend([one.name for one in series], 52)
    for value in rows:
        _, y = place(0, value)
        body += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>', _text(LEFT - 8, y + 4, f"{value:g}", "end")]
    for value in columns:
        if value <= last:
            body.append(_text(place(value, 0)[0], HEIGHT - BOTTOM + 18, f"{value:g}", "middle"))
    body += [_text(WIDTH - RIGHT, HEIGHT - 6, across, "end"), _text(WIDTH - RIGHT, 52, up, "end")]
    for number, one in enumerate(series):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in one.points))
        body.append(f'<polyline class="line s{number}" points="{points}"><title>{escape(one.name)}</title></polyline>')
    return _page(title, HEIGHT, body)


def bars(title: str, parts: Sequence[str], rows: Sequence[Bar]) -> str:
    """One bar per row, its parts one behind the other, all to one scale."""
    longest = max(sum(row.parts) for row in rows) or 1.0
    body, y = _legend(parts, 52), float(TOP)
    for row in rows:
        x = float(LEFT)
        body.append(_text(x, y + 10, row.name))
        for number, value in enumerate(row.parts):
            width = (WIDTH - LEFT - RIGHT - 200) * value / longest
            body.append(f'<rect class="f{number}" x="{x:.1f}" y="{y + 16:.1f}" width="{max(width - 2, 1):.1f}" height="22" rx="2"/>')
            x += width
        body.append(_text(x + 8, y + 32, row.label))
        y += 56
    return _page(title, y + 8, body)


def ratios(title: str, one: str, notes: Sequence[str], names: Sequence[str], groups: Sequence[tuple[str, str, Mapping[str, Span]]]) -> str:
    """A dot, its interval and its value for each name in each group, which has a title and a line about it; the thick line is at 1, which `one` explains."""
    if not groups or len(names) > len(COLOURS):
        raise ValueError("one to four names, with groups")
    columns = steps(max(span.high for _, _, spans in groups for span in spans.values()))
    row, left, top = 16, LEFT + 114, TOP + 20
    bottom = top + sum(row * len(names) + 12 for _ in groups)

    def place(value: float) -> float:
        return left + (WIDTH - left - RIGHT - 30) * value / columns[-1]  # 30: a value behind an interval that ends there

    body = _legend(names, 52)
    for value in columns:
        body += [f'<line class="grid" x1="{place(value):.1f}" x2="{place(value):.1f}" y1="{top}" y2="{bottom}"/>',
                 _text(place(value), bottom + 18, f"{value:g}", "middle")]
    body += [f'<line class="one" x1="{place(1):.1f}" x2="{place(1):.1f}" y1="{top}" y2="{bottom}"/>',
             _text(place(1), top - 8, one, "middle"),
             _text(place(columns[-1]), top - 8, "faster →", "end")]
    y = float(top)
    for group, about, spans in groups:
        middle = y + row * len(names) / 2
        body += [_text(left - 12, middle - 3, group, "end", "name"), _text(left - 12, middle + 13, about, "end", "note")]
        for number, name in enumerate(names):
            at = y + row * (number + 0.5)
            if span := spans.get(name):
                body += [f'<line class="s{number}" stroke-width="2" x1="{place(span.low):.1f}" x2="{place(span.high):.1f}" y1="{at:.1f}" y2="{at:.1f}"/>',
                         f'<circle class="f{number}" cx="{place(span.middle):.1f}" cy="{at:.1f}" r="4.5"><title>{escape(name)}: {span.middle:g}</title></circle>',
                         _text(place(span.high) + 6, at + 4, f"{span.middle:.2f}", kind="note")]
            else:
                body.append(_text(place(1) + 8, at + 4, f"no {name}", kind="note"))
        y += row * len(names) + 12
    body += [_text(LEFT, bottom + 42 + 18 * number, note) for number, note in enumerate(notes)]
    return _page(title, bottom + 38 + 18 * len(notes), body)
