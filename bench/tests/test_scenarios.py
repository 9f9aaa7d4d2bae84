"""Self-test of goals by pair, of what a peer boots, and of how bodies are compared."""

from __future__ import annotations

import http.server
import sys
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bodies
import bridges
import peers
from failure import Failure
from intervals import Goal
from peers import node, reprise
from scenarios import FPM, LOOP, NODE, NODE_SINGLE, SCENARIOS, Boot, Scenario

PLAIN = {"program": "", "entry": "", "mode": "", "count": ""}


class Goals(unittest.TestCase):
    ROW = Scenario("a", "plain", "/", {FPM: Goal(1.0)}, {FPM: Goal(2.0), NODE_SINGLE: Goal(3.0)})

    def test_a_goal_is_about_one_pair(self) -> None:
        self.assertEqual(self.ROW.goal(FPM, False), Goal(1.0))
        self.assertIsNone(self.ROW.goal(NODE, True))
        self.assertIsNone(self.ROW.goal(("nginx_fpm", "reprise"), False))

    def test_goals_with_jit_go_before_the_others(self) -> None:
        self.assertEqual(self.ROW.goal(FPM, True), Goal(2.0))
        self.assertIsNone(self.ROW.goal(NODE_SINGLE, False))
        self.assertTrue(self.ROW.is_judged(NODE_SINGLE))

    def test_pairs_are_what_peers_call_themselves(self) -> None:
        kinds = {peers.kind("nginx_fpm", {})}
        kinds |= {reprise.kind({**PLAIN, "mode": mode}) for mode in ("", "worker")}
        kinds |= {node.kind({"processes": count}) for count in ("", "1")}
        for scenario in SCENARIOS.values():
            for pair in [*scenario.goals, *scenario.jit_goals]:
                self.assertLessEqual(set(pair), kinds, scenario.name)
        self.assertEqual(reprise.kind({**PLAIN, "entry": "worker.php"}), LOOP[1])


class Boots(unittest.TestCase):
    def test_options_go_before_the_scenario(self) -> None:
        wanted = Boot(bridge=True, warmup=("/",))
        self.assertEqual(reprise.boot(wanted, PLAIN), wanted)
        loop = reprise.boot(wanted, {**PLAIN, "mode": "worker"})
        assert loop is not None
        self.assertEqual((loop.mode, loop.bridge, loop.warmup), ("worker", True, ("/",)))
        self.assertIsNone(reprise.boot(wanted, {**PLAIN, "mode": "classic"}))
        self.assertIsNone(reprise.boot(None, {**PLAIN, "mode": "worker"}))
        self.assertEqual(reprise.boot(Boot(), {**PLAIN, "entry": "worker.php"}), Boot("worker.php", "worker"))
        self.assertIsNone(peers.boot(peers.load("nginx_fpm"), wanted, {}))

    def test_unknown_mode(self) -> None:
        with self.assertRaises(Failure) as caught:
            reprise.check(reprise.settings(program=sys.executable, mode="workers"))
        self.assertIn("did you mean 'worker'?", str(caught.exception))

    def test_settings_of_a_script_of_its_own(self) -> None:
        """bench/rewind and bench/instructions start Reprise without the command line of bench/compare."""
        reprise.check(reprise.settings(program=sys.executable))
        self.assertEqual(reprise.settings().keys(), reprise.OPTIONS.keys())
        with self.assertRaises(AssertionError):
            reprise.settings(programme=sys.executable)

    def test_documentation_has_what_bridges_do(self) -> None:
        page = (bridges.PACKAGE.parent / "docs" / "guides" / "frameworks.md").read_text()
        for line in ("composer require reprise/reprise:*@dev", "Reprise\\Laravel\\serve($app);", "wp-content/mu-plugins",
                     f"env.APP_RUNTIME = '{SCENARIOS['symfony-bridge'].boot.env['APP_RUNTIME']}'"):  # type: ignore[union-attr]
            self.assertIn(line, page)


class Node(unittest.TestCase):
    def test_version(self) -> None:
        self.assertEqual(node.version("v20.11.1\n"), (20, 11, 1))
        with self.assertRaises(Failure):
            node.version("20")


class Drawn(unittest.TestCase):
    """Two servers whose bodies are never the same."""

    def test_only_the_length_counts(self) -> None:
        answers = [b"aaaa", b"bbbb", b"cccc", b"ddddd"]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = answers.pop(0)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                sides = [(name, server.server_port, "/") for name in ("a", "b")]
                drawn = Scenario("drawn", "plain", "/", drawn_bytes=4)
                self.assertEqual(bodies.require_alike(drawn, sides, "now").size, 4)
                with self.assertRaises(Failure) as caught:
                    bodies.require_alike(drawn, sides, "now")
            finally:
                server.shutdown()
                thread.join()
        self.assertIn("the body of b has 5 bytes now, not 4", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
