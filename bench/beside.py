"""What slow and hostile clients do to others (bench/overload beside): the latency of ordinary requests before, during and after an attack.

Quiet turns and turns beside the attack alternate, so each of the latter lies between two of the former. The ratio of a round is its percentile
divided by the mean of those two; the interval is that of the rounds' median. Between two quiet turns nothing should change: how much does says
how much of a ratio is the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import intervals
import open_loop
import processes
import report
from failure import Failure, pick
from peers import reprise
from sites import WEB_USER

SECONDS = 5.0
GOAL = 1.2
WORKERS = 8
# A moment for what an attack has left, and for what it begins with: this part of a turn.
SETTLING = 0.2
CLIENT = Path(__file__).resolve().with_name("attacks.py")
ATTACKS = {
    "slow-readers": "200 clients that read a page of 5 MB from PHP at 50 KB/s",
    "stalled-streams": "1,000 connections of HTTP/2 with 100 requests each and no window for a response; who is cut off comes again",
    "stalled-held": "the same with http2_memory = \"2G\", so that all of them hang",
    "resets": "20 connections a second with 5,000 requests that are reset at once",
    "server-resets": "20 a second with 5,000 requests that the server has to reset",
    "continuations": "20 a second with a head of 1 MB",
    "empty-continuations": "20 a second with a head of 50,000 empty frames",
    "pings": "20 a second with 50,000 PING",
    "settings": "20 a second with 50,000 SETTINGS",
    "priorities": "20 a second with 50,000 PRIORITY",
    "empty-data": "20 a second with a body of 50,000 empty frames",
    "repeated-fields": "20 a second with 12,000 references to a field in one head",
}
# Lines of the server's configuration.
OPTIONS = {"stalled-held": ['http2_memory = "2G"']}
PAGES = {
    "index.php": "<?php echo str_repeat('x', 1000);",
    "slow.php": "<?php for ($i = 0; $i < 5120; $i++) echo str_repeat('x', 1024);",
    "some.php": "<?php for ($i = 0; $i < 60; $i++) echo str_repeat('x', 1024);",
}


@dataclass(frozen=True)
class Turn:
    """The latency of ordinary requests, and who has used how much of a processor."""

    p50_ms: float
    p99_ms: float
    front: float
    client: float = 0


@dataclass(frozen=True)
class Found:
    """An attack: one quiet turn more than turns beside it, and what its clients have counted."""

    quiet: list[Turn]
    beside: list[Turn]
    told: list[dict[str, int]]

    def ratios(self, name: str) -> list[float]:
        around = [(getattr(one, name) + getattr(other, name)) / 2 for one, other in zip(self.quiet, self.quiet[1:])]
        return [getattr(turn, name) / quiet for turn, quiet in zip(self.beside, around)]

    def drift(self) -> list[float]:
        return [after.p99_ms / before.p99_ms for before, after in zip(self.quiet, self.quiet[1:])]


def start(parent: Path, name: str) -> tuple[processes.Started, int]:
    workdir = parent / name
    workdir.mkdir()
    workdir.chmod(0o755)
    root = workdir / "public"
    root.mkdir()
    for page, text in PAGES.items():
        (root / page).write_text(text)
    (root / "large.bin").write_bytes(bytes(300_000))
    port = processes.free_port()
    config = workdir / "reprise.toml"
    config.write_text("\n".join([
        f'listen = ["127.0.0.1:{port}"]',
        f"state_dir = {reprise.quoted(str(workdir / 'state'))}",
        f"access_log = {reprise.quoted(str(workdir / 'access.log'))}",
        *OPTIONS.get(name, []),
        "[[application]]", f"root = {reprise.quoted(str(root))}", f"workers = {WORKERS}", "cache_memory = 0", "queue = 3000", 'queue_timeout = "60s"',
        *([f'user = "{WEB_USER}"'] if os.geteuid() == 0 else []),
    ]) + "\n")
    server = processes.start("reprise", [str(reprise.BUILT), "serve", "--config", str(config)], workdir / "output.log")
    processes.wait_until(lambda: "ready after" in server.log.read_text(errors="replace"), 30, server, "it says that it is ready")
    return server, port


def turn(server: processes.Started, port: int, workdir: Path, args: argparse.Namespace, attack: processes.Started | None = None) -> Turn:
    groups = {"front": reprise.groups(server.pid)["front"], "client": [attack.pid] if attack else []}
    before, began = processes.CpuReading.take(groups), time.monotonic()
    arguments = ["--rounds", "0", "--open-seconds", str(args.seconds), "--rate", str(args.rate), "--timeout", "60", "--no-processes"]
    found = open_loop.run(port, "/", [{"path": "/"}], workdir, arguments)["open"][0]
    spent, _ = processes.CpuReading.take(groups).since(before)
    front, client = (spent[name] / 1e9 / (time.monotonic() - began) for name in ("front", "client"))
    p50, p99 = (open_loop.at(found["latency"], point) for point in (0.5, 0.99))
    if math.isnan(p99):
        raise Failure(f"{found['total']} requests are too few for a percentile", hint="a longer --seconds, or another --rate")
    return Turn(p50, p99, front, client)


def attacked(name: str, server: processes.Started, port: int, workdir: Path, args: argparse.Namespace) -> Found:
    found = Found([turn(server, port, workdir, args)], [], [])
    for number in range(args.rounds):
        log = workdir / f"{name}-{number}.log"
        attack = processes.start(name, [sys.executable, str(CLIENT), name, str(port), str(args.clients)], log)
        processes.wait_until(lambda: "ready" in log.read_text(), 60, attack, "the attack is under way")
        time.sleep(args.seconds * SETTLING)
        found.beside.append(turn(server, port, workdir, args, attack))
        if attack.popen.poll() is not None:
            raise attack.failed("ended before the turn was over")
        attack.stop()
        try:
            found.told.append(json.loads(log.read_text().splitlines()[-1]))
        except ValueError as error:
            raise attack.failed("does not say what it has done") from error
        time.sleep(args.seconds * SETTLING)
        found.quiet.append(turn(server, port, workdir, args))
    return found


def row(name: str, found: Found) -> tuple[list[str], bool]:
    """Its line of the table, and whether the goal is met."""
    p50, p99, drift = intervals.median_intervals([found.ratios("p50_ms"), found.ratios("p99_ms"), found.drift()])
    counts = {key: sum(told[key] for told in found.told) for key in found.told[0]}
    quiet, beside = sorted(found.quiet, key=lambda one: one.p99_ms), sorted(found.beside, key=lambda one: one.p99_ms)
    middle, between = quiet[len(quiet) // 2], beside[len(beside) // 2]
    cells = [name, f"{middle.p50_ms:.2f}", f"{middle.p99_ms:.2f}", f"{between.p99_ms:.2f}", str(p50), str(p99), str(drift),
             f"{middle.front:.1%} → {between.front:.1%}", f"{between.client:.1%}", f"{counts['connections']}", f"{counts['closed']}", f"{counts['survived']}"]
    return cells, p99.ratio <= GOAL


HEAD = ["attack", "p50 ms, quiet", "p99 ms, quiet", "p99 ms, beside", "p50, beside : quiet", "p99, beside : quiet", "p99, after : before",
        "front's CPU", "client's CPU", "connections", "closed", "survived"]


def run(args: argparse.Namespace, workdir: Path) -> bool:
    names = [pick("attack", name, ATTACKS) for name in args.attacks or ATTACKS]
    if args.rounds < 2:
        raise Failure("--rounds: an interval needs two", hint=f"{intervals.MINIMUM_ROUNDS} or more")
    rows, holds, all_ = [], True, {}
    for name in names:
        print(f"{name}: {ATTACKS[name]}; {args.rate:g} requests a second beside it", file=sys.stderr, flush=True)
        server, port = start(workdir, name)
        turn(server, port, workdir, args)
        found = attacked(name, server, port, workdir, args)
        server.stop()
        cells, is_met = row(name, found)
        rows.append(cells)
        holds &= is_met
        all_[name] = {"quiet": [vars(one) for one in found.quiet], "beside": [vars(one) for one in found.beside], "told": found.told}
        print(f"  p99 of the others, beside / quiet: {cells[5]}, goal ≤ {GOAL:g}: {'holds' if is_met else 'MISSED'}", file=sys.stderr, flush=True)
    if args.json:
        args.json.write_text(json.dumps(all_, indent=1) + "\n")
    print(report.table(HEAD, rows))
    print(f"goal: p99 of the others ≤ {GOAL:g} of before and after: {'holds' if holds else 'MISSED'}")
    return holds
