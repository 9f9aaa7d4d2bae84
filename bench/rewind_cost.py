"""Running target/release/rewind-cost, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from applications import REPOSITORY
from failure import Failure

PROGRAM = REPOSITORY / "target" / "release" / "rewind-cost"
DEADLINE_S = 600
# Rewinds that must have been timed, and how often that is tried: others may use the machine.
SEEN = 0.1
ATTEMPTS = 5
# A relearning of hot pages comes after so many rewinds (crates/reprise-php/csrc/snapshot/rewind.c): shorter runs see none.
RELEARN = 8192


@dataclass(frozen=True)
class Run:
    """One call of the program."""

    script: Path
    requests: int
    uris: tuple[str, ...] = ("/",)
    isolation: str = "rewind"
    depth: int = 1
    clones: int = 1
    warm: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    ini: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        words = [str(PROGRAM), str(self.script), "--show", "--isolation", self.isolation, "--requests", str(self.requests),
                 "--depth", str(self.depth), "--clones", str(self.clones)]
        if self.warm is not None:
            words += ["--warm", str(self.warm)]
        for uri in self.uris:
            words += ["--uri", uri]
        for flag, settings in (("--env", self.env), ("--ini", self.ini)):
            for name, value in settings.items():
                words += [flag, f"{name}={value}"]
        return words


@dataclass(frozen=True)
class Cost:
    """What it measured, and the first answer."""

    values: dict[str, Any]
    shown: bytes

    def number(self, name: str) -> float:
        return float(self.values[name])


def check() -> None:
    if not os.access(PROGRAM, os.X_OK):
        raise Failure(f"{PROGRAM} is not there", "cargo build --release")


def measure(run: Run) -> Cost:
    command = run.command()
    try:
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise Failure("rewind-cost does not end", detail=" ".join(command)) from error
    try:
        if done.returncode:
            raise ValueError(f"status {done.returncode}")
        return Cost(json.loads(done.stdout), done.stderr)
    except ValueError as error:
        raise Failure(f"rewind-cost failed: {error}",
                      detail=f"$ {' '.join(command)}\n{done.stderr.decode(errors='replace')[-2000:]}") from error


def measure_rewinds(run: Run, kind: str) -> Cost:
    """With the time of the rewinds, of which enough must have been seen without disturbance."""
    for _ in range(ATTEMPTS):
        cost = measure(run)
        require_rewinds(cost, kind, " ".join([run.script.name, *run.uris]))
        if cost.values["timed"] >= SEEN * run.requests:
            return cost
    raise Failure(f"{run.script.name}: only {cost.values['timed']} of {run.requests} rewinds could be timed",
                  "rewind-cost and the clone need a processor each: is the machine busy?")


def require_rewinds(cost: Cost, kind: str, what: str) -> None:
    """Nearly all rewinds were of that kind: otherwise something else was measured than is said."""
    other = {"fast": "scanned", "scanned": "fast"}[kind]
    if cost.values[kind] < 99 * cost.values[other] or not cost.values[kind]:
        raise Failure(f"{what}: {cost.values['fast']} rewinds were fast, {cost.values['scanned']} scanned; {kind} was wanted")
