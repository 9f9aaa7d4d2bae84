"""Self-test of memory sums, of who has served, of chunked answers, and of plots."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import burst
import memory_use
import plot
from failure import Failure
from memory_use import Use
from peers import nginx_fpm


class Uses(unittest.TestCase):
    def test_sum(self) -> None:
        uses = {"a": Use(2, 100, 7), "b": Use(1, 10, 3)}
        self.assertEqual(memory_use.total(uses), Use(3, 110, 10))
        self.assertEqual(memory_use.total(uses).kib, 120)
        self.assertEqual(memory_use.rows("x", {"a": Use(1, 2048, 1024)})[-1], ["x", "all", "1", "2.0", "1.0", "3.0"])

    def test_own_memory_is_seen_and_none_of_a_dead_process(self) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        use = memory_use.read({"own": [os.getpid(), pid]})["own"]
        self.assertEqual(use.processes, 1)
        self.assertGreater(use.pss_kib, 1000)
        self.assertGreater(use.page_tables_kib, 0)

    def test_private_pages_are_those_that_were_written(self) -> None:
        def read() -> tuple[float, float]:
            pages = memory_use.private_pages([os.getpid()])
            assert pages is not None
            return pages

        before, guarded = read()
        with mmap.mmap(-1, 1000 * memory_use.PAGE, flags=mmap.MAP_PRIVATE) as memory:
            for page in range(0, len(memory), memory_use.PAGE):
                memory[page] = 1
            self.assertAlmostEqual(read()[0] - before, 1000, delta=500)
        self.assertEqual(guarded, 0)
        self.assertIsNone(memory_use.private_pages([]))

    def test_who_has_not_served(self) -> None:
        self.assertEqual(memory_use.left({1: 5, 2: 5, 3: 1}, {1: 6, 2: 5, 4: 1, 5: 0}), [2, 5])

    def test_log_of_php_fpm(self) -> None:
        with tempfile.NamedTemporaryFile("w") as log:
            log.write("12\n13\n12\n")
            log.flush()
            self.assertEqual(nginx_fpm.served(Path(log.name)), {12: 2, 13: 1})


class Chunks(unittest.TestCase):
    HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def test_whole(self) -> None:
        self.assertEqual(burst.body(self.HEAD + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"), b"abc0123456789")

    def test_broken(self) -> None:
        for rest in (b"", b"3\r\nabc\r\n", b"3\r\nab", b"zz"):
            with self.assertRaises(Failure):
                burst.body(self.HEAD + rest)


class Plots(unittest.TestCase):
    def test_steps_reach_the_top(self) -> None:
        self.assertEqual(plot.steps(100), [0, 20, 40, 60, 80, 100])
        for top in (0.3, 7, 43, 99.5, 1023):
            found = plot.steps(top)
            self.assertGreaterEqual(found[-1], top)
            self.assertLess(found[-2], top)
            self.assertLessEqual(len(found), 8)

    def test_lines_are_within_the_picture(self) -> None:
        text = plot.lines("a < b", "minutes", "MiB", [plot.Series("one", [(0, 10), (1, 40)]), plot.Series("two", [(0, 5), (1, 5)])])
        root = ElementTree.fromstring(text)
        found = [node for node in root.iter() if node.tag.endswith("polyline")]
        self.assertEqual(len(found), 2)
        for node in found:
            for pair in node.attrib["points"].split():
                x, y = map(float, pair.split(","))
                self.assertTrue(0 <= x <= plot.WIDTH and 0 <= y <= plot.HEIGHT)
        self.assertIn("prefers-color-scheme: dark", text)

    def test_bars(self) -> None:
        root = ElementTree.fromstring(plot.bars("t", ("a", "b"), [plot.Bar("one", (3, 1), "4"), plot.Bar("two", (0, 0), "0")]))
        self.assertEqual(sum(node.tag.endswith("rect") for node in root.iter()), 1 + 2 + 4)

    def test_nothing_to_plot(self) -> None:
        with self.assertRaises(ValueError):
            plot.lines("t", "x", "y", [plot.Series("one", [])])


if __name__ == "__main__":
    unittest.main()
