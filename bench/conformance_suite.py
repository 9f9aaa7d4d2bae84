"""http-cache-tests: its origin, its client, and its judgement of results."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
from failure import Failure, tool

PROJECT = Path(__file__).resolve().parent.parent
CLIENT_S = 300
KINDS = ("required", "optimal", "check")
# Prints the tests; the same list as in its cli.mjs.
LIST = """\
import tests from './tests/index.mjs'
import surrogate from './tests/surrogate-control.mjs'
const rows = [...tests, surrogate].flatMap(group => group.tests).filter(test => !test.browser_only)
console.log(JSON.stringify(rows.map(test => [test.id, test.kind || 'required', test.depends_on || [], test.name])))
"""

PASSED, FAILED, UNTESTED = "passed", "failed", "untested"
# Of each test that was run: true, or a word and a text.
Results = dict[str, Any]


@dataclass(frozen=True)
class Test:
    name: str  # its id
    kind: str
    depends_on: list[str]
    text: str


@dataclass(frozen=True)
class Verdict:
    word: str
    why: str = ""


class Suite:
    def __init__(self) -> None:
        self.node = tool("node", "nodejs")
        script = PROJECT / "scripts" / "http-cache-tests"
        found = subprocess.run([str(script)], capture_output=True, text=True)
        if found.returncode:
            raise Failure("scripts/http-cache-tests failed", detail=found.stderr)
        self.directory = Path(found.stdout.strip())
        self.version = json.loads((self.directory / "package.json").read_text())["version"]
        rows = json.loads(self._node(["--input-type=module", "--eval", LIST], {}, 60))
        self.tests = {name: Test(name, kind, depends, text) for name, kind, depends, text in rows}

    def _node(self, arguments: list[str], env: dict[str, str], seconds: int) -> str:
        try:
            done = subprocess.run([self.node, "--no-warnings", *arguments], cwd=self.directory, capture_output=True, text=True, timeout=seconds,
                                  env={"PATH": os.environ["PATH"], **env})
        except subprocess.TimeoutExpired as error:
            raise Failure(f"http-cache-tests does not end within {seconds} s") from error
        if done.returncode or not done.stdout:
            raise Failure("http-cache-tests failed", detail=done.stdout + done.stderr)
        return done.stdout

    def node_version(self) -> str:
        return self._node(["--version"], {}, 60).strip()

    def start_origin(self, workdir: Path, port: int) -> processes.Started:
        env = {"PATH": os.environ["PATH"], "npm_config_protocol": "http", "npm_config_port": str(port),
               "npm_config_pidfile": str(workdir / "origin.pid")}
        os.chdir(self.directory)  # it serves the files of its directory
        origin = processes.start("origin", [self.node, "server/server.mjs"], workdir / "origin.log", env=env)
        processes.wait_until(lambda: "Listening on" in origin.log.read_text(), 30, origin, "it listens")
        return origin

    def run(self, port: int) -> Results:
        env = {"npm_config_base": f"http://127.0.0.1:{port}", "npm_package_config_id": ""}
        told = self._node(["cli.mjs"], env, CLIENT_S)
        found: Results = json.loads(told[told.index("{\n"):])
        return found

    def judge(self, results: Results) -> dict[str, Verdict]:
        """As lib/display.mjs has it: a test says nothing if its preparation failed, or a test that it depends on."""
        return {name: self._verdict(name, results) for name in self.tests}

    def _verdict(self, name: str, results: Results) -> Verdict:
        test, result = self.tests[name], results.get(name)
        if result is None:
            return Verdict(UNTESTED, "it did not run")
        for other in test.depends_on:
            if self._verdict(other, results).word != PASSED:
                return Verdict(UNTESTED, f"depends on {other}")
        if result is True:
            return Verdict(PASSED)
        return Verdict(UNTESTED if result[0] == "Setup" else FAILED, result[1])


def better(one: dict[str, Verdict], other: dict[str, Verdict]) -> dict[str, Verdict]:
    """Of two runs the better verdict of each test."""
    order = (PASSED, UNTESTED, FAILED)
    return {name: min(one[name], other[name], key=lambda verdict: order.index(verdict.word)) for name in one}
