"""Self-test of bench/cache-deaths and of bench/cache-frameworks: what is counted, and what is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from death_servers import Victims
from death_turn import Deaths, Plan

PLAN = Plan(kills=3, seconds=20, patience=0.5, watch=0.5, steps=1)


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH / name, *arguments], capture_output=True, text=True, timeout=100)


class Said(http.server.BaseHTTPRequestHandler):
    """A server that says what it is told to, or is silent."""

    said = "right"

    def do_GET(self) -> None:
        said = "kept" if "keep" in self.path else type(self).said
        while not said:
            time.sleep(0.01)
            said = type(self).said
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(said.encode())

    def log_message(self, *_arguments: object) -> None:
        pass


class Counting(unittest.TestCase):
    def run_side(self, said: str, after: str, plan: Plan = PLAN) -> Deaths:
        """Its workers are processes that do nothing; what the server says changes with the first death."""
        handler = type("Handler", (Said,), {"said": said})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(setattr, handler, "said", "over")
        asleep: list[subprocess.Popen[bytes]] = []

        def workers() -> list[int]:
            handler.said = after
            asleep.append(subprocess.Popen(["sleep", "60"]))
            return [asleep[-1].pid]

        found = Deaths()

        def start(_number: int) -> Victims:
            handler.said = said
            return Victims(server.server_address[1], workers, lambda: 0, lambda: None)

        found.run(start, plan, random.Random(1), time.monotonic())
        self.assertEqual([one.wait() for one in asleep], [-9] * len(asleep))
        self.assertEqual(len(asleep), found.kills)
        return found

    def test_all_is_right(self) -> None:
        found = self.run_side("right", "right")
        self.assertEqual((found.kills, found.hangs, found.wrong, found.lost), (3, 0, 0, 0))
        self.assertEqual(len(found.waits_ms), 3)

    def test_wrong_and_lost_values_are_counted(self) -> None:
        found = self.run_side("right", "wrong k1: x")
        self.assertGreater(found.wrong, 0)
        self.assertEqual((found.lost, found.first), (0, "wrong k1: x"))
        self.assertGreater(self.run_side("right", "lost kept1").lost, 0)

    def test_silence_is_a_hang_and_begins_anew(self) -> None:
        """Who had been asked before the first death may still answer after it; nobody does after the second."""
        plan = dataclasses.replace(PLAN, kills=2)
        found = self.run_side("right", "", plan)
        self.assertEqual(found.kills, 2)
        self.assertIn(found.hangs, (1, 2))
        self.assertGreaterEqual(found.watched_s, plan.patience + plan.watch)


class Program(unittest.TestCase):
    def test_deaths_of_either_cache(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            result = Path(place) / "result.json"
            done = script("cache-deaths", "reprise", "apcu", "--kills", "8", "--seconds", "30", "--watch", "1", "--json", str(result))
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(result.read_text())
        self.assertEqual({name: one["kills"] for name, one in told.items()}, {"reprise": 8, "apcu": 8})
        for one in told.values():
            self.assertEqual((one["wrong"], one["lost"], one["crashes"]), (0, 0, 0))
            self.assertGreater(one["answered"], 8)
        self.assertIn("| reprise | 8 |", done.stdout)

    def test_unknown_names(self) -> None:
        for name, said in (("cache-deaths", "unknown side 'apc'\nhint: did you mean 'apcu'?"), ("cache-frameworks", "unknown page 'apc'")):
            done = script(name, "apc")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)

    def test_ratios_are_those_of_one_mode(self) -> None:
        code = f"import runpy; table = runpy.run_path({str(BENCH / 'cache-frameworks')!r})['table']; from edge_turns import Turn\n" \
               "print(table({f'{store}, {mode}': [Turn(rate * number, 0, 1000 / rate / number) for number in (1, 2)]\n" \
               "    for mode, factor in (('snapshot', 10), ('classic', 1)) for store, rate in (('redis', 2 * factor), ('reprise', 3 * factor))}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, env={**os.environ, "PYTHONPATH": str(BENCH)})
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows[2:]], [["classic", "redis"], ["classic", "reprise"], ["snapshot", "redis"], ["snapshot", "reprise"]], done.stderr)
        self.assertEqual([row[4] for row in rows[2:]], ["1.50 (1.50–1.50)", "", "1.50 (1.50–1.50)", ""])


if __name__ == "__main__":
    unittest.main()
