"""Self-test of bench/releases: applications, configurations, limits of reads, and what is judged."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import release_places
import release_trees
import release_turns
from failure import Failure
from release_turns import KINDS, Turn


def script() -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader("releases_script", str(BENCH / "releases"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Trees(unittest.TestCase):
    def test_a_tree_has_its_files(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            tree = Path(directory) / "tree"
            release_trees.write(tree, 120)
            files = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*.php"))
            self.assertEqual(len(files), 121)
            self.assertIn("src/P2/C119.php", files)
            sizes = [path.stat().st_size for path in tree.rglob("C*.php")]
            self.assertTrue(all(4000 < size < 9000 for size in sizes), sizes[:3])

    def test_what_a_page_says(self) -> None:
        # (new Cn(1))->m3(2) is 1 + 2 * 3 + n.
        self.assertEqual([release_trees.sum_of(count) for count in (0, 1, 3)], [0, 7, 24])
        self.assertIn("return $this->start + $count * 3 + 9;", release_trees.source(9))


class Limits(unittest.TestCase):
    def test_control_groups_of_both_versions(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            groups = Path(directory)
            with self.assertRaises(Failure):
                release_places.limit(groups, "7:0", 200)
            (groups / "cgroup.controllers").write_text("cpu memory\n")
            with self.assertRaises(Failure):
                release_places.limit(groups, "7:0", 200)
            (groups / "cgroup.controllers").write_text("cpu io memory\n")
            self.assertEqual(release_places.limit(groups, "7:0", 200), (groups, "io.max", "7:0 riops=200"))
            (groups / "blkio").mkdir()
            self.assertEqual(release_places.limit(groups, "7:3", 9), (groups / "blkio", "blkio.throttle.read_iops_device", "7:3 9"))


class Configurations(unittest.TestCase):
    def test_of_each_kind(self) -> None:
        place = types.SimpleNamespace(
            own=Path("/w"), tree=Path("/w/disk/tree"), phar=Path("/w/disk/app.phar"), pool=Path("/w/pool"), public="reprise-release-public:k",
            memory=types.SimpleNamespace(path=Path("/w/releases")), disk=types.SimpleNamespace(path=Path("/w/disk")))
        for kind in KINDS.values():
            config = tomllib.loads(release_turns.configuration(kind, 8080, place))  # type: ignore[arg-type]
            application = config["application"][0]
            self.assertEqual(config.get("release_state"), "/w/disk/kept" if kind.is_release else None)
            directory = "/w/disk/app.phar/public" if kind.is_phar else "/w/disk/tree/public"
            self.assertEqual(application["root"], "public" if kind.is_release else directory)
            self.assertEqual("release_pool" in application, kind.is_release)


class Judged(unittest.TestCase):
    def cells(self, release: float) -> dict[tuple[str, int], list[Turn]]:
        turns = lambda ready, first: [Turn(ready, first * factor, 1.0) for factor in (1, 2)]
        return {("release", 500): turns(100.0, release), ("cold", 500): turns(100.0, 900.0), ("release", 1): turns(100.0, 5.0), ("cold", 1): turns(100.0, 5.0)}

    def test_the_ratio_is_that_of_the_rounds(self) -> None:
        rows, judged = script().boot_tables(self.cells(200.0))
        self.assertEqual(rows[0], ["release with compiled code, unpacked in memory", "500", "100 [100, 100]", "300 [200, 400]", "400 [300, 500]", "0.28 [0.26, 0.30]"])
        self.assertEqual(rows[1][5], "", "a directory beside itself")
        self.assertEqual([(row.goal.strip(), row.verdict) for row in judged], [("≤ 0.50", "holds"), ("", "")])
        _, judged = script().boot_tables(self.cells(600.0))
        self.assertEqual(judged[0].verdict, "MISSED")

    def test_one_round_has_no_ratio(self) -> None:
        cells = {key: turns[:1] for key, turns in self.cells(200.0).items()}
        rows, judged = script().boot_tables(cells)
        self.assertEqual((rows[0][4], rows[0][5], judged), ("300", "", []))

    def test_work_is_also_that_of_children_which_have_ended(self) -> None:
        own = os.getpid()
        before = release_turns.work_ns([own])
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"], check=True)
        self.assertGreater(release_turns.work_ns([own]) - before, 80_000_000)
        self.assertEqual(release_turns.work_ns([2**22 + 1]), 0, "a process that is gone")

    def test_help_names_all_kinds(self) -> None:
        about = script().ABOUT
        self.assertEqual(re.findall(r"^  (\w+)", about.partition("kinds of")[2].partition("\n\n")[0], re.M), list(KINDS))


if __name__ == "__main__":
    unittest.main()
