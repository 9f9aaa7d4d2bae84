"""Self-test of the statistics, the order of rounds and the goals: python3 -m unittest discover bench/tests"""

from __future__ import annotations

import random
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from intervals import Goal, Interval, abba, median_interval, median_intervals, ratio_interval, ratios, verdict


class Coverage(unittest.TestCase):
    """How often the interval holds the true ratio, on simulated rounds."""

    TRUE_RATIO = 1.5
    RUNS = 400

    def covered(self, rounds: int, disturbed: float) -> float:
        draw, samples = random.Random(7), []
        for _ in range(self.RUNS):
            first, second = [], []
            for _ in range(rounds):
                machine = draw.lognormvariate(0, 0.3)  # the minute's speed, the same for both sides of a round
                noise = draw.gauss(0, 0.03 if draw.random() > disturbed else 0.15)
                first.append(1000 * machine * self.TRUE_RATIO * (1 + noise))
                second.append(1000 * machine)
            samples.append(ratios(first, second))
        return sum(one.low <= self.TRUE_RATIO <= one.high for one in median_intervals(samples)) / self.RUNS

    def test_quiet_machine(self) -> None:
        self.assertGreater(self.covered(rounds=6, disturbed=0.0), 0.91)
        self.assertGreater(self.covered(rounds=10, disturbed=0.0), 0.91)

    def test_disturbed_rounds(self) -> None:
        self.assertGreater(self.covered(rounds=6, disturbed=0.15), 0.89)

    def test_interval_is_not_trivially_wide(self) -> None:
        first = [1500 * (1 + 0.01 * step) for step in (-2, -1, 0, 0, 1, 2)]
        interval = ratio_interval(first, [1000.0] * 6)
        self.assertAlmostEqual(interval.ratio, 1.5)
        self.assertGreater(interval.low, 1.46)
        self.assertLess(interval.high, 1.54)


class Ratio(unittest.TestCase):
    def test_pairing_removes_the_machine(self) -> None:
        """Speeds that vary tenfold between rounds, but alike within one, leave an exact ratio."""
        second = [100.0, 1000.0, 300.0, 50.0, 700.0, 200.0]
        interval = ratio_interval([2 * rate for rate in second], second)
        self.assertEqual((interval.ratio, interval.low, interval.high), (2.0, 2.0, 2.0))

    def test_same_seed_same_interval(self) -> None:
        first, second = [10.0, 11, 12, 13, 9, 8], [7.0, 9, 8, 7, 9, 10]
        self.assertEqual(ratio_interval(first, second), ratio_interval(first, second))

    def test_known_numbers(self) -> None:
        """Those of reports that are already written, by whom they may have been made."""
        for values, (ratio, low, high) in (
            ((0.9061, 0.9452, 1.0233, 0.9475, 1.1165, 1.0285), (0.9854, 0.92565, 1.0725)),
            ((1.1916, 1.0155, 1.0319, 1.1144, 0.9654, 1.1263, 0.9135), (1.0319, 0.9654, 1.1263)),
            ((0.8629, 0.9233, 1.1521, 1.0316, 1.002, 0.9402, 1.1629, 1.0357, 1.1748, 1.0476, 1.1427, 0.9614), (1.03365, 0.9508, 1.1474)),
        ):
            interval = median_interval(values)
            self.assertAlmostEqual(interval.ratio, ratio, 9)
            self.assertAlmostEqual(interval.low, low, 9)
            self.assertAlmostEqual(interval.high, high, 9)

    def test_unpaired_or_empty_rounds_are_refused(self) -> None:
        for first, second in (([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, 0.0], [1.0, 1.0])):
            with self.assertRaises(ValueError):
                ratio_interval(first, second)


class Order(unittest.TestCase):
    def test_abba(self) -> None:
        self.assertEqual(abba(4), [(0, 1), (1, 0), (0, 1), (1, 0)])

    def test_drift_cancels(self) -> None:
        """Each side's turns lie, on average, at the same time."""
        turns = [side for order in abba(6) for side in order]
        places = [[place for place, side in enumerate(turns) if side == wanted] for wanted in (0, 1)]
        self.assertEqual(sum(places[0]), sum(places[1]))


class Goals(unittest.TestCase):
    def test_at_least_uses_the_lower_end(self) -> None:
        self.assertTrue(Goal(3.0).holds(Interval(3.0, 2.91, 3.2)))
        self.assertFalse(Goal(3.0).holds(Interval(3.2, 2.90, 3.4)))

    def test_reaches_uses_the_upper_end(self) -> None:
        self.assertTrue(Goal(1.0, "reaches").holds(Interval(0.95, 0.9, 1.0)))
        self.assertFalse(Goal(1.0, "reaches").holds(Interval(0.95, 0.9, 0.99)))

    def test_verdict(self) -> None:
        self.assertEqual(verdict(Interval(2.0, 1.9, 2.1), Goal(2.0)), "MISSED")
        self.assertEqual(verdict(Interval(2.0, 1.95, 2.1), Goal(2.0)), "holds")
        self.assertEqual(verdict(Interval(1.02, 0.99, 1.1), None), "not distinguishable")
        self.assertEqual(verdict(Interval(1.1, 1.01, 1.2), None), "faster")
        self.assertEqual(verdict(Interval(0.9, 0.8, 0.95), None), "slower")


if __name__ == "__main__":
    unittest.main()
