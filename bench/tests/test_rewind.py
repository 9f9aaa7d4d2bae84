"""Self-test of what judges rewinds, and of the burst's client."""

from __future__ import annotations

import socket
import sys
import threading
import unittest
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import burst
import put_back
import report
import rewind_cost
import rewinds
from failure import Failure
from intervals import Goal, Interval
from rewind_cost import Cost, Run
from scenarios import Boot


class Limits(unittest.TestCase):
    def test_fast_rewind(self) -> None:
        self.assertAlmostEqual(rewinds.fast_limit_us(0), 5)
        self.assertAlmostEqual(rewinds.fast_limit_us(700), 75)
        self.assertAlmostEqual(rewinds.fast_limit_us(5000), 75 + 0.3 * 4300)

    def test_scan(self) -> None:
        self.assertAlmostEqual(rewinds.scan_limit_us(200), 200)


class Rows(unittest.TestCase):
    def test_the_median_is_judged(self) -> None:
        row = rewinds.at_most("a", [9.0, 1.0, 5.0], 5.0, "µs")
        self.assertEqual((row.value, row.goal, row.verdict), ("5.0 [1.0, 9.0] µs", "≤ 5.0 µs", "holds"))
        self.assertEqual(rewinds.at_most("a", [5.1], 5.0, "µs").verdict, "MISSED")

    def test_ratio(self) -> None:
        self.assertEqual(rewinds.at_least("a", Interval(0.95, 0.88, 1.0), Goal(0.9)).verdict, "holds")
        self.assertEqual(rewinds.at_least("a", Interval(0.95, 0.87, 1.0), Goal(0.9)).verdict, "MISSED")

    def test_information_has_no_verdict(self) -> None:
        self.assertEqual(rewinds.Row("a", "1").verdict, "")


class Fits(unittest.TestCase):
    def test_exact_line(self) -> None:
        line = rewinds.fit([(x, 3 + 0.25 * x) for x in (0, 10, 40)])
        self.assertAlmostEqual(line.intercept, 3)
        self.assertAlmostEqual(line.slope, 0.25)
        with self.assertRaises(ValueError):
            rewinds.fit([(1, 1), (1, 2)])

    def test_both_sides_of_the_bend(self) -> None:
        points = [(x, rewinds.fast_limit_us(x)) for x in (40, 300, 700, 2000, 5000)]
        self.assertEqual([row.value for row in rewinds.fast_fits(points)], ["5.0 µs + 0.100 µs a page", "0.300 µs a page"])

    def test_scan(self) -> None:
        self.assertEqual(rewinds.scan_fit([(8, 104), (256, 228)]).value, "100 µs + 0.50 µs a MiB")


class Program(unittest.TestCase):
    def test_command(self) -> None:
        run = Run(Path("/a.php"), 10, ("/?n={n}",), "none", warm=0, env={"A": "b c"}, ini={"memory_limit": "1G"})
        self.assertEqual(run.command()[1:], [
            "/a.php", "--show", "--isolation", "none", "--requests", "10", "--depth", "1", "--clones", "1", "--warm", "0",
            "--uri", "/?n={n}", "--env", "A=b c", "--ini", "memory_limit=1G"])

    def test_another_kind_of_rewind_is_refused(self) -> None:
        rewind_cost.require_rewinds(Cost({"fast": 1996, "scanned": 4}, b""), "fast", "a")
        for values, kind in (({"fast": 90, "scanned": 10}, "fast"), ({"fast": 100, "scanned": 0}, "scanned"),
                             ({"fast": 0, "scanned": 0}, "fast")):
            with self.assertRaises(Failure):
                rewind_cost.require_rewinds(Cost(values, b""), kind, "a")


class PutBack(unittest.TestCase):
    def status(self, **workers: tuple[int, int, int]) -> dict[str, Any]:
        rows = [{"pid": int(pid[1:]), "rewinds": dict(zip(("fast", "scanned", "pages"), numbers))} for pid, numbers in workers.items()]
        return {"applications": {"a": [{"lanes": [
            {"script": None, "workers": [{"pid": 1, "rewinds": {"fast": 7, "scanned": 7, "pages": 7}}]},
            {"script": "/boot.php", "workers": rows}, {"script": "/new.php"}]}]}}

    def test_rewinds_of_the_lane(self) -> None:
        before = put_back.read(self.status(p5=(10, 2, 1000)), "boot.php")
        after = put_back.read(self.status(p5=(108, 4, 11000), p6=(1, 1, 90)), "boot.php")
        rewinds = put_back.added(before, after)
        self.assertEqual(rewinds, put_back.Rewinds(99, 3, 10090))
        self.assertEqual(put_back.read(self.status(), "new.php"), {})

    def test_only_the_boot_is_warmed(self) -> None:
        boot = put_back.alone(Boot(warmup=("/a", "/b"), env={"A": "1"}))
        self.assertEqual((boot.warmup, boot.env), ((), {"A": "1", "REPRISE_WARMUP": "/a /b"}))
        self.assertEqual(put_back.alone(Boot()), Boot())

    def test_two_builds(self) -> None:
        rows = put_back.table_rows({"hello": [put_back.Rewinds(100, 0, 14400), put_back.Rewinds(90, 10, 7200)]})
        self.assertEqual(rows, [["hello", "144", "72 (90% fast)", "0.50"]])
        self.assertEqual(put_back.table_rows({"hello": [put_back.Rewinds(99, 1, 100)]}), [["hello", "1"]])
        self.assertEqual(report.markdown(["a", "b"], [["c", "d|e"]]), "| a | b |\n| --- | ---: |\n| c | d\\|e |")


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Server:
    """Answers only when all requests are there."""

    def __init__(self, answers: list[bytes]) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.answers = answers
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        clients = [self.socket.accept()[0] for _ in self.answers]
        for client in clients:
            client.recv(4096)
        for client, text in zip(clients, self.answers):
            client.sendall(text)
            client.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join(10)
        self.socket.close()


class Bursts(unittest.TestCase):
    def test_all_at_once(self) -> None:
        with Server([answer(b'{"mode": "snapshot", "pid": %d}' % (number % 5)) for number in range(20)]) as server:
            self.assertEqual(burst.run(server.port, "/", 20, 10).processes, 5)

    def test_a_classic_answer_is_a_failure(self) -> None:
        with Server([answer(b'{"mode": "snapshot", "pid": 1}'), answer(b'{"mode": "classic", "pid": 2}')]) as server:
            with self.assertRaises(Failure) as caught:
                burst.run(server.port, "/", 2, 10)
        self.assertIn("1 of 2 requests were not answered from a snapshot", str(caught.exception))

    def test_broken_answers(self) -> None:
        for text in (answer(b"{}", b"503 Busy"), answer(b"{}")[:-1], b""):
            with self.assertRaises(Failure):
                burst.body(text)


if __name__ == "__main__":
    unittest.main()
