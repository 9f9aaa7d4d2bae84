"""Self-test of bench/edge: what it reads of its clients, its ratios and goals, and a short run with real servers."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import edge_turns
from failure import Failure


def load() -> Any:
    loader = importlib.machinery.SourceFileLoader("edge", str(BENCH / "edge"))
    spec = importlib.util.spec_from_loader("edge", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["edge"] = module
    loader.exec_module(module)
    return module


edge = load()


class Numbers(unittest.TestCase):
    def turns(self, *rates: float) -> list[Any]:
        return [edge.Turn(rate, 1e6 / rate, 2e6 / rate) for rate in rates]

    def test_rounds_are_compared_with_their_own(self) -> None:
        found = edge.ratio(self.turns(100, 300, 50), self.turns(100, 100, 100), lambda one: one.rate)
        self.assertEqual(found, [0.5, 1.0, 3.0])

    def test_a_goal_is_missed_if_no_round_reaches_it(self) -> None:
        row = edge.SCENARIOS["100k"]
        for rates, is_met in (((85, 95, 80), True), ((85, 89, 80), False)):
            with contextlib.redirect_stdout(io.StringIO()) as told:
                self.assertEqual(edge.report(row, {"reprise": self.turns(*rates), "nginx": self.turns(100, 100, 100)}), is_met)
            self.assertEqual("MISSED" in told.getvalue(), not is_met)

    def test_errors_of_clients_are_failures(self) -> None:
        clients = edge.Clients(8, 1, Path("report.lua"), Path("reprise-bench"))
        server = edge.Server("one", 1, 2, dict)
        good = "Application protocol: h2\nfinished in 2.00s, 500.00 req/s, 1MB/s\nrequests: 1000 total, 1000 started, 1000 done, {} succeeded, {} failed, 0 errored, 0 timeout\n"
        with mock.patch.object(edge_turns, "_output", return_value=good.format(1000, 0)):
            self.assertEqual(clients.run(server, edge.SCENARIOS["h2"], 2)[:2], (1000, 2.0))
        for told in (good.format(999, 1), "nothing", good.format(1000, 0).replace("h2", "http/1.1")):
            with mock.patch.object(edge_turns, "_output", return_value=told), self.assertRaises(Failure):
                clients.run(server, edge.SCENARIOS["h2"], 2)


class Run(unittest.TestCase):
    def test_servers_side_by_side(self) -> None:
        program = Path(os.environ.get("REPRISE_PROGRAMS", BENCH.parent / "target/tests")) / "reprise"
        with tempfile.NamedTemporaryFile(suffix=".json") as turns:
            done = subprocess.run([sys.executable, BENCH / "edge", "1k", "resumed", "hello-tls", "--program", program, "--rounds", "1", "--seconds", "1",
                                   "--connections", "4", "--json", turns.name], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            told = json.loads(Path(turns.name).read_text())
        self.assertEqual({name: sorted(row) for name, row in told.items()}, {name: ["nginx", "reprise"] for name in ("1k", "resumed", "hello-tls")})
        for row in told.values():
            for one in row.values():
                self.assertGreater(min(value for value in one[0].values() if value is not None), 0)

    def test_a_mistyped_scenario(self) -> None:
        done = subprocess.run([sys.executable, BENCH / "edge", "resume"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("resumed", done.stderr)


if __name__ == "__main__":
    unittest.main()
