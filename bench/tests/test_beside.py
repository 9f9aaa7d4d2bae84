"""Self-test of bench/overload beside: its ratios and goal, what its clients send, and a short run with a real server."""

from __future__ import annotations

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

import attacks
import beside
from intervals import Interval


def found(quiet: list[float], during: list[float]) -> beside.Found:
    turns = [[beside.Turn(p99 / 2, p99, 0.1, 0.01) for p99 in all_] for all_ in (quiet, during)]
    return beside.Found(turns[0], turns[1], [{"connections": 3, "closed": 2, "survived": 0}] * len(during))


class Numbers(unittest.TestCase):
    def test_a_turn_is_compared_with_those_around_it(self) -> None:
        one = found([1, 3, 5], [4, 2])
        self.assertEqual(one.ratios("p99_ms"), [2.0, 0.5])
        self.assertEqual(one.ratios("p50_ms"), [2.0, 0.5])
        self.assertEqual(one.drift(), [3, 5 / 3])

    def test_the_goal_is_about_the_99th_percentile(self) -> None:
        for ratio, is_met in ((1.2, True), (1.21, False)):
            fine, judged = Interval(9, 9, 9), Interval(ratio, 0.1, 9)
            with mock.patch.object(beside.intervals, "median_intervals", return_value=[fine, judged, fine]):
                cells, holds = beside.row("pings", found([1, 1], [1]))
            self.assertEqual((holds, cells[-3:]), (is_met, ["3", "2", "0"]))


class Frames(unittest.TestCase):
    def read(self, whole: bytes) -> list[tuple[int, int, int, bytes]]:
        frames, at = [], 0
        while at < len(whole):
            size, end = int.from_bytes(whole[at:at + 3]), at + 9
            frames.append((whole[at + 3], whole[at + 4], int.from_bytes(whole[at + 5:end]), whole[end:end + size]))
            at = end + size
        self.assertEqual(at, len(whole))
        return frames

    def test_floods_are_frames(self) -> None:
        for name, make in attacks.FLOODS.items():
            frames = self.read(make())
            # No frame is larger than a server takes by default.
            self.assertLessEqual(max(len(payload) for *_, payload in frames), 16_384, name)
        resets = self.read(attacks.FLOODS["resets"]())
        self.assertEqual([(kind, stream) for kind, _, stream, _ in resets[:4]], [(1, 1), (3, 1), (1, 3), (3, 3)])

    def test_texts_have_their_lengths(self) -> None:
        for size in (1, 126, 127, 128, 300, 16_000):
            whole, at, length = attacks.fields(("x", "y" * size)), 4, 0
            length = whole[3]
            if length == 127:
                while True:
                    length += (whole[at] & 127) << 7 * (at - 4)
                    at += 1
                    if whole[at - 1] < 128:
                        break
            self.assertEqual((length, whole[at:]), (size, b"y" * size))

    def test_each_attack_is_listed(self) -> None:
        self.assertEqual(list(attacks.ATTACKS), list(beside.ATTACKS))


class Run(unittest.TestCase):
    def test_a_server_has_the_options_of_its_attack(self) -> None:
        with tempfile.TemporaryDirectory() as place, mock.patch.object(beside.processes, "start"), mock.patch.object(beside.processes, "wait_until"):
            for name in beside.ATTACKS:
                beside.start(Path(place), name)
                text = (Path(place) / name / "reprise.toml").read_text()
                self.assertEqual("http2_memory" in text, name == "stalled-held")

    def run_part(self, *arguments: str) -> tuple[dict[str, Any], str]:
        programs = os.environ.get("REPRISE_PROGRAMS", str(BENCH.parent / "target/tests"))
        with tempfile.NamedTemporaryFile(suffix=".json") as turns:
            done = subprocess.run([sys.executable, BENCH / "overload", "beside", *arguments, "--json", turns.name], capture_output=True, text=True,
                                  timeout=100, env={**os.environ, "REPRISE_PROGRAMS": programs})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(Path(turns.name).read_text()), done.stdout

    def test_attacks_are_under_way_beside_ordinary_requests(self) -> None:
        short = ["--rounds", "2", "--seconds", "1", "--rate", "250", "--clients", "5"]
        told, text = self.run_part("slow-readers", "stalled-held", "resets", *short)
        self.assertEqual(list(told), ["slow-readers", "stalled-held", "resets"])
        self.assertIn("goal: p99 of the others", text)
        for one in told.values():
            self.assertEqual((len(one["quiet"]), len(one["beside"])), (3, 2))
            self.assertGreater(min(turn["p99_ms"] for turn in one["quiet"] + one["beside"]), 0)
        # Those who are slow are served, and floods are ended.
        self.assertEqual([(counts["connections"], counts["closed"]) for counts in told["slow-readers"]["told"]], [(5, 0)] * 2)
        self.assertEqual([(counts["connections"], counts["closed"]) for counts in told["stalled-held"]["told"]], [(5, 0)] * 2)
        for counts in told["resets"]["told"]:
            self.assertGreater(counts["closed"], 0)
            self.assertEqual(counts["survived"], 0)

    def test_a_mistyped_attack(self) -> None:
        done = subprocess.run([sys.executable, BENCH / "overload", "beside", "reset"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("resets", done.stderr)


if __name__ == "__main__":
    unittest.main()
