"""The one error these programs report: what failed, why, and what to do about it."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


class Failure(Exception):
    """Ends the run with a message; `detail` is printed below it (a log's tail, a diff)."""

    def __init__(self, what: str, hint: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.hint = hint
        self.detail = detail
        self.label = ""  # the server that failed, where it is one of several

    def __str__(self) -> str:
        text = f"{Path(sys.argv[0]).name}: {self.args[0]}"
        if self.detail:
            text += "\n" + "\n".join(f"    {line}" for line in self.detail.rstrip().splitlines())
        return text + (f"\nhint: {self.hint}" if self.hint else "")


def pick(kind: str, name: str, known: Iterable[str]) -> str:
    """`name` if it is known, else a failure that names the nearest."""
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    raise Failure(f"unknown {kind} {name!r}", hint)


def tool(name: str, package: str) -> str:
    """The path of a program; daemons are looked for in the sbin directories too, which a user's PATH lacks."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if not found:
        raise Failure(f"{name} is not installed", f"apt-get install {package}")
    return found
