"""The load: wrk, a closed loop, with its counts read from a small script instead of its printed page."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bodies import HOST
from failure import Failure, tool

# Only done() is defined: wrk then runs no script code per request or response.
REPORT = """
function done(summary, latency, requests)
  local e = summary.errors
  io.stderr:write(string.format(
    '{"requests":%d,"duration_us":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
    '"p50_us":%d,"p99_us":%d,"max_us":%d}\\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(99), latency.max))
end
"""
ERRORS = ("connect", "read", "write", "status", "timeout")


class Unanswered(Failure):
    """A turn without an answer and without an error: the server, or the machine, had something else to do."""


@dataclass(frozen=True)
class Load:
    """How the client is run; the same for every side and round."""

    threads: int
    connections: int
    timeout_s: int
    cpus: str
    script: Path

    def command(self, port: int, path: str, seconds: int, cookies: str = "") -> list[str]:
        return [*(["taskset", "-c", self.cpus] if self.cpus else []), tool("wrk", "wrk"), f"-t{self.threads}",
                f"-c{self.connections}", f"-d{seconds}s", "--timeout", f"{self.timeout_s}s", "--latency",
                "-H", f"Host: {HOST}", *(["-H", f"Cookie: {cookies}"] if cookies else []), "-s", str(self.script), f"http://127.0.0.1:{port}{path}"]

    def run(self, label: str, port: int, path: str, seconds: int, cookies: str = "") -> Outcome:
        command = self.command(port, path, seconds, cookies)
        before = os.times()
        begun = time.monotonic()
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + self.timeout_s + 30)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"wrk against {label} does not end", detail=" ".join(command)) from error
        elapsed = time.monotonic() - begun
        after = os.times()
        try:
            counts = json.loads(result.stderr.strip().splitlines()[-1])
        except (IndexError, ValueError) as error:
            raise Failure(f"wrk against {label} ended with status {result.returncode}",
                          detail=" ".join(command) + "\n" + result.stdout + result.stderr) from error
        errors = {name: counts[name] for name in ERRORS}
        if any(errors.values()):
            said = ", ".join(f"{name} {count}" for name, count in errors.items() if count)
            raise Failure(f"wrk against {label} counted errors: {said} (of {counts['requests']} requests)",
                          "timeouts mean connections the server left waiting; see --timeout", " ".join(command))
        if counts["requests"] == 0:
            raise Unanswered(f"wrk against {label} got no answer in {seconds} s", "a longer --seconds", " ".join(command))
        return Outcome(
            requests=counts["requests"],
            requests_per_s=counts["requests"] / (counts["duration_us"] / 1e6),
            bytes_per_request=counts["bytes"] / counts["requests"],
            p50_us=counts["p50_us"], p99_us=counts["p99_us"], max_us=counts["max_us"],
            client_cpu_s=after.children_user + after.children_system - before.children_user - before.children_system,
            elapsed_s=elapsed,
        )


@dataclass(frozen=True)
class Outcome:
    """One run without errors."""

    requests: int
    requests_per_s: float
    bytes_per_request: float
    p50_us: int
    p99_us: int
    max_us: int
    client_cpu_s: float
    elapsed_s: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)
