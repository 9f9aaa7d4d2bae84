"""Self-test of bench/cache-clients, with memcached and Redis: right values are seen as right, wrong ones as wrong."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import cache_answer
import cache_matrix
import cache_measure
import cache_php
import cache_report
import cache_servers
import document
import processes
from cache_matrix import CLIENTS, Cell
from cache_measure import Plan, Row, Turn, Use
from cache_servers import Address, Server
from failure import Failure, tool


def script(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    return subprocess.run([sys.executable, BENCH / "cache-clients", *arguments], capture_output=True, text=True, timeout=60, env=env)


def made(cell: Cell, rates: list[float], client_us: float = 10.0, size: int = 80) -> Row:
    return Row(cell, [Turn(100, rate, 5.0, 9.0, client_us * 0.75, client_us * 0.25, 4.0, 90.0, size) for rate in rates])


class Matrix(unittest.TestCase):
    def test_unknown_names_are_refused_with_those_known(self) -> None:
        for dimension, name in (("client", "predi"), ("value", "tiny"), ("processes", "3"), ("serializer", ""), ("operation", "multi")):
            with self.assertRaises(Failure) as caught:
                cache_matrix.choose(dimension, name)
            self.assertIn(f"known: {', '.join(cache_matrix.DIMENSIONS[dimension])}", str(caught.exception))
            self.assertIn(f"--{dimension}", str(caught.exception))

    def test_what_cannot_be_is_said(self) -> None:
        with self.assertRaises(Failure) as caught:
            cache_matrix.cells(True, {"client": ("apcu",), "transport": ("tcp",)})
        self.assertIn("--client apcu --transport tcp", str(caught.exception))
        with self.assertRaises(Failure) as caught:
            cache_matrix.cells(False, {"processes": ("150",), "operation": ("set",)})
        self.assertIn("--full", str(caught.exception))

    def test_full_has_every_name_and_more_than_the_default(self) -> None:
        full, usual = cache_matrix.cells(True, {}), cache_matrix.cells(False, {})
        for chosen in (full, usual):
            for dimension, names in cache_matrix.DIMENSIONS.items():
                self.assertEqual({str(getattr(cell, dimension)) for cell in chosen}, set(names))
        self.assertLess(set(usual), set(full))
        self.assertEqual(len(full), len(set(full)))

    def test_every_default_row_of_a_client_stands_beside_predis(self) -> None:
        usual = cache_matrix.cells(False, {"serializer": ("php",)})
        shapes = {cell.shape for cell in usual if cell.client == "predis"}
        self.assertEqual({cell.shape for cell in usual}, shapes)

    def test_turns_are_balanced(self) -> None:
        members = cache_matrix.cells(False, {"value": ("huge",), "operation": ("get",)})
        orders = [cache_matrix.in_turn(members, number) for number in range(6)]
        self.assertEqual({sum(order.index(cell) for order in orders) for cell in members}, {3 * (len(members) - 1)})
        self.assertEqual({order[0] for order in orders[::2]}, set(members[:3]))


class Ratios(unittest.TestCase):
    CELL = Cell("phpredis", "php", "medium", "get", "unix", 1)

    def rows(self, factor: float, client_us: float = 10.0) -> list[Row]:
        rates = [1000.0, 1010, 990, 1005, 995, 1000]
        return [made(self.CELL, [factor * rate for rate in rates], client_us),
                made(dataclasses.replace(self.CELL, client="predis"), rates[::-1], 30.0)]

    def test_better_than_predis_is_above_1_in_both(self) -> None:
        rate, cpu = cache_measure.client_ratios(self.rows(3.5))
        self.assertEqual((rate.verdict, cpu.verdict), ("faster", "less CPU"))
        self.assertAlmostEqual(rate.interval.ratio, 3.5, delta=0.1)
        self.assertAlmostEqual(cpu.interval.ratio, 3.0)
        self.assertIn("several times over? Yes", cache_answer.verdict([rate, cpu]))

    def test_no_winner_where_the_interval_holds_1(self) -> None:
        rate, cpu = cache_measure.client_ratios(self.rows(1.0, 40.0))
        self.assertEqual((rate.verdict, cpu.verdict), ("not distinguishable", "more CPU"))
        self.assertIn("several times over? No", cache_answer.verdict([rate, cpu]))
        self.assertIn("which 1 exclude; 0 better at all, 0 worse, 1 not distinguishable; of their own processor time per operation", cache_answer.verdict([rate, cpu]))

    def test_what_noise_hides_is_not_denied(self) -> None:
        rates = [900.0, 1100, 3900, 4100, 3900, 1000]
        rows = [made(self.CELL, rates), made(dataclasses.replace(self.CELL, client="predis"), [1000.0] * 6)]
        said = cache_answer.verdict(cache_measure.client_ratios(rows))
        self.assertIn("several times over? Nowhere found: of 1 comparisons of operations per second, 0 by a factor of 3 or more, which 0 exclude", said)

    def test_igbinary(self) -> None:
        rates = [100.0] * 6
        rows = [made(dataclasses.replace(self.CELL, serializer=name), rates, client_us, size)
                for name, client_us, size in (("php", 10.0, 4000), ("igbinary", 5.0, 1000), ("by-hand", 6.0, 1000))]
        found = {(one.better.serializer, one.base.serializer, one.measure): one for one in cache_measure.serializer_ratios(rows)}
        self.assertEqual(len(found), 6)
        self.assertEqual(found["igbinary", "php", cache_measure.CLIENT_CPU].interval.ratio, 2.0)
        self.assertEqual(found["by-hand", "igbinary", cache_measure.CLIENT_CPU].verdict, "more CPU")
        self.assertEqual(cache_answer.sizes(rows), "What igbinary saves in size: medium 1,000 instead of 4,000 bytes (75% less).")

    def test_a_failed_row_has_no_numbers(self) -> None:
        rows = self.rows(3.5)
        rows[0].wrong, rows[0].reason = 1, "cell:7 is not the value that was stored"
        told = cache_report.row_dict(rows[0])
        self.assertEqual(told["status"], "FAILED")
        self.assertTrue(all(told[name] is None for name in cache_report.NUMBERS))
        self.assertEqual(cache_measure.client_ratios(rows), [])
        page = cache_report.page(rows, [], [], {}, [], [])
        self.assertIn("1 of 2 combinations FAILED", page["summary"][0])
        self.assertNotIn("3,500", json.dumps(page))
        self.assertIn("cell:7", document.markdown(page))


class Damage:
    """Between client and Redis: replaces a text in what the server says, from the given occurrence on."""

    def __init__(self, path: Path, server: Address, old: bytes, new: bytes, after: int = 0) -> None:
        self.address, self.server, self.old, self.new, self.left = Address(socket=str(path)), server, old, new, after
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        try:
            while True:
                client, server = self.listener.accept()[0], self.server.connect()
                server.settimeout(None)
                threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self.copy, args=(server, client, True), daemon=True).start()
        except OSError:
            return

    def copy(self, source: socket.socket, target: socket.socket, damaged: bool) -> None:
        with source:
            try:
                while part := source.recv(1 << 18):
                    if damaged and self.old in part:
                        self.left -= 1
                        part = part if self.left >= 0 else part.replace(self.old, self.new)
                    target.sendall(part)
                target.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


class Servers(unittest.TestCase):
    """One turn at a time, against servers started once."""

    workdir: Path
    php: cache_php.Php
    servers: dict[str, Server]

    @classmethod
    def setUpClass(cls) -> None:
        cls.workdir = Path(tempfile.mkdtemp(prefix="reprise-cache-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.workdir)
        cls.addClassCleanup(processes.stop_all)
        cls.php = cache_php.Php.prepare(cls.workdir, {}, list(CLIENTS))
        cls.servers = cache_servers.start_all(("memcached unix", "redis unix", "memcached tcp", "redis tcp"), cls.workdir)

    def turn(self, cell: Cell, address: Address | None = None, verify: str = "around", seconds: float = 0.02) -> Row:
        row, server = Row(cell), self.servers.get(cell.server)
        plan = Plan(1, seconds, 5, verify, lambda _: None)
        cache_measure.turn(row, self.php, server, address or (server.address if server else Address()), self.workdir, plan, Use())
        return row

    def test_right_values_are_seen_as_right(self) -> None:
        """Each client with each of its serializers, writing and reading, alone and together."""
        cells = [Cell(name, serializer, "small", "set" if serializer == "php" else "get", "unix" if client.server else "memory", 1)
                 for name, client in CLIENTS.items() for serializer in client.serializers]
        cells += [Cell(name, client.serializers[-1], "medium", "multi-250", "tcp" if client.server else "memory", 3)
                  for name, client in CLIENTS.items()]
        cells += [Cell("predis", "php", "small", "miss", "tcp", 1), Cell("memcached", "php", "small", "miss", "tcp", 1)]
        cells += [Cell("phpredis", "igbinary", "huge", "set", "unix", 20), Cell("apcu", "php", "huge", "get", "memory", 20)]
        for cell in cells:
            with self.subTest(str(cell)):
                row = self.turn(cell, verify="every")
                self.assertEqual((row.failures, row.wrong, row.reason), (0, 0, ""))
                self.assertGreater(row.median("operations"), 0)
                self.assertGreater(row.median("p99_us"), 0)
                self.assertEqual(row.median("server_us") > 0, bool(CLIENTS[cell.client].server))

    def damaged(self, cell: Cell, old: bytes, new: bytes, after: int, verify: str = "around") -> Row:
        damage = Damage(self.workdir / "damage.sock", self.servers[cell.server].address, old, new, after)
        try:
            return self.turn(cell, damage.address, verify)
        finally:
            damage.listener.close()

    def test_a_wrong_value_is_found(self) -> None:
        cell = Cell("phpredis", "php", "medium", "get", "unix", 1)
        # In the middle of a value, from the first answer on: only a comparison in full finds it.
        for client in ("phpredis", "predis"):
            row = self.damaged(dataclasses.replace(cell, client=client), b"Article 42010 of", b"Article 42O10 of", 0)
            self.assertIn("cell:42 is not the value that was stored", row.reason)
            self.assertTrue(row.failed and row.wrong and not row.turns)

    def test_a_wrong_value_is_found_while_measuring(self) -> None:
        cell = Cell("phpredis", "php", "small", "get", "unix", 1)
        row = self.damaged(cell, b"number\";i:0;", b"number\";i:1;", 2)  # right when it was compared and read before the start
        self.assertRegex(row.reason, r"operation \d+: not what was stored")
        row = self.damaged(cell, b"visitor 0\"", b"visitor Z\"", 2, "every")
        self.assertRegex(row.reason, r"operation \d+: not what was stored")

    def test_a_wrong_value_is_found_after_measuring(self) -> None:
        row = self.damaged(Cell("phpredis", "php", "small", "set", "unix", 1), b"visitor 0\"", b"visitor Z\"", 1)  # cell:0 is compared first
        self.assertIn("own:0:0 is not the value that was stored", row.reason)

    def test_an_answer_that_is_none_is_a_failure(self) -> None:
        row = self.damaged(Cell("predis", "php", "small", "set", "unix", 1), b"+OK\r\n", b"-NO\r\n", 3)
        self.assertGreater(row.failures, 0)
        self.assertFalse(row.turns)
        row = self.turn(Cell("phpredis", "php", "small", "get", "unix", 1), Address(socket=str(self.workdir / "nobody.sock")))
        self.assertIn("No such file or directory", row.reason)


class Program(unittest.TestCase):
    def test_csv_json_and_page_have_the_same_numbers(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            files = {name: Path(place) / name for name in ("json", "csv", "page", "markdown")}
            done = script("--client", "phpredis,predis,memcached", "--value", "small", "--operation", "get", "--transport", "unix",
                          "--serializer", "php", "--seconds", "0.02", *(text for name, path in files.items() for text in (f"--{name}", str(path))))
            self.assertEqual(done.returncode, 0, done.stderr)
            raw, page = (json.loads(files[name].read_text()) for name in ("json", "page"))
            rows = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
            markdown = files["markdown"].read_text()
        self.assertEqual(len(rows), 3)
        for one, other in zip(rows, raw["rows"], strict=True):
            self.assertEqual(one, {name: "" if other[name] is None else str(other[name]) for name in cache_report.ROW_COLUMNS})
            self.assertEqual((other["status"], other["failures"], other["wrong"], len(other["rounds"])), ("ok", 0, 0, 6))
            shown = f"{other['per_s']:,.0f} [{other['per_s_low']:,.0f}, {other['per_s_high']:,.0f}]"
            for text in (done.stdout, json.dumps(page), markdown):
                self.assertIn(shown, text)
        self.assertEqual(page["summary"], raw["summary"])
        self.assertEqual(len(raw["ratios"]), 4)
        self.assertIn("`bench/cache-clients --client phpredis", markdown)
        for name in ("php", "extension redis", "server redis", "kernel", "cpu", "php.ini", "redis unix, started as"):
            self.assertTrue(page["machine"][name])
        self.assertTrue(all(set(section) <= {"title", "text", "table", "chart"} for section in page["sections"]))

    def test_unknown_names(self) -> None:
        done = script("--client", "phpredis,predi")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--client predi: unknown\nhint: known: memcached, memcache, phpredis, predis, apcu, reprise", done.stderr)

    def test_a_file_that_cannot_be_written_is_said_before(self) -> None:
        done = script("--client", "apcu", "--csv", "/nowhere/result.csv")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/nowhere/result.csv cannot be written", done.stderr)

    def test_an_interruption_ends_the_run(self) -> None:
        run = subprocess.Popen([sys.executable, BENCH / "cache-clients", "--client", "apcu", "--seconds", "30"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert run.stderr is not None
        while not run.stderr.readline().endswith("s each\n"):
            self.assertIsNone(run.poll())
        run.terminate()
        output, errors = run.communicate(timeout=30)
        self.assertEqual((run.returncode, output), (2, ""))
        self.assertIn("ended by SIGTERM", errors)

    def run_with_redis(self, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as place:
            program = Path(place) / "redis-server"
            program.write_text(f"#!/bin/bash\n[[ $1 == --version ]] && exec {tool('redis-server', 'redis-server')} --version\n{text}\n")
            program.chmod(0o755)
            result = Path(place) / "result.json"
            done = script("--client", "phpredis", "--value", "small", "--operation", "get", "--serializer", "php", "--json", str(result),
                          *arguments, path=place)
            self.assertFalse(result.exists())
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done

    def test_a_server_that_does_not_start(self) -> None:
        done = self.run_with_redis("echo no memory today >&2; exit 3")
        self.assertRegex(done.stderr, r"redis unix: ended with status 3 before answering")
        self.assertIn("no memory today", done.stderr)

    def test_a_server_that_dies_meanwhile(self) -> None:
        """Killed by its own child, as soon as a client has read from it."""
        redis = tool("redis-server", "redis-server")
        watch = 'until [[ $(redis-cli -s "$4" info commandstats) == *cmdstat_get:* ]]; do sleep 0.05; done; kill -KILL $$'
        done = self.run_with_redis(f"({watch}) >/dev/null 2>&1 &\nexec {redis} \"$@\"", "--seconds", "0.5")
        self.assertTrue(re.search(r"redis unix: was ended by signal 9 during the measurement", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
