"""How bench/edge and bench/cache-hits measure servers: each in its turn, with the processor time of each response beside the rate."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import processes
from edge_servers import Server
from failure import Failure, tool
from load import Load


@dataclass(frozen=True)
class Scenario:
    name: str
    client: str  # wrk, h2load, full, resumed
    path: str
    is_tls: bool
    goal: float  # of the rate of nginx
    has_php: bool = False


@dataclass(frozen=True)
class Turn:
    rate: float
    front_us: float  # processor time of a response: who speaks with clients
    all_us: float  # with PHP
    p99_us: float | None = None  # of a response, where the client tells it


class Sent(NamedTuple):
    """What a client did in a turn."""

    requests: int  # or connections
    seconds: float
    p99_us: float | None = None


@dataclass(frozen=True)
class Clients:
    connections: int
    seconds: int
    script: Path
    handshakes: Path

    def run(self, server: Server, row: Scenario, seconds: int) -> Sent:
        if row.client == "wrk":
            return self._wrk(server, row, seconds)
        if row.client == "h2load":
            return self._h2load(server, row, seconds)
        command = [str(self.handshakes), "handshakes", f"127.0.0.1:{server.https}", "--connections", str(self.connections), "--seconds", str(seconds),
                   "--path", row.path, *(["--resume"] if row.client == "resumed" else [])]
        told = json.loads(_output(command, seconds + 30))
        return Sent(int(told["connections"]), float(told["seconds"]))

    def _wrk(self, server: Server, row: Scenario, seconds: int) -> Sent:
        load = Load(1, self.connections, 8, "", self.script)
        scheme, port = ("https", server.https) if row.is_tls else ("http", server.http)
        command = [word.replace("http://127.0.0.1", f"{scheme}://localhost") for word in load.command(port, row.path, seconds)]
        command[command.index("-H") + 1] = "Host: localhost"
        told = json.loads(_output(command, seconds + 40, is_error=True).strip().splitlines()[-1])
        if any(told[name] for name in ("connect", "read", "write", "status", "timeout")):
            raise Failure(f"wrk against {server.name} counted errors", detail=json.dumps(told))
        return Sent(int(told["requests"]), told["duration_us"] / 1e6, told["p99_us"])

    def _h2load(self, server: Server, row: Scenario, seconds: int) -> Sent:
        command = [tool("h2load", "nghttp2-client"), "-c", str(self.connections), "-m", "10", "-t", "1", "-D", str(seconds),
                   f"https://localhost:{server.https}{row.path}"]
        told = _output(command, seconds + 40)
        found = re.search(r"requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored", told)
        took = re.search(r"finished in ([\d.]+)(m?)s, ([\d.]+) req/s", told)
        if not found or not took or int(found[2]) or int(found[3]) or "h2" not in told:
            raise Failure(f"h2load against {server.name} counted errors", detail=told)
        return Sent(int(found[1]), int(found[1]) / float(took[3]))


def _output(command: list[str], seconds: int, is_error: bool = False) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command[0]} does not end", detail=" ".join(command)) from error
    if done.returncode:
        raise Failure(f"{command[0]} ended with status {done.returncode}", detail=" ".join(command) + "\n" + done.stdout + done.stderr)
    return done.stderr if is_error else done.stdout


def turn(server: Server, row: Scenario, clients: Clients, seconds: int) -> Turn:
    before = processes.CpuReading.take(server.groups())
    requests, took, p99 = clients.run(server, row, seconds)
    spent, _ = processes.CpuReading.take(server.groups()).since(before)
    front = spent.get("front", 0)
    return Turn(requests / took, front / requests / 1e3, (front + spent.get("workers", 0)) / requests / 1e3, p99)


def measured(servers: list[Server], row: Scenario, clients: Clients, rounds: int) -> dict[str, list[Turn]]:
    """The servers take turns: A B C, C B A."""
    for server in servers:
        clients.run(server, row, 1)
    found: dict[str, list[Turn]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers if number % 2 == 0 else servers[::-1]:
            found[server.name].append(turn(server, row, clients, clients.seconds))
    return found


def ratio(of: list[Turn], to: list[Turn], value: Callable[[Turn], float]) -> list[float]:
    """Smallest, median and largest ratio of the rounds."""
    each = sorted(value(one) / value(other) for one, other in zip(of, to))
    return [each[0], statistics.median(each), each[-1]]
