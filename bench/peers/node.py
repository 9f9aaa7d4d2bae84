"""node with a program of the same pages (bench/scripts/server.js): a cluster of as many processes as there are workers.

It serves hello, json and blog. An application in PHP it cannot serve: then it answers 404 and the run ends.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from pathlib import Path

import processes
from failure import Failure, tool
from sites import Running, Site, as_user

PHP = False
PAGES = ("hello", "json", "blog", "hello-worker", "json-worker", "blog-worker")
PROGRAM = Path(__file__).resolve().parents[1] / "scripts" / "server.js"
MINIMUM = 18
OPTIONS: dict[str, tuple[str, str]] = {
    "program": ("", "the executable; node if empty"),
    "processes": ("", "of the cluster; as many as workers if empty; 1 serves without a cluster, as one process"),
}


def _program(options: dict[str, str]) -> str:
    return options["program"] or tool("node", "nodejs")


def version(told: str) -> tuple[int, ...]:
    """What `node --version` says."""
    found = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)\S*", told.strip())
    if not found:
        raise Failure(f"node --version says {told.strip()!r}")
    return tuple(map(int, found.groups()))


def _told(options: dict[str, str]) -> str:
    program = _program(options)
    try:
        return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{program} --version: {error}") from error


def check(options: dict[str, str]) -> None:
    told = _told(options)
    if version(told)[0] < MINIMUM:
        raise Failure(f"{_program(options)} is {told}; {MINIMUM} or newer is needed", "--set node.program=FILE names another")
    if not re.fullmatch(r"[1-9]\d*|", options["processes"]):
        raise Failure(f"node.processes={options['processes']}: a number above 0")


def versions(options: dict[str, str]) -> dict[str, str]:
    return {"node": _told(options)}


def kind(options: dict[str, str]) -> str:
    return "node single" if options["processes"] == "1" else "node"


def start(site: Site, options: dict[str, str]) -> Running:
    log = site.workdir / "access.log"
    log.touch()
    account = pwd.getpwnam(site.user)
    if os.geteuid() == 0:
        os.chown(log, account.pw_uid, account.pw_gid)
    # Where the web user may read it.
    script = site.workdir / PROGRAM.name
    script.write_text(PROGRAM.read_text())
    script.chmod(0o644)
    server = processes.start("node", [*as_user(site), _program(options), str(script), str(site.port), options["processes"] or str(site.workers),
                                      str(log)], site.workdir / "node.log", cpus=site.cpus,
                             env={"PATH": os.environ["PATH"], "NODE_ENV": "production", **site.env})
    return Running("node", site.port, [server], lambda: {"node": processes.tree(server.pid)}, log)
