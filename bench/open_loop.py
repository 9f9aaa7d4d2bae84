"""One run of `reprise bench`: requests at the times of a fixed rate, whose latencies count from those times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from failure import Failure
from peers.reprise import BUILT


def run(port: int, path: str, requests: list[dict[str, Any]], workdir: Path, arguments: list[str]) -> dict[str, Any]:
    """One run, and its first target."""
    scenario = workdir / "scenario.toml"
    parts = ["\n".join(["[[request]]", *(f"{key} = {json.dumps(value)}" for key, value in request.items())]) for request in requests]
    scenario.write_text("\n".join(parts) + "\n")
    command = [str(BUILT), "bench", f"it=http://127.0.0.1:{port}{path}", "--scenario", str(scenario), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"reprise bench ended with status {done.returncode}", detail=" ".join(command) + "\n" + done.stderr[-2000:])
    found = json.loads(done.stdout)
    for note in found["notes"]:
        print(f"  {note}", file=sys.stderr, flush=True)
    return dict(found["targets"][0])


def at(curve: list[list[float]], point: float) -> float:
    """A percentile of a curve of latencies, in milliseconds."""
    return next((value for percentile, value in curve if percentile == point), float("nan"))
