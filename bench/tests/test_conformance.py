"""Self-test of bench/cache-conformance: how results are judged, and what counts as missed."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import conformance_report
from conformance_suite import FAILED, PASSED, UNTESTED, Suite, Test, Verdict, better


def suite(*tests: Test) -> Suite:
    made = object.__new__(Suite)
    made.tests = {test.name: test for test in tests}
    return made


def required(name: str, *depends: str) -> Test:
    return Test(name, "required", list(depends), "")


class Judgement(unittest.TestCase):
    def test_a_test_says_nothing_without_what_it_depends_on(self) -> None:
        found = suite(required("a"), required("b", "a"), required("c", "b"), required("d")).judge(
            {"a": ["Assertion", "wrong"], "b": True, "c": True, "d": ["Setup", "retry"]})
        self.assertEqual({name: verdict.word for name, verdict in found.items()}, {"a": FAILED, "b": UNTESTED, "c": UNTESTED, "d": UNTESTED})
        self.assertEqual((found["c"].why, found["d"].why), ("depends on b", "retry"))
        self.assertEqual(suite(required("a")).judge({})["a"].word, UNTESTED)

    def test_the_better_run_counts(self) -> None:
        runs = [{"a": Verdict(word)} for word in (FAILED, UNTESTED, PASSED)]
        for one in runs:
            for other in runs:
                self.assertEqual(better(one, other), max(one, other, key=runs.index))


class Missed(unittest.TestCase):
    def missed(self, test: Test, word: str, server: str = "reprise") -> list[str]:
        return list(conformance_report.missed(suite(test), server, {test.name: Verdict(word)}))

    def test_a_required_test_has_to_pass(self) -> None:
        for word in (FAILED, UNTESTED):
            self.assertEqual(self.missed(required("a"), word), ["a"])
        self.assertEqual(self.missed(required("a"), PASSED), [])
        unprepared = required("headers-store-Set-Cookie")
        self.assertEqual((self.missed(unprepared, UNTESTED), self.missed(unprepared, FAILED)), ([], [unprepared.name]))
        decided = required("stale-close-no-cache", "stale-close")
        self.assertEqual((self.missed(decided, UNTESTED), self.missed(decided, FAILED)), ([], [decided.name]))
        of_php = required("304-etag-update-response-Content-Type")
        self.assertEqual((self.missed(of_php, FAILED, "reprise-php"), self.missed(of_php, FAILED)), ([], [of_php.name]))

    def test_an_optimal_test_has_to_pass_or_has_a_reason(self) -> None:
        for name, meant in (("a", ["a"]), ("method-POST", [])):
            self.assertEqual(self.missed(Test(name, "optimal", [], ""), FAILED), meant)
        self.assertEqual(self.missed(Test("a", "check", [], ""), FAILED), [])


if __name__ == "__main__":
    unittest.main()
