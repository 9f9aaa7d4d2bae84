"""Reports as documents of sections, in the model of crates/bench/src/page.rs, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Page = dict[str, Any]


def section(title: str, text: Sequence[str], head: Sequence[str] = (), rows: Sequence[Sequence[str]] = (),
            chart: Page | None = None) -> Page:
    """A part; `rows` below `head` are its table."""
    made: Page = {"title": title, "text": list(text)}
    if rows:
        made["table"] = {"columns": list(head), "rows": [list(row) for row in rows]}
    if chart:
        made["chart"] = chart
    return made


def _as_table(chart: Page) -> Page | None:
    """What a chart shows, in figures; bars have a table beside them, or all rows."""
    if chart["kind"] == "bars":
        return None
    if chart["kind"] == "stacked":
        names = [part["series"] for part in chart["rows"][0]["parts"]]
        return {"columns": ["", *(f"{name}, {chart['unit']}" for name in names)],
                "rows": [[row["label"], *(f"{part['value']:,.2f}" for part in row["parts"])] for row in chart["rows"]]}
    return {"columns": [chart["x"]["label"], *(one["label"] for one in chart["series"])],
            "rows": [[f"{x:g}", *(f"{dict(map(tuple, one['points'])).get(x, 0):,.0f}" for one in chart["series"])]
                     for x, _ in chart["series"][0]["points"]]}


def markdown(document: Page) -> str:
    """The same document, with tables in place of its charts."""
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    parts = [f"# {document['title']}", document["summary"][0], "\n".join(f"- {text}" for text in document["summary"][1:]),
             f"Made by `{command}`, which measures it again." if (command := document["machine"].get("command")) else ""]
    for part in document["sections"]:
        parts += [f"## {part['title']}", *part["text"]]
        table = part.get("table") or (_as_table(part["chart"]) if "chart" in part else None)
        if table:
            parts.append("\n".join([line(table["columns"]), line(["---"] * len(table["columns"])), *map(line, table["rows"])]))
    parts.append("\n".join(["## Machine and versions", "", *(f"- {key}: {value}" for key, value in document["machine"].items())]))
    return "\n\n".join(part for part in parts if part) + "\n"
