"""Self-test of bench/all with real servers: Apache, the report out of MariaDB, servers out of small files, and what is refused."""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import all_matrix
import applications
import bodies
import distribution
import intervals
import measure
import peer_files
import processes
import ratios
from all_matrix import PAGES
from failure import Failure
from stage import Part, Stage

SERVER = """
program = "php"
hint = "apt-get install php8.2-cli"
version = ["@program@", "-r", "echo 'mine ', 7;"]
start = ["@program@", "-q", "-S", "127.0.0.1:@port@", "@dir@/page.php"]
files = { "page.php" = "<?php header('Content-Type: text/plain'); header('Content-Length: 12'); echo getenv('TEXT');" }
env = { TEXT = "Hello World!" }
urls = { hello = "http://127.0.0.1:@port@/some/where?else=1" }
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH / "all", *arguments], capture_output=True, text=True, timeout=60)


class Chart(unittest.TestCase):
    def test_the_chart_of_the_readme_is_that_of_the_report(self) -> None:
        measurements = applications.REPOSITORY / "docs" / "measurements"
        report = (measurements / "benchmarks.md").read_text()
        self.assertEqual(ratios.chart(report), (measurements / "ratios.svg").read_text(), "bench/all --docs writes both")
        self.assertEqual(len(ratios.table(report)), 1 + len(PAGES))
        self.assertIn("docs/measurements/ratios.svg", (applications.REPOSITORY / "README.md").read_text())

    def test_each_ratio_of_the_report_has_its_dot(self) -> None:
        report = (f"x\n\n{ratios.HEADING}\n\ntext\n\n| page | apache | reprise-classic | reprise-worker |\n| --- | --- | --- | --- |\n"
                  "| hello | 9.00 [8.00, 9.50] | 2.00 [1.50, 2.50] | – |\n\n## hello\n\n| no | row |\n\n"
                  "- commit: 0123456789\n- cpu: A & B\n- cpus: 2\n- rounds: 6\n")
        found = ratios.chart(report)
        self.assertEqual(found.count("<circle"), 1)
        for text in ("classic mode: 2<", ">2.00<", "no worker script", "hello", "one line of text", "Commit 0123456.", "A &amp; B"):
            self.assertIn(text, found)

    def test_what_is_missing_is_told(self) -> None:
        with self.assertRaisesRegex(Failure, "no table"):
            ratios.table("none")
        with self.assertRaisesRegex(Failure, "does not say its 'rounds'"):
            ratios.chart(f"{ratios.HEADING}\n\n| page | reprise-worker |\n| --- | --- |\n| hello | 1.00 [0.90, 1.10] |\n")


class InPlace(unittest.TestCase):
    """Each test has a directory that the web user may enter; nothing that it started outlives it."""

    def setUp(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="reprise-bench-test-"))
        self.place.chmod(0o755)

    def tearDown(self) -> None:
        processes.stop_all()
        shutil.rmtree(self.place, ignore_errors=True)

    def stage(self, names: str) -> Stage:
        args = argparse.Namespace(apps=self.place / "apps", apps_source=applications.SOURCE, rebuild=False, threads=1, connections=4, timeout=8,
                                  client_cpus="", server_cpus="", workers=2, rounds=2, seconds=1, warmup=1)
        return Stage(args, self.place, all_matrix.chosen_entrants(names, []))

    def file(self, text: str, name: str = "mine.toml") -> str:
        path = self.place / name
        path.write_text(text)
        return str(path)

    def alike(self, stage: Stage, name: str) -> tuple[bodies.Check, list[measure.Side]]:
        page = PAGES[name]
        parts = [part for part in (all_matrix.part(page, entrant) for entrant in stage.entrants) if isinstance(part, Part)]
        sides = stage.start(page.scenario, parts)
        for side in sides:
            measure.await_ready(side, side.address(page.scenario)[2])
        return bodies.require_alike(page.scenario, [side.address(page.scenario) for side in sides], "in the test"), sides


class Servers(InPlace):
    def test_apache_is_as_nginx_with_fpm(self) -> None:
        """The same settings of PHP, the same pages, and a line per request in the log."""
        stage = self.stage("apache")
        self.assertEqual(list(stage.compare_settings({"precision": "11"}, True)), ["nginx_fpm", "apache"])
        check, sides = self.alike(stage, "hello")
        self.assertEqual(check.size, len("Hello World!"))
        apache = sides[1]
        deadline = time.monotonic() + 10
        # Its first child may respond before its parent has forked the others.
        while len(apache.running.groups()["apache"]) < 1 + stage.args.workers and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(len(apache.running.groups()["apache"]), 1 + stage.args.workers)
        before = measure.count_lines(apache.running.access_log)
        self.assertEqual(bodies.fetch(apache.running.port, "/no/such/page").body, b"Hello World!")  # the front controller's
        measure.require_logged(apache, before + 1)

    def test_the_report_of_customers_is_alike_everywhere(self) -> None:
        stage = self.stage("apache,reprise-classic,reprise-snapshot,reprise-worker")
        check, sides = self.alike(stage, "eav")
        self.assertGreater(check.size, 10_000)
        for side in sides:
            side.running.verify()  # from here on
            page = bodies.fetch(side.running.port, "/?page=2").body.decode()
            self.assertEqual(page.count("<tr><td>"), 100)
            self.assertIn("<td>customer112@shop.example<td>2020-09-18<td>", page)
            self.assertIn("<td>–\n", page)  # one without a shipping address
            side.running.verify()
        self.assertIn("mariadbd", stage.shared([Part(stage.entrants[0], "eav", None)]))


class SmallFiles(InPlace):
    def test_a_server_out_of_a_file_is_measured_and_reported(self) -> None:
        written = {name: self.place / f"out.{name}" for name in ("json", "csv", "page", "html", "markdown")}
        options = [word for name, path in written.items() for word in (f"--{name}", str(path))]
        done = command("--scenario", "hello", "--peers", self.file(SERVER), "--rounds", "2", "--seconds", "1", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mine: mine 7", done.stdout)
        rows = list(csv.DictReader(written["csv"].read_text().splitlines()))
        self.assertEqual([row["peer"] for row in rows], ["nginx_fpm", "mine"])
        self.assertIn(rows[1]["verdict"], ("faster", "slower", "not distinguishable"))
        result = json.loads(written["json"].read_text())["results"][0]
        self.assertEqual([len(side["rounds"]) for side in result["sides"]], [2, 2])
        self.assertGreater(result["sides"][1]["cpu_us_per_request"]["mine"], 0)
        self.assertIn("<title>Servers side by side", written["html"].read_text())
        for path in written.values():
            self.assertNotIn("reprise-bench-", path.read_text().replace(str(self.place), ""), f"{path}: a directory of this run")
        self.assertIn("hello", written["markdown"].read_text())
        self.assertEqual(json.loads(written["page"].read_text())["sections"][1]["chart"]["kind"], "bars")

    def test_a_server_that_does_not_respond_is_left_out(self) -> None:
        dead = self.file(SERVER.replace('"-q", "-S", "127.0.0.1:@port@", "@dir@/page.php"', '"-r", "exit(1);"'), "dead.toml")
        table, page = self.place / "out.csv", self.place / "out.page"
        done = command("--scenario", "hello", "--peers", f"{dead},{self.file(SERVER)}", "--rounds", "2", "--seconds", "1",
                       "--csv", str(table), "--page", str(page))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual([row["peer"] for row in csv.DictReader(table.read_text().splitlines())], ["nginx_fpm", "mine"])
        self.assertIn("Not measured: dead, dead: ", page.read_text())

    def test_unlike_pages_are_not_reported(self) -> None:
        table = self.place / "out.csv"
        done = command("--scenario", "hello", "--peers", self.file(SERVER.replace("Hello World!", "Hello World?")), "--csv", str(table))
        self.assertEqual((done.returncode, done.stdout, table.exists()), (2, "", False))
        self.assertIn("the bodies of nginx_fpm and mine differ before the load", done.stderr)

    def test_what_is_missing_is_told(self) -> None:
        done = command("--scenario", "hello", "--peers", self.file(SERVER.replace('program = "php"', 'program = "no-such-program"')))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"mine: the program no-such-program is not installed; looked for in {os.environ['PATH']}", done.stderr)
        self.assertIn("hint: apt-get install php8.2-cli; --set mine.program=FILE names one elsewhere", done.stderr)

    def test_a_failed_check_ends_the_run(self) -> None:
        peer = peer_files.FilePeer(Path(self.file(SERVER + "check = ['@program@', '-r', 'echo 1, 2; exit(1);']\n")))
        with self.assertRaises(Failure) as caught:
            peer.check({"program": ""})
        self.assertEqual(caught.exception.detail, "12")

    def test_files_are_read_strictly(self) -> None:
        for text, why in (("progam = 'a'", "unknown keys: progam"), ("program = 'a'\nstart = ['@program@']", "urls is missing"),
                          (SERVER.replace('start = [', 'start = [1, '), "start is no list of strings"), ("=", "Invalid statement")):
            with self.assertRaises(Failure) as caught:
                peer_files.read(Path(self.file(text)))
            self.assertIn(why, str(caught.exception))

    def test_pages_name_the_version_of_the_application_that_is_served(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for path, line in (("php/Symfony/Component/HttpKernel/Kernel.php", "    public const VERSION = '7.4.21';"),
                               ("php/Illuminate/Foundation/Application.php", "    const VERSION = '13.31.0';"),
                               ("wordpress/wp-includes/version.php", "$wp_version = '7.1.3';")):
                (Path(directory) / path).parent.mkdir(parents=True)
                (Path(directory) / path).write_text(f"<?php\n{line}\n")
            found = [distribution.with_version(name, Path(directory)) for name in ("Symfony", "Laravel", "WordPress")]
        self.assertEqual(found, ["Symfony 7.4.21", "Laravel 13.31.0", "WordPress 7.1.3"])
        self.assertEqual(distribution.with_version("Symfony", Path("/nowhere")), "Symfony")
        for name in ("symfony", "laravel", "wordpress"):
            self.assertRegex(PAGES[name].what, r"^\w+ \d+\.\d+")

    def test_those_of_the_repository_name_what_they_need(self) -> None:
        self.assertLessEqual({"frankenphp", "roadrunner", "swoole"}, set(peer_files.names()))
        readme = (peer_files.DIRECTORY / "README.md").read_text()
        for name in peer_files.names():
            peer = peer_files.FilePeer(peer_files.DIRECTORY / f"{name}.toml")
            self.assertLessEqual(set(peer.PAGES), PAGES.keys())
            self.assertIn(f"`{name}.toml`", readme)
            with self.assertRaises(Failure) as caught:
                peer.check({"program": "/no/such/program"})
            self.assertIn(f"{name}: the program /no/such/program is not installed", str(caught.exception))


class Choice(unittest.TestCase):
    def test_unknown_names_are_refused(self) -> None:
        done = command("--peers", "apache,nginx-unit")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unknown peer 'nginx-unit'", done.stderr)
        for name in (*all_matrix.FIELD, "frankenphp", "roadrunner", "swoole"):
            self.assertIn(name, done.stderr)
        self.assertIn("there is no file gone.toml", command("--peers", "gone.toml").stderr)
        self.assertIn("did you mean 'wordpress'?", command("--scenario", "wordpres").stderr)

    def test_who_has_nothing_to_serve_is_refused(self) -> None:
        done = command("--peers", "node-single", "--scenario", "eav,symfony")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("node-single serves none of eav, symfony", done.stderr)

    def test_pages_have_their_scripts(self) -> None:
        for page in PAGES.values():
            for application, boot in page.booted.values():
                public = applications.SOURCE / application / applications.APPLICATIONS[application].public
                self.assertTrue(boot.bridge or (public / boot.script).is_file(), f"{page.name}: {boot.script}")

    def test_orders_are_balanced(self) -> None:
        for sides in range(2, 9):
            orders = intervals.mirrored(sides, 6)
            self.assertTrue(all(sorted(order) == list(range(sides)) for order in orders))
            places = collections.Counter((order.index(side), side) for order in orders for side in order)
            for side in range(sides):  # a steady drift favours nobody
                self.assertEqual(sum(place * count for (place, one), count in places.items() if one == side), 6 * (sides - 1) / 2)


if __name__ == "__main__":
    unittest.main()
